//! CPU, architecture, memory, DMI and IOMMU facts, parsed from `/proc` and `/sys` texts.

use serde::Serialize;

use std::collections::{BTreeMap, BTreeSet};

use super::iort;
use super::pci::{Function, PciTree};
use bedplate_base::{Arch, CpuVendor, ReadError, Reading};
use bedplate_host::Reader;

/// CPU facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// CPU vendor.
    pub vendor: Reading<CpuVendor>,
    /// Marketing name.
    pub model: Reading<String>,
    /// Family number (AMD ≥ 0x17 is always accepted for P2P by the kernel; handbook §3.2).
    pub family: Reading<u32>,
    /// Identity of an x86 CPU; `Absent` for Arm CPUs.
    #[serde(skip)]
    pub id: Reading<CpuId>,
    /// Whether this is a VM's CPU (CPUID, leaf 1, bit 31 of ECX); `Absent` for Arm CPUs, which do not report it.
    #[serde(skip)]
    pub is_guest: Reading<bool>,
    /// Online logical CPUs in the kernel's format, e.g. `0-111`.
    pub online: Reading<String>,
    /// Online NUMA nodes, e.g. `0-1`.
    pub nodes: Reading<String>,
}

/// Identity of an x86 CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuId {
    /// Vendor text, e.g. `GenuineIntel`.
    pub vendor: String,
    /// Family number.
    pub family: u32,
    /// Model number.
    pub model: u32,
}

impl Cpu {
    /// Whether this is known to be a VM's CPU.
    pub fn is_virtual(&self) -> bool {
        self.is_guest.known() == Some(&true)
    }
}

/// DMI identity: fields readable without root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dmi {
    /// `/sys/class/dmi/id/sys_vendor`.
    pub sys_vendor: Reading<String>,
    /// `/sys/class/dmi/id/product_name`.
    pub product_name: Reading<String>,
    /// `/sys/class/dmi/id/board_name`.
    pub board_name: Reading<String>,
    /// `/sys/class/dmi/id/bios_version`.
    pub bios_version: Reading<String>,
}

/// State of the IOMMU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IommuFacts {
    /// Names in /sys/class/iommu (`dmar0`, `ivhd0`, `smmu3.0x…`); empty: no active IOMMU.
    pub active: Reading<Vec<String>>,
    /// ACPI table that describes an IOMMU: DMAR, IVRS, or IORT with an SMMU, in /sys/firmware/acpi/tables.
    pub firmware: Reading<String>,
    /// Setting that disables the IOMMU at the next boot (`intel_iommu=off`, or the kernel's build); `Absent`: enabled.
    /// Like the next kernel, the resource type for the command line sets this (`engine::observe`).
    pub off_by: Reading<String>,
    /// `type` of every IOMMU group with an endpoint that takes part (`DMA`, `DMA-FQ`, `identity` …); thorough scans
    /// only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<u32, Reading<String>>,
}

impl IommuFacts {
    /// Returns the unknown state, for a machine that was not inspected.
    pub fn unknown() -> Self {
        IommuFacts {
            active: unknown(),
            firmware: unknown(),
            off_by: unknown(),
            groups: BTreeMap::new(),
        }
    }
}

/// Returns the unknown value, for a machine that was not inspected.
pub(crate) fn unknown<T>() -> Reading<T> {
    Reading::unknown("no machine was inspected")
}

/// Bytes of `/proc/cpuinfo` to read: its cost grows with the number of CPUs, and the first CPU is enough.
const FIRST_CHUNK: usize = 4096;

/// Names of well-known Arm server cores: (implementer, part) as in `/proc/cpuinfo`, from arch/arm64/include/asm/cputype.h.
const ARM_CORES: [(u32, u32, &str); 10] = [
    (0x41, 0xd0c, "Neoverse N1"),
    (0x41, 0xd40, "Neoverse V1"),
    (0x41, 0xd49, "Neoverse N2"),
    (0x41, 0xd4f, "Neoverse V2"),
    (0x41, 0xd84, "Neoverse V3"),
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd87, "Cortex-A725"),
    (0x4e, 0x010, "NVIDIA Olympus"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1A"),
];

/// Reads the entry of the first CPU in `/proc/cpuinfo`. An image has no such file.
pub(crate) fn cpuinfo(reader: &dyn Reader) -> Result<String, ReadError> {
    start(reader, "/proc/cpuinfo")
}

/// Parses CPU facts from [`cpuinfo`].
pub(crate) fn cpu(reader: &dyn Reader, text: &Result<String, ReadError>) -> Cpu {
    let field = |name: &'static str| -> Reading<String> {
        match text {
            Ok(text) => Reading::from_option(cpuinfo_field(text, name).map(str::to_owned)),
            Err(error) => Reading::from_result(Err(error.clone())),
        }
    };
    let implementer = field("CPU implementer");
    let vendor = match (field("vendor_id"), &implementer) {
        (Reading::Known(id), _) => Reading::Known(vendor(&id)),
        (_, Reading::Known(_)) => Reading::Known(CpuVendor::Arm),
        (other, _) => other.map(|_| CpuVendor::Other),
    };
    let model = match (field("model name"), &implementer) {
        (Reading::Absent, Reading::Known(implementer)) => Reading::Known(arm_model(
            implementer,
            field("CPU part").known().map_or("", String::as_str),
        )),
        (model, _) => model,
    };
    let number = |name: &'static str| {
        field(name).and_then(|text| match text.parse() {
            Ok(number) => Reading::Known(number),
            Err(_) => Reading::unknown(format!("/proc/cpuinfo gives {name} as {text:?}")),
        })
    };
    let family = number("cpu family");
    let id = field("vendor_id").and_then(|vendor| {
        let family = family.clone();
        family.and_then(|family| number("model").map(|model| CpuId { vendor, family, model }))
    });
    Cpu {
        vendor,
        model,
        family,
        id,
        is_guest: field("flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        online: Reading::from_result(reader.attribute("/sys/devices/system/cpu/online")),
        nodes: Reading::from_result(reader.attribute("/sys/devices/system/node/online")),
    }
}

fn vendor(id: &str) -> CpuVendor {
    match id {
        "GenuineIntel" => CpuVendor::Intel,
        "AuthenticAMD" | "HygonGenuine" => CpuVendor::Amd,
        _ => CpuVendor::Other,
    }
}

fn arm_model(implementer: &str, part: &str) -> String {
    let hex = |text: &str| u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    let name =
        ARM_CORES.iter().find(|(i, p, _)| hex(implementer) == Some(*i) && hex(part) == Some(*p));
    match name {
        Some((_, _, name)) => (*name).to_owned(),
        None => format!("Arm implementer {implementer} part {part}"),
    }
}

fn start(reader: &dyn Reader, path: &str) -> Result<String, ReadError> {
    let bytes = reader.read_start(path, FIRST_CHUNK)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the value of the first `name<blanks>: value` line.
fn cpuinfo_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == name).then_some(value.trim())
    })
}

/// Determines the architecture from the CPU, or from the programs in an image.
pub(crate) fn arch(reader: &dyn Reader, cpuinfo: &Result<String, ReadError>) -> Reading<Arch> {
    if let Ok(text) = cpuinfo {
        let x86_64 = cpuinfo_field(text, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "lm"));
        if x86_64 {
            return Reading::Known(Arch::X86_64);
        }
        if cpuinfo_field(text, "CPU architecture") == Some("8") {
            return Reading::Known(Arch::Aarch64);
        }
    }
    const PROGRAMS: [&str; 3] = ["/bin/sh", "/usr/bin/env", "/usr/lib/systemd/systemd"];
    for program in PROGRAMS {
        if let Ok(header) = reader.read_start(program, 20)
            && let Some(arch) = elf_machine(&header)
        {
            return Reading::Known(arch);
        }
    }
    Reading::unknown(format!(
        "cannot determine the architecture from /proc/cpuinfo or {}",
        PROGRAMS.join(", ")
    ))
}

/// Reads `e_machine` of an ELF header: 62 = x86-64, 183 = AArch64 (include/uapi/linux/elf-em.h).
fn elf_machine(header: &[u8]) -> Option<Arch> {
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    Some(match header.get(18..20)? {
        [62, 0] => Arch::X86_64,
        [183, 0] => Arch::Aarch64,
        _ => Arch::Other,
    })
}

/// Memory statistics.
pub(crate) const MEMINFO: &str = "/proc/meminfo";

/// Returns a field of [`MEMINFO`] in bytes. Parses `Hugepagesize:     524288 kB` (Linux fs/proc/meminfo.c).
pub(crate) fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let kib: u64 = cpuinfo_field(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Reads `MemTotal`, in bytes.
pub(crate) fn memory_bytes(reader: &dyn Reader) -> Reading<u64> {
    let text = match start(reader, MEMINFO) {
        Ok(text) => text,
        Err(error) => return Reading::from_result(Err(error)),
    };
    match meminfo_bytes(&text, "MemTotal") {
        Some(bytes) => Reading::Known(bytes),
        None => Reading::unknown("/proc/meminfo has no MemTotal in kB"),
    }
}

/// Reads the unprivileged DMI fields.
pub(crate) fn dmi(reader: &dyn Reader) -> Dmi {
    let field =
        |name: &str| Reading::from_result(reader.attribute(&format!("/sys/class/dmi/id/{name}")));
    Dmi {
        sys_vendor: field("sys_vendor"),
        product_name: field("product_name"),
        board_name: field("board_name"),
        bios_version: field("bios_version"),
    }
}

/// Reads active IOMMUs and the firmware table that describes them.
pub(crate) fn iommu(reader: &dyn Reader) -> IommuFacts {
    let active = Reading::from_result(reader.list("/sys/class/iommu"));
    let firmware = match reader.list("/sys/firmware/acpi/tables") {
        Ok(names) => {
            let mut tables = names.into_iter();
            let found = tables.find(|name| matches!(name.as_str(), "DMAR" | "IVRS" | "IORT"));
            Reading::from_option(found)
        }
        // Without the directory the table is unknown: a device tree, or a dump without it.
        Err(error) => Reading::unknown(error),
    };
    // An active IOMMU proves that the table describes one. Unlike the table, it is visible without root.
    let is_active = active.known().is_some_and(|units| !units.is_empty());
    let firmware = match is_active {
        true => firmware,
        false => firmware.and_then(|table| with_iommu(reader, table)),
    };
    IommuFacts {
        active,
        firmware,
        off_by: Reading::unknown("the command line was not inspected"),
        groups: BTreeMap::new(),
    }
}

/// Returns the table if it describes an IOMMU. DMAR and IVRS always do.
fn with_iommu(reader: &dyn Reader, table: String) -> Reading<String> {
    if table != "IORT" {
        return Reading::Known(table);
    }
    match reader.read(iort::PATH) {
        Ok(bytes) => match iort::describes_smmu(&bytes) {
            Some(true) => Reading::Known(table),
            Some(false) => Reading::Absent,
            None => Reading::unknown(format!("{} is truncated or malformed", iort::PATH)),
        },
        Err(error) => Reading::unknown(error),
    }
}

/// Reads the `type` of every IOMMU group of the functions that satisfy `asked`.
pub(crate) fn group_types(
    reader: &dyn Reader,
    tree: &PciTree,
    asked: impl Fn(&Function) -> bool,
) -> BTreeMap<u32, Reading<String>> {
    let numbers: BTreeSet<u32> = tree
        .functions
        .values()
        .filter(|function| asked(function))
        .filter_map(|function| function.iommu_group.known().copied())
        .collect();
    let kind = |number| reader.attribute(&format!("/sys/kernel/iommu_groups/{number}/type"));
    numbers.into_iter().map(|number| (number, Reading::from_result(kind(number)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arm_model_is_named_or_numbered() {
        assert_eq!(arm_model("0x41", "0xd4f"), "Neoverse V2");
        assert_eq!(arm_model("0xc0", "0xac4"), "Ampere-1A");
        assert_eq!(arm_model("0x99", "0x1"), "Arm implementer 0x99 part 0x1");
    }

    #[test]
    fn elf_header_gives_architecture() {
        let mut header = vec![0; 20];
        header[..4].copy_from_slice(b"\x7fELF");
        header[18] = 183;
        assert_eq!(elf_machine(&header), Some(Arch::Aarch64));
        header[18] = 62;
        assert_eq!(elf_machine(&header), Some(Arch::X86_64));
        assert_eq!(elf_machine(&header[..19]), None);
        assert_eq!(elf_machine(b"#!/bin/sh\n#........."), None);
    }

    #[test]
    fn cpuinfo_fields_match_whole_names() {
        let text = "processor\t: 0\nmodel\t\t: 47\nmodel name\t: Xeon\n";
        assert_eq!(cpuinfo_field(text, "model name"), Some("Xeon"));
        assert_eq!(cpuinfo_field(text, "model"), Some("47"));
        assert_eq!(cpuinfo_field(text, "vendor_id"), None);
    }

    #[test]
    fn meminfo_fields_are_in_bytes() {
        let text = "MemTotal:       2113384448 kB\nHugePages_Free:        0\nHugepagesize:     524288 kB\n";
        assert_eq!(meminfo_bytes(text, "Hugepagesize"), Some(512 << 20));
        for other in ["", "HugePages_Total:       0\n", "Hugepagesize:\n", "Hugepagesize: 2 MB\n"] {
            assert_eq!(meminfo_bytes(other, "Hugepagesize"), None, "{other}");
        }
    }
}
