//! Tests with bytes in the layout of net/dcb/dcbnl.c (dcbnl_ieee_fill).

use super::super::attribute;
use super::*;

fn app(selector: u8, priority: u8, protocol: u16) -> Vec<u8> {
    attribute(DCB_ATTR_IEEE_APP, &[&[selector, priority][..], &protocol.to_ne_bytes()].concat())
}

/// An answer with the interface's name, its scheduler, flow control of these priorities, and a table.
fn answer(pfc: u8, apps: &[Vec<u8>]) -> Vec<u8> {
    // `struct ieee_pfc` with its counters.
    let mut state = vec![8, pfc, 0, 0, 0, 0, 0, 0];
    state.extend([0; 128]);
    let ieee = [
        attribute(1, &[8; 83]),
        attribute(DCB_ATTR_IEEE_PFC, &state),
        attribute(DCB_ATTR_IEEE_APP_TABLE, &apps.concat()),
    ];
    let head = vec![0, DCB_CMD_IEEE_GET, 0, 0];
    // NLA_F_NESTED, which newer kernels set.
    let nested = attribute(DCB_ATTR_IEEE | 0x8000, &ieee.concat());
    [head, text(DCB_ATTR_IFNAME, "ens1np0"), nested].concat()
}

#[test]
fn flow_control_priorities_are_parsed() {
    let apps = [app(5, 3, 26), app(5, 0, 0), app(1, 6, 0x8915), app(3, 4, 4790)];
    let found = state(&answer(0b1000, &apps));
    let expected = FlowControl { pfc: Some(8), dscp: [(0, 0), (26, 3)].into(), roce: None };
    assert_eq!(found, expected);
    assert_eq!(state(&answer(0, &[app(3, 5, 4791)])).roce, Some(5));
}

#[test]
fn invalid_values_are_not_reported() {
    let apps = [app(5, 3, 64), app(5, 9, 26), app(5, 1, 5 << 8 | 26)];
    let found = state(&answer(0, &apps));
    assert_eq!(found, FlowControl { pfc: Some(0), ..FlowControl::default() });
    let whole = answer(8, &[app(5, 3, 26)]);
    for cut in 0..whole.len() {
        let found = state(&whole[..cut]);
        assert!(found.pfc.is_none_or(|pfc| pfc == 8), "{cut}: {found:?}");
    }
}

/// Queries the running kernel: its loopback interface has no flow control.
#[test]
fn interface_without_driver_has_no_dcb() {
    let refusal = flow_control("lo").unwrap_err();
    assert!(has_none(&refusal), "{refusal:?}");
    let refusal = flow_control("no-such-if").unwrap_err();
    assert!([Errno::ENODEV, Errno::EOPNOTSUPP].contains(&refusal.errno), "{refusal:?}");
}
