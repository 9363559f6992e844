//! Paths of module configuration and state: recorded in snapshots, watched by the daemon.

use crate::kind::{FileTool, OwnFile, OwnMark, RecordMode, Watch, WriteScope};
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
    ("/lib/modules/*/modules.builtin", RecordMode::Whole),
    ("/lib/modules/*/modules.dep", RecordMode::Whole),
    ("/lib/modules/*/modules.symbols", RecordMode::Whole),
    ("/usr/bin/dracut", RecordMode::Presence),
    ("/usr/sbin/modprobe", RecordMode::Presence),
    ("/usr/sbin/update-initramfs", RecordMode::Presence),
];

/// Paths that this resource type writes, and the tools it runs.
pub(crate) const OWNS: WriteScope = WriteScope {
    files: &["/etc/modules-load.d/bedplate.conf", "/etc/modprobe.d/zz-bedplate.conf"],
    tools: &[&["update-initramfs", "-u", "-k", "all"], &["dracut", "--force", "--regenerate-all"]],
    ..WriteScope::NONE
};

/// Watches the two directories that modprobe and systemd-modules-load read on this host.
pub(crate) fn watch(_: &Profile, _: &Facts) -> Watch {
    Watch::directories(&["/etc/modprobe.d", "/etc/modules-load.d"])
}

/// Files that bedplate alone writes for this resource type.
pub(crate) const FILES: &[OwnFile] = &[
    OwnFile {
        path: MODPROBE_PATH,
        mark: OwnMark::Heading,
        readers: &[
            FileTool {
                program: "/usr/sbin/update-initramfs",
                argv: &["update-initramfs", "-u", "-k", "all"],
                limit_s: 600,
            },
            FileTool {
                program: "/usr/bin/dracut",
                argv: &["dracut", "--force", "--regenerate-all"],
                limit_s: 600,
            },
        ],
    },
    OwnFile::whole(MODULES_LOAD_PATH),
];
