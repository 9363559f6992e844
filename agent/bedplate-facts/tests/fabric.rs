//! NVLink SHARP of hand-built machines.

#![allow(missing_docs)]

use bedplate_base::Reading;
use bedplate_base::value::PciId;
use bedplate_facts::nvlink_sharp::{NvlinkSharp, nvlink_sharp};
use bedplate_testhosts::fixture::Machine;

#[test]
fn nvlink_sharp_is_that_of_the_switches() {
    let guest = |is_guest| Reading::Known(is_guest);
    let mut machine = Machine::default();
    assert_eq!(nvlink_sharp(&machine.tree, &guest(false)), Reading::Absent);
    machine.gpu("0000:10:00.0", None);
    assert_eq!(nvlink_sharp(&machine.tree, &guest(false)), Reading::Absent);
    assert!(matches!(nvlink_sharp(&machine.tree, &guest(true)), Reading::Unknown(_)));
    for (switch, expected) in [(0x1af1, NvlinkSharp::Without), (0x22a3, NvlinkSharp::Hopper)] {
        machine.add("0000:20:00.0", None, 0x06_8000, (0x10de, switch));
        let found = nvlink_sharp(&machine.tree, &guest(true));
        assert_eq!(found, Reading::Known(expected), "{switch:04x}");
    }
    machine.add("0000:30:00.0", None, 0x03_0200, (0x10de, 0x3182));
    let found = nvlink_sharp(&machine.tree, &guest(false));
    assert_eq!(found, Reading::Known(NvlinkSharp::Blackwell));
}

/// A GB10 has no NVSwitches; those of a rack are not visible on its hosts.
#[test]
fn switches_of_a_rack_are_unknown() {
    let mut machine = Machine::default();
    machine.root_port("0000:00:00.0", 0);
    machine.get("0000:00:00.0").vendor = PciId(0x10de);
    machine.add("0000:01:00.0", Some("0000:00:00.0"), 0x03_0200, (0x10de, 0x2941));
    assert!(matches!(nvlink_sharp(&machine.tree, &Reading::Absent), Reading::Unknown(_)));
    machine.get("0000:01:00.0").device = PciId(0x2e12);
    assert_eq!(nvlink_sharp(&machine.tree, &Reading::Absent), Reading::Absent);
}
