//! Boot entries after a revert whose kernel-install breaks the default entry, or fails.

use super::*;

/// kernel-install has made a second entry, which the revert removes.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn removed_entry_returns_if_revert_breaks_the_default() {
    let makes_two = "#!/bin/sh\nread -r line < /etc/kernel/cmdline\nfor token in 0123 new; do\n\
                     printf 'version %s\\noptions %s\\nlinux /x\\n' \"$2\" \"$line\" \
                     > /boot/loader/entries/$token-$2.conf\ndone\n";
    let root = arch(&["6.1.0"], Some(makes_two));
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    let entries = || {
        ["0123", "new"].map(|token| root.text(&format!("boot/loader/entries/{token}-6.1.0.conf")))
    };
    let before = entries();
    root.tool("usr/bin/kernel-install", &makes_two.replace("\"$line\"", "quiet"));
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(1), "{}", done.text);
    assert_eq!(entries(), before, "{}", done.text);
}

/// kernel-install has another token than at `apply`.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn new_entry_is_removed_if_revert_breaks_the_default() {
    for end in ["", "exit 1\n"] {
        let root = arch(&["6.1.0"], Some(WRITES));
        let done = root.live(&["apply", "--yes"]);
        assert_eq!(done.code, Some(3), "{}", done.text);
        let entry = || root.text("boot/loader/entries/0123-6.1.0.conf");
        let before = entry();
        let tool = WRITES.replace("0123", "9999").replace("\"$line\"", "quiet");
        root.tool("usr/bin/kernel-install", &(tool + end));
        let done = root.live(&["revert", "--yes"]);
        assert_eq!(done.code, Some(1), "{}", done.text);
        assert!(!root.has("boot/loader/entries/9999-6.1.0.conf"), "{}", done.text);
        assert_eq!(entry(), before, "{}", done.text);
    }
}
