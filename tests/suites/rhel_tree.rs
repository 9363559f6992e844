//! A root tree like that of RHEL 9 (Boot Loader Specification entries, `blscfg`), built by hand, with GRUB's own
//! environment block. It cannot be booted here, because Debian's GRUB has no `blscfg` module. The test reads the entries
//! back as text and with bedplate's own reader, and the environment with the real grub-editenv. How a booted RHEL
//! interprets them was never tested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use bedplate_tests::{fixtures, program};

const ID: &str = "0123456789abcdef0123456789abcdef";
const KERNELS: [&str; 2] = ["5.14.0-503.11.1.el9_5.x86_64", "5.14.0-427.13.1.el9_4.x86_64"];
const PROFILE: &str = "schema = 1\nname = \"rhel\"\n[iommu]\nmode = \"passthrough\"\n[cmdline]\nargs = [\"hugepages=8\"]\n";

fn entry(kernel: &str, options: &str) -> String {
    format!(
        "title Red Hat Enterprise Linux ({kernel}) 9.5 (Plow)\nversion {kernel}\nlinux /vmlinuz-{kernel}\n\
         initrd /initramfs-{kernel}.img $tuned_initrd\noptions {options}\ngrub_users $grub_users\ngrub_class rhel\n"
    )
}

fn tree(editenv: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    let put = |path: &str, text: &str| {
        let file = root.path().join(path);
        std::fs::create_dir_all(file.parent().expect("below the root")).expect("ours");
        std::fs::write(file, text).expect("ours");
    };
    put(
        "etc/os-release",
        "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.5\"\nPRETTY_NAME=\"Red Hat Enterprise Linux 9.5\"\n",
    );
    put("etc/machine-id", &format!("{ID}\n"));
    put(
        "etc/default/grub",
        "GRUB_TIMEOUT=5\nGRUB_DEFAULT=saved\nGRUB_CMDLINE_LINUX=\"crashkernel=1G-4G:192M\"\nGRUB_ENABLE_BLSCFG=true\n",
    );
    put("etc/kernel/cmdline", "root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M\n");
    put("boot/grub2/grub.cfg", "load_env -f ${config_directory}/grubenv\ninsmod blscfg\nblscfg\n");
    for kernel in KERNELS {
        put(
            &format!("boot/loader/entries/{ID}-{kernel}.conf"),
            &entry(kernel, "root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M $tuned_params"),
        );
        put(&format!("usr/lib/modules/{kernel}/modules.dep"), "");
        put(&format!("boot/vmlinuz-{kernel}"), "");
    }
    put(
        &format!("boot/loader/entries/{ID}-0-rescue.conf"),
        &entry("0-rescue", "root=/dev/mapper/rhel-root ro"),
    );
    edit(editenv, root.path(), &["create"]);
    edit(editenv, root.path(), &["set", &format!("saved_entry={ID}-{}", KERNELS[0])]);
    root
}

/// Edits the environment block with GRUB's own tool.
fn edit(editenv: &Path, root: &Path, arguments: &[&str]) {
    let block = root.join("boot/grub2/grubenv");
    let done =
        Command::new(editenv).arg(block).args(arguments).status().expect("grub-editenv runs");
    assert!(done.success());
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.join("etc"), root.join("boot")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("ours") {
            let path = entry.expect("ours").path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.clone(), std::fs::read(&path).expect("ours"));
            }
        }
    }
    found
}

fn options(root: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(root.join(format!("boot/loader/entries/{ID}-{name}.conf")))
        .expect("it is there");
    text.lines().find_map(|line| line.strip_prefix("options ")).expect("it has options").to_owned()
}

/// Checks that every entry but the rescue one, and the files that new kernels inherit, have the arguments, and that
/// existing text stays.
fn assert_edited(root: &Path, said: &str) {
    for kernel in KERNELS {
        let words = options(root, kernel);
        assert!(
            words.contains(" iommu=pt") && words.contains(" hugepages=8"),
            "{kernel}: {words}\n{said}"
        );
        assert!(
            words.contains("crashkernel=1G-4G:192M") && words.contains("$tuned_params"),
            "{kernel}: {words}"
        );
    }
    assert_eq!(
        options(root, "0-rescue"),
        "root=/dev/mapper/rhel-root ro",
        "the rescue entry stays bootable"
    );
    for inherited in ["etc/kernel/cmdline", "etc/default/grub"] {
        let text = std::fs::read_to_string(root.join(inherited)).expect("it is there");
        assert!(text.contains("iommu=pt") && text.contains("hugepages=8"), "{inherited}: {text}");
    }
}

/// Checks that bedplate's reader finds the arguments in the entry that boots, for either saved entry.
fn assert_read_back(editenv: &Path, root: &Path, profile: &str) {
    let dir = root.display().to_string();
    // The saved entry is the newer or the older kernel's: the reader must find the line of the one that boots.
    for saved in KERNELS {
        edit(editenv, root, &["set", &format!("saved_entry={ID}-{saved}")]);
        let plan = ["plan", "--root", &dir, "--profile", profile, "--cpu", "intel", "--json"];
        let plan = program::run(&plan).stdout;
        let plan: serde_json::Value = serde_json::from_slice(&plan).expect("JSON");
        assert_eq!(plan["changes"], serde_json::json!([]), "{saved}");
        let settled = plan["unchanged"].as_array().expect("a list");
        for argument in ["iommu=pt", "hugepages=8"] {
            let state = settled
                .iter()
                .find(|one| one["subject"] == argument)
                .map(|one| one["state"].clone());
            assert_eq!(state, Some("configured, next boot".into()), "{saved}: {argument}");
        }
    }
}

#[test]
#[cfg_attr(not(has = "grub-editenv"), ignore = "needs grub-editenv")]
fn entries_and_inherited_lines_are_edited_and_restored() {
    let editenv = fixtures::tool("grub-editenv");
    let root = tree(&editenv);
    let (root, dir) = (root.path(), root.path().display().to_string());
    let profile = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(profile.path(), PROFILE).expect("ours");
    let profile = profile.path().display().to_string();
    let environment = || {
        let said = Command::new(&editenv)
            .arg(root.join("boot/grub2/grubenv"))
            .arg("list")
            .output()
            .expect("it runs");
        assert!(said.status.success(), "grub-editenv cannot read its block any more");
        String::from_utf8(said.stdout).expect("text")
    };
    let (before, saved) = (files(root), environment());
    let apply = ["apply", "--root", &dir, "--profile", &profile, "--cpu", "intel", "--yes"];

    let done = program::run(&apply);
    let said =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 3)), "{said}");
    assert_edited(root, &said);
    assert_eq!(environment(), saved);

    assert_read_back(&editenv, root, &profile);
    edit(&editenv, root, &["set", &format!("saved_entry={ID}-{}", KERNELS[0])]);
    assert_eq!(environment(), saved);

    let after = files(root);
    let again = program::run(&apply);
    assert_eq!(again.status.code(), done.status.code(), "a second run");
    assert_eq!(files(root), after, "a second run changes nothing");

    let reverted = program::run(&["revert", "--root", &dir, "--yes"]);
    assert!(
        matches!(reverted.status.code(), Some(0 | 3)),
        "{}",
        String::from_utf8_lossy(&reverted.stderr)
    );
    let back = files(root);
    for (path, bytes) in &before {
        assert_eq!(back.get(path), Some(bytes), "{}", path.display());
    }
    assert_eq!(back.len(), before.len(), "files besides");
}
