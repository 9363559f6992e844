//! Paths of the kernel command line: recorded in snapshots, written by bedplate, watched by the daemon. Also the
//! labels.

use super::boot_files::ENTRY_PLUGIN;
use super::grub;
use super::ostree::KARGS_FILE;
use crate::kind::{FileTool, OwnFile, OwnMark, RecordMode, Watch, WriteScope};
use crate::profile::model::Profile;
use bedplate_cmdline::boot::grub_files::SNAPSHOT_MENU;
use bedplate_facts::boot::{KEEP_ENTRIES, LINUX_SCRIPT};
use bedplate_facts::iommu_groups::{NO_GROUP, iommu_groups};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Recorded in snapshots.
pub(crate) const RECORDED: &[(&str, RecordMode)] = &[
    // Shows which shell reads /etc/default/grub.
    ("/bin/sh", RecordMode::Presence),
    ("/etc/debian_version", RecordMode::Presence),
    ("/etc/default/grub", RecordMode::Whole),
    ("/etc/default/grub.d/*", RecordMode::Whole),
    ("/etc/grub.d", RecordMode::Names),
    (LINUX_SCRIPT, RecordMode::Whole),
    ("/etc/sysconfig/bootloader", RecordMode::Whole),
    ("/etc/fstab", RecordMode::Whole),
    ("/etc/systemd/system/*.mount", RecordMode::Presence),
    ("/proc/self/mountinfo", RecordMode::Whole),
    ("/boot", RecordMode::Names),
    ("/boot/grub", RecordMode::Names),
    ("/boot/grub/*.cfg", RecordMode::Whole),
    ("/boot/grub/grubenv", RecordMode::Whole),
    ("/boot/grub2", RecordMode::Names),
    ("/boot/grub2/*.cfg", RecordMode::Whole),
    ("/boot/grub2/grubenv", RecordMode::Whole),
    (SNAPSHOT_MENU, RecordMode::Whole),
    ("/boot/efi/EFI", RecordMode::Names),
    ("/boot/efi/EFI/*", RecordMode::Names),
    ("/boot/efi/EFI/*/grub.cfg", RecordMode::Whole),
    ("/boot/efi/EFI/*/grubenv", RecordMode::Whole),
    ("/boot/config-*", RecordMode::Whole),
    ("/usr/lib/modules/*/config", RecordMode::Whole),
    ("/boot/loader", RecordMode::Names),
    ("/boot/loader/loader.conf", RecordMode::Whole),
    ("/boot/loader/entries/*", RecordMode::Whole),
    ("/boot/EFI/Linux", RecordMode::Names),
    ("/boot/efi/loader", RecordMode::Names),
    ("/boot/efi/loader/loader.conf", RecordMode::Whole),
    ("/boot/efi/loader/entries/*", RecordMode::Whole),
    ("/efi/loader", RecordMode::Names),
    ("/efi/loader/loader.conf", RecordMode::Whole),
    ("/efi/loader/entries/*", RecordMode::Whole),
    ("/efi/EFI/Linux", RecordMode::Names),
    ("/sys/firmware/efi", RecordMode::Presence),
    ("/sys/firmware/efi/efivars/LoaderEntry*", RecordMode::Whole),
    ("/etc/kernel", RecordMode::Names),
    ("/etc/kernel/cmdline", RecordMode::Whole),
    ("/etc/kernel/proxmox-boot-uuids", RecordMode::Presence),
    ("/etc/kernel/cmdline.d", RecordMode::Names),
    ("/etc/kernel/install.conf", RecordMode::Whole),
    ("/etc/kernel/tries", RecordMode::Whole),
    (ENTRY_PLUGIN, RecordMode::Presence),
    ("/usr/lib/kernel/cmdline", RecordMode::Whole),
    ("/usr/lib/kernel/install.conf", RecordMode::Whole),
    ("/usr/lib/bootc/kargs.d/*", RecordMode::Whole),
    ("/etc/tuned/active_profile", RecordMode::Whole),
    ("/proc/cmdline", RecordMode::Whole),
    ("/proc/vmcore", RecordMode::Presence),
    ("/proc/xen/capabilities", RecordMode::Whole),
    ("/run/install", RecordMode::Presence),
    ("/sys/module/kvm_amd/parameters/sev_snp", RecordMode::Whole),
    ("/sys/kernel/iommu_groups/*/type", RecordMode::Whole),
    ("/usr/bin/bootctl", RecordMode::Presence),
    ("/usr/bin/grub2-editenv", RecordMode::Presence),
    ("/usr/bin/grub-editenv", RecordMode::Presence),
    ("/usr/bin/kernel-install", RecordMode::Presence),
    ("/usr/bin/rpm-ostree", RecordMode::Presence),
    ("/usr/bin/sdbootutil", RecordMode::Presence),
    ("/usr/kernel/cmdline.d", RecordMode::Names),
    ("/var/lib/systemd/pcrlock.json", RecordMode::Presence),
    ("/etc/systemd/tpm2-pcr-public-key.pem", RecordMode::Presence),
    ("/usr/bin/ukify", RecordMode::Presence),
    ("/usr/sbin/grub-mkconfig", RecordMode::Presence),
    ("/usr/sbin/grub2-mkconfig", RecordMode::Presence),
    ("/usr/sbin/update-bootloader", RecordMode::Presence),
    ("/usr/sbin/update-grub", RecordMode::Presence),
];

/// Files that bedplate may write and tools that it may run: the sources of the line, and the output of boot loader
/// tools.
pub(crate) const OWNS: WriteScope = WriteScope {
    files: &[
        "/etc/default/grub",
        "/etc/default/grub.d/*.cfg",
        "/etc/kernel/cmdline",
        "/boot/grub/grub.cfg",
        "/boot/grub2/grub.cfg",
        "/boot/grub2/grubenv",
        "/boot/efi/EFI/*/grub.cfg",
        "/boot/efi/EFI/*/grubenv",
        "/boot/loader/entries/*.conf",
        "/boot/efi/loader/entries/*.conf",
        "/efi/loader/entries/*.conf",
        "/usr/lib/bootc/kargs.d/50-bedplate.toml",
    ],
    tools: &[
        &["update-grub"],
        &["grub-mkconfig", "-o", "/boot/grub/grub.cfg"],
        &["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"],
        &["grub2-mkconfig", "-o", "/boot/efi/EFI/*/grub.cfg"],
        &["grub2-mkconfig", KEEP_ENTRIES, "-o", "/boot/grub2/grub.cfg"],
        &["grub2-mkconfig", KEEP_ENTRIES, "-o", "/boot/efi/EFI/*/grub.cfg"],
        &["kernel-install", "add", "*", "/boot/vmlinuz-*"],
        &["kernel-install", "add", "*", "/boot/Image-*"],
        &["kernel-install", "add", "*", "/usr/lib/modules/*/vmlinuz"],
        &["kernel-install", "add", "*", "/usr/lib/modules/*/Image"],
        &["rpm-ostree", "kargs", "--*"],
        &["sdbootutil", "update-all-entries"],
    ],
    ..WriteScope::NONE
};

/// Label with the kernel of the next boot, set if another one runs.
pub const NEXT_KERNEL: &str = "next-kernel";

/// Returns the directories of boot loader configuration and entries.
pub(crate) fn watch(_: &Profile, facts: &Facts) -> Watch {
    let mut watch = Watch::directories(&[
        "/etc/default",
        "/etc/default/grub.d",
        "/etc/grub.d",
        "/etc/kernel",
        "/boot/grub",
        "/boot/grub2",
        "/boot/loader/entries",
        "/boot/efi/loader/entries",
        "/boot",
    ]);
    if let (BootLoader::GrubRhel | BootLoader::GrubBls, Some(id)) =
        (&facts.boot, facts.os.id.known())
    {
        watch.directories.push(format!("/boot/efi/EFI/{}", grub::vendor(id)));
    }
    watch
}

/// Returns the labels: IOMMU mode of this host's devices by their groups, and the kernel of the next boot if another
/// one runs.
pub(crate) fn labels(facts: &Facts, reader: &dyn Reader) -> Vec<(&'static str, String)> {
    let mut labels = Vec::new();
    if let Some((next, _)) = super::other_kernel(facts) {
        labels.push((NEXT_KERNEL, next.to_owned()));
    }
    if facts.pci.known().is_none() {
        return labels;
    }
    let groups = iommu_groups(reader, facts);
    let mode = match (groups.unread, groups.types.keys().collect::<Vec<_>>().as_slice()) {
        (0, []) => "none",
        (0, [one]) if *one == NO_GROUP => "none",
        (0, [one]) => one,
        (_, []) => "unknown",
        _ => "mixed",
    };
    labels.push(("iommu", mode.to_owned()));
    labels
}

/// Files that this resource type owns.
pub(crate) const FILES: &[OwnFile] = &[
    OwnFile {
        path: "/etc/default/grub.d/zz-bedplate.cfg",
        mark: OwnMark::Heading,
        readers: &[
            FileTool { program: "/usr/sbin/update-grub", argv: &["update-grub"], limit_s: 300 },
            FileTool {
                program: "/usr/sbin/grub-mkconfig",
                argv: &["grub-mkconfig", "-o", "/boot/grub/grub.cfg"],
                limit_s: 300,
            },
        ],
    },
    // Its format has no comments at the top.
    OwnFile { path: KARGS_FILE, mark: OwnMark::Name, readers: &[] },
];
