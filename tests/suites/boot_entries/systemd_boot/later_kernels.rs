//! Kernels that packages have installed since `apply`: their entries have bedplate's arguments, and the ledger lacks
//! them.

use super::*;

const LATER: &str = "boot/loader/entries/0123-6.2.0.conf";

/// Installs the entry of Linux 6.2.0, as kernel-install makes it now.
fn install_entry(root: &Root) {
    let line = root.text(CMDLINE);
    assert!(line.contains("iommu=pt"), "{line}");
    root.put(LATER, &format!("version 6.2.0\noptions {line}linux /x\n"));
}

/// A host with an applied profile and a later kernel.
fn with_later_kernel() -> Root {
    let root = arch(&["6.1.0"], Some(ADDS));
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    install_entry(&root);
    root
}

fn assert_reverted(root: &Root) {
    for kernel in ["6.1.0", "6.2.0"] {
        let entry = root.text(&format!("boot/loader/entries/0123-{kernel}.conf"));
        assert!(entry.contains("options root=/dev/vda2 rw quiet\n"), "{entry}");
    }
    let again = root.live(&["revert", "--yes"]);
    assert!(again.text.contains("nothing to revert"), "{}", again.text);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn revert_regenerates_entry_of_later_kernel() {
    let root = with_later_kernel();
    let shown = root.live(&["revert", "--dry-run"]);
    assert!(shown.text.contains("run kernel-install add 6.2.0 "), "{}", shown.text);
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_reverted(&root);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn entries_that_cannot_be_listed_are_reported() {
    let root = with_later_kernel();
    root.put("boot/efi/loader/loader.conf", "");
    std::os::unix::fs::symlink("entries", root.at("boot/efi/loader/entries")).expect("ours");
    let done = root.live(&["revert", "--yes"]);
    // The ledger keeps its entries: kernel-install cannot run for them either.
    assert_eq!(done.code, Some(1), "{}", done.text);
    assert!(done.text.contains("remove `iommu=pt` by hand"), "{}", done.text);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn failed_regeneration_of_later_entry_is_retried() {
    let root = with_later_kernel();
    let before = root.text(LATER);
    let breaks = ": > /boot/loader/entries/0123-$2.conf\n[ $2 != 6.2.0 ] || exit 1";
    root.tool("usr/bin/kernel-install", &ADDS.replace("[ -e $3 ] || exit 1", breaks));
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(1), "{}", done.text);
    assert_eq!(root.text(LATER), before, "{}", done.text);
    root.tool("usr/bin/kernel-install", ADDS);
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert_reverted(&root);
}

/// Such an image has no record of its own, so the record of its source must stay until kernel-install succeeds.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn revert_regenerates_image_of_later_kernel() {
    let root = images();
    let tool = FAILS_WITH_IMAGE.replace("[ $2 = 6.2.0 ] && exit 1", "").replace(" new;", ";");
    root.tool("usr/bin/kernel-install", &tool);
    let image = |kernel: &str| root.at(&format!("{IMAGES}/0123-{kernel}.efi"));
    let has_argument = |kernel: &str| {
        let bytes = std::fs::read(image(kernel)).expect("ours");
        String::from_utf8_lossy(&bytes).contains("iommu=pt")
    };
    std::fs::remove_file(image("6.2.0")).expect("ours");
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    std::fs::copy(image("6.1.0"), image("6.2.0")).expect("ours");
    assert!(has_argument("6.2.0"), "{}", done.text);
    root.tool("usr/bin/kernel-install", &FAILS_WITH_IMAGE.replace(" new;", ";"));
    let failed = root.live(&["revert", "--yes"]);
    assert_eq!(failed.code, Some(1), "{}", failed.text);
    root.tool("usr/bin/kernel-install", &tool);
    let done = root.live(&["revert", "--yes"]);
    assert_eq!(done.code, Some(0), "{}", done.text);
    assert!(!has_argument("6.1.0") && !has_argument("6.2.0"), "{}", done.text);
}

/// Without tools, the image build must run kernel-install for this kernel, too.
#[test]
fn image_revert_names_the_tool_of_later_kernel() {
    let root = arch(&["6.1.0"], Some(ADDS));
    let done = root.apply(&[]);
    assert_eq!(done.code, Some(6), "{}", done.text);
    install_entry(&root);
    let done = root.image("revert", &["--yes"]);
    assert_eq!(done.code, Some(6), "{}", done.text);
    assert!(done.text.contains("must still run: kernel-install add 6.2.0 "), "{}", done.text);
}

/// The revert removes the file from which kernel-install would make the entry.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn forced_revert_lists_entry_that_keeps_an_argument() {
    let root = arch(&["6.1.0"], Some(ADDS));
    std::fs::remove_file(root.at(CMDLINE)).expect("ours");
    let done = root.live(&["apply", "--yes"]);
    assert_eq!(done.code, Some(3), "{}", done.text);
    install_entry(&root);
    let done = root.live(&["revert", "--yes", "--force"]);
    assert_eq!(done.code, Some(4), "{}", done.text);
    assert!(done.text.contains("0123-6.2.0.conf: keeps `iommu=pt`"), "{}", done.text);
    assert!(!root.has(CMDLINE), "{}", done.text);
}
