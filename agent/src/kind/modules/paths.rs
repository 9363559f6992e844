//! Where modules are configured and show: what a snapshot records, what the daemon watches.

use crate::facts::Facts;
use crate::kind::{Owns, Take, Watch};
use crate::section::Declared;

/// Recorded in snapshots.
pub const RECORDED: &[(&str, Take)] = &[
    ("/etc/modprobe.d/*", Take::Whole),
    ("/run/modprobe.d/*", Take::Whole),
    ("/usr/local/lib/modprobe.d/*", Take::Whole),
    ("/usr/lib/modprobe.d/*", Take::Whole),
    ("/lib/modprobe.d/*", Take::Whole),
    ("/etc/modules-load.d/*", Take::Whole),
    ("/run/modules-load.d/*", Take::Whole),
    ("/usr/local/lib/modules-load.d/*", Take::Whole),
    ("/usr/lib/modules-load.d/*", Take::Whole),
    ("/etc/modules", Take::Whole),
    ("/proc/modules", Take::Whole),
    ("/sys/module/*", Take::Names),
    ("/sys/module/*/initstate", Take::Whole),
    ("/sys/module/*/refcnt", Take::Whole),
    ("/sys/module/*/version", Take::Whole),
    ("/sys/module/*/taint", Take::Whole),
    ("/sys/module/*/holders", Take::Names),
    ("/sys/module/*/parameters/*", Take::Whole),
    ("/usr/lib/modules/*/vmlinuz", Take::Presence),
    ("/lib/modules/*/modules.builtin", Take::Whole),
    ("/lib/modules/*/modules.dep", Take::Whole),
    ("/lib/modules/*/modules.symbols", Take::Whole),
    ("/usr/bin/dracut", Take::Presence),
    ("/usr/sbin/modprobe", Take::Presence),
    ("/usr/sbin/update-initramfs", Take::Presence),
];

/// Written here.
pub const OWNS: Owns = Owns {
    files: &["/etc/modules-load.d/bedplate.conf", "/etc/modprobe.d/zz-bedplate.conf"],
    tools: &[&["update-initramfs", "-u", "-k", "all"], &["dracut", "--force", "--regenerate-all"]],
    ..Owns::NONE
};

/// The two directories that modprobe and systemd-modules-load read on this host.
pub fn watch(_: &dyn Declared, _: &Facts) -> Watch {
    Watch::directories(&["/etc/modprobe.d", "/etc/modules-load.d"])
}
