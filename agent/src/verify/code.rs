//! Findings of checks for programs: doctor, reports and scripts go by codes and their parameters, never by words. The words of
//! a finding are made from its codes.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::imex;
use crate::kernel_log::{Sign, xid};
use crate::kind::some_of;
use crate::recovery::Recovery;
use crate::topology::link;
use crate::value::PciAddress;

/// Subjects that a finding names before it counts.
const FEW: usize = 4;

/// Kinds of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A GPU.
    Gpu,
    /// A NIC, or a VF of one.
    Nic,
    /// The DMA function of a NIC.
    DataDirect,
    /// A port or another bridge above one of them.
    Port,
    /// An NVSwitch.
    NvSwitch,
}

/// A device that a code is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Device {
    /// Its kind.
    pub kind: DeviceKind,
    /// Its function.
    pub function: PciAddress,
    /// Its usual name: `GPU3`, `mlx5_6`; `None`: a port, or a NIC without an RDMA device or interface.
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

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Code {
    /// A finding that its id says all of.
    Finding {
        /// Its id; within a check each means one thing.
        id: &'static str,
        /// The functions that it is about; none where it is about the host.
        functions: Vec<PciAddress>,
    },
    /// Every read of its config space gives ones.
    NoAnswer {
        /// The device.
        device: Device,
    },
    /// It may not issue requests, or forwards none upstream.
    BusMasterOff {
        /// The device.
        device: Device,
    },
    /// A switch has fewer GPUs or NICs below it than all others like it.
    FewerDevices {
        /// Kind of the missing device.
        kind: DeviceKind,
        /// The root port above the switch.
        root: PciAddress,
        /// How many are there.
        there: usize,
        /// How many the others have.
        usual: usize,
    },
    /// A ConnectX-8 without its Data Direct function.
    NoDataDirect {
        /// The NIC.
        device: Device,
    },
    /// A Data Direct function without its driver, mlx5_ib.
    DataDirectUnbound {
        /// The function.
        device: Device,
        /// The driver that has it; `None`: no driver.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
    /// The large window of a GPU is smaller than its model's.
    WindowSmall {
        /// The GPU.
        device: Device,
        /// Its size.
        bytes: u64,
        /// The size that its model has.
        by_design: u64,
    },
    /// A GPU and a Data Direct function between which the NVIDIA driver refuses DMA-BUF.
    GroupsApart {
        /// The GPU.
        gpu: PciAddress,
        /// The Data Direct function.
        function: PciAddress,
    },
    /// A NIC without an RDMA device.
    NoRdmaDevice {
        /// The NIC.
        device: Device,
        /// Its driver; `None`: it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
    },
    /// No port of the GPUs' NICs is active.
    NoActivePort,
    /// A port is not active.
    PortNotActive {
        /// `mlx5_0/1`.
        port: String,
        /// Its NIC.
        function: PciAddress,
        /// `1: DOWN`.
        state: String,
    },
    /// A port runs slower than others of its model.
    PortSlow {
        /// `mlx5_0/1`.
        port: String,
        /// Its NIC.
        function: PciAddress,
        /// `100 Gb/sec (4X EDR)`.
        rate: String,
    },
    /// A link with fewer lanes than both of its ends have.
    LinkNarrow {
        /// The device below it.
        device: Device,
        /// Lanes; `None`: not known.
        lanes: Option<u32>,
        /// Lanes that both ends have; `None`: not known.
        best: Option<u32>,
    },
    /// A link that runs slower than both of its ends can.
    LinkSlow {
        /// The device below it.
        device: Device,
        /// Tenths of GT/s; `None`: not known.
        speed: Option<u32>,
        /// Tenths of GT/s that both ends can; `None`: not known.
        best: Option<u32>,
    },
    /// Transactions that were lost since boot, or many that were sent again.
    AerErrors {
        /// The function that counted them.
        device: Device,
        /// Fatal errors.
        fatal: u64,
        /// Non-fatal uncorrected errors.
        nonfatal: u64,
        /// Corrected errors.
        corrected: u64,
    },
    /// A variable for all jobs switches off what they need.
    SwitchedOff {
        /// `NCCL_IB_DISABLE=1`.
        setting: String,
        /// `/etc/nccl.conf:3`.
        at: String,
        /// The feature that is left out.
        what: String,
    },
    /// NVSwitches that no fabric manager has set up.
    FabricManagerDown {
        /// NVSwitches, or the GPUs of a board where PCI shows none.
        kind: DeviceKind,
        /// How many there are.
        count: usize,
    },
    /// A board of B200 or B300 whose subnet manager of NVLink does not run.
    NvlsmDown {
        /// How many GPUs it has.
        gpus: usize,
    },
    /// The NVIDIA driver's library for programs is of another version than its kernel module.
    DriverVersions {
        /// Version of the library.
        library: String,
        /// Version of the kernel module.
        module: String,
    },
    /// IMEX is set up, and does not run.
    ImexDown,
    /// The list of an IMEX domain names this host never, or more than once.
    ImexNodes {
        /// The list.
        path: String,
        /// How often.
        times: usize,
    },
    /// IMEX is set up, and there is no channel by which a job could use it.
    NoImexChannel,
    /// The NVIDIA driver is set to let no peer reach GPU memory.
    PeersRefused,
    /// A device node is not there.
    NodeMissing {
        /// Path.
        path: String,
        /// Kind of its device.
        kind: DeviceKind,
    },
    /// A NIC has no ATS where guests need it.
    NoAts {
        /// The function.
        function: PciAddress,
    },
    /// A VF has an address of zeros.
    ZeroAddress {
        /// The function.
        function: PciAddress,
    },
    /// The profile asks for something that is not in effect.
    NotInEffect {
        /// The setting's kind: `acs`, `cmdline`, `modules`, `sriov` …
        setting: &'static str,
    },
    /// The kernel did not take an argument.
    ArgumentRefused {
        /// The argument.
        argument: String,
    },
    /// The kernel's log has a message that means something.
    Logged {
        /// Its meaning.
        sign: Sign,
        /// The device that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<Device>,
        /// The module that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        module: Option<String>,
        /// The number of an Xid or SXid.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
        /// How many lines say so.
        lines: usize,
        /// When the first did, in milliseconds since the boot.
        first: u64,
        /// Whether a later line, or what is there now, says that it is over.
        over: bool,
        /// Recovery action.
        recovery: Recovery,
    },
}

impl Code {
    /// Words without the subject; subjects with the same words are listed together.
    fn says(&self) -> &'static str {
        match self {
            Code::NoAnswer { .. } => "does not answer: its config space reads as all ones",
            Code::BusMasterOff { device: Device { kind: DeviceKind::Port, .. } } => {
                "bus mastering is off, so that the port forwards no request of the devices below"
            }
            Code::BusMasterOff { .. } => "bus mastering is off, so that the device may not do DMA",
            Code::FewerDevices { kind: DeviceKind::Gpu, .. } => {
                "fewer GPUs below its switch than below every other one like it"
            }
            Code::FewerDevices { .. } => {
                "fewer RDMA NICs below its switch than below every other one like it"
            }
            Code::NoDataDirect { .. } => "no Data Direct function",
            Code::DataDirectUnbound { .. } => "not bound to mlx5_ib",
            Code::WindowSmall { .. } => "a smaller memory window than its model has",
            Code::GroupsApart { .. } => {
                "in different IOMMU groups, so that the NVIDIA driver refuses DMA-BUF between them"
            }
            Code::NoRdmaDevice { driver: None, .. } => "no driver, and so no RDMA device",
            Code::NoRdmaDevice { .. } => "a driver, and no RDMA device",
            Code::NoActivePort => "none is active",
            Code::PortNotActive { .. } => "not active, in a NIC of the GPUs",
            Code::PortSlow { .. } => "slower than others of its model",
            Code::LinkNarrow { .. } => "fewer lanes than both ends of the link have",
            Code::LinkSlow { .. } => "the link runs slower than both ends can",
            Code::AerErrors { .. } => "PCIe errors since boot",
            // The subject says it all.
            Code::Finding { .. } | Code::SwitchedOff { .. } => "",
            Code::FabricManagerDown { .. } => {
                "no fabric manager runs, so that CUDA starts no program (error 802)"
            }
            Code::NvlsmDown { .. } => {
                "NVLSM does not run, which the fabric manager needs for these GPUs, so that CUDA starts no program (error 802)"
            }
            Code::DriverVersions { .. } => {
                "not one version, so that CUDA starts no program (error 803)"
            }
            Code::ImexDown => "set up, and does not run",
            Code::ImexNodes { times: 0, .. } => "does not name this host",
            Code::ImexNodes { .. } => "names this host more than once",
            Code::NoImexChannel => "no such device node",
            Code::PeersRefused => "is set to refuse peers",
            Code::NodeMissing { .. } => "no such device node",
            Code::NoAts { .. } => "no ATS, in a switch for guests",
            Code::ZeroAddress { .. } => "an address of zeros",
            Code::NotInEffect { .. } => "not in effect",
            Code::ArgumentRefused { .. } => "not taken by the kernel",
            Code::Logged { sign, over, .. } => logged(*sign, *over),
        }
    }

    fn subject(&self) -> String {
        match self {
            Code::Finding { id, .. } => (*id).to_owned(),
            Code::NoAnswer { device }
            | Code::BusMasterOff { device }
            | Code::NoDataDirect { device }
            | Code::WindowSmall { device, .. }
            | Code::DataDirectUnbound { device, .. }
            | Code::NoRdmaDevice { device, .. } => device.to_string(),
            Code::GroupsApart { gpu, function } => format!("GPU {gpu} and function {function}"),
            Code::FewerDevices { root, there, usual, .. } => {
                format!("root port {root} ({there} of {usual})")
            }
            Code::LinkNarrow { device, lanes, best } => {
                of_best(device, *lanes, *best, |lanes| format!("x{lanes}"))
            }
            Code::LinkSlow { device, speed, best } => {
                of_best(device, *speed, *best, link::in_words)
            }
            Code::AerErrors { device, .. } => device.to_string(),
            Code::NoActivePort => "ports of the GPUs' NICs".to_owned(),
            Code::PortNotActive { port, function, state } => format!("{port} {function} ({state})"),
            Code::PortSlow { port, function, rate } => format!("{port} {function} ({rate})"),
            Code::SwitchedOff { setting, at, what } => {
                format!("`{setting}` ({at}) leaves all jobs without {what}")
            }
            Code::FabricManagerDown { kind: DeviceKind::NvSwitch, count } => {
                plural(*count, "NVSwitch", "NVSwitches")
            }
            Code::FabricManagerDown { count, .. } | Code::NvlsmDown { gpus: count } => {
                plural(*count, "GPU", "GPUs")
            }
            Code::DriverVersions { library, module } => {
                format!("the NVIDIA driver's library {library} and its kernel module {module}")
            }
            Code::ImexDown => "IMEX".to_owned(),
            Code::ImexNodes { path, .. } => path.clone(),
            Code::NoImexChannel => format!("{}/channel0", imex::CHANNELS),
            Code::PeersRefused => "the NVIDIA driver".to_owned(),
            Code::NodeMissing { path, .. } => path.clone(),
            Code::NoAts { function } | Code::ZeroAddress { function } => format!("NIC {function}"),
            Code::NotInEffect { setting } => (*setting).to_owned(),
            Code::ArgumentRefused { argument } => format!("`{argument}`"),
            Code::Logged { sign, device, module, number, lines, first, .. } => {
                let device = device.as_ref().map(Device::to_string);
                let subject = device.or_else(|| module.clone());
                let subject = subject.unwrap_or_else(|| "the NVIDIA driver".to_owned());
                let xid = number.and_then(xid::find).filter(|xid| xid.number != xid::OFF_THE_BUS);
                let number = match (number, xid) {
                    (Some(number), Some(xid)) => format!("Xid {number}, {}; ", xid.means),
                    (Some(number), None) if matches!(sign, Sign::Switch | Sign::SwitchFatal) => {
                        format!("SXid {number}; ")
                    }
                    (Some(number), None) => format!("Xid {number}; "),
                    (None, _) => String::new(),
                };
                let since =
                    if *lines > 1 { format!("{lines} lines since") } else { "at".to_owned() };
                format!("{subject} ({number}{since} {}.{:03} s)", first / 1000, first % 1000)
            }
        }
    }

    /// Recovery action.
    pub fn recovery(&self) -> Recovery {
        match self {
            Code::NoAnswer { .. } => Recovery::PowerCycle,
            Code::Logged { over: true, .. } => Recovery::None,
            Code::Logged { recovery, .. } => *recovery,
            Code::FewerDevices { .. } => Recovery::PowerCycle,
            Code::GroupsApart { .. } | Code::WindowSmall { .. } | Code::DriverVersions { .. } => {
                Recovery::Reboot
            }
            Code::BusMasterOff { .. }
            | Code::NoDataDirect { .. }
            | Code::DataDirectUnbound { .. }
            | Code::NoRdmaDevice { .. }
            | Code::LinkNarrow { .. }
            | Code::LinkSlow { .. }
            | Code::AerErrors { .. }
            | Code::NoActivePort
            | Code::PortNotActive { .. }
            | Code::PortSlow { .. } => Recovery::Drain,
            Code::Finding { .. }
            | Code::SwitchedOff { .. }
            | Code::FabricManagerDown { .. }
            | Code::NvlsmDown { .. }
            | Code::ImexDown
            | Code::ImexNodes { .. }
            | Code::NoImexChannel
            | Code::PeersRefused
            | Code::NodeMissing { .. }
            | Code::NoAts { .. }
            | Code::ZeroAddress { .. }
            | Code::NotInEffect { .. }
            | Code::ArgumentRefused { .. } => Recovery::None,
        }
    }
}

/// `mlx5_6 0000:5d:00.0 (x8 of x16)`.
fn of_best(
    device: &Device,
    now: Option<u32>,
    best: Option<u32>,
    words: impl Fn(u32) -> String,
) -> String {
    let shown = |number: Option<u32>| number.map_or("?".to_owned(), &words);
    format!("{device} ({} of {})", shown(now), shown(best))
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A message of the kernel's log in words, without its subject.
fn logged(sign: Sign, over: bool) -> &'static str {
    match (sign, over) {
        (Sign::OffTheBus, false) => "fell off the bus",
        (Sign::OffTheBus, true) => "fell off the bus, and has been taken by its driver since",
        (Sign::Xid, false) => "reported an error of its own",
        (Sign::Xid, true) => "reported an error of its own, and has been reset since",
        (Sign::Switch | Sign::SwitchFatal, _) => "reported an error of its own",
        (Sign::Fatal | Sign::Uncorrected | Sign::Contained, false) => "uncorrected PCIe errors",
        (Sign::Fatal | Sign::Uncorrected | Sign::Contained, true) => {
            "uncorrected PCIe errors, recovered from"
        }
        (Sign::LinkDown, false) => "the link below went down",
        (Sign::LinkDown, true) => "the link below went down, and is up again",
        (Sign::NotTaken, false) => "did not take a GPU",
        (Sign::NotTaken, true) => "did not take a GPU at first",
        (Sign::ApiMismatch, false) => "libraries and kernel modules of different versions",
        (Sign::ApiMismatch, true) => "libraries of another version, before this one was loaded",
        (Sign::WrongBuild, _) => {
            "refused by the kernel: built for another kernel or another ib_core"
        }
        (Sign::KeptOut, _) => "not let in: blacklisted, or not signed for Secure Boot",
        (Sign::Peermem, _) => "nvidia_peermem reports errors",
        (Sign::WrongParameter, _) => "does not know a parameter that it was given",
        (
            Sign::IommuUp
            | Sign::IommuAsked
            | Sign::IommuFirmware
            | Sign::IommuCopied
            | Sign::DmaFault
            | Sign::Recovered
            | Sign::Bound,
            _,
        ) => "in the kernel's log",
    }
}

/// A finding in words, subjects with the same words together: `GPU3 0000:2b:00.0, GPU4 0000:3b:00.0: no answer …`.
pub fn words(codes: &[Code]) -> String {
    let mut said: Vec<(&str, Vec<String>)> = Vec::new();
    for code in codes {
        match said.iter_mut().find(|(says, _)| *says == code.says()) {
            Some((_, subjects)) => subjects.push(code.subject()),
            None => said.push((code.says(), vec![code.subject()])),
        }
    }
    let one = |(says, subjects): (&str, Vec<String>)| {
        let subjects = some_of(subjects.into_iter(), FEW, "of them");
        if says.is_empty() { subjects } else { format!("{subjects}: {says}") }
    };
    said.into_iter().map(one).collect::<Vec<_>>().join("; ")
}
