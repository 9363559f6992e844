//! What lines of the kernel's log mean for GPUDirect: one table, a row a message, below the file that prints it. A line is
//! taken apart and put together again from the kernel's own words, addresses, names and numbers: nothing else of a log is
//! kept, shown or recorded. Pure.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cmdline::complaint;
use crate::host::KernelLog;
use crate::mask::is_name;
use crate::recovery::Recovery;
use crate::value::PciAddress;

pub mod xid;

/// What a message means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// VT-d or AMD-Vi was brought up.
    IommuUp,
    /// `intel_iommu=on` was read. Says nothing of whether there is an IOMMU.
    IommuAsked,
    /// The firmware describes its IOMMU wrongly.
    IommuFirmware,
    /// A kernel before this one left the IOMMU on, and its tables were taken over (kexec).
    IommuCopied,
    /// The IOMMU refused a function's DMA.
    DmaFault,
    /// A module was built for another kernel, or another ib_core.
    WrongBuild,
    /// A module was not let in: blacklisted, or not signed as Secure Boot wants it.
    KeptOut,
    /// A module does not know a parameter that it was given.
    WrongParameter,
    /// NVIDIA's libraries and kernel modules are of different versions.
    ApiMismatch,
    /// The driver did not take a GPU.
    NotTaken,
    /// nvidia_peermem could not do its work.
    Peermem,
    /// A GPU no longer answers on the bus.
    OffTheBus,
    /// A GPU reported an error of its own.
    Xid,
    /// An NVSwitch reported an error after which its links work on.
    Switch,
    /// An NVSwitch reported an error that ends the jobs of the GPUs below.
    SwitchFatal,
    /// A PCIe transaction was lost, and the link is as reliable as before.
    Uncorrected,
    /// A PCIe link is no longer reliable.
    Fatal,
    /// A port cut off what is below it, to contain an error.
    Contained,
    /// The link of a slot went down.
    LinkDown,
    /// An error was recovered from, or a device was reset and works on.
    Recovered,
    /// A driver was loaded, or took a device.
    Bound,
}

impl Sign {
    /// The recovery action, as far as the message tells.
    pub fn recovery(self) -> Recovery {
        match self {
            Sign::OffTheBus => Recovery::PowerCycle,
            Sign::NotTaken
            | Sign::ApiMismatch
            | Sign::Fatal
            | Sign::Contained
            | Sign::SwitchFatal => Recovery::Reboot,
            Sign::Xid | Sign::LinkDown => Recovery::Drain,
            _ => Recovery::None,
        }
    }
}

/// What of a line is kept beside the text of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    /// A PCI function.
    Function,
    /// A module, or a symbol.
    Name,
    /// A version, or a number.
    Number,
    /// `0000:18:00): 79`.
    Xid,
    /// `0000:ab:00.0): 12028, Non-fatal`.
    SXid,
    /// Only that it calls itself an error.
    Error,
}

struct Row {
    sign: Sign,
    before: Part,
    /// What is in it and in no other line.
    text: &'static str,
    after: Part,
}

const fn row(sign: Sign, before: Part, text: &'static str, after: Part) -> Row {
    Row { sign, before, text, after }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // drivers/iommu/intel/iommu.c intel_iommu_init
    row(Sign::IommuUp, Part::Nothing, "DMAR: Intel(R) Virtualization Technology for Directed I/O", Part::Nothing),
    // drivers/iommu/amd/init.c
    row(Sign::IommuUp, Part::Nothing, "AMD-Vi: Interrupt remapping enabled", Part::Nothing),
    row(Sign::IommuUp, Part::Nothing, "AMD-Vi: Extended features ", Part::Nothing),
    // drivers/iommu/intel/iommu.c intel_iommu_setup
    row(Sign::IommuAsked, Part::Nothing, "DMAR: IOMMU enabled", Part::Nothing),
    // drivers/iommu/intel/dmar.c warn_invalid_dmar
    row(Sign::IommuFirmware, Part::Nothing, "Your BIOS is broken; DMAR reported at address", Part::Nothing),
    // drivers/iommu/intel/iommu.c init_dmars
    row(Sign::IommuCopied, Part::Nothing, "Translation already enabled - trying to copy translation structures", Part::Nothing),
    // drivers/iommu/intel/dmar.c dmar_fault_do_one
    row(Sign::DmaFault, Part::Nothing, "DMAR: [DMA Write NO_PASID] Request device [", Part::Function),
    row(Sign::DmaFault, Part::Nothing, "DMAR: [DMA Read NO_PASID] Request device [", Part::Function),
    row(Sign::DmaFault, Part::Nothing, "DMAR: [DMA Write] Request device [", Part::Function),
    row(Sign::DmaFault, Part::Nothing, "DMAR: [DMA Read] Request device [", Part::Function),
    // drivers/iommu/amd/iommu.c amd_iommu_report_page_fault
    row(Sign::DmaFault, Part::Nothing, "AMD-Vi: Event logged [IO_PAGE_FAULT device=", Part::Function),
    row(Sign::DmaFault, Part::Function, "AMD-Vi: Event logged [IO_PAGE_FAULT", Part::Nothing),
    // drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c, 6.14 on
    row(Sign::DmaFault, Part::Nothing, "event: F_TRANSLATION client: ", Part::Function),
    // kernel/module/version.c check_version
    row(Sign::WrongBuild, Part::Name, ": disagrees about version of symbol ", Part::Name),
    // kernel/module/main.c resolve_symbol_wait, simplify_symbols
    row(Sign::WrongBuild, Part::Name, ": Unknown symbol ", Part::Name),
    // kernel/module/main.c check_modinfo
    row(Sign::WrongBuild, Part::Name, ": version magic '", Part::Nothing),
    // kernel/module/main.c early_mod_check
    row(Sign::KeptOut, Part::Name, " is blacklisted", Part::Nothing),
    // kernel/module/signing.c module_sig_check
    row(Sign::KeptOut, Part::Nothing, "Loading of unsigned module is rejected", Part::Nothing),
    row(Sign::KeptOut, Part::Nothing, "Loading of module with unavailable key is rejected", Part::Nothing),
    // kernel/module/main.c unknown_module_param_cb
    row(Sign::WrongParameter, Part::Name, ": unknown parameter '", Part::Name),
    // NVIDIA open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osapi.c rm_perform_version_check
    row(Sign::ApiMismatch, Part::Nothing, "NVRM: API mismatch: the client has the version ", Part::Number),
    row(Sign::ApiMismatch, Part::Nothing, "NVRM: API mismatch: the client has version ", Part::Number),
    // the same, kernel-open/nvidia/nv.c
    row(Sign::NotTaken, Part::Nothing, "NVRM: The NVIDIA probe routine was not called for ", Part::Number),
    row(Sign::NotTaken, Part::Nothing, "NVRM: The NVIDIA probe routine failed for ", Part::Number),
    row(Sign::NotTaken, Part::Function, "RmInitAdapter failed!", Part::Nothing),
    // the same, kernel-open/nvidia-peermem/nvidia-peermem.c peer_err
    row(Sign::Peermem, Part::Nothing, "nvidia-peermem ", Part::Error),
    // the same, src/nvidia/arch/nvalloc/unix/src/os.c; NVIDIA's "Xid Errors" lists the numbers
    row(Sign::Xid, Part::Nothing, "NVRM: Xid (PCI:", Part::Xid),
    row(Sign::OffTheBus, Part::Function, "GPU has fallen off the bus", Part::Nothing),
    // the same, src/common/nvswitch/kernel/inc/error_nvswitch.h NVSWITCH_PRINT_SXID
    row(Sign::Switch, Part::Nothing, "SXid (PCI:", Part::SXid),
    // the same, kernel-open/nvidia/nv.c nvidia_init_module
    row(Sign::Bound, Part::Nothing, "NVRM: loading NVIDIA UNIX", Part::Nothing),
    // drivers/pci/setup-res.c pci_enable_resources: a driver takes the device, at its first bind and after a reset
    row(Sign::Bound, Part::Function, "enabling device (", Part::Nothing),
    // drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_gpu_recover
    row(Sign::Recovered, Part::Function, "GPU reset succeeded", Part::Nothing),
    // the same, later: `GPU reset(2) succeeded!`
    row(Sign::Recovered, Part::Function, ") succeeded!", Part::Nothing),
    // drivers/net/ethernet/mellanox/mlx5/core/health.c mlx5_health_try_recover
    row(Sign::Recovered, Part::Function, "health recovery succeeded", Part::Nothing),
    // the same up to 5.15, as it is spelt there
    row(Sign::Recovered, Part::Function, "health revovery succeded", Part::Nothing),
    // drivers/pci/hotplug/pciehp_ctrl.c: the link was down for the length of a recovery
    row(Sign::Recovered, Part::Function, "Link Down/Up ignored", Part::Nothing),
    // drivers/pci/pcie/err.c pcie_do_recovery; up to 5.5 with a capital
    row(Sign::Recovered, Part::Function, "Device recovery successful", Part::Nothing),
    row(Sign::Recovered, Part::Function, "device recovery successful", Part::Nothing),
    // drivers/pci/pcie/aer.c aer_print_error
    row(Sign::Fatal, Part::Function, "PCIe Bus Error: severity=Uncorrectable (Fatal)", Part::Nothing),
    row(Sign::Fatal, Part::Function, "PCIe Bus Error: severity=Uncorrected (Fatal)", Part::Nothing),
    row(Sign::Uncorrected, Part::Function, "PCIe Bus Error: severity=Uncorrect", Part::Nothing),
    // drivers/pci/pcie/dpc.c dpc_process_error
    row(Sign::Contained, Part::Function, "DPC: containment event", Part::Nothing),
    // drivers/pci/hotplug/pciehp_ctrl.c
    row(Sign::LinkDown, Part::Function, "Link Down", Part::Nothing),
];

/// Recovery actions in the words of Xid 154 (open-gpu-kernel-modules 595.45.04, src/nvidia/src/kernel/gpu/gpu.c). That it asks
/// for nothing is printed as well, once it is over.
const ACTIONS: [(Recovery, &str); 6] = [
    (Recovery::Reboot, "Recover IMEX Domain"),
    (Recovery::ResetGpu, "GPU Reset Required"),
    (Recovery::Reboot, "Node Reboot Required"),
    (Recovery::Drain, "Drain P2P"),
    (Recovery::ResetGpu, "Drain and Reset"),
    (Recovery::None, "(None)"),
];

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Meaning.
    pub sign: Sign,
    /// The function that it is about.
    pub function: Option<PciAddress>,
    /// The module that it is about, as /sys/module spells it.
    pub module: Option<String>,
    /// The number of an Xid or SXid.
    pub number: Option<u32>,
    /// The version that a program of NVIDIA's has, where another one is loaded.
    pub version: Option<String>,
    /// The recovery that a GPU asks for in words.
    pub action: Option<Recovery>,
    /// The line, of the kernel's own words.
    pub text: String,
}

/// What a line means here; `None`: nothing.
pub fn said(line: &str) -> Option<Said> {
    ROWS.iter().find_map(|row| row.said(line))
}

/// Modules that a log complains of.
pub fn modules(log: &KernelLog) -> BTreeSet<String> {
    log.lines.iter().filter_map(|line| said(&line.text)?.module).collect()
}

/// Of a line what is kept: of one that means something here, and of a complaint about the command line.
pub fn kept(line: &str) -> Option<String> {
    let complaint = complaint::parts(line).map(|parts| parts.to_string());
    complaint.or_else(|| said(line).map(|said| said.text))
}

impl Row {
    fn said(&self, line: &str) -> Option<Said> {
        let (before, rest) = line.split_once(self.text)?;
        let mut said = Said {
            sign: self.sign,
            function: None,
            module: None,
            number: None,
            version: None,
            action: None,
            text: self.text.to_owned(),
        };
        match self.before {
            Part::Function => {
                let at = addresses(before).last()?;
                said.function = Some(at);
                said.text.insert_str(0, &format!("{at}: "));
            }
            Part::Name => {
                let name = before.rsplit(' ').next().filter(|name| is_name(name))?;
                said.module = Some(name.replace('-', "_"));
                said.text.insert_str(0, name);
            }
            Part::Nothing | Part::Number | Part::Xid | Part::SXid | Part::Error => {}
        }
        match self.after {
            Part::Nothing => {}
            Part::Function => {
                let at = addresses(rest).next()?;
                said.function = Some(at);
                said.text.push_str(&at.to_string());
            }
            Part::Name => {
                let name = word(rest, |c| c.is_ascii_alphanumeric() || "_-.".contains(c))?;
                said.text.push_str(name);
            }
            Part::Number => {
                let number = word(rest, |c| c.is_ascii_digit() || c == '.')?;
                said.version = (self.sign == Sign::ApiMismatch).then(|| number.to_owned());
                said.text.push_str(number);
            }
            Part::Xid => said.xid(rest)?,
            Part::SXid => said.sxid(rest)?,
            Part::Error => said.text.push_str(rest.find("ERROR").map(|_| "ERROR")?),
        }
        Some(said)
    }
}

impl Said {
    /// `0000:18:00): 79, pid=…`.
    fn xid(&mut self, rest: &str) -> Option<()> {
        let (at, rest) = rest.split_once("): ")?;
        let at = addresses(at).next()?;
        let number = word(rest, |c| c.is_ascii_digit())?.parse().ok()?;
        self.sign = match number {
            xid::OFF_THE_BUS => Sign::OffTheBus,
            number if xid::is_of_a_program(number) => return None,
            _ => Sign::Xid,
        };
        self.function = Some(at);
        self.number = Some(number);
        self.text.push_str(&format!("{at}): {number}"));
        if xid::OF_NVLINK5.contains(&number) && rest.contains("Nonfatal") {
            self.action = Some(Recovery::None);
            self.text.push_str(", Nonfatal");
        }
        // `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`
        if number == xid::ACTION {
            let (action, words) = ACTIONS.iter().find(|(_, words)| {
                rest.rsplit_once(" to ").is_some_and(|(_, to)| to.contains(words))
            })?;
            self.action = Some(*action);
            if *action == Recovery::None {
                self.sign = Sign::Recovered;
            }
            self.text.push_str(&format!(", GPU recovery action changed to ({words})"));
        }
        Some(())
    }

    /// `0000:ab:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error`.
    fn sxid(&mut self, rest: &str) -> Option<()> {
        let (at, rest) = rest.split_once("): ")?;
        let at = addresses(at).next()?;
        let number = word(rest, |c| c.is_ascii_digit())?.parse().ok()?;
        let is_fatal = rest.contains(", Fatal");
        self.sign = if is_fatal { Sign::SwitchFatal } else { Sign::Switch };
        self.function = Some(at);
        self.number = Some(number);
        let severity = if is_fatal { "Fatal" } else { "Non-fatal" };
        self.text.push_str(&format!("{at}): {number}, {severity}"));
        Some(())
    }

    /// Recovery action.
    pub fn recovery(&self) -> Recovery {
        match (self.sign, self.action, self.number.and_then(xid::find)) {
            (_, Some(action), _) => action,
            (Sign::Xid | Sign::OffTheBus, None, Some(xid)) => xid.recovery,
            (sign, ..) => sign.recovery(),
        }
    }
}

/// The characters at the start that are such; none is no word, nor is anything longer than a name.
fn word(text: &str, is_such: impl Fn(char) -> bool) -> Option<&str> {
    let word = &text[..text.find(|c| !is_such(c)).unwrap_or(text.len())];
    (!word.is_empty() && word.len() <= 64 && crate::mask::identity::places(word).is_empty())
        .then_some(word)
}

/// PCI functions in a text; a device without its function is its function 0.
fn addresses(text: &str) -> impl Iterator<Item = PciAddress> {
    let words = text.split(|c: char| !(c.is_ascii_hexdigit() || ":.".contains(c)));
    words.filter_map(|word| {
        let word = word.trim_matches([':', '.']);
        let device = || (word.matches(':').count() == 2).then(|| format!("{word}.0"))?.parse().ok();
        word.parse().ok().or_else(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's words, one a row of the table, in its order; what they are about, and what is kept.
    const SAID: &[(&str, &str)] = &[
        ("DMAR: Intel(R) Virtualization Technology for Directed I/O", ""),
        ("AMD-Vi: Interrupt remapping enabled", ""),
        (
            "AMD-Vi: Extended features (0x246577efa2254afa, 0x0): PPR NX GT",
            "AMD-Vi: Extended features ",
        ),
        ("DMAR: IOMMU enabled", ""),
        (
            "[Firmware Bug]: Your BIOS is broken; DMAR reported at address fed90000 returns all ones!",
            "Your BIOS is broken; DMAR reported at address",
        ),
        (
            "DMAR: dmar0: Translation already enabled - trying to copy translation structures",
            "Translation already enabled - trying to copy translation structures",
        ),
        (
            "DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0xffd00000 [fault reason 0x05] PTE Write access is not set",
            "DMAR: [DMA Write NO_PASID] Request device [0000:18:00.0",
        ),
        (
            "DMAR: [DMA Read NO_PASID] Request device [18:00.0] fault addr 0x0",
            "DMAR: [DMA Read NO_PASID] Request device [0000:18:00.0",
        ),
        (
            "DMAR: [DMA Write] Request device [18:00.0] PASID ffffffff fault addr 0",
            "DMAR: [DMA Write] Request device [0000:18:00.0",
        ),
        (
            "DMAR: [DMA Read] Request device [18:00.0] fault addr 0",
            "DMAR: [DMA Read] Request device [0000:18:00.0",
        ),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:18:00.0 domain=0x0000 address=0x1]",
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:18:00.0",
        ),
        (
            "nvidia 0000:18:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000e]",
            "0000:18:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT",
        ),
        (
            "arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: 0009:01:00.0 sid: 0x10000",
            "event: F_TRANSLATION client: 0009:01:00.0",
        ),
        ("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client", ""),
        (
            "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
            "nvidia_peermem: Unknown symbol ib_register_peer_memory_client",
        ),
        (
            "mlx5_core: version magic '6.8.0-41-generic SMP' should be '6.8.0-45-generic SMP'",
            "mlx5_core: version magic '",
        ),
        ("Module nvidia_peermem is blacklisted", "nvidia_peermem is blacklisted"),
        ("Loading of unsigned module is rejected", ""),
        ("Loading of module with unavailable key is rejected", ""),
        ("nvidia: unknown parameter 'NVreg_Foo' ignored", "nvidia: unknown parameter 'NVreg_Foo"),
        (
            "NVRM: API mismatch: the client has the version 570.133.20, but",
            "NVRM: API mismatch: the client has the version 570.133.20",
        ),
        (
            "NVRM: API mismatch: the client has version 570.133.20 but",
            "NVRM: API mismatch: the client has version 570.133.20",
        ),
        (
            "NVRM: The NVIDIA probe routine was not called for 8 device(s).",
            "NVRM: The NVIDIA probe routine was not called for 8",
        ),
        (
            "NVRM: The NVIDIA probe routine failed for 1 device(s).",
            "NVRM: The NVIDIA probe routine failed for 1",
        ),
        (
            "NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0x40:1860)",
            "0000:18:00.0: RmInitAdapter failed!",
        ),
        ("nvidia-peermem nv_mem_client_init:486 ERROR cannot register", "nvidia-peermem ERROR"),
        (
            "NVRM: Xid (PCI:0000:18:00): 119, pid=4711, name=secret, Timeout",
            "NVRM: Xid (PCI:0000:18:00.0): 119",
        ),
        (
            "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
            "0000:18:00.0: GPU has fallen off the bus",
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:ab:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
            "SXid (PCI:0000:ab:00.0): 12028, Non-fatal",
        ),
        (
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.82.07",
            "NVRM: loading NVIDIA UNIX",
        ),
        ("nvidia 0000:18:00.0: enabling device (0140 -> 0142)", "0000:18:00.0: enabling device ("),
        (
            "amdgpu 0000:18:00.0: amdgpu: GPU reset succeeded, trying to resume",
            "0000:18:00.0: GPU reset succeeded",
        ),
        ("amdgpu 0000:18:00.0: amdgpu: GPU reset(2) succeeded!", "0000:18:00.0: ) succeeded!"),
        (
            "mlx5_core 0000:19:00.0: mlx5_health_try_recover:350:(pid 7): health recovery succeeded",
            "0000:19:00.0: health recovery succeeded",
        ),
        (
            "mlx5_core 0000:19:00.0: health revovery succeded",
            "0000:19:00.0: health revovery succeded",
        ),
        (
            "pcieport 0000:17:01.0: pciehp: Slot(12): Link Down/Up ignored (recovered by DPC)",
            "0000:17:01.0: Link Down/Up ignored",
        ),
        (
            "pcieport 0000:17:01.0: AER: Device recovery successful",
            "0000:17:01.0: Device recovery successful",
        ),
        (
            "pcieport 0000:17:01.0: AER: device recovery successful",
            "0000:17:01.0: device recovery successful",
        ),
        (
            "nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
            "0000:18:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal)",
        ),
        (
            "nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=0000",
            "0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Fatal)",
        ),
        (
            "nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer",
            "0000:18:00.0: PCIe Bus Error: severity=Uncorrect",
        ),
        (
            "pcieport 0000:17:01.0: DPC: containment event, status:0x1f01 source:0x0000",
            "0000:17:01.0: DPC: containment event",
        ),
        ("pcieport 0000:17:01.0: pciehp: Slot(12): Link Down", "0000:17:01.0: Link Down"),
    ];

    #[test]
    fn every_row_is_understood_and_what_is_kept_says_the_same() {
        assert_eq!(SAID.len(), ROWS.len());
        for ((line, rest), row) in SAID.iter().zip(ROWS) {
            let found = said(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(found.sign, row.sign, "{line}");
            assert_eq!(found.text, if rest.is_empty() { *line } else { *rest });
            assert_eq!(said(&found.text).as_ref(), Some(&found), "{line}");
        }
    }

    #[test]
    fn a_gpu_that_is_gone_is_told_from_a_program_that_failed() {
        let gone =
            said("NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.").unwrap();
        assert_eq!(
            (gone.sign, gone.text.as_str()),
            (Sign::OffTheBus, "NVRM: Xid (PCI:0000:18:00.0): 79")
        );
        assert_eq!(said("NVRM: Xid (PCI:0000:18:00): 31, pid=1, name=python, MMU Fault"), None);
    }

    #[test]
    fn nothing_else_of_a_log_is_kept() {
        for line in [
            "Command line: ro token=hunter2 DMAR: Unknown option - 'x'",
            "Module hunter2 was loaded",
            "audit: hunter2: disagrees",
            "hun/ter2: disagrees about version of symbol x",
            "PCIe Bus Error: severity=Corrected",
            "NVRM: Xid (PCI:x): 79",
            "",
        ] {
            assert_eq!(kept(line), None, "{line}");
        }
        let said = kept("init: \u{1b}[31mhunter2 nvidia: Unknown symbol foo\u{1b}[0m (err -2)");
        assert_eq!(said.as_deref(), Some("nvidia: Unknown symbol foo"));
        let listed =
            "Unknown kernel command line parameters \"splash x=1\", will be passed to user space.";
        let short = "Unknown kernel command line parameters \"splash x=1\"";
        assert_eq!(kept(listed).as_deref(), Some(short));
    }
}
