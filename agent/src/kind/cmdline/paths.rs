//! Where the kernel command line is kept and shows: what a snapshot records, what the daemon watches, what labels say.

use super::groups::{NO_GROUP, groups};
use crate::facts::Facts;
use crate::host::Reader;
use crate::kind::{Owns, Take, Watch};
use crate::section::Declared;

/// Recorded in snapshots.
pub const RECORDED: &[(&str, Take)] = &[
    // Which shell reads /etc/default/grub.
    ("/bin/sh", Take::Presence),
    ("/etc/default/grub", Take::Whole),
    ("/etc/default/grub.d/*", Take::Whole),
    ("/etc/grub.d", Take::Names),
    ("/etc/sysconfig/bootloader", Take::Whole),
    ("/boot", Take::Names),
    ("/boot/grub", Take::Names),
    ("/boot/grub/*.cfg", Take::Whole),
    ("/boot/grub/grubenv", Take::Whole),
    ("/boot/grub2", Take::Names),
    ("/boot/grub2/*.cfg", Take::Whole),
    ("/boot/grub2/grubenv", Take::Whole),
    ("/boot/efi/EFI/*", Take::Names),
    ("/boot/efi/EFI/*/grub.cfg", Take::Whole),
    ("/boot/efi/EFI/*/grubenv", Take::Whole),
    ("/boot/config-*", Take::Whole),
    ("/boot/loader", Take::Names),
    ("/boot/loader/loader.conf", Take::Whole),
    ("/boot/loader/entries/*", Take::Whole),
    ("/boot/EFI/Linux", Take::Names),
    ("/boot/efi/loader", Take::Names),
    ("/boot/efi/loader/loader.conf", Take::Whole),
    ("/boot/efi/loader/entries/*", Take::Whole),
    ("/efi/loader", Take::Names),
    ("/efi/loader/loader.conf", Take::Whole),
    ("/efi/loader/entries/*", Take::Whole),
    ("/efi/EFI/Linux", Take::Names),
    ("/etc/kernel", Take::Names),
    ("/etc/kernel/cmdline", Take::Whole),
    ("/etc/kernel/install.conf", Take::Whole),
    ("/etc/kernel/tries", Take::Whole),
    ("/usr/lib/kernel/cmdline", Take::Whole),
    ("/usr/lib/kernel/install.conf", Take::Whole),
    ("/usr/lib/bootc/kargs.d/*", Take::Whole),
    ("/proc/cmdline", Take::Whole),
    ("/proc/vmcore", Take::Presence),
    ("/proc/xen/capabilities", Take::Whole),
    ("/sys/module/kvm_amd/parameters/sev_snp", Take::Whole),
    ("/sys/kernel/iommu_groups/*/type", Take::Whole),
    ("/usr/bin/bootctl", Take::Presence),
    ("/usr/bin/grub2-editenv", Take::Presence),
    ("/usr/bin/grub-editenv", Take::Presence),
    ("/usr/bin/kernel-install", Take::Presence),
    ("/usr/bin/rpm-ostree", Take::Presence),
    ("/usr/bin/ukify", Take::Presence),
    ("/usr/sbin/grub-mkconfig", Take::Presence),
    ("/usr/sbin/grub2-mkconfig", Take::Presence),
    ("/usr/sbin/grubby", Take::Presence),
    ("/usr/sbin/update-bootloader", Take::Presence),
    ("/usr/sbin/update-grub", Take::Presence),
];

/// Written here: the sources of the line, and what boot loaders' tools make of them.
pub const OWNS: Owns = Owns {
    files: &[
        "/etc/default/grub",
        "/etc/default/grub.d/*.cfg",
        "/etc/kernel/cmdline",
        "/boot/grub/grub.cfg",
        "/boot/grub2/grub.cfg",
        "/boot/grub2/grubenv",
        "/boot/loader/entries/*.conf",
        "/boot/efi/loader/entries/*.conf",
        "/efi/loader/entries/*.conf",
        "/usr/lib/bootc/kargs.d/50-bedplate.toml",
    ],
    tools: &[
        &["update-grub"],
        &["grub-mkconfig", "-o", "/boot/grub/grub.cfg"],
        &["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"],
        &["grubby", "--no-etc-grub-update", "--update-kernel=ALL", "--*"],
        &["kernel-install", "add", "*", "/boot/vmlinuz-*"],
        &["kernel-install", "add", "*", "/usr/lib/modules/*/vmlinuz"],
        &["rpm-ostree", "kargs", "--*"],
    ],
    ..Owns::NONE
};

/// Where boot loaders keep their configuration and entries.
pub fn watch(_: &dyn Declared, _: &Facts) -> Watch {
    Watch::directories(&[
        "/etc/default",
        "/etc/default/grub.d",
        "/etc/grub.d",
        "/etc/kernel",
        "/boot/grub",
        "/boot/grub2",
        "/boot/loader/entries",
        "/boot/efi/loader/entries",
    ])
}

/// How the IOMMU treats the devices of this host, by their groups.
pub fn labels(facts: &Facts, reader: &dyn Reader) -> Vec<(&'static str, String)> {
    if facts.pci.known().is_none() {
        return Vec::new();
    }
    let groups = groups(reader, facts);
    let mode = match (groups.unread, groups.types.keys().collect::<Vec<_>>().as_slice()) {
        (0, []) => "none",
        (0, [one]) if *one == NO_GROUP => "none",
        (0, [one]) => one,
        (_, []) => "unknown",
        _ => "mixed",
    };
    vec![("iommu", mode.to_owned())]
}
