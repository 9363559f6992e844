//! Tests of `inspect` on small fake hosts.

use crate::report::style::terminal;
use bedplate_base::value::AcsBits;
use bedplate_base::{Cause, CpuVendor, ReadError, Reading, Reason};
use bedplate_facts::Facts;
use bedplate_facts::names::Names;
use bedplate_facts::pci::{Acs, Detail, Function, Link, PciTree, PortType, UnreadFunction};
use bedplate_host::HostKind;
use bedplate_testhosts::fixture::{ACS, Machine, at};

fn tables(facts: &Facts, width: usize) -> String {
    super::tables(facts, &Names::none(facts), width)
}

fn tree(facts: &Facts) -> String {
    super::tree(facts, &Names::none(facts))
}

fn json(facts: &Facts, file: Option<&str>) -> Result<String, serde_json::Error> {
    bedplate_core::documents::document(&super::document(facts, &Names::none(facts), file, None))
}

/// Returns a live host with these functions: links at maximum speed, GPUs with their driver.
fn host(machine: Machine) -> Facts {
    let best = Some("32.0 GT/s PCIe".to_owned());
    let link = Link { speed: best.clone(), width: Some(16), max_speed: best, max_width: Some(16) };
    let mut tree = machine.tree;
    for function in tree.functions.values_mut() {
        function.iommu_group = Reading::Known(7);
        if !function.is_bridge() {
            (function.port, function.acs) = (Reading::Known(PortType::Endpoint), Reading::Absent);
        }
        if function.is_gpu() {
            function.driver.get_or_insert_with(|| "nvidia".into());
        }
        function.detail = Some(Box::new(Detail {
            bus_master: Reading::Known(true),
            link: link.clone(),
            bars: Vec::new(),
            control: Reading::Absent,
            ats: Reading::Absent,
            sriov: Reading::Absent,
        }));
    }
    let pci = Reading::Known(tree);
    Facts { host: HostKind::Live, pci, ..Facts::of_vendor(CpuVendor::Intel) }
}

/// Returns a switch with a GPU and a NIC with two VFs below. Only the port above the GPU has ACS on.
fn small() -> Facts {
    let mut machine = Machine::default();
    machine.root_port("0000:16:01.0", 0);
    let down = machine.switch("0000:16:01.0", "0000:17:00.0", 3);
    for port in ["0000:16:01.0", &down[1], &down[2]] {
        machine.get(port).acs = Reading::Known(Acs { control: AcsBits(0), ..ACS });
    }
    machine.gpu("0000:19:00.0", Some(&down[0]));
    let nic = machine.nic("0000:1a:00.0", Some(&down[1]));
    nic.class = 0x02_0700;
    (nic.net, nic.infiniband) = (vec!["ens1f0np0".into()], vec!["mlx5_0".into()]);
    machine.vf("0000:1a:00.1", "0000:1a:00.0");
    machine.vf("0000:1a:00.2", "0000:1a:00.0").driver = Some("vfio-pci".into());
    machine.add("0000:16:02.0", None, 0x01_0802, (0x144d, 0xa80a));
    host(machine)
}

/// Returns a host with one GPU.
fn one_gpu(change: impl FnOnce(&mut Function)) -> Facts {
    let mut machine = Machine::default();
    machine.gpu("0000:19:00.0", None);
    let mut facts = host(machine);
    change(tree_of(&mut facts).functions.get_mut(&at("0000:19:00.0")).unwrap());
    facts
}

fn tree_of(facts: &mut Facts) -> &mut PciTree {
    let Reading::Known(tree) = &mut facts.pci else { panic!("no tree") };
    tree
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(&terminal(text)).to_string()
}

/// Returns the line that starts with `address` after branches and blanks.
fn line<'a>(text: &'a str, address: &str) -> &'a str {
    let trimmed =
        |line: &&str| line.trim_start_matches(['│', '├', '└', '─', ' ']).starts_with(address);
    text.lines().find(trimmed).unwrap_or_else(|| panic!("no line for {address} in\n{text}"))
}

#[test]
fn tables_show_gpu_and_acs_of_port_above() {
    let text = plain(&tables(&small(), 120));
    let row = line(&text, "0000:19:00.0");
    for part in ["NVIDIA 10de:2330 3D", "32 GT/s x16", "nvidia", "0000:18:00.0 SV RR CR UF"] {
        assert!(row.contains(part), "{part} is not in {row}");
    }
    let nic = line(&text, "0000:1a:00.0");
    assert!(nic.contains("2/8") && nic.contains("ens1f0np0") && nic.contains("mlx5_0"), "{nic}");
    let above = line(&text, "0000:18:01.0");
    assert!(
        above.contains("downstream port") && above.contains("off") && above.contains("1 NIC"),
        "{above}"
    );
    assert!(line(&text, "0000:17:00.0").contains("1 GPU, 1 NIC"));
    assert!(text.contains("1 bridge without a GPU or NIC below"));
    assert!(text.contains("10 PCI functions in total; not listed above: 1 NVMe, 2 VFs."));
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn unresponsive_gpu_is_counted_separately() {
    let mut facts = small();
    let tree = tree_of(&mut facts);
    let mut dead = tree.functions[&at("0000:19:00.0")].clone();
    dead.address = at("0000:19:00.1");
    if let Some(detail) = &mut dead.detail {
        detail.bus_master = Reading::Unknown(Reason::new(Cause::NoAnswer, "ones"));
    }
    tree.functions.insert(dead.address, dead);
    let text = plain(&tables(&facts, 120));
    assert!(text.contains("1 GPU, and 1 not responding"), "{text}");
    assert!(line(&text, "0000:19:00.1").contains("no answer"), "{text}");
}

#[test]
fn tree_follows_parents_with_vfs_folded() {
    let text = plain(&tree(&small()));
    let drawn: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(drawn[0], "pci0000:16");
    assert!(
        drawn[1].starts_with("├─ 0000:16:01.0 root port  Broadcom 1000:c010  32 GT/s x16  NUMA 0")
    );
    assert!(drawn[2].starts_with("│  └─ 0000:17:00.0 upstream port"));
    assert!(
        drawn[3].starts_with("│     ├─ 0000:18:00.0 downstream port")
            && drawn[3].contains("ACS SV RR CR UF")
    );
    assert!(drawn[4].starts_with("│     │  └─ 0000:19:00.0 3D"));
    assert!(drawn[6].contains("└─ 0000:1a:00.0 InfiniBand") && drawn[6].contains("VFs 2/8"));
    assert!(
        drawn[7].ends_with("└─ 2 VFs 0000:1a:00.1 … 0000:1a:00.2  1 mlx5_core, 1 vfio-pci"),
        "{}",
        drawn[7]
    );
    assert!(drawn[9].starts_with("└─ 0000:16:02.0 NVMe"));
    assert_eq!(drawn.len(), 10);
}

#[test]
fn slow_link_shows_its_maximum() {
    let facts = one_gpu(|slow| {
        let link = &mut slow.detail.as_mut().unwrap().link;
        (link.speed, link.width) = (Some("2.5 GT/s PCIe".into()), Some(8));
    });
    assert!(plain(&tree(&facts)).contains("2.5 GT/s x8 (32 GT/s x16)"));
    let row = plain(&tables(&facts, 120));
    assert!(line(&row, "0000:19:00.0").contains("2.5 GT/s x8"));
}

#[test]
fn hosts_without_pci_or_gpu_are_reported() {
    let facts = Facts { pci: Reading::Absent, ..small() };
    assert!(tables(&facts, 120).contains("This host has no PCI"));
    assert!(tree(&facts).contains("This host has no PCI"));
    let unknown = plain(&tables(&Facts::of_vendor(CpuVendor::Arm), 120));
    assert!(unknown.contains("An image has no PCI devices"));
    assert!(unknown.contains("no machine was inspected"));
    let mut machine = Machine::default();
    assert!(tree(&host(machine.clone())).contains("No PCI functions"));
    machine.nic("0000:1a:00.0", None);
    assert!(tables(&host(machine), 120).contains("No GPU"));
}

#[test]
fn equal_unknowns_share_a_line_with_fix() {
    let mut machine = Machine::default();
    for address in (0..30).map(|device| format!("0000:16:{device:02x}.0")) {
        let why = ReadError::Denied { path: format!("/sys/bus/pci/devices/{address}/config") };
        let port = machine.port(&address, None, PortType::RootPort);
        (port.port, port.acs) = (Reading::unknown(&why), Reading::unknown(&why));
    }
    let mut facts = host(machine);
    let expected = "30 functions (0000:16:00.0, 0000:16:01.0, 0000:16:02.0 …): ACS, port type\n      \
        /sys/bus/pci/devices/*/config cannot be read without more privilege";
    let live = plain(&tables(&facts, 120));
    assert!(live.contains(&format!("{expected}: run as root\n")), "{live}");
    let drawn = plain(&tree(&facts));
    assert!(drawn.contains(expected) && line(&drawn, "0000:16:03.0").contains("ACS unknown"));
    facts.host = HostKind::Snapshot;
    assert!(plain(&tables(&facts, 120)).contains(&format!("{expected}: record as root\n")));
}

#[test]
fn small_memory_is_not_shown_as_none() {
    let mut facts = small();
    for (bytes, shown) in [
        (280 << 20, "280 MiB"),
        (3 << 30, "3072 MiB"),
        (4 << 30, "4 GiB"),
        (2015 << 30, "2015 GiB"),
    ] {
        facts.memory_bytes = Reading::Known(bytes);
        assert!(plain(&tables(&facts, 120)).contains(&format!("  memory       {shown}\n")));
    }
}

#[test]
fn unknown_values_show_their_cause() {
    let mut facts = small();
    let not_recorded = ReadError::NotRecorded { path: "/sys/x".into() };
    let unread = ReadError::Denied { path: "/sys/x".into() };
    facts.iommu.firmware = Reading::unknown(&not_recorded);
    facts.iommu.active = Reading::unknown(&unread);
    facts.gpu.nvidia = Reading::unknown(&not_recorded);
    let text = plain(&tables(&facts, 120));
    assert!(text.contains("firmware tables not recorded; active units not readable"), "{text}");
    assert!(text.contains("GPU driver   not recorded"), "{text}");
    facts.pci = Reading::unknown(&unread);
    assert!(plain(&tables(&facts, 120)).contains("PCI functions: not readable."));
    facts.pci = Reading::Absent;
    assert!(plain(&tables(&facts, 120)).contains("This host has no PCI bus."));
    facts.host = HostKind::Image;
    assert!(plain(&tables(&facts, 120)).contains("An image has no PCI devices"));
}

fn unread() -> UnreadFunction {
    let reason = "not understood: EIO".into();
    UnreadFunction { address: at("0000:99:00.0"), whole: true, reason }
}

#[test]
fn unreadable_functions_may_be_gpus() {
    let mut machine = Machine::default();
    machine.root_port("0000:16:01.0", 0);
    let mut facts = host(machine);
    assert!(plain(&tables(&facts, 120)).contains("No GPU: no function of this host"));
    tree_of(&mut facts).gaps.push(unread());
    let text = plain(&tables(&facts, 120));
    assert!(
        text.contains("No GPU among the readable functions; 1 other could not be read."),
        "{text}"
    );
}

#[test]
fn gaps_of_the_scan_are_reported() {
    let mut facts = small();
    tree_of(&mut facts).gaps.push(unread());
    assert!(plain(&tables(&facts, 120)).contains("  0000:99:00.0\n      not understood: EIO\n"));
}

#[test]
fn wide_domains_and_wrong_parents_are_shown_once() {
    let mut machine = Machine::default();
    machine.port("10000:e0:00.0", Some("10000:e1:00.0"), PortType::Downstream);
    machine.port("10000:e1:00.0", Some("10000:e0:00.0"), PortType::Downstream);
    machine.gpu("10000:e2:00.0", Some("10000:e1:00.0"));
    machine.gpu("10000:e3:00.0", Some("10000:ff:00.0"));
    let facts = host(machine);
    let text = plain(&tree(&facts));
    assert!(text.contains("not connected to any root bus"));
    for address in ["10000:e0:00.0", "10000:e1:00.0", "10000:e2:00.0", "10000:e3:00.0"] {
        assert_eq!(text.matches(&format!("─ {address} ")).count(), 1, "{address} in\n{text}");
    }
    assert!(line(&plain(&tables(&facts, 120)), "10000:e3:00.0").contains("10000:ff:00.0 unknown"));
}

#[test]
fn host_text_cannot_control_the_terminal() {
    let mut facts = one_gpu(|evil| {
        evil.driver = Some("x\u{1b}[2J\nbad".into());
        evil.root = "pci\u{7}0000:16".into();
    });
    facts.cpu.model = Reading::Known("\u{1b}]0;title\u{7}".into());
    let shown = plain(&tables(&facts, 120)) + &plain(&tree(&facts));
    assert!(!tables(&facts, 120).contains("\u{1b}]") && !tree(&facts).contains("\u{1b}[2J"));
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn json_is_versioned_and_complete() {
    let value: serde_json::Value = serde_json::from_str(&json(&small(), None).unwrap()).unwrap();
    assert_eq!(value["bedplate_inspect"], 2);
    let functions = &value["pci"]["value"]["functions"];
    assert_eq!(functions.as_object().unwrap().len(), 10);
    assert_eq!(functions["0000:18:00.0"]["acs"]["value"]["control"], "001d");
    assert_eq!(functions["0000:1a:00.1"]["physfn"], "0000:1a:00.0");
    assert_eq!(value["cpu"]["vendor"]["value"], "intel");
}

/// 40 domains of 255 VFs each, and a chain of bridges far deeper than on any real machine.
#[test]
fn huge_tree_is_drawn_within_time_limit() {
    let mut machine = Machine::default();
    for domain in 0..40 {
        let pf = format!("{domain:04x}:01:00.0");
        machine.nic(&pf, None);
        for number in 1..256 {
            machine.vf(&format!("{domain:04x}:01:{:02x}.{:x}", number / 8, number % 8), &pf);
        }
    }
    let mut above: Option<String> = None;
    for number in 0..5000 {
        let address = format!("{:04x}:{:02x}:00.0", 0x100 + number / 256, number % 256);
        machine.port(&address, above.as_deref(), PortType::Downstream);
        above = Some(address);
    }
    let facts = host(machine);
    let start = std::time::Instant::now();
    let (text, drawn) = (tables(&facts, 120), tree(&facts));
    let took = start.elapsed();
    assert!(text.contains("40 NICs"));
    assert_eq!(drawn.matches("255 VFs").count(), 40);
    assert_eq!(drawn.matches("downstream port").count(), 5000);
    assert!(took.as_secs() < 10, "{took:?}");
}

#[test]
fn long_lists_are_wrapped_at_blanks() {
    let words = vec!["word"; 60].join(" ");
    let broken = super::format::wrapped(&words);
    assert!(
        broken.lines().count() == 3 && broken.lines().all(|line| line.len() <= 110),
        "{broken}"
    );
    assert_eq!(broken.replace('\n', " "), words);
}
