//! Tests with bytes in the layout of the kernel's structures (include/uapi/linux/if_link.h).

use super::super::HEADER;
use super::*;

fn to_bytes(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Attributes below IFLA_VF_INFO, as sent by `ip link set IF vf 3 …`.
fn sent(attributes: VfAttributes) -> Vec<(u16, Vec<u8>)> {
    let request = set_request(7, 3, &attributes);
    assert_eq!(request[HEADER + 4..HEADER + 8], 7u32.to_ne_bytes(), "ifi_index");
    let mut all = super::attributes(&request[HEADER + IFINFOMSG..]);
    let list = all.next().unwrap();
    assert_eq!(list.kind(), IFLA_VFINFO_LIST);
    let info = super::attributes(list.value()).next().unwrap();
    assert_eq!(info.kind(), IFLA_VF_INFO);
    super::attributes(info.value()).map(|one| (one.kind(), one.value().to_vec())).collect()
}

#[test]
fn attributes_are_encoded_like_kernel_structures() {
    let none = VfAttributes::default();
    let mac = [2, 0, 0x5e, 0x10, 0, 1];
    let mut address = [to_bytes(&[3]), mac.to_vec()].concat();
    address.resize(36, 0);
    let guid = 0x0002_c903_0012_3456;
    let aligned = [to_bytes(&[3, 0]), u64::to_ne_bytes(guid).to_vec()].concat();
    let vlan = |id, qos, protocol| Some(Vlan { id, qos, protocol });
    let list = [to_bytes(&[3, 100, 5]), vec![0x88, 0xa8, 0, 0]].concat();
    for (attributes, kind, bytes) in [
        (VfAttributes { mac: Some(Mac(mac)), ..none }, 1, address),
        (
            VfAttributes { vlan: vlan(100, 5, VlanProtocol::Dot1q), ..none },
            2,
            to_bytes(&[3, 100, 5]),
        ),
        (
            VfAttributes { vlan: vlan(100, 5, VlanProtocol::Dot1ad), ..none },
            12,
            attribute(1, &list),
        ),
        (VfAttributes { spoof_check: Some(true), ..none }, 4, to_bytes(&[3, 1])),
        (VfAttributes { link_state: Some(VfLinkState::Disable), ..none }, 5, to_bytes(&[3, 2])),
        (VfAttributes { max_tx_rate: Some(10_000), ..none }, 6, to_bytes(&[3, 0, 10_000])),
        (
            VfAttributes { min_tx_rate: Some(100), max_tx_rate: Some(200), ..none },
            6,
            to_bytes(&[3, 100, 200]),
        ),
        (VfAttributes { trust: Some(false), ..none }, 9, to_bytes(&[3, 0])),
        (VfAttributes { node_guid: Some(Guid(guid)), ..none }, 10, aligned.clone()),
        (VfAttributes { port_guid: Some(Guid(guid)), ..none }, 11, aligned),
    ] {
        assert_eq!(sent(attributes), [(kind, bytes)], "{attributes}");
    }
}

/// The kernel stops at the first attribute that the driver refuses, so each is sent alone, except the two rates.
#[test]
fn each_attribute_has_its_own_message() {
    let all = VfAttributes {
        trust: Some(true),
        vlan: Some(Vlan::default()),
        min_tx_rate: Some(1),
        max_tx_rate: Some(2),
        ..VfAttributes::default()
    };
    let texts: Vec<String> = one_per_message(&all).iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["VLAN none", "trust on", "min tx rate 1 Mbit/s, max tx rate 2 Mbit/s"]);
}

/// One IFLA_VF_INFO in the order of rtnl_fill_vfinfo.
fn info(vf: u32, trust: u32, spoof_check: u32) -> Vec<u8> {
    let mut mac = [to_bytes(&[vf]), vec![0x52, 0x54, 0, 0, 0, 7]].concat();
    mac.resize(36, 0);
    let tag = [to_bytes(&[vf, 100, 2]), ETH_P_8021AD.to_be_bytes().to_vec(), vec![0; 2]].concat();
    let parts = [
        attribute(1, &mac),
        attribute(13, &[0xff; 32]),
        attribute(2, &to_bytes(&[vf, 100, 2])),
        attribute(6, &to_bytes(&[vf, 0, 1000])),
        attribute(3, &to_bytes(&[vf, 1000])),
        attribute(4, &to_bytes(&[vf, spoof_check])),
        attribute(5, &to_bytes(&[vf, 1])),
        attribute(7, &to_bytes(&[vf, u32::MAX])),
        attribute(9, &to_bytes(&[vf, trust])),
        attribute(12, &attribute(1, &tag)),
    ];
    attribute(1, &parts.concat())
}

#[test]
fn vf_attributes_are_parsed() {
    let list = attribute(IFLA_VFINFO_LIST, &[info(0, 1, 0), info(1, u32::MAX, u32::MAX)].concat());
    let pf = [0x9c, 0x63, 0xc0, 0xaa, 0xbb, 0xcc];
    let name = attribute(IFLA_IFNAME, b"ens1f0\0");
    let body = [vec![0; IFINFOMSG], name, list, attribute(IFLA_PERM_ADDRESS, &pf)].concat();
    let found = table(&body);
    assert_eq!((found.mac, found.guid), (Some(Mac(pf)), None));
    assert_eq!(
        found.vfs[&0].to_string(),
        "MAC address 52:54:00:00:00:07, VLAN 100 qos 2 802.1ad, trust on, spoof check off, link state enable, \
         min tx rate none, max tx rate 1000 Mbit/s"
    );
    // -1: the driver does not report it.
    assert_eq!((found.vfs[&1].trust, found.vfs[&1].spoof_check), (None, None));
    assert_eq!(found.vfs.len(), 2);
    // If truncated anywhere before its padding, it is parsed up to that point.
    for end in 0..body.len() - 2 {
        let part = table(&body[..end]);
        assert!(part.vfs.len() <= 2 && part.mac.is_none(), "{end}");
    }
}

#[test]
fn infiniband_address_contains_guid() {
    let mut address = vec![0x80, 0, 1, 0x0b, 0xfe, 0x80, 0, 0, 0, 0, 0, 0];
    address.extend([0x9c, 0x63, 0xc0, 3, 0, 0xaa, 0xbb, 0xcc]);
    let guids = [10, 11]
        .map(|kind| attribute(kind, &[to_bytes(&[0, 0]), 77u64.to_ne_bytes().to_vec()].concat()));
    let list = attribute(IFLA_VFINFO_LIST, &attribute(1, &guids.concat()));
    let found = table(&[vec![0; IFINFOMSG], attribute(IFLA_PERM_ADDRESS, &address), list].concat());
    assert_eq!(found.guid.map(|guid| guid.to_string()).as_deref(), Some("9c:63:c0:03:00:aa:bb:cc"));
    assert_eq!(
        (found.vfs[&0].node_guid, found.vfs[&0].port_guid),
        (Some(Guid(77)), Some(Guid(77)))
    );
}

/// By number: while udev renames interfaces, a name may belong to another PF by the time of the lookup.
#[test]
fn vf_query_uses_interface_number_and_skips_counters() {
    let request = get_request(7);
    assert_eq!(request[HEADER + 4..HEADER + 8], 7u32.to_ne_bytes(), "ifi_index");
    let rest = &request[HEADER + IFINFOMSG..];
    let found: Vec<(u16, Vec<u8>)> =
        attributes(rest).map(|one| (one.kind(), one.value().to_vec())).collect();
    assert_eq!(found, [(IFLA_EXT_MASK, to_bytes(&[9]))]);
}
