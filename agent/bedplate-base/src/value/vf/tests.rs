//! Tests of derived addresses, and of what a snapshot retains of them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn mac(text: &str) -> Mac {
    text.parse().unwrap()
}

#[test]
fn derived_addresses_are_stable() {
    for (pf, number, vf) in [
        ("9c:63:c0:aa:bb:cc", 0, "9e:63:c1:aa:bb:cc"),
        ("9c:63:c0:aa:bb:cc", 7, "9e:63:c8:aa:bb:cc"),
        ("9c:63:c0:aa:bb:cc", 255, "9e:62:c0:aa:bb:cc"),
        // Locally administered already, as virtual machines have them.
        ("52:54:00:19:00:10", 0, "52:54:01:19:00:10"),
    ] {
        assert_eq!(mac(pf).derived(number), mac(vf), "{pf} VF {number}");
    }
    let pf: Guid = "0c:42:a1:03:00:65:b3:d2".parse().unwrap();
    assert_eq!(pf.derived(0).to_string(), "0e:42:a1:03:01:65:b3:d2");
    assert_eq!(pf.derived(299).to_string(), "0e:42:a1:02:2c:65:b3:d2");
}

proptest! {
    /// VFs have distinct addresses that differ from the PF's, and neighbours of the same vendor do not collide.
    #[test]
    fn derived_addresses_are_unique(base in any::<[u8; 6]>(), guid in any::<u64>()) {
        let pf = Mac([base[0] & !1, base[1], base[2], base[3], base[4], base[5]]);
        let next = Mac([pf.0[0], pf.0[1], pf.0[2], pf.0[3], pf.0[4], pf.0[5] ^ 1]);
        let mut macs = BTreeSet::from([pf, next]);
        let mut guids = BTreeSet::from([Guid(guid), Guid(guid ^ 1)]);
        for number in 0..256 {
            for pf in [pf, next] {
                let vf = pf.derived(number);
                prop_assert_eq!(vf.0[0] & 3, 2, "{} is not a local unicast address", vf);
                prop_assert!(macs.insert(vf), "{} twice", vf);
            }
            prop_assert!(guids.insert(Guid(guid).derived(number)));
            prop_assert!(guids.insert(Guid(guid ^ 1).derived(number)));
        }
    }
}

#[test]
fn masked_table_hides_addresses_and_keeps_answers() {
    let pf = mac("9c:63:c0:aa:bb:cc");
    let vf = |mac| VfAttributes { mac: Some(mac), trust: Some(true), ..VfAttributes::default() };
    let table = VfTable {
        mac: Some(pf),
        guid: None,
        vfs: [
            (0, vf(pf.derived(0))),
            (1, vf(mac("00:00:00:00:00:00"))),
            (2, vf(mac("9c:63:c0:aa:bb:77"))),
            (3, vf(pf.derived(4))),
        ]
        .into(),
    };
    let masked = table.masked();
    let text = serde_json::to_string(&masked).unwrap();
    assert!(!text.contains("aa:bb"), "{text}");
    for (number, found) in &table.vfs {
        let right =
            |table: &VfTable| table.vfs[number].mac == table.mac.map(|base| base.derived(*number));
        assert_eq!(right(&table), right(&masked), "VF {number}");
        assert_eq!(found.mac.unwrap().is_unset(), masked.vfs[number].mac.unwrap().is_unset());
        assert_eq!(masked.vfs[number].trust, Some(true));
    }
    assert_eq!(masked.masked(), masked);
}

#[test]
fn differing_attributes_exclude_unrequested_ones() {
    let found = VfAttributes {
        trust: Some(false),
        vlan: Some(Vlan::default()),
        max_tx_rate: Some(0),
        ..VfAttributes::default()
    };
    let wanted = VfAttributes {
        trust: Some(true),
        max_tx_rate: Some(0),
        link_state: Some(VfLinkState::Auto),
        ..VfAttributes::default()
    };
    let left = wanted.without(&found);
    assert_eq!(left.to_string(), "trust on, link state auto");
    assert_eq!(found.intersect(&left).to_string(), "trust off");
    assert_eq!(
        left.or(&found).to_string(),
        "VLAN none, trust on, link state auto, max tx rate no limit"
    );
    assert_eq!(left.each().len(), 2);
    assert!(!left.need_restart() && VfAttributes::default().is_empty());
}

#[test]
fn addresses_are_read_strictly() {
    for bad in ["", "02:00:00:00:00", "02:00:00:00:00:000", "02:00:00:00:00:+1", "2:0:0:0:0:0:"] {
        assert!(bad.parse::<Mac>().is_err(), "{bad}");
    }
    assert!("02:00:00:00:00:01".parse::<Guid>().is_err());
}
