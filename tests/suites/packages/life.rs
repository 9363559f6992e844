//! Scripts of both packages, run by dpkg and rpm over a temporary copy of this system. No systemd runs there
//! (`packages::life` of the VM suite has one).

use std::path::Path;
use std::process::Command;

use bedplate_tests::fixtures;

use super::{output_of, packages, tools};

/// Mounts the copy in a private mount namespace, without bedplate's state of this system, and runs a script in it. $1: the
/// directory for it, $2: the script.
const COPY: &str = "set -e
mount -t tmpfs tmpfs \"$1\"
mkdir \"$1/upper\" \"$1/work\" \"$1/tree\"
mount -t overlay overlay -o \"lowerdir=/,upperdir=$1/upper,workdir=$1/work\" \"$1/tree\"
mount -t proc proc \"$1/tree/proc\"
rm -rf \"$1/tree/var/lib/bedplate\"
exec chroot \"$1/tree\" sh -eu -c \"$2\" 2>&1";

/// Returns a script's output in such a copy. `HERE` is the directory.
fn in_a_copy(directory: &Path, script: &str) -> String {
    let mount = directory.join("copy");
    std::fs::create_dir(&mount).expect("ours");
    let script = script.replace("HERE", &directory.display().to_string());
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", COPY, "sh"]).arg(&mount).arg(script);
    let said = output_of(unshare.env("LC_ALL", "C.UTF-8"));
    std::fs::remove_dir(mount).expect("nothing is mounted any more");
    said
}

/// Lists all files with bedplate's name, except those of the tests.
const FIND: &str = "find /boot /etc /opt /run /srv /usr /var -xdev -path /var/tmp -prune -o \\
    -name '*bedplate*' -print | grep -vE '^/var/lib/dpkg/|^/usr/local/' || true";

#[test]
#[cfg_attr(
    not(all(
        has = "cargo-deb",
        has = "cargo-generate-rpm",
        has = "dpkg-deb",
        has = "lintian",
        has = "root",
        has = "rpm",
        has = "rpmlint",
        has = "strip",
        has = "unshare"
    )),
    ignore = "needs cargo-deb, cargo-generate-rpm, dpkg-deb, lintian, root, rpm, rpmlint, strip and unshare"
)]
fn debian_package_is_installed_upgraded_and_purged() {
    fixtures::root();
    tools();
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    packages(directory.path(), "1.0.0");
    packages(directory.path(), "1.0.1");
    let script = r#"
        install() { dpkg --install "HERE/bedplate_$1-1_amd64.deb" >/dev/null; }
        echo '== new'; install 1.0.0
        stat -c '%U %a' /etc/bedplate; ls -A /etc/bedplate
        find /etc/systemd -name '*bedplate*'
        printf 'schema = 1\nname = "p"\n[modules]\ngpudirect = "none"\nload = ["loop"]\n' >/etc/bedplate/profile.toml
        bedplate apply --yes >/dev/null 2>&1 || [ $? = 5 ]
        systemctl enable bedplate.service 2>/dev/null
        echo '== upgrade'; install 1.0.1
        sha256sum </etc/bedplate/profile.toml; find /etc/systemd -name '*bedplate*'
        echo '== remove'; dpkg --remove bedplate
        ls /etc/bedplate /var/lib/bedplate; find /etc/systemd -name '*bedplate*'
        echo '== purge'; dpkg --purge bedplate
        echo '== left'; FIND
    "#;
    let said = in_a_copy(directory.path(), &script.replace("FIND", FIND));
    let part = |name: &str| {
        let begin = said.split(&format!("== {name}\n")).nth(1).unwrap_or_else(|| panic!("{said}"));
        begin.split("== ").next().unwrap_or_default().to_owned()
    };
    assert_eq!(part("new"), "root 755\n", "there, and off:\n{said}");
    let upgraded = part("upgrade");
    let link = "/etc/systemd/system/multi-user.target.wants/bedplate.service\n";
    assert!(upgraded.ends_with(&format!(" -\n{link}")), "{said}");
    let removed = part("remove");
    // The changes are named while they can still be undone.
    assert!(removed.contains("/etc/modules-load.d/bedplate.conf: removed"), "{said}");
    assert!(removed.contains("profile.toml\n") && removed.contains("ledger.json\n"), "{said}");
    assert!(!removed.contains("/etc/systemd/"), "{said}");
    assert!(part("purge").contains("/etc/modules-load.d/bedplate.conf: removed"), "{said}");
    assert_eq!(part("left"), "/etc/modules-load.d/bedplate.conf\n", "{said}");
}

#[test]
#[cfg_attr(
    not(all(
        has = "cargo-deb",
        has = "cargo-generate-rpm",
        has = "dpkg-deb",
        has = "lintian",
        has = "root",
        has = "rpm",
        has = "rpmlint",
        has = "strip",
        has = "unshare"
    )),
    ignore = "needs cargo-deb, cargo-generate-rpm, dpkg-deb, lintian, root, rpm, rpmlint, strip and unshare"
)]
fn rpm_is_installed_upgraded_and_erased() {
    fixtures::root();
    tools();
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    packages(directory.path(), "1.0.0");
    packages(directory.path(), "1.0.1");
    let script = r#"
        rpm="rpm --nodeps"
        rm -rf "$(rpm --eval '%{_dbpath}')"; rpm --initdb
        echo '== new'; $rpm --install HERE/bedplate-1.0.0-1.x86_64.rpm 2>/dev/null
        stat -c '%U %a' /etc/bedplate; ls -A /etc/bedplate
        echo '== upgrade'; $rpm --upgrade HERE/bedplate-1.0.1-1.x86_64.rpm 2>/dev/null
        rpm --query bedplate; bedplate --version
        echo '== erase'; $rpm --erase bedplate 2>/dev/null
        echo '== left'; FIND
    "#;
    let said = in_a_copy(directory.path(), &script.replace("FIND", FIND));
    assert!(said.contains("== new\nroot 755\n== upgrade\nbedplate-1.0.1-1.x86_64\n"), "{said}");
    assert!(said.ends_with("== left\n"), "{said}");
}
