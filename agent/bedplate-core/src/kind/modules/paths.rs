//! Paths of module configuration and state: recorded in snapshots, watched by the daemon.

use crate::kind::{OwnFile, RecordMode, Watch, WriteScope};
use crate::modules_conf::{MODPROBE_PATH, MODULES_LOAD_PATH};
use crate::profile::model::Profile;
use bedplate_facts::Facts;

/// Recorded in snapshots.
pub(crate) const RECORDED: &[(&str, RecordMode)] = &[
    ("/etc/modprobe.d/*", RecordMode::Whole),
    ("/run/modprobe.d/*", RecordMode::Whole),
    ("/usr/local/lib/modprobe.d/*", RecordMode::Whole),
    ("/usr/lib/modprobe.d/*", RecordMode::Whole),
    ("/lib/modprobe.d/*", RecordMode::Whole),
    ("/etc/modules-load.d/*", RecordMode::Whole),
    ("/run/modules-load.d/*", RecordMode::Whole),
    ("/usr/local/lib/modules-load.d/*", RecordMode::Whole),
    ("/usr/lib/modules-load.d/*", RecordMode::Whole),
    ("/etc/modules", RecordMode::Whole),
    ("/proc/modules", RecordMode::Whole),
    ("/sys/module/*", RecordMode::Names),
    ("/sys/module/*/initstate", RecordMode::Whole),
    ("/sys/module/*/refcnt", RecordMode::Whole),
    ("/sys/module/*/version", RecordMode::Whole),
    ("/sys/module/*/taint", RecordMode::Whole),
    ("/sys/module/*/holders", RecordMode::Names),
    ("/sys/module/*/parameters/*", RecordMode::Whole),
    ("/usr/lib/modules/*/vmlinuz", RecordMode::Presence),
    ("/usr/lib/modules/*/Image", RecordMode::Presence),
    ("/lib/modules/*/initrd", RecordMode::Presence),
    ("/lib/modules/*/modules.builtin", RecordMode::Whole),
    ("/lib/modules/*/modules.dep", RecordMode::Whole),
    ("/lib/modules/*/modules.symbols", RecordMode::Whole),
    ("/usr/bin/dracut", RecordMode::Presence),
    ("/usr/sbin/modprobe", RecordMode::Presence),
    ("/usr/sbin/update-initramfs", RecordMode::Presence),
];

/// Patterns of the command that `dracut::in_image` composes, with these modules of dracut.
macro_rules! dracut_for_image {
    ($($module:literal),+) => {
        &[
            "dracut",
            "--force",
            "--no-hostonly",
            $("--add", $module,)+
            "--install-optional",
            MODPROBE_PATH,
            "/usr/lib/modules/*/initramfs.img",
            "[0-9]*",
        ]
    };
}

/// Paths that this resource type writes, and the tools it runs.
pub(crate) const OWNS: WriteScope = WriteScope {
    files: &["/etc/modules-load.d/bedplate.conf", "/etc/modprobe.d/zz-bedplate.conf"],
    tools: &[
        &["update-initramfs", "-u", "-k", "all"],
        &["dracut", "--force", "--regenerate-all"],
        dracut_for_image!("ostree"),
        dracut_for_image!("bootc"),
        dracut_for_image!("ostree", "bootc"),
        &["sdbootutil", "mkinitrd"],
    ],
    ..WriteScope::NONE
};

/// Watches the two directories that modprobe and systemd-modules-load read on this host.
pub(crate) fn watch(_: &Profile, _: &Facts) -> Watch {
    Watch::directories(&["/etc/modprobe.d", "/etc/modules-load.d"])
}

/// Files that bedplate alone writes for this resource type. `orphans` finds the command that must run after the first
/// one changes: it depends on the boot loader.
pub(crate) const FILES: &[OwnFile] =
    &[OwnFile::whole(MODPROBE_PATH), OwnFile::whole(MODULES_LOAD_PATH)];
