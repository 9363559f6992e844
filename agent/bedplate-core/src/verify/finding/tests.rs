//! Codes of every area, one of each.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::kind::modules::DmabufObstacle;
use crate::plan::{KindId, Subject};
use crate::verify::IneffectiveArgument;
use bedplate_base::Arch;
use bedplate_facts::cufile::Problem;
use bedplate_facts::kernel_log::MessageKind;

fn functions() -> Vec<PciAddress> {
    ["0000:18:00.0", "0000:2a:00.0"].map(|address| address.parse().unwrap()).to_vec()
}

fn function() -> PciAddress {
    functions()[0]
}

fn device(kind: DeviceKind) -> Device {
    Device { kind, function: function(), name: None }
}

fn gpu() -> Device {
    device(DeviceKind::Gpu)
}

fn nic() -> Device {
    device(DeviceKind::Nic)
}

fn text() -> String {
    "x".to_owned()
}

fn subject() -> Subject {
    serde_json::from_value(serde_json::json!({ "subject": "port 0000:18:00.0" })).unwrap()
}

fn acs() -> Vec<AcsFinding> {
    let (ports, nics) = (functions(), functions());
    vec![
        AcsFinding::Redirected { detoured: 1, pairs: 2, ports: ports.clone() },
        AcsFinding::RedirectedForGuests { detoured: 1, pairs: 2, ports: ports.clone() },
        AcsFinding::LinuxBitsOff { ports: ports.clone() },
        AcsFinding::DtOff { ports: ports.clone() },
        AcsFinding::AcsBitsDiffer { ports },
        AcsFinding::GuestExposed { port: subject(), reason: text(), fix: text() },
        AcsFinding::GroupsApart { gpu: function(), function: function() },
        AcsFinding::NoAts { function: function() },
        AcsFinding::AtsNeedless { nics: nics.clone() },
        AcsFinding::AtsOffForGuest { nics },
    ]
}

fn command_line() -> Vec<CommandLineFinding> {
    let suspect = IneffectiveArgument {
        argument: text(),
        lint: "no-such-argument",
        message: text(),
        fix: text(),
    };
    vec![
        CommandLineFinding::CommandLinesDiffer {
            not_in_entry: vec![],
            added: vec![text()],
            removed: vec![],
            entry_is_sound: true,
        },
        CommandLineFinding::BootEntryUnsound { faults: 1, reason: text(), fix: text() },
        CommandLineFinding::HarmfulArgument { arguments: vec![suspect.clone(), suspect] },
        CommandLineFinding::ArgumentRefused { argument: text(), passed_on: false },
    ]
}

fn devices() -> Vec<DeviceFinding> {
    vec![
        DeviceFinding::NoAnswer { device: gpu() },
        DeviceFinding::BusMasterOff { device: device(DeviceKind::Port) },
        DeviceFinding::FewerDevices { kind: DeviceKind::Nic, root: function(), found: 1, usual: 2 },
        DeviceFinding::NoDevices { kind: DeviceKind::Gpu, function_count: 9, guests: 1 },
        DeviceFinding::NoDataDirect { device: nic() },
        DeviceFinding::DataDirectUnbound { device: device(DeviceKind::DataDirect), driver: None },
    ]
}

fn fabric() -> Vec<FabricFinding> {
    let cause = FabricCause::NoUmad;
    vec![
        FabricFinding::FabricManagerDown { kind: DeviceKind::NvSwitch, count: 4, cause },
        FabricFinding::NvlsmDown { gpus: 8, cause },
        FabricFinding::ImexDown,
        FabricFinding::ImexNodes { path: text(), times: 2 },
        FabricFinding::NoImexChannel,
    ]
}

fn firmware() -> Vec<FirmwareFinding> {
    let gpus = functions();
    vec![
        FirmwareFinding::NoIommuInFirmware { functions: functions(), arch: Some(Arch::X86_64) },
        FirmwareFinding::WindowWithoutAddress { gpus: gpus.clone() },
        FirmwareFinding::WindowDropped { gpus: gpus.clone() },
        FirmwareFinding::WindowBelow4Gib { gpus: gpus.clone() },
        FirmwareFinding::WindowSmall { device: gpu(), bytes: 1, by_design: 2, display_mode: false },
        FirmwareFinding::WindowResizable { gpus: gpus.clone() },
        FirmwareFinding::WindowDoubtful { gpus },
        FirmwareFinding::NoWindowForVfs { nics: functions() },
        FirmwareFinding::NoAriForwarding { ports: functions() },
        FirmwareFinding::NoNumaNode { functions: functions(), arch: Some(Arch::Aarch64) },
    ]
}

fn iommu() -> Vec<IommuFinding> {
    let carriers = Carriers { gpus: functions(), ..Carriers::default() };
    vec![
        IommuFinding::IommuOffWithGuests { off_by: Some(text()), function_count: 2 },
        IommuFinding::DmaTranslated { carriers: carriers.clone(), mixed: true },
        IommuFinding::DmaPassesThrough { carriers },
        IommuFinding::NoSva { gpus: functions() },
        IommuFinding::PasidsRefused { gpus: functions() },
        refused_dma(functions(), false),
    ]
}

fn refused_dma(functions: Vec<PciAddress>, needs_translation: bool) -> IommuFinding {
    IommuFinding::IommuLog { event: MessageKind::DmaFault, functions, lines: 2, needs_translation }
}

fn limits() -> Vec<LimitsFinding> {
    let services = vec!["slurmd"];
    vec![
        LimitsFinding::MemlockLimited { services: services.clone() },
        LimitsFinding::MemlockLimitedUnlessContainer { services },
        LimitsFinding::MemlockOfProcesses { services: vec!["slurmd"] },
        LimitsFinding::SessionMemlockLimited,
        LimitsFinding::NodeMissing { path: text(), kind: DeviceKind::Gpu },
        LimitsFinding::ShmNotMounted,
        LimitsFinding::ShmSmall { bytes: 1 << 26 },
        LimitsFinding::NumaBalancingOn { mode: 1 },
        LimitsFinding::PersistencedDown,
    ]
}

fn links() -> Vec<PcieLinkFinding> {
    vec![
        PcieLinkFinding::LinkNarrow { device: gpu(), lanes: Some(8), best: None },
        PcieLinkFinding::LinkSlow { device: gpu(), speed: Some(160), best: Some(320) },
        PcieLinkFinding::SlotNarrow { functions: functions() },
        PcieLinkFinding::SlotSlow { functions: functions() },
        PcieLinkFinding::AerErrors { device: gpu(), fatal: 1, nonfatal: 0, corrected: 0 },
    ]
}

fn modules() -> Vec<ModulesFinding> {
    let (gpus, obstacle) = (functions(), DmabufObstacle::ProprietaryModules);
    vec![
        ModulesFinding::WrongDriver { gpus: gpus.clone(), vendor: GpuVendor::Nvidia, driver: None },
        ModulesFinding::WrongKernelModules { gpus: gpus.clone(), needs: ModuleKind::Open },
        ModulesFinding::KernelOptionMissing { option: text() },
        ModulesFinding::PeersRefused { value: 2, path: None },
        ModulesFinding::NoNvidiaDriver,
        ModulesFinding::PeermemNotLoaded { obstacle: obstacle.clone() },
        ModulesFinding::NoWayToRegister { obstacle },
        ModulesFinding::NvPeerMemLoaded,
        ModulesFinding::NvPeerMemListed { module: text(), path: text() },
        ModulesFinding::DriverVersions { library: text(), module: text() },
        ModulesFinding::GspFirmwareMissing { gpus, file: text(), driver: text() },
    ]
}

fn pcie() -> Vec<PcieFinding> {
    let (gpu, peer, switch) = (function(), function(), function());
    vec![
        PcieFinding::PayloadDiffers { functions: functions() },
        PcieFinding::PayloadDiffersOnPath { gpu, peer, switch },
        PcieFinding::ReadRequestsSmall { nics: functions() },
        PcieFinding::RelaxedOrderingOff { nics: functions() },
    ]
}

fn profile() -> Vec<ProfileFinding> {
    vec![
        ProfileFinding::ProfileUnusable,
        ProfileFinding::ProfileBlocked {
            profile: text(),
            setting: KindId::Acs,
            subject: subject(),
            reason: text(),
            fix: text(),
        },
        ProfileFinding::NotInEffect { setting: KindId::Acs, profile: text(), changes: Some(1) },
        ProfileFinding::ProfileWaitsForReboot { profile: text() },
        ProfileFinding::ChangeInterrupted { files: vec![text()] },
        ProfileFinding::ProfileNotInImage,
        ProfileFinding::AgentObserves,
        ProfileFinding::Overridden { settings: vec![text()] },
        ProfileFinding::ToolsPending { commands: vec![text()] },
        ProfileFinding::UnitsDisabled { units: vec![text()] },
    ]
}

fn rdma() -> Vec<RdmaFinding> {
    let tally = vec![Tally { value: text(), ports: 2 }];
    let state = text();
    vec![
        RdmaFinding::NoRdmaDevice { device: nic(), driver: None },
        RdmaFinding::NoActivePort { ports: 2 },
        RdmaFinding::PortNotActive { port: text(), function: function(), state },
        RdmaFinding::PortSlow {
            port: text(),
            function: function(),
            rate: text(),
            rates: tally.clone(),
        },
        RdmaFinding::FewerPorts { device: nic(), active: 1, usual: 2 },
        RdmaFinding::LinkLayersDiffer { link_layers: tally },
        RdmaFinding::MixedNames { kernel: vec![text()], others: vec![text()] },
    ]
}

fn roce() -> Vec<RoceFinding> {
    let (port, interface) = (text(), text());
    let tally = vec![PfcTally { mask: 8, ports: 2 }];
    vec![
        RoceFinding::NoGid { port: port.clone() },
        RoceFinding::GidLinkLocal { port: port.clone() },
        RoceFinding::InterfaceDown { port: port.clone(), interface: interface.clone() },
        RoceFinding::NoInterface { port: port.clone() },
        RoceFinding::MtuSmall { port: port.clone(), interface: interface.clone(), mtu: None },
        RoceFinding::PfcDiffers { tally, interface: interface.clone() },
        RoceFinding::PfcOff { ports: 2 },
        RoceFinding::PfcNotOnRocePriority {
            port: port.clone(),
            priority: 3,
            mask: 1,
            dscp: Some(26),
            conf: "/etc/nccl.conf",
        },
        RoceFinding::EcnOff { port, interface, priority: 3 },
    ]
}

fn sriov() -> Vec<SriovFinding> {
    vec![
        SriovFinding::VfsGone { pfs: functions() },
        SriovFinding::VfWithoutDriver { vfs: functions() },
        SriovFinding::VfWithoutRdma { vfs: functions() },
        SriovFinding::VfWaitsForDriver { vfs: functions() },
        SriovFinding::AddressesEqual { functions: functions() },
        SriovFinding::ZeroAddress { function: function() },
    ]
}

fn storage() -> Vec<StorageFinding> {
    vec![
        StorageFinding::CufileWouldFail,
        StorageFinding::NvidiaFsNeedsOpenModules { version: text() },
        StorageFinding::P2pdmaNeedsOpenModules { driver: text(), open: true },
        StorageFinding::P2pdmaWithoutDriver,
        StorageFinding::KernelWithoutP2pdma,
        StorageFinding::CufileInvalid { line: 3, problem: Problem::Syntax },
        StorageFinding::DiskRedirected { pairs: 1, of: 2, ports: functions() },
    ]
}

fn others() -> Vec<Finding> {
    let logged = LogFinding::Logged {
        event: MessageKind::Xid,
        device: Some(gpu()),
        module: None,
        number: Some(48),
        lines: 2,
        first: 1_500,
        over: false,
        recovery: Recovery::ResetGpu,
    };
    let off =
        NcclFinding::SwitchedOff { setting: text(), at: text(), what: text(), others: vec![] };
    vec![
        logged.into(),
        off.into(),
        HugePagesFinding::HugePagesShort { bytes: 1 << 21, found: 1, requested: 2 }.into(),
        TopologyFinding::NoNearNic { gpus: functions() }.into(),
        TopologyFinding::NodeWithoutNic { nodes: vec![1] }.into(),
        TopologyFinding::NicSharedUnevenly { nics: functions(), max: 2, min: 1 }.into(),
    ]
}

/// Returns one finding of each code.
fn all() -> Vec<Finding> {
    fn codes<T: Into<Finding>>(codes: Vec<T>) -> Vec<Finding> {
        codes.into_iter().map(Into::into).collect()
    }
    [
        codes(acs()),
        codes(command_line()),
        codes(devices()),
        codes(fabric()),
        codes(firmware()),
        codes(iommu()),
        codes(limits()),
        codes(links()),
        codes(modules()),
        codes(pcie()),
        codes(profile()),
        codes(rdma()),
        codes(roce()),
        codes(sriov()),
        codes(storage()),
        others(),
    ]
    .concat()
}

fn name(finding: &Finding) -> String {
    let json = serde_json::to_value(finding).unwrap();
    json["code"].as_str().unwrap().to_owned()
}

/// Collects the names of codes in a schema.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(name) = schema["properties"]["code"]["const"].as_str() {
        assert!(found.insert(name.to_owned()), "two codes {name}");
    }
    let below = match schema {
        Value::Object(object) => object.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    };
    below.into_iter().for_each(|schema| names(schema, found));
}

#[test]
fn every_finding_has_text_and_fix() {
    for finding in all() {
        let name = name(&finding);
        let words = format_findings(std::slice::from_ref(&finding));
        assert!(!words.is_empty() && !words.contains(['{', '}']), "{name}: {words}");
        match fix(std::slice::from_ref(&finding)) {
            Some((fix, _)) => {
                assert!(!fix.contains("{}") && !fix.contains("  "), "{fix}")
            }
            None => assert_eq!(name, "p2pdma-without-driver"),
        }
    }
}

#[test]
fn schema_lists_exactly_these_codes() {
    let mut wanted = BTreeSet::new();
    names(&serde_json::from_str(crate::documents::VERIFY_SCHEMA).unwrap(), &mut wanted);
    let found: BTreeSet<String> = all().iter().map(name).collect();
    assert_eq!(found, wanted);
}

#[test]
fn refused_dma_is_fixed_by_passthrough_unless_cpu_forbids_it() {
    let shown = |functions: Vec<PciAddress>, needs_translation| {
        let finding = [Finding::from(refused_dma(functions, needs_translation))];
        let (fix, in_profile) = fix(&finding).unwrap();
        (format_findings(&finding), fix, in_profile)
    };
    let (text, fix, in_profile) = shown(Vec::new(), false);
    assert_eq!(text, "the IOMMU refused DMA of a device that the log does not name (2 lines)");
    assert!(fix.starts_with("set [iommu] mode = \"passthrough\"") && in_profile, "{fix}");
    let (text, fix, in_profile) = shown(functions(), true);
    assert!(text.starts_with("the IOMMU refused DMA of 0000:") && text.ends_with("(2 lines)"));
    assert!(fix.starts_with("report it") && !in_profile, "{fix}");
}

#[test]
fn findings_with_equal_text_are_grouped() {
    let ats = |count: u8| -> Vec<Finding> {
        let function = |n| format!("0000:{n:02x}:00.0").parse().unwrap();
        (1..=count).map(|n| AcsFinding::NoAts { function: function(n) }.into()).collect()
    };
    assert_eq!(format_findings(&ats(1)), "NIC 0000:01:00.0: no ATS, in a switch for guests");
    let many = format_findings(&ats(6));
    assert!(many.contains("0000:04:00.0 and 2 more NICs: no ATS"), "{many}");
    let refused = |argument: &str, passed_on| {
        let argument = argument.to_owned();
        Finding::from(CommandLineFinding::ArgumentRefused { argument, passed_on })
    };
    let both = [refused("a", false), refused("b", true), refused("c", false)];
    assert_eq!(
        format_findings(&both),
        "the kernel rejected `a`, `c`; nothing in this kernel reads `b`"
    );
}
