//! Lines as the kernel prints them, and lines that resemble them.

use super::messages::MESSAGES;
use super::*;

/// One kernel message per table entry, in table order, with its redacted form (empty: the line itself; ␣: a trailing
/// blank).
const SAID: &str = r#"
    DMAR: Intel(R) Virtualization Technology for Directed I/O =>
    AMD-Vi: Interrupt remapping enabled =>
    AMD-Vi: Extended features (0x246577efa2254afa, 0x0): PPR NX GT => AMD-Vi: Extended features␣
    DMAR: IOMMU enabled =>
    [Firmware Bug]: Your BIOS is broken; DMAR reported at address fed90000 returns all ones! => Your BIOS is broken; DMAR reported at address
    DMAR: dmar0: Translation already enabled - trying to copy translation structures => Translation already enabled - trying to copy translation structures
    DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0xffd00000 [fault reason 0x05] PTE Write access is not set => DMAR: [DMA Write NO_PASID] Request device [0000:18:00.0
    DMAR: [DMA Read NO_PASID] Request device [18:00.0] fault addr 0x0 => DMAR: [DMA Read NO_PASID] Request device [0000:18:00.0
    DMAR: [DMA Write] Request device [18:00.0] PASID ffffffff fault addr 0 => DMAR: [DMA Write] Request device [0000:18:00.0
    DMAR: [DMA Read] Request device [18:00.0] fault addr 0 => DMAR: [DMA Read] Request device [0000:18:00.0
    AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:18:00.0 domain=0x0000 address=0x1] => AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:18:00.0
    nvidia 0000:18:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000e] => 0000:18:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT
    arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received: => event 0x10 received:
    arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: 0009:01:00.0 sid: 0x10000 => event: F_TRANSLATION client: 0009:01:00.0
    nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client =>
    nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22) => nvidia_peermem: Unknown symbol ib_register_peer_memory_client
    mlx5_core: version magic '6.8.0-41-generic SMP' should be '6.8.0-45-generic SMP' => mlx5_core: version magic '
    Module nvidia_peermem is blacklisted => nvidia_peermem is blacklisted
    Loading of unsigned module is rejected =>
    Loading of module with unavailable key is rejected =>
    nvidia: unknown parameter 'NVreg_Foo' ignored => nvidia: unknown parameter 'NVreg_Foo
    NVRM: API mismatch: the client has the version 570.133.20, but => NVRM: API mismatch: the client has the version 570.133.20
    NVRM: API mismatch: the client has version 570.133.20 but => NVRM: API mismatch: the client has version 570.133.20
    NVRM: The NVIDIA probe routine was not called for 8 device(s). => NVRM: The NVIDIA probe routine was not called for 8
    NVRM: The NVIDIA probe routine failed for 1 device(s). => NVRM: The NVIDIA probe routine failed for 1
    NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2901) => NVRM: The NVIDIA GPU 0000:18:00.0
    NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0x40:1860) => 0000:18:00.0: RmInitAdapter failed!
    nvidia-peermem nv_mem_client_init:486 ERROR cannot register => nvidia-peermem ERROR
    NVRM: Xid (PCI:0000:18:00): 119, pid=4711, name=secret, Timeout => NVRM: Xid (PCI:0000:18:00.0): 119
    NVRM: GPU 0000:18:00.0: GPU has fallen off the bus. => 0000:18:00.0: GPU has fallen off the bus
    nvidia-nvswitch0: SXid (PCI:0000:ab:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error => SXid (PCI:0000:ab:00.0): 12028, Non-fatal
    NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.82.07 => NVRM: loading NVIDIA UNIX
    nvidia 0000:18:00.0: enabling device (0140 -> 0142) => 0000:18:00.0: enabling device (
    amdgpu 0000:18:00.0: amdgpu: GPU reset succeeded, trying to resume => 0000:18:00.0: GPU reset succeeded
    amdgpu 0000:18:00.0: amdgpu: GPU reset(2) succeeded! => 0000:18:00.0: GPU reset(2) succeeded!
    mlx5_core 0000:19:00.0: mlx5_health_try_recover:350:(pid 7): health recovery succeeded => 0000:19:00.0: health recovery succeeded
    mlx5_core 0000:19:00.0: health revovery succeded => 0000:19:00.0: health revovery succeded
    pcieport 0000:17:01.0: pciehp: Slot(12): Link Down/Up ignored (recovered by DPC) => 0000:17:01.0: Link Down/Up ignored
    pcieport 0000:17:01.0: AER: Device recovery successful => 0000:17:01.0: Device recovery successful
    pcieport 0000:17:01.0: AER: device recovery successful => 0000:17:01.0: device recovery successful
    nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer => 0000:18:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal)
    nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=0000 => 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Fatal)
    nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer => 0000:18:00.0: PCIe Bus Error: severity=Uncorrect
    pcieport 0000:17:01.0: DPC: containment event, status:0x1f01 source:0x0000 => 0000:17:01.0: DPC: containment event
    pcieport 0000:17:01.0: pciehp: Slot(12): Link Down => 0000:17:01.0: Link Down
"#;

fn said() -> Vec<(&'static str, &'static str)> {
    let rows = SAID.trim().lines().map(|row| row.split_once("=>").unwrap());
    rows.map(|(line, kept)| (line.trim(), kept.trim())).collect()
}

#[test]
fn redacted_line_of_every_pattern_has_same_meaning() {
    assert_eq!(said().len(), MESSAGES.len());
    for ((line, rest), pattern) in said().into_iter().zip(MESSAGES) {
        let found = classify(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(found.kind, pattern.kind, "{line}");
        let kept = if rest.is_empty() { line } else { rest };
        assert_eq!(found.text, kept.replace('␣', " "));
        assert_eq!(classify(&found.text).as_ref(), Some(&found), "{line}");
    }
}

#[test]
fn lost_gpu_is_reported_and_program_fault_is_not() {
    let gone =
        classify("NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.").unwrap();
    assert_eq!(
        (gone.kind, gone.text.as_str()),
        (MessageKind::OffTheBus, "NVRM: Xid (PCI:0000:18:00.0): 79")
    );
    assert_eq!(classify("NVRM: Xid (PCI:0000:18:00): 31, pid=1, name=python, MMU Fault"), None);
}

#[test]
fn smmu_events_name_their_pci_function() {
    let event = |text: &str| classify(&format!("arm-smmu-v3 arm-smmu-v3.2.auto: {text}"));
    for name in EVENTS {
        let line = format!(
            "event: {name} client: 0009:01:00.0 sid: 0x100 ssid: 0x0 iova: 0xff9bc000 ipa: 0x0"
        );
        let found = event(&line).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(found.kind, MessageKind::DmaFault, "{name}");
        assert_eq!(found.function, "0009:01:00.0".parse().ok(), "{name}");
        assert!(found.is_named_event() && !found.is_event_record(), "{name}");
    }
    let unassigned =
        event("event: C_BAD_STREAMID client: (unassigned sid) sid: 0x900 ssid: 0x0").unwrap();
    assert_eq!(unassigned.text, "event: C_BAD_STREAMID client: (unassigned sid)");
    assert_eq!(unassigned.function, None);
    assert_eq!(classify(&unassigned.text).as_ref(), Some(&unassigned));
    let platform =
        event("event: F_TRANSLATION client: fc900000.iommu sid: 0x100 ssid: 0x0").unwrap();
    assert_eq!(platform.text, "event: F_TRANSLATION client: (platform device)");
    assert!(platform.is_named_event() && platform.is_platform_event());
    assert!(!unassigned.is_platform_event());
    assert_eq!(classify(&platform.text).as_ref(), Some(&platform));
    let record = event("event 0x02 received:").unwrap();
    assert_eq!((record.kind, record.function), (MessageKind::DmaFault, None));
    assert!(record.is_event_record() && !record.is_named_event());
    for other in [
        "event: F_TRANSLATION client: hunter2",
        "event: hunter2 client: 0009:01:00.0 sid: 0x100",
        "event: F_TRANSLATION",
        "event 0x10 sent:",
        "event 0x received:",
        "\t0x0000350100000010",
    ] {
        assert_eq!(event(other), None, "{other}");
    }
    assert_eq!(
        classify("mlx5_core 0000:01:00.1: Port module event: module 1, Cable plugged"),
        None
    );
}

#[test]
fn unrecognised_lines_are_dropped() {
    for line in [
        "Command line: ro token=hunter2 DMAR: Unknown option - 'x'",
        "Module hunter2 was loaded",
        "audit: hunter2: disagrees",
        "hun/ter2: disagrees about version of symbol x",
        "PCIe Bus Error: severity=Corrected",
        "NVRM: Xid (PCI:x): 79",
        "",
    ] {
        assert_eq!(redacted_line(line), None, "{line}");
    }
    assert_eq!(redacted_line("init: \u{1b}[31mhunter2 nvidia: Unknown symbol foo (err -2)"), None);
    let said = redacted_line("nvidia: Unknown symbol foo\u{1b}[0m (err -2)");
    assert_eq!(said.as_deref(), Some("nvidia: Unknown symbol foo"));
    let listed =
        "Unknown kernel command line parameters \"splash x=1\", will be passed to user space.";
    let short = "Unknown kernel command line parameters \"splash x=1\"";
    assert_eq!(redacted_line(listed).as_deref(), Some(short));
}

#[test]
fn text_in_process_or_file_name_is_not_a_message() {
    // A process name has up to fifteen characters of any kind (Linux TASK_COMM_LEN).
    for name in [") succeeded!", "Link Down", " is blacklisted", "SXid (PCI:", ": Unknown symbo"] {
        let program = format!("NVRM: Xid (PCI:0000:18:00): 31, pid=7, name={name}, MMU Fault");
        assert_eq!(classify(&program), None, "{program}");
        let gpus = format!("NVRM: Xid (PCI:0000:18:00): 48, pid=7, name={name}, DBE");
        assert_eq!(classify(&gpus).map(|said| said.kind), Some(MessageKind::Xid), "{gpus}");
        let amd = format!("amdgpu 0000:18:00.0: amdgpu:  in process {name} pid 7 thread x pid 8");
        assert_eq!(classify(&amd), None, "{amd}");
    }
    // A file can have any name, and every user can make a program crash in it, or mount over it.
    for pattern in MESSAGES {
        let name = format!("0000:18:00.0: nvidia {}0000:18:00.0): 79 570.1 ERROR", pattern.text);
        for line in [
            format!("python3[7]: segfault at 0 ip 0000 sp 0000 error 4 in {name}[0,7f00+1000]"),
            format!("overlayfs: failed to resolve '/{name}': -2"),
        ] {
            assert_eq!(classify(&line), None, "{line}");
        }
    }
    let mild =
        classify("NVRM: Xid (PCI:0000:18:00): 145, pid=0, RLW Nonfatal XC0 i0 Link 04").unwrap();
    assert_eq!(mild.recovery(), Recovery::None);
    assert_eq!(classify(&mild.text).as_ref(), Some(&mild), "a recording says the same");
    let asks = "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)";
    let asks = classify(asks).unwrap();
    assert_eq!((asks.recovery(), classify(&asks.text).as_ref()), (Recovery::Reboot, Some(&asks)));
    let fatal =
        "NVRM: Xid (PCI:0000:18:00): 149, pid=7, name= Nonfatal , NETIR Fatal XC0 i0 Link 04";
    assert_eq!(classify(fatal).map(|said| said.recovery()), Some(Recovery::ResetGpu));
}
