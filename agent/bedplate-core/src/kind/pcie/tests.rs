//! Device control: values of the register, and functions whose register is never written. Plan texts are in
//! tests/data/cases.

use super::*;
use crate::kind::plan_alone;
use crate::ledger::Ledger;
use crate::plan::Action;
use crate::profile::of_text;
use bedplate_base::value::PciAddress;
use bedplate_facts::{Depth, observe};
use bedplate_testhosts::HostSpec;
use proptest::prelude::*;

const NIC: &str = "0000:19:00.0";
const GPU: &str = "0000:18:00.0";

/// Plans a section on a described host of [`host`].
fn plan_on(host: &str, section: &str) -> KindPlan {
    let host = HostSpec::from_toml(host).unwrap().build();
    let profile = of_text(&format!("schema = 1\n{section}\n"));
    let facts = observe(&host, Depth::Plan);
    plan_alone(&KIND, (&profile, &Desired::default()), &facts, &host, &Ledger::default())
}

/// Returns a host with one GPU and one NIC below a switch, whose descriptions have these lines more.
fn host(gpu: &str, nic: &str, more: &str) -> String {
    format!(
        "machine = 'bare'\n{more}\n\
         [[pci]]\nat = '0000:16:00.0'\nis = 'root-port'\n\
         [[pci]]\nat = '0000:17:00.0'\nis = 'upstream'\nunder = '0000:16:00.0'\n\
         [[pci]]\nat = '0000:17:01.0'\nis = 'downstream'\nunder = '0000:17:00.0'\n\
         [[pci]]\nat = '0000:17:02.0'\nis = 'downstream'\nunder = '0000:17:00.0'\n\
         [[pci]]\nat = '{GPU}'\nis = 'gpu'\nunder = '0000:17:01.0'\n{gpu}\n\
         [[pci]]\nat = '{NIC}'\nis = 'nic'\nunder = '0000:17:02.0'\n{nic}\n"
    )
}

const BOTH: &str = "[pcie]\nmax_read_request = 4096\nrelaxed_ordering = true";

/// Returns the functions and register bits that a plan writes.
fn writes(section: &KindPlan) -> Vec<(PciAddress, RegisterBits)> {
    let actions = section.changes.iter().flat_map(|change| &change.actions);
    let write = |action: &Action| match action {
        Action::SetConfigBits(set) => {
            assert_eq!(set.register, CONTROL);
            (set.address, set.bits)
        }
        action => panic!("{action:?}"),
    };
    actions.map(write).collect()
}

fn bits(mask: u16, value: u16) -> RegisterBits {
    RegisterBits { mask, value }
}

#[test]
fn gpu_gets_ordering_and_nic_both() {
    let section = plan_on(&host("relaxed-ordering = false", "read-request = 512", ""), BOTH);
    let gpu = (GPU.parse().unwrap(), bits(0x0010, 0x0010));
    assert_eq!(writes(&section), [gpu, (NIC.parse().unwrap(), bits(0x7000, 0x5000))]);
    assert_eq!((section.blockers.len(), section.unknowns.len()), (0, 0), "{section:?}");
}

#[test]
fn function_that_is_not_ours_is_refused() {
    for (nic, more) in [
        ("driver = 'vfio-pci'", ""),
        ("driver = ''", ""),
        ("", "lockdown = 'integrity'"),
        ("", "cmdline = 'pci=pcie_bus_perf'"),
        ("", "cmdline = 'pci=noaer,pcie_bus_perf'"),
    ] {
        let nic = format!("read-request = 512\n{nic}");
        let rule = format!(
            "[[pcie.devices]]\nname = 'x'\nselect = {{ address = '{NIC}' }}\nmax_read_request = 4096"
        );
        let section = plan_on(&host("", &nic, more), &rule);
        assert_eq!(section.blockers.len(), 1, "{nic} {more}: {section:?}");
        assert_eq!(section.changes, [], "{nic} {more}");
    }
}

#[test]
fn unnamed_function_that_is_not_ours_is_skipped() {
    for nic in ["driver = 'vfio-pci'", "driver = ''"] {
        let nic = format!("read-request = 512\n{nic}");
        for section in [
            "[pcie]\nmax_read_request = 4096",
            "[[pcie.devices]]\nname = 'x'\nselect = { vendor = '15b3' }\nmax_read_request = 4096",
        ] {
            let section = plan_on(&host("", &nic, ""), section);
            assert_eq!((section.blockers.len(), section.changes.len()), (0, 0), "{section:?}");
            assert_eq!(section.notes.len(), 1, "{section:?}");
        }
    }
}

#[test]
fn rule_by_numa_node_reads_the_node() {
    let rule = "[[pcie.devices]]\nname = 'x'\nselect = { vendor = '10de', numa_node = 0 }\nrelaxed_ordering = true";
    let section = plan_on(&host("relaxed-ordering = false", "", ""), rule);
    assert_eq!((section.unknowns.len(), section.changes.len()), (0, 1), "{section:?}");
}

#[test]
fn dropped_section_is_noted_until_next_boot() {
    let host = HostSpec::from_toml(&host("", "read-request = 4096", "")).unwrap().build();
    let address = NIC.parse().unwrap();
    let offset = read(&host, address).unwrap().unwrap().offset;
    let action = SetConfigBits {
        address,
        offset,
        bits: bits(0x7000, 0x5000),
        before: 0x2000,
        register: CONTROL.to_owned(),
    };
    let boot = bedplate_host::boot_id::read(&host).unwrap();
    let mut ledger = Ledger::default();
    ledger.begin_setting(&action, NAME, &boot, &RegisterBits::whole(0x2000));
    ledger.settle_setting(&action, &RegisterBits::whole(0x5000));
    let facts = observe(&host, Depth::Plan);
    let plan = |section: &str| {
        let profile = of_text(&format!("schema = 1\n{section}\n"));
        plan_alone(&KIND, (&profile, &Desired::default()), &facts, &host, &ledger)
    };
    assert_eq!(plan("").notes.len(), 1);
    assert_eq!(plan("[pcie]\nmax_read_request = 4096").notes, []);
    assert_eq!(plan("[pcie]\nrelaxed_ordering = true").notes.len(), 1, "the other key alone");
}

#[test]
fn limit_of_payload_policy_concerns_read_requests_only() {
    for (more, is_refused) in [
        ("cmdline = 'pci=pcie_bus_perf'", true),
        ("cmdline = 'pci=pcie_bus_safe'", false),
        ("cmdline = 'pci=pcie_bus_peer2peer'", false),
        ("cmdline = 'pci=pcie_bus_tune_off'", false),
    ] {
        let ordering = "pcie = { relaxed_ordering = true }";
        let off =
            host("relaxed-ordering = false", "relaxed-ordering = false\nread-request = 512", more);
        assert_eq!(plan_on(&off, ordering).changes.len(), 2, "{more}");
        let size = plan_on(&off, "pcie = { max_read_request = 4096 }");
        assert_eq!(size.blockers.len(), usize::from(is_refused), "{more}: {size:?}");
    }
}

#[test]
fn refused_part_does_not_hide_the_other() {
    let nic = "read-request = 512\nrelaxed-ordering = false";
    let section = plan_on(&host("", nic, "cmdline = 'pci=pcie_bus_perf'"), BOTH);
    assert_eq!(writes(&section), [(NIC.parse().unwrap(), bits(0x0010, 0x0010))]);
    assert_eq!(section.blockers.len(), 1, "{section:?}");
}

#[test]
fn ordering_below_faulty_root_port_is_refused() {
    let off = host("relaxed-ordering = false", "relaxed-ordering = false", "");
    let faulty = format!("{off}[[pci]]\nat = '0000:16:00.0'\nid = '8086:6f02'\n");
    for (ordering, refused) in [("true", 1), ("false", 0)] {
        let section = plan_on(&faulty, &format!("pcie = {{ relaxed_ordering = {ordering} }}"));
        assert_eq!((section.blockers.len(), section.changes.len()), (refused, 0), "{section:?}");
    }
}

#[test]
fn rule_replaces_keys_of_the_section() {
    let rule = format!(
        "{BOTH}\n[[pcie.devices]]\nname = 'nic'\nselect = {{ address = '{NIC}' }}\nmax_read_request = 1024\n"
    );
    let section = plan_on(&host("", "read-request = 512\nrelaxed-ordering = false", ""), &rule);
    assert_eq!(writes(&section), [(NIC.parse().unwrap(), bits(0x7000, 0x3000))]);
    let auto = format!(
        "{BOTH}\n[[pcie.devices]]\nname = 'nic'\nselect = {{ address = '{NIC}' }}\nmax_read_request = 'auto'\n"
    );
    let section = plan_on(&host("", "read-request = 512\nrelaxed-ordering = false", ""), &auto);
    assert_eq!(section.changes, [], "{section:?}");
}

#[test]
fn unreadable_register_is_unknown() {
    for (nic, more) in [("answers = false", ""), ("", "unprivileged = true")] {
        let section = plan_on(&host("", nic, more), "pcie = { max_read_request = 4096 }");
        assert_eq!(section.unknowns.len(), 1, "{nic} {more}: {section:?}");
        assert_eq!(section.changes, []);
    }
}

#[test]
fn nic_of_other_vendor_keeps_its_size() {
    let nic = "id = '14e4:1760'\nread-request = 512";
    let section = plan_on(&host("", nic, ""), "pcie = { max_read_request = 4096 }");
    assert_eq!((section.changes.len(), section.notes.len()), (0, 1), "{section:?}");
}

#[test]
fn only_device_control_is_reverted() {
    let host = HostSpec::from_toml(&host("", "", "")).unwrap().build();
    let address = NIC.parse().unwrap();
    let found = caps::device_control(host.config(address).unwrap().as_ref());
    let offset = found.known().unwrap().offset;
    let set = |address, offset| {
        let register = CONTROL.to_owned();
        SetConfigBits { address, offset, bits: bits(0x0010, 0x0010), before: 0, register }
    };
    assert_eq!(is_device_control(&host, &set(address, offset)), Ok(true));
    assert_eq!(is_device_control(&host, &set(address, offset + 2)), Ok(false));
    assert_eq!(is_device_control(&host, &set("0000:99:00.0".parse().unwrap(), offset)), Ok(false));
    let denied = HostSpec::from_toml(&self::host("", "", "unprivileged = true")).unwrap().build();
    assert!(is_device_control(&denied, &set(address, offset)).is_err());
}

#[test]
fn functions_of_targets_are_watched() {
    let host = HostSpec::from_toml(&host("", "", "")).unwrap().build();
    let facts = observe(&host, Depth::Plan);
    let watched = |section: &str| {
        (KIND.watch)(&of_text(&format!("schema = 1\n{section}\n")), &facts).attributes
    };
    let paths =
        |address| ["config", "reset"].map(|name| format!("/sys/bus/pci/devices/{address}/{name}"));
    assert_eq!(watched("pcie = { max_read_request = 4096 }"), paths(NIC));
    assert_eq!(watched(BOTH), [paths(GPU), paths(NIC)].concat());
    assert_eq!(watched(""), [] as [String; 0]);
}

proptest! {
    /// The bits of a size give that size back, and change no other bit.
    #[test]
    fn size_round_trips(value: u16, exponent in 0_u32..6) {
        let size = 128_u16 << exponent;
        let after = read_request(size).applied_to(value);
        prop_assert_eq!(bytes(after), size);
        prop_assert_eq!(after & !READ_REQUEST, value & !READ_REQUEST);
    }
}
