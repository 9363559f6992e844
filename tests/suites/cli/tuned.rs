//! A host whose boot configuration was changed by Debian's real TuneD: its own code patches an image root.

use std::path::Path;
use std::process::Command;

use bedplate_tests::fixtures::tool;
use bedplate_tests::program;
use serde_json::Value;

/// Calls the bootloader plugin with each of its paths below a directory.
const PATCH: &str = r#"
import sys
from tuned import consts
root, params = sys.argv[1:]
consts.GRUB2_DEFAULT_ENV_FILE = root + consts.GRUB2_DEFAULT_ENV_FILE
consts.BOOT_CMDLINE_FILE = root + consts.BOOT_CMDLINE_FILE
from tuned.plugins.plugin_bootloader import BootloaderPlugin
from tuned.utils.commands import commands
plugin = BootloaderPlugin.__new__(BootloaderPlugin)
plugin._cmd = commands()
plugin._grub2_cfg_file_names = [root + name for name in consts.GRUB2_CFG_FILES]
plugin._bls = False
plugin._initrd_dst_img_val = None
plugin._cmdline_val, plugin._initrd_val = params, ""
if params:
    plugin._grub2_update()
else:
    plugin._remove_grub2_tuning()
"#;

const FILES: [(&str, &str); 5] = [
    ("etc/os-release", "ID=debian\n"),
    ("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n"),
    ("etc/tuned/bootcmdline", "TUNED_BOOT_CMDLINE=\nTUNED_BOOT_INITRD_ADD=\n"),
    ("etc/tuned/active_profile", "accelerator-performance\n"),
    (
        "boot/grub/grub.cfg",
        "### BEGIN /etc/grub.d/00_header ###\nset default=\"0\"\n### END /etc/grub.d/00_header ###\n\
         menuentry 'Debian' --id a {\n\tlinux\t/boot/vmlinuz-6.1.0 root=/dev/vda1 ro quiet\n\tinitrd\t/boot/initrd.img-6.1.0\n}\n",
    ),
];

fn patch(root: &Path, params: &str) {
    let output = Command::new("/usr/bin/python3")
        .args(["-c", PATCH])
        .args([root.as_os_str(), params.as_ref()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Exit status and plan.
fn plan(root: &Path, wish: &str) -> (Option<i32>, Value) {
    let profile = root.join("profile.toml");
    std::fs::write(&profile, format!("schema = 1\nname = \"t\"\n[cmdline]\n{wish}\n")).unwrap();
    let output = program::run(&[
        "plan",
        "--exit-code",
        "--json",
        "--cpu",
        "intel",
        "--root",
        root.to_str().unwrap(),
        "--profile",
        profile.to_str().unwrap(),
    ]);
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
#[cfg_attr(not(has = "tuned"), ignore = "needs tuned")]
fn arguments_of_real_tuned_are_known() {
    tool("tuned");
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for (path, text) in FILES {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    }
    patch(root, "iommu.passthrough=1 numa_balancing=disable");
    let main = std::fs::read_to_string(root.join("etc/default/grub")).unwrap();
    assert!(main.contains(":+$GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params"), "{main}");
    let settled = |plan: &Value| plan["unchanged"].to_string();
    let (status, same) = plan(root, "args = [\"numa_balancing=disable\", \"iommu=pt\"]");
    assert_eq!(status, Some(0), "{same}");
    assert_eq!(
        settled(&same).matches("TuneD profile accelerator-performance").count(),
        2,
        "{same}"
    );
    for wish in ["args = [\"numa_balancing=enable\"]", "absent = [\"numa_balancing\"]"] {
        let (status, other) = plan(root, wish);
        assert_eq!(status, Some(4), "{other}");
        assert!(other["blockers"].to_string().contains("accelerator-performance"), "{other}");
    }
    // An argument that TuneD no longer sets is drift.
    patch(root, "");
    let (status, gone) = plan(root, "args = [\"numa_balancing=disable\"]");
    assert_eq!(status, Some(2), "{gone}");
}
