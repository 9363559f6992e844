//! Findings of checks in machine-readable form: doctor, reports and scripts use codes and their parameters, never the
//! text. The text and fix of a finding are generated from its codes, in one module for each area.

mod acs;
mod cmdline;
mod device;
mod fabric;
mod firmware;
mod hugepages;
mod iommu;
mod limits;
mod log;
mod modules;
mod nccl;
mod pcie;
mod pcie_link;
mod profile;
mod rdma;
mod roce;
mod sriov;
mod storage;
#[cfg(test)]
mod tests;
mod topology;

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::kind::some_of;
use bedplate_base::Recovery;
use bedplate_base::value::PciAddress;

pub(crate) use acs::AcsFinding;
pub(crate) use cmdline::CommandLineFinding;
pub(super) use cmdline::named as named_arguments;
pub(crate) use device::DeviceFinding;
pub(crate) use fabric::{FabricCause, FabricFinding};
pub(crate) use firmware::FirmwareFinding;
pub(crate) use hugepages::{HugePagesFinding, page_size};
pub(crate) use iommu::{Carriers, IommuFinding};
pub(crate) use limits::LimitsFinding;
pub(crate) use log::{LogFinding, is_severe};
pub(crate) use modules::{GpuVendor, ModuleKind, ModulesFinding, bind_driver};
pub(crate) use nccl::NcclFinding;
pub(crate) use pcie::PcieFinding;
pub(crate) use pcie_link::PcieLinkFinding;
pub(crate) use profile::ProfileFinding;
pub(crate) use rdma::{RdmaFinding, Tally};
pub(super) use rdma::{few_of, tally};
pub(super) use roce::class_fix;
pub(crate) use roce::{PfcTally, RoceFinding};
pub(crate) use sriov::SriovFinding;
pub(super) use storage::P2PDMA_DRIVER;
pub(crate) use storage::StorageFinding;
pub(crate) use topology::TopologyFinding;

/// Maximum number of subjects that a finding lists by name.
pub(super) const FEW: usize = 4;

/// Kinds of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A GPU.
    Gpu,
    /// A NIC, or a VF of one.
    Nic,
    /// The DMA function of a NIC.
    DataDirect,
    /// A port or another bridge above a device.
    Port,
    /// An NVSwitch.
    NvSwitch,
}

/// Device that a code is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Device {
    /// Kind.
    pub kind: DeviceKind,
    /// PCI function.
    pub function: PciAddress,
    /// Usual name: `GPU3`, `mlx5_6`. `None`: a port, or a NIC without an RDMA device or interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.kind) {
            (Some(name), _) => write!(f, "{name} {}", self.function),
            (None, DeviceKind::Gpu) => write!(f, "GPU {}", self.function),
            (None, DeviceKind::Nic) => write!(f, "NIC {}", self.function),
            (None, DeviceKind::DataDirect) => write!(f, "Data Direct function {}", self.function),
            (None, DeviceKind::NvSwitch) => write!(f, "NVSwitch {}", self.function),
            (None, DeviceKind::Port) => write!(f, "port {}", self.function),
        }
    }
}

/// Text and consequences of a finding.
struct FindingText {
    /// Text without the subject, which replaces `{}` or precedes the text and a colon. Empty: the subject is the whole
    /// text. Subjects with the same text are listed together.
    description: Cow<'static, str>,
    /// Subject; empty if the text is complete without it.
    subject: String,
    /// Fix, if this finding is the first; empty if there is no known one.
    fix: Cow<'static, str>,
    /// Whether the fix is a setting of the profile.
    in_profile: bool,
    /// Recovery action.
    recovery: Recovery,
    /// Maximum number of subjects listed by name.
    few: usize,
    /// Noun for the subjects beyond these: `and 6 more GPUs`.
    noun: &'static str,
}

/// Builds the text of a finding that needs no recovery action.
fn text(
    description: impl Into<Cow<'static, str>>,
    subject: impl fmt::Display,
    fix: impl Into<Cow<'static, str>>,
) -> FindingText {
    FindingText {
        description: description.into(),
        subject: subject.to_string(),
        fix: fix.into(),
        in_profile: false,
        recovery: Recovery::None,
        few: FEW,
        noun: "of them",
    }
}

/// Builds the text of a finding whose fix is a setting of the profile: `[acs] policy = "direct-p2p"`. `then` follows
/// `bedplate apply`: `, reboot`, or empty.
fn in_profile(
    description: impl Into<Cow<'static, str>>,
    subject: impl fmt::Display,
    setting: &str,
    then: &str,
) -> FindingText {
    let fix = setting_fix(setting, then);
    FindingText { in_profile: true, ..text(description, subject, fix) }
}

/// Formats the fix by a setting of the profile.
pub(super) fn setting_fix(setting: &str, then: &str) -> String {
    format!("set {setting} in the profile, run `bedplate apply`{then}")
}

impl FindingText {
    fn recovery(self, recovery: Recovery) -> Self {
        FindingText { recovery, ..self }
    }

    /// Lists `few` subjects by name and counts the rest as `noun`.
    fn listed(self, few: usize, noun: &'static str) -> Self {
        FindingText { few, noun, ..self }
    }
}

/// Defines [`Finding`] from its areas.
macro_rules! areas {
    ($($(#[$doc:meta])* $area:ident($findings:ident),)*) => {
        /// A finding of a check.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Code"))]
        #[serde(untagged)]
        pub enum Finding {
            $($(#[$doc])* $area($findings),)*
        }

        $(impl From<$findings> for Finding {
            fn from(finding: $findings) -> Self {
                Finding::$area(finding)
            }
        })*

        impl Finding {
            fn text(&self) -> FindingText {
                match self {
                    $(Finding::$area(finding) => finding.text(),)*
                }
            }
        }
    };
}

areas! {
    /// ACS, ATS and IOMMU groups.
    Acs(AcsFinding),
    /// The kernel command line.
    CommandLine(CommandLineFinding),
    /// A device.
    Device(DeviceFinding),
    /// Programs that set up NVLink.
    Fabric(FabricFinding),
    /// Settings of the firmware.
    Firmware(FirmwareFinding),
    /// Huge pages.
    HugePages(HugePagesFinding),
    /// The IOMMU.
    Iommu(IommuFinding),
    /// Limits of jobs.
    Limits(LimitsFinding),
    /// A PCIe link.
    Link(PcieLinkFinding),
    /// The kernel log.
    Log(LogFinding),
    /// Drivers and kernel modules.
    Modules(ModulesFinding),
    /// The configuration file of jobs' collective library.
    Nccl(NcclFinding),
    /// PCIe registers.
    Pcie(PcieFinding),
    /// The profile.
    Profile(ProfileFinding),
    /// RDMA devices and their ports.
    Rdma(RdmaFinding),
    /// RoCE.
    Roce(RoceFinding),
    /// Virtual functions.
    Sriov(SriovFinding),
    /// GPUDirect Storage.
    Storage(StorageFinding),
    /// Positions of GPUs and NICs relative to each other.
    Topology(TopologyFinding),
}

impl Finding {
    /// Returns the recovery action.
    pub fn recovery(&self) -> Recovery {
        self.text().recovery
    }
}

/// Formats findings, with subjects of the same text together: `GPU3 0000:2b:00.0, GPU4 0000:3b:00.0: no answer …`.
pub(crate) fn format_findings(findings: &[Finding]) -> String {
    let mut found: Vec<(FindingText, Vec<String>)> = Vec::new();
    for mut text in findings.iter().map(Finding::text) {
        let subject = std::mem::take(&mut text.subject);
        match found.iter_mut().find(|(same, _)| same.description == text.description) {
            Some((_, subjects)) => subjects.push(subject),
            None => found.push((text, vec![subject])),
        }
    }
    let one = |(text, mut subjects): (FindingText, Vec<String>)| {
        subjects.retain(|subject| !subject.is_empty());
        let subjects = some_of(subjects.into_iter(), text.few, text.noun);
        let says = text.description;
        match (subjects.is_empty(), says.is_empty()) {
            (true, _) => says.into_owned(),
            (_, true) => subjects,
            _ if says.contains("{}") => says.replacen("{}", &subjects, 1),
            _ => format!("{subjects}: {says}"),
        }
    };
    found.into_iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Returns the fix of the first finding, and whether it is a setting of the profile.
pub(crate) fn fix(findings: &[Finding]) -> Option<(String, bool)> {
    let FindingText { fix, in_profile, .. } = findings.first()?.text();
    (!fix.is_empty()).then(|| (fix.into_owned(), in_profile))
}

/// Formats the functions: `0000:18:00.0, 0000:3b:00.0 and 6 more GPUs`.
pub(super) fn named(functions: &[PciAddress], what: &str) -> String {
    some_of(functions.iter().map(PciAddress::to_string), FEW, what)
}

/// Returns the first function, for a command; empty if there is no function.
fn first(functions: &[PciAddress]) -> String {
    functions.first().map(PciAddress::to_string).unwrap_or_default()
}

/// Formats a size: `128 GiB`, `32 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => {
            format!("{} GiB", bytes >> 30)
        }
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}
