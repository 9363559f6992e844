//! What is recorded: one table of paths, and what is read of every PCI function. Whatever a kind, a check or the
//! boot-loader detection reads has to be here or be read by [`crate::facts::observe`].

use std::ops::ControlFlow;

use super::Recorder;
use crate::facts::pci::Function;
use crate::facts::{Depth, caps, names, observe};
use crate::host::Reader;

/// What is recorded of a path.
#[derive(Clone, Copy)]
enum Take {
    /// The whole file (or the link itself and the file behind it).
    Whole,
    /// A directory's names.
    Names,
    /// That it is there, or not.
    Presence,
}
use Take::{Names, Presence, Whole};

/// Paths; `*` stands for any part of one component.
const PATHS: &[(&str, Take)] = &[
    // Boot configuration.
    ("/etc/default/grub", Whole),
    ("/etc/default/grub.d/*", Whole),
    ("/etc/grub.d", Names),
    ("/etc/sysconfig/bootloader", Whole),
    ("/boot", Names),
    ("/boot/grub", Names),
    ("/boot/grub/*.cfg", Whole),
    ("/boot/grub/grubenv", Whole),
    ("/boot/grub2", Names),
    ("/boot/grub2/*.cfg", Whole),
    ("/boot/grub2/grubenv", Whole),
    ("/boot/efi/EFI/*", Names),
    ("/boot/efi/EFI/*/grub.cfg", Whole),
    ("/boot/efi/EFI/*/grubenv", Whole),
    ("/boot/config-*", Whole),
    ("/boot/loader", Names),
    ("/boot/loader/loader.conf", Whole),
    ("/boot/loader/entries/*", Whole),
    ("/boot/EFI/Linux", Names),
    ("/boot/efi/loader", Names),
    ("/boot/efi/loader/loader.conf", Whole),
    ("/boot/efi/loader/entries/*", Whole),
    ("/efi/loader", Names),
    ("/efi/loader/loader.conf", Whole),
    ("/efi/loader/entries/*", Whole),
    ("/efi/EFI/Linux", Names),
    ("/etc/kernel", Names),
    ("/etc/kernel/cmdline", Whole),
    ("/etc/kernel/install.conf", Whole),
    ("/etc/kernel/tries", Whole),
    ("/usr/lib/kernel/cmdline", Whole),
    ("/usr/lib/kernel/install.conf", Whole),
    ("/usr/lib/bootc/kargs.d/*", Whole),
    ("/proc/cmdline", Whole),
    // Modules.
    ("/etc/modprobe.d/*", Whole),
    ("/run/modprobe.d/*", Whole),
    ("/usr/local/lib/modprobe.d/*", Whole),
    ("/usr/lib/modprobe.d/*", Whole),
    ("/lib/modprobe.d/*", Whole),
    ("/etc/modules-load.d/*", Whole),
    ("/run/modules-load.d/*", Whole),
    ("/usr/local/lib/modules-load.d/*", Whole),
    ("/usr/lib/modules-load.d/*", Whole),
    ("/etc/modules", Whole),
    ("/proc/modules", Whole),
    ("/sys/module/*", Names),
    ("/sys/module/*/initstate", Whole),
    ("/sys/module/*/refcnt", Whole),
    ("/sys/module/*/version", Whole),
    ("/sys/module/*/taint", Whole),
    ("/sys/module/*/holders", Names),
    ("/sys/module/*/parameters/*", Whole),
    ("/usr/lib/modules/*/vmlinuz", Presence),
    ("/lib/modules/*/modules.builtin", Whole),
    ("/lib/modules/*/modules.dep", Whole),
    ("/lib/modules/*/modules.symbols", Whole),
    ("/proc/driver/nvidia/version", Whole),
    ("/proc/driver/nvidia/params", Whole),
    // IOMMU, drivers, interfaces.
    ("/sys/kernel/iommu_groups/*/type", Whole),
    ("/sys/bus/pci/drivers", Names),
    ("/sys/class/net/*/flags", Whole),
    ("/sys/class/net/*/operstate", Whole),
    ("/sys/class/infiniband/*/ports/*/state", Whole),
    ("/sys/class/infiniband/*/ports/*/phys_state", Whole),
    ("/sys/class/infiniband/*/ports/*/link_layer", Whole),
    ("/sys/class/infiniband/*/ports/*/rate", Whole),
    ("/etc/systemd/network/*", Whole),
    ("/run/systemd/network/*", Whole),
    ("/etc/sriov-operator", Presence),
    // What would make a reboot something else than a reboot.
    ("/sys/kernel/kexec_loaded", Whole),
    ("/run/systemd/shutdown/scheduled", Presence),
    ("/run/reboot-required", Presence),
    // bedplate's own.
    ("/etc/bedplate/profile.toml", Whole),
    ("/etc/bedplate/profile.d/*", Whole),
    ("/etc/bedplate/profiles/*", Whole),
    ("/var/lib/bedplate/*", Whole),
    // Kinds of host, and the tools that a plan may name.
    ("/.dockerenv", Presence),
    ("/run/.containerenv", Presence),
    ("/run/systemd/container", Presence),
    ("/run/ostree-booted", Presence),
    ("/sysroot/ostree", Presence),
    ("/usr/bin/bootc", Presence),
    ("/usr/bin/bootctl", Presence),
    ("/usr/bin/dracut", Presence),
    ("/usr/bin/grub2-editenv", Presence),
    ("/usr/bin/grub-editenv", Presence),
    ("/usr/bin/kernel-install", Presence),
    ("/usr/bin/mlxconfig", Presence),
    ("/usr/bin/mstconfig", Presence),
    ("/usr/bin/rpm-ostree", Presence),
    ("/usr/bin/ukify", Presence),
    ("/usr/sbin/grub-mkconfig", Presence),
    ("/usr/sbin/grub2-mkconfig", Presence),
    ("/usr/sbin/grubby", Presence),
    ("/usr/sbin/modprobe", Presence),
    ("/usr/sbin/update-bootloader", Presence),
    ("/usr/sbin/update-grub", Presence),
    ("/usr/sbin/update-initramfs", Presence),
];

/// Attributes of a function that no scan reads.
const ATTRIBUTES: [&str; 4] = ["driver_override", "sriov_offset", "sriov_stride", "ari_enabled"];

/// Read everything through the recorder. Answers do not matter here: each is recorded, refusals too.
pub fn read_all(recorder: &Recorder) {
    observe(recorder, Depth::Plan);
    let facts = observe(recorder, Depth::Thorough);
    for (pattern, take) in PATHS {
        for path in expand(recorder, pattern) {
            match take {
                Whole => drop(recorder.read(&path)),
                Names => drop(recorder.list(&path)),
                Presence => drop(recorder.exists(&path)),
            }
        }
    }
    // Of a megabyte only the names of what is there.
    for path in names::FILES {
        let cut = |bytes: &[u8]| names::excerpt(&String::from_utf8_lossy(bytes), &facts);
        recorder.read_part(path, |bytes| cut(bytes).into_bytes());
    }
    for function in facts.pci.known().into_iter().flat_map(|tree| tree.functions.values()) {
        of_function(recorder, function);
    }
}

/// The paths that a pattern stands for.
fn expand(recorder: &Recorder, pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for part in pattern.split('/').skip(1) {
        let Some((before, after)) = part.split_once('*') else {
            paths.iter_mut().for_each(|path| *path = format!("{path}/{part}"));
            continue;
        };
        let fits = |name: &String| {
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        };
        paths = paths
            .into_iter()
            .flat_map(|path| {
                let names = recorder.list(&path).unwrap_or_default();
                names.into_iter().filter(fits).map(move |name| format!("{path}/{name}"))
            })
            .collect();
    }
    paths
}

fn of_function(recorder: &Recorder, function: &Function) {
    let directory = format!("{}/{}", crate::facts::scan::DEVICES, function.address);
    let _ = recorder.link(&format!("{directory}/driver"));
    if function.is_nic() || function.is_gpu() || function.is_vf() {
        for name in ATTRIBUTES {
            let _ = recorder.read(&format!("{directory}/{name}"));
        }
        let _ = recorder.link(&format!("{directory}/physfn"));
    }
    let Ok(config) = recorder.config(function.address) else { return };
    let _ = config.read(0, &mut [0; 256]);
    let mut found = Vec::new();
    let _ = caps::extended(config.as_ref(), |id, at| {
        found.push((id, at));
        ControlFlow::<()>::Continue(())
    });
    for (id, at) in found {
        // ACS with its egress vector, ATS, SR-IOV. Others keep their header only: a serial number is one of them.
        let length = match id {
            0x000d => 16,
            0x000f => 8,
            0x0010 => 64,
            _ => continue,
        };
        let _ = config.read(at, &mut vec![0; length]);
    }
}
