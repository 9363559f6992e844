//! First block of `inspect`: the machine and its system, one labelled value per line.

use std::collections::BTreeMap;

use super::format::{NONE, UNKNOWN, clean, memory, reading, unread};
use crate::report::style::{FAINT, HEAD, paint};
use bedplate_base::{Arch, Reading, counted};
use bedplate_facts::{BootLoader, Facts, IommuFacts};
use bedplate_host::HostKind;

/// Maximum number of IOMMU units listed by name.
const UNITS_NAMED: usize = 4;

/// Formats the block.
pub(super) fn block(facts: &Facts) -> String {
    let rows = [
        ("read from", source(facts.host).to_owned()),
        ("machine", machine(facts)),
        ("OS", os(facts)),
        ("kernel", kernel(facts)),
        ("lockdown", reading(&facts.os.lockdown, String::clone)),
        ("CPU", cpu(facts)),
        ("NUMA nodes", reading(&facts.cpu.nodes, String::clone)),
        ("memory", reading(&facts.memory_bytes, |bytes| memory(*bytes))),
        ("boot loader", boot_loader(&facts.boot)),
        ("IOMMU", iommu(facts.host, &facts.iommu)),
        ("GPU driver", gpu_driver(facts)),
    ];
    let mut out = format!("{}\n", paint(HEAD, "Host"));
    for (label, value) in rows {
        out.push_str(&format!("  {} {value}\n", paint(FAINT, &format!("{label:<12}"))));
    }
    out
}

fn source(kind: HostKind) -> &'static str {
    match kind {
        HostKind::Live => "this machine",
        HostKind::Image => "a directory (not running)",
        HostKind::Snapshot => "a snapshot",
    }
}

/// Joins both values with a blank; returns only one if the other is absent.
fn joined(first: &Reading<String>, second: &Reading<String>) -> String {
    match (first, second) {
        (Reading::Unknown(_), Reading::Unknown(_)) => UNKNOWN.to_owned(),
        (first, Reading::Absent) => reading(first, String::clone),
        (Reading::Absent, second) => reading(second, String::clone),
        (first, second) => {
            format!("{} {}", reading(first, String::clone), reading(second, String::clone))
        }
    }
}

fn machine(facts: &Facts) -> String {
    let name = joined(&facts.dmi.sys_vendor, &facts.dmi.product_name);
    match &facts.dmi.bios_version {
        Reading::Known(version) => format!("{name}, firmware {}", clean(version)),
        Reading::Absent | Reading::Unknown(_) => name,
    }
}

fn os(facts: &Facts) -> String {
    match &facts.os.pretty {
        Reading::Known(name) => clean(name),
        Reading::Absent | Reading::Unknown(_) => joined(&facts.os.id, &facts.os.version),
    }
}

fn kernel(facts: &Facts) -> String {
    match &facts.os.kernel {
        Reading::Known(release) => clean(release),
        Reading::Unknown(_) => UNKNOWN.to_owned(),
        Reading::Absent if facts.os.installed_kernels.is_empty() => {
            "none running, none installed".to_owned()
        }
        Reading::Absent => {
            format!("none running; installed: {}", clean(&facts.os.installed_kernels.join(", ")))
        }
    }
}

fn cpu(facts: &Facts) -> String {
    let model = reading(&facts.cpu.model, String::clone);
    let arch = reading(&facts.arch, |arch| {
        match arch {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
            Arch::Other => "another architecture",
        }
        .to_owned()
    });
    match &facts.cpu.online {
        Reading::Known(online) => format!("{model} ({arch}), CPUs {}", clean(online)),
        Reading::Absent | Reading::Unknown(_) => format!("{model} ({arch})"),
    }
}

fn boot_loader(boot: &BootLoader) -> String {
    match boot {
        BootLoader::GrubDebian => "GRUB, Debian family (/etc/default/grub)".to_owned(),
        BootLoader::GrubBls => "GRUB with boot loader entries".to_owned(),
        BootLoader::GrubRhel => "GRUB, RHEL family without boot loader entries".to_owned(),
        BootLoader::GrubSuse => "GRUB, SUSE family (/etc/default/grub)".to_owned(),
        BootLoader::SystemdBoot { uki: false } => "systemd-boot".to_owned(),
        BootLoader::SystemdBoot { uki: true } => "systemd-boot, unified kernel image".to_owned(),
        BootLoader::Sdbootutil { grub: true } => "GRUB with entries of sdbootutil".to_owned(),
        BootLoader::Sdbootutil { grub: false } => {
            "systemd-boot with entries of sdbootutil".to_owned()
        }
        BootLoader::RpmOstree => "rpm-ostree".to_owned(),
        BootLoader::Bootc => "bootc".to_owned(),
        BootLoader::Unmanaged { reason, .. } => {
            format!("not managed by bedplate: {}", clean(reason))
        }
        BootLoader::Unknown { .. } => UNKNOWN.to_owned(),
    }
}

fn iommu(host: HostKind, iommu: &IommuFacts) -> String {
    if host == HostKind::Image {
        return "an image has no hardware".to_owned();
    }
    let firmware = match &iommu.firmware {
        Reading::Known(table) => format!("supported by firmware ({})", clean(table)),
        Reading::Absent => "not supported by firmware".to_owned(),
        Reading::Unknown(why) => format!("firmware tables {}", unread(why)),
    };
    let active = match &iommu.active {
        Reading::Known(units) if units.is_empty() => "not active".to_owned(),
        Reading::Known(units) if units.len() <= UNITS_NAMED => {
            format!("active: {}", clean(&units.join(", ")))
        }
        Reading::Known(units) => {
            format!(
                "active: {} ({} …)",
                counted(units.len(), "unit"),
                clean(&units[..UNITS_NAMED].join(", "))
            )
        }
        Reading::Absent => "not active (no /sys/class/iommu)".to_owned(),
        Reading::Unknown(why) => format!("active units {}", unread(why)),
    };
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for kind in iommu.groups.values() {
        *kinds.entry(reading(kind, String::clone)).or_default() += 1;
    }
    let kinds: Vec<String> =
        kinds.iter().map(|(kind, groups)| format!("{groups} {kind}")).collect();
    let groups = if kinds.is_empty() {
        String::new()
    } else {
        format!("; groups inspected: {}", kinds.join(", "))
    };
    format!("{firmware}; {active}{groups}")
}

fn gpu_driver(facts: &Facts) -> String {
    let others = facts.gpu.others.iter().map(|driver| match &driver.version {
        Reading::Known(version) => format!("{} {}", clean(&driver.name), clean(version)),
        Reading::Absent | Reading::Unknown(_) => clean(&driver.name),
    });
    let others: Vec<String> = others.collect();
    match (&facts.gpu.nvidia, others.is_empty()) {
        (_, true) => nvidia_driver(facts),
        (Reading::Absent, false) => others.join(", "),
        (_, false) => format!("{}; {}", nvidia_driver(facts), others.join(", ")),
    }
}

fn nvidia_driver(facts: &Facts) -> String {
    match &facts.gpu.nvidia {
        Reading::Known(driver) => {
            let build =
                if driver.open { "open kernel modules" } else { "proprietary kernel modules" };
            let peer = match &facts.gpu.peer_memory_symbols {
                Reading::Known(true) => "; ib_core has peer-memory symbols",
                Reading::Known(false) => "; ib_core has no peer-memory symbols",
                Reading::Absent | Reading::Unknown(_) => "",
            };
            format!("NVIDIA {}, {build}{peer}", clean(&driver.version))
        }
        Reading::Absent if facts.host == HostKind::Image => {
            "an image has no loaded driver".to_owned()
        }
        Reading::Absent => NONE.to_owned() + " (NVIDIA driver not loaded)",
        Reading::Unknown(why) => unread(why).to_owned(),
    }
}
