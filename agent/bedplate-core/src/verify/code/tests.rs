//! Codes of every area, one of each.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::kind::modules::DmabufObstacle;
use crate::plan::Subject;
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

fn acs() -> Vec<AcsCode> {
    let (ports, nics) = (functions(), functions());
    vec![
        AcsCode::Redirected { detoured: 1, pairs: 2, ports: ports.clone() },
        AcsCode::RedirectedForGuests { detoured: 1, pairs: 2, ports: ports.clone() },
        AcsCode::LinuxBitsOff { ports: ports.clone() },
        AcsCode::DtOff { ports: ports.clone() },
        AcsCode::AcsBitsDiffer { ports },
        AcsCode::GuestExposed { port: subject(), reason: text(), remedy: text() },
        AcsCode::GroupsApart { gpu: function(), function: function() },
        AcsCode::NoAts { function: function() },
        AcsCode::AtsNeedless { nics: nics.clone() },
        AcsCode::AtsOffForGuest { nics },
    ]
}

fn command_line() -> Vec<CommandLineCode> {
    let suspect = IneffectiveArgument {
        argument: text(),
        lint: "no-such-argument",
        message: text(),
        remedy: text(),
    };
    vec![
        CommandLineCode::CommandLinesDiffer {
            not_in_entry: vec![],
            added: vec![text()],
            removed: vec![],
            entry_is_sound: true,
        },
        CommandLineCode::BootEntryUnsound { faults: 1, reason: text(), remedy: text() },
        CommandLineCode::HarmfulArgument { arguments: vec![suspect.clone(), suspect] },
        CommandLineCode::ArgumentRefused { argument: text(), passed_on: false },
    ]
}

fn devices() -> Vec<DeviceCode> {
    vec![
        DeviceCode::NoAnswer { device: gpu() },
        DeviceCode::BusMasterOff { device: device(DeviceKind::Port) },
        DeviceCode::FewerDevices { kind: DeviceKind::Nic, root: function(), there: 1, usual: 2 },
        DeviceCode::NoDevices { kind: DeviceKind::Gpu, function_count: 9, guests: 1 },
        DeviceCode::NoDataDirect { device: nic() },
        DeviceCode::DataDirectUnbound { device: device(DeviceKind::DataDirect), driver: None },
    ]
}

fn fabric() -> Vec<FabricCode> {
    let cause = FabricCause::NoUmad;
    vec![
        FabricCode::FabricManagerDown { kind: DeviceKind::NvSwitch, count: 4, cause },
        FabricCode::NvlsmDown { gpus: 8, cause },
        FabricCode::ImexDown,
        FabricCode::ImexNodes { path: text(), times: 2 },
        FabricCode::NoImexChannel,
    ]
}

fn firmware() -> Vec<FirmwareCode> {
    let gpus = functions();
    vec![
        FirmwareCode::NoIommuInFirmware { functions: functions(), arch: Some(Arch::X86_64) },
        FirmwareCode::WindowWithoutAddress { gpus: gpus.clone() },
        FirmwareCode::WindowDropped { gpus: gpus.clone() },
        FirmwareCode::WindowBelow4Gib { gpus: gpus.clone() },
        FirmwareCode::WindowSmall { device: gpu(), bytes: 1, by_design: 2, display_mode: false },
        FirmwareCode::WindowResizable { gpus: gpus.clone() },
        FirmwareCode::WindowDoubtful { gpus },
        FirmwareCode::NoWindowForVfs { nics: functions() },
        FirmwareCode::NoAriForwarding { ports: functions() },
        FirmwareCode::NoNumaNode { functions: functions() },
    ]
}

fn iommu() -> Vec<IommuCode> {
    let carriers = Carriers { gpus: functions(), ..Carriers::default() };
    vec![
        IommuCode::IommuOffWithGuests { off_by: Some(text()), function_count: 2 },
        IommuCode::DmaTranslated { carriers: carriers.clone(), mixed: true },
        IommuCode::DmaPassesThrough { carriers },
        IommuCode::IommuLog { sign: MessageKind::DmaFault, functions: functions(), lines: 2 },
    ]
}

fn limits() -> Vec<LimitsCode> {
    let services = vec!["slurmd"];
    vec![
        LimitsCode::MemlockLimited { services: services.clone() },
        LimitsCode::MemlockLimitedUnlessContainer { services },
        LimitsCode::SessionMemlockLimited,
        LimitsCode::NodeMissing { path: text(), kind: DeviceKind::Gpu },
        LimitsCode::ShmNotMounted,
        LimitsCode::ShmSmall { bytes: 1 << 26 },
        LimitsCode::NumaBalancingOn { mode: 1 },
        LimitsCode::PersistencedDown,
    ]
}

fn links() -> Vec<LinkCode> {
    vec![
        LinkCode::LinkNarrow { device: gpu(), lanes: Some(8), best: None },
        LinkCode::LinkSlow { device: gpu(), speed: Some(160), best: Some(320) },
        LinkCode::SlotNarrow { functions: functions() },
        LinkCode::SlotSlow { functions: functions() },
        LinkCode::AerErrors { device: gpu(), fatal: 1, nonfatal: 0, corrected: 0 },
    ]
}

fn modules() -> Vec<ModulesCode> {
    let (gpus, obstacle) = (functions(), DmabufObstacle::ProprietaryModules);
    vec![
        ModulesCode::WrongDriver { gpus: gpus.clone(), maker: Maker::Nvidia, driver: None },
        ModulesCode::WrongKernelModules { gpus: gpus.clone(), needs: ModuleKind::Open },
        ModulesCode::KernelOptionMissing { option: text() },
        ModulesCode::PeersRefused { value: 2, path: None },
        ModulesCode::NoNvidiaDriver,
        ModulesCode::PeermemNotLoaded { obstacle: obstacle.clone() },
        ModulesCode::NoWayToRegister { obstacle },
        ModulesCode::NvPeerMemLoaded,
        ModulesCode::NvPeerMemListed { module: text(), path: text() },
        ModulesCode::DriverVersions { library: text(), module: text() },
        ModulesCode::GspFirmwareMissing { gpus, file: text(), driver: text() },
    ]
}

fn pcie() -> Vec<PcieCode> {
    let (gpu, peer, switch) = (function(), function(), function());
    vec![
        PcieCode::PayloadDiffers { functions: functions() },
        PcieCode::PayloadDiffersOnPath { gpu, peer, switch },
        PcieCode::ReadRequestsSmall { nics: functions() },
        PcieCode::RelaxedOrderingOff { nics: functions() },
    ]
}

fn profile() -> Vec<ProfileCode> {
    vec![
        ProfileCode::ProfileUnusable,
        ProfileCode::ProfileBlocked {
            profile: text(),
            setting: "acs",
            subject: subject(),
            reason: text(),
            remedy: text(),
        },
        ProfileCode::NotInEffect { setting: "acs", profile: text(), changes: Some(1) },
        ProfileCode::ProfileWaitsForReboot { profile: text() },
        ProfileCode::ChangeInterrupted { files: vec![text()] },
        ProfileCode::ProfileNotInImage,
        ProfileCode::AgentObserves,
        ProfileCode::Overruled { settings: vec![text()] },
        ProfileCode::ToolsOwed { commands: vec![text()] },
        ProfileCode::UnitsDisabled { units: vec![text()] },
    ]
}

fn rdma() -> Vec<RdmaCode> {
    let tally = vec![Tally { value: text(), ports: 2 }];
    let state = text();
    vec![
        RdmaCode::NoRdmaDevice { device: nic(), driver: None },
        RdmaCode::NoActivePort { ports: 2 },
        RdmaCode::PortNotActive { port: text(), function: function(), state },
        RdmaCode::PortSlow {
            port: text(),
            function: function(),
            rate: text(),
            rates: tally.clone(),
        },
        RdmaCode::FewerPorts { device: nic(), active: 1, usual: 2 },
        RdmaCode::LinkLayersDiffer { link_layers: tally },
        RdmaCode::NamesOfTwoKinds { kernel: vec![text()], others: vec![text()] },
    ]
}

fn roce() -> Vec<RoceCode> {
    let (port, interface) = (text(), text());
    let tally = vec![PfcTally { mask: 8, ports: 2 }];
    vec![
        RoceCode::NoGid { port: port.clone() },
        RoceCode::GidLinkLocal { port: port.clone() },
        RoceCode::InterfaceDown { port: port.clone(), interface: interface.clone() },
        RoceCode::NoInterface { port: port.clone() },
        RoceCode::MtuSmall { port: port.clone(), interface: interface.clone(), mtu: None },
        RoceCode::PfcDiffers { tally, interface: interface.clone() },
        RoceCode::PfcOff { ports: 2 },
        RoceCode::PfcNotOnRocePriority {
            port: port.clone(),
            priority: 3,
            mask: 1,
            dscp: Some(26),
            conf: "/etc/nccl.conf",
        },
        RoceCode::EcnOff { port, interface, priority: 3 },
    ]
}

fn sriov() -> Vec<SriovCode> {
    vec![
        SriovCode::VfsGone { pfs: functions() },
        SriovCode::VfWithoutDriver { vfs: functions() },
        SriovCode::VfWithoutRdma { vfs: functions() },
        SriovCode::VfWaitsForDriver { vfs: functions() },
        SriovCode::AddressesEqual { functions: functions() },
        SriovCode::ZeroAddress { function: function() },
    ]
}

fn storage() -> Vec<StorageCode> {
    vec![
        StorageCode::CufileWouldFail,
        StorageCode::NvidiaFsNeedsOpenModules { version: text() },
        StorageCode::P2pdmaNeedsOpenModules { driver: text(), open: true },
        StorageCode::P2pdmaWithoutDriver,
        StorageCode::KernelWithoutP2pdma,
        StorageCode::CufileInvalid { line: 3, problem: Problem::Syntax },
        StorageCode::DiskRedirected { pairs: 1, of: 2, ports: functions() },
    ]
}

fn others() -> Vec<Code> {
    let logged = LogCode::Logged {
        sign: MessageKind::Xid,
        device: Some(gpu()),
        module: None,
        number: Some(48),
        lines: 2,
        first: 1_500,
        over: false,
        recovery: Recovery::ResetGpu,
    };
    let off = NcclCode::SwitchedOff { setting: text(), at: text(), what: text(), others: vec![] };
    vec![
        logged.into(),
        off.into(),
        HugePagesCode::HugePagesShort { bytes: 1 << 21, found: 1, wanted: 2 }.into(),
        TopologyCode::NoNearNic { gpus: functions() }.into(),
        TopologyCode::NodeWithoutNic { nodes: vec![1] }.into(),
        TopologyCode::NicSharedUnevenly { nics: functions(), most: 2, least: 1 }.into(),
    ]
}

/// One code of each.
fn all() -> Vec<Code> {
    fn codes<T: Into<Code>>(codes: Vec<T>) -> Vec<Code> {
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

fn name(code: &Code) -> String {
    let json = serde_json::to_value(code).unwrap();
    json["code"].as_str().unwrap().to_owned()
}

/// Names of codes in a schema.
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
fn each_code_has_words_and_a_remedy() {
    for code in all() {
        let name = name(&code);
        let words = format_codes(std::slice::from_ref(&code));
        assert!(!words.is_empty() && !words.contains(['{', '}']), "{name}: {words}");
        match remedy(std::slice::from_ref(&code)) {
            Some(remedy) => assert!(!remedy.contains("{}") && !remedy.contains("  "), "{remedy}"),
            None => assert_eq!(name, "p2pdma-without-driver"),
        }
    }
}

#[test]
fn the_schema_has_these_codes_and_no_others() {
    let mut wanted = BTreeSet::new();
    names(schemars::schema_for!(Code).as_value(), &mut wanted);
    let found: BTreeSet<String> = all().iter().map(name).collect();
    assert_eq!(found, wanted);
}

#[test]
fn codes_with_the_same_words_are_listed_together() {
    let ats = |count: u8| -> Vec<Code> {
        let function = |n| format!("0000:{n:02x}:00.0").parse().unwrap();
        (1..=count).map(|n| AcsCode::NoAts { function: function(n) }.into()).collect()
    };
    assert_eq!(format_codes(&ats(1)), "NIC 0000:01:00.0: no ATS, in a switch for guests");
    let many = format_codes(&ats(6));
    assert!(many.contains("0000:04:00.0 and 2 more NICs: no ATS"), "{many}");
    let refused = |argument: &str, passed_on| {
        let argument = argument.to_owned();
        Code::from(CommandLineCode::ArgumentRefused { argument, passed_on })
    };
    let both = [refused("a", false), refused("b", true), refused("c", false)];
    assert_eq!(
        format_codes(&both),
        "the kernel did not take `a`, `c`; nothing in this kernel reads `b`"
    );
}
