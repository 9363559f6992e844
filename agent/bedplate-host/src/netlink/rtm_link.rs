//! Attributes of VFs: RTM_GETLINK and RTM_SETLINK on the PF's interface (include/uapi/linux/if_link.h,
//! net/core/rtnetlink.c; handbook §5.2). Numbers are in the host's byte order, except the tag of a VLAN.

use netlink_packet_core::NlaBuffer;
use netlink_sys::protocols::NETLINK_ROUTE;

use super::{Refusal, ask, ask_within, attribute, attributes, message, u32_at};
use bedplate_base::value::vf::{Guid, Mac, VfAttributes, VfLinkState, VfTable, Vlan, VlanProtocol};

const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
/// Length of `struct ifinfomsg`.
const IFINFOMSG: usize = 16;

const IFLA_IFNAME: u16 = 3;
const IFLA_VFINFO_LIST: u16 = 22;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_PERM_ADDRESS: u16 = 54;
/// VFs, without their counters.
const RTEXT_FILTER_VF_SKIP_STATS: u32 = 1 | 1 << 3;

const IFLA_VF_INFO: u16 = 1;
const IFLA_VF_MAC: u16 = 1;
const IFLA_VF_VLAN: u16 = 2;
const IFLA_VF_SPOOFCHK: u16 = 4;
const IFLA_VF_LINK_STATE: u16 = 5;
const IFLA_VF_RATE: u16 = 6;
const IFLA_VF_TRUST: u16 = 9;
const IFLA_VF_IB_NODE_GUID: u16 = 10;
const IFLA_VF_IB_PORT_GUID: u16 = 11;
const IFLA_VF_VLAN_LIST: u16 = 12;
const IFLA_VF_VLAN_INFO: u16 = 1;
/// `struct ifla_vf_mac` has space for the longest address (MAX_ADDR_LEN).
const LONGEST_ADDRESS: usize = 32;
/// Length of an IPoIB address: its last eight bytes are the port's GUID (RFC 4391).
const IPOIB_ADDRESS: usize = 20;

const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;

/// Queries an interface's VFs.
pub(crate) fn vfs(index: u32) -> Result<VfTable, Refusal> {
    let bodies = ask(NETLINK_ROUTE, get_request(index))?;
    bodies.first().map(|body| table(body)).ok_or_else(Refusal::garbled)
}

/// Queries the name of an interface.
pub(super) fn name(number: u32) -> Result<String, Refusal> {
    let bodies = ask(NETLINK_ROUTE, message(RTM_GETLINK, &head(number)))?;
    bodies.first().and_then(|body| name_in(body)).ok_or_else(Refusal::garbled)
}

/// Returns the name in the body of an RTM_NEWLINK message.
pub(super) fn name_in(body: &[u8]) -> Option<String> {
    let rest = body.get(IFINFOMSG..)?;
    let name = attributes(rest).find(|attribute| attribute.kind() == IFLA_IFNAME)?;
    Some(String::from_utf8_lossy(name.value()).trim_end_matches('\0').to_owned())
}

/// Returns the flags in that body: `ifi_flags` of `struct ifinfomsg`.
pub(super) fn flags_in(body: &[u8]) -> Option<u32> {
    u32_at(body, 8).ok()
}

/// Sets attributes of one VF with one message.
pub(crate) fn set_vf(
    index: u32,
    vf: u16,
    attributes: &VfAttributes,
    limit_s: u32,
) -> Result<(), Refusal> {
    ask_within(limit_s, NETLINK_ROUTE, set_request(index, vf, attributes)).map(drop)
}

/// Splits attributes into one message each: the kernel stops at the first that the driver refuses, without reporting
/// which one. The two rates stay together, because the kernel sets them as one attribute.
pub(crate) fn one_per_message(attributes: &VfAttributes) -> Vec<VfAttributes> {
    let rates = |from: &VfAttributes| VfAttributes {
        min_tx_rate: from.min_tx_rate,
        max_tx_rate: from.max_tx_rate,
        ..VfAttributes::default()
    };
    let both = rates(attributes);
    let mut all = attributes.without(&both).each();
    all.extend((!both.is_empty()).then_some(both));
    all
}

/// `struct ifinfomsg` with the interface's number, because names move between interfaces while udev renames them.
fn head(index: u32) -> [u8; IFINFOMSG] {
    let mut head = [0; IFINFOMSG];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head
}

fn get_request(index: u32) -> Vec<u8> {
    let mask = attribute(IFLA_EXT_MASK, &RTEXT_FILTER_VF_SKIP_STATS.to_ne_bytes());
    message(RTM_GETLINK, &[&head(index)[..], &mask].concat())
}

fn set_request(index: u32, vf: u16, attributes: &VfAttributes) -> Vec<u8> {
    let info = attribute(IFLA_VF_INFO, &settings(u32::from(vf), attributes));
    let list = attribute(IFLA_VFINFO_LIST, &info);
    message(RTM_SETLINK, &[&head(index)[..], &list].concat())
}

fn settings(vf: u32, wanted: &VfAttributes) -> Vec<u8> {
    let numbers = |kind, values: &[u32]| {
        let bytes: Vec<u8> =
            [&[vf], values].concat().into_iter().flat_map(u32::to_ne_bytes).collect();
        attribute(kind, &bytes)
    };
    let guid = |kind, guid: Guid| {
        // The 64-bit number is aligned: four bytes of padding.
        let number = [vf.to_ne_bytes(), [0; 4]].concat();
        attribute(kind, &[number, guid.0.to_ne_bytes().to_vec()].concat())
    };
    let mac = wanted.mac.map(|mac| {
        let mut address = mac.0.to_vec();
        address.resize(LONGEST_ADDRESS, 0);
        attribute(IFLA_VF_MAC, &[vf.to_ne_bytes().to_vec(), address].concat())
    });
    let rates = wanted.min_tx_rate.is_some() || wanted.max_tx_rate.is_some();
    let rates = rates.then(|| {
        let (min, max) = (wanted.min_tx_rate.unwrap_or(0), wanted.max_tx_rate.unwrap_or(0));
        numbers(IFLA_VF_RATE, &[min, max])
    });
    let link = wanted.link_state.map(|state| match state {
        VfLinkState::Auto => 0,
        VfLinkState::Enable => 1,
        VfLinkState::Disable => 2,
    });
    let all = [
        mac,
        wanted.node_guid.map(|own| guid(IFLA_VF_IB_NODE_GUID, own)),
        wanted.port_guid.map(|own| guid(IFLA_VF_IB_PORT_GUID, own)),
        wanted.vlan.map(|vlan| vlan_setting(vf, vlan)),
        wanted.trust.map(|on| numbers(IFLA_VF_TRUST, &[on.into()])),
        wanted.spoof_check.map(|on| numbers(IFLA_VF_SPOOFCHK, &[on.into()])),
        link.map(|state| numbers(IFLA_VF_LINK_STATE, &[state])),
        rates,
    ];
    all.into_iter().flatten().collect::<Vec<_>>().concat()
}

/// Uses the older attribute if possible, because kernels before 4.9 have only that one. Only `struct ifla_vf_vlan_info`
/// has the tag.
fn vlan_setting(vf: u32, vlan: Vlan) -> Vec<u8> {
    let start = [vf, vlan.id.into(), vlan.qos.into()].map(u32::to_ne_bytes).concat();
    match vlan.protocol {
        VlanProtocol::Dot1q => attribute(IFLA_VF_VLAN, &start),
        VlanProtocol::Dot1ad => {
            let tag = [ETH_P_8021AD.to_be_bytes(), [0; 2]].concat();
            let info = attribute(IFLA_VF_VLAN_INFO, &[start, tag].concat());
            attribute(IFLA_VF_VLAN_LIST, &info)
        }
    }
}

/// Parses the body of an RTM_NEWLINK message.
pub(super) fn table(body: &[u8]) -> VfTable {
    let mut table = VfTable::default();
    for attribute in attributes(body.get(IFINFOMSG..).unwrap_or_default()) {
        let value = attribute.value();
        match (attribute.kind(), value.len()) {
            (IFLA_PERM_ADDRESS, 6) => table.mac = value.try_into().ok().map(Mac),
            (IFLA_PERM_ADDRESS, IPOIB_ADDRESS) => {
                let guid = value[IPOIB_ADDRESS - 8..].try_into().ok();
                table.guid = guid.map(|bytes| Guid(u64::from_be_bytes(bytes)));
            }
            (IFLA_VFINFO_LIST, _) => {
                let infos = attributes(value).filter(|info| info.kind() == IFLA_VF_INFO);
                table.vfs.extend(infos.filter_map(|info| of_vf(info.value())));
            }
            _ => {}
        }
    }
    table
}

/// Parses a VF's number and the attributes reported by its PF's driver. Omits unreadable ones.
fn of_vf(info: &[u8]) -> Option<(u16, VfAttributes)> {
    let mut number = None;
    let mut found = VfAttributes::default();
    for attribute in attributes(info) {
        if let Some((vf, part)) = part(&attribute) {
            number = Some(vf);
            found = part.or(&found);
        }
    }
    Some((u16::try_from(number?).ok()?, found))
}

fn part(attribute: &NlaBuffer<&[u8]>) -> Option<(u32, VfAttributes)> {
    let value = attribute.value();
    if attribute.kind() == IFLA_VF_VLAN_LIST {
        let info = attributes(value).find(|info| info.kind() == IFLA_VF_VLAN_INFO)?;
        let tag = info.value().get(12..14)?.try_into().ok().map(u16::from_be_bytes)?;
        return vlan(info.value(), tag);
    }
    if attribute.kind() == IFLA_VF_VLAN {
        return vlan(value, ETH_P_8021Q);
    }
    let number = |index: usize| u32_at(value, 4 * index).ok();
    // Drivers that do not report it leave -1 there (rtnl_fill_vfinfo).
    let switch = number(1).filter(|on| *on != u32::MAX).map(|on| on != 0);
    let guid = value.get(8..16).and_then(|bytes| bytes.try_into().ok());
    let guid = guid.map(|bytes| Guid(u64::from_ne_bytes(bytes)));
    let mut found = VfAttributes::default();
    match attribute.kind() {
        IFLA_VF_MAC => found.mac = value.get(4..10)?.try_into().ok().map(Mac),
        IFLA_VF_SPOOFCHK => found.spoof_check = switch,
        IFLA_VF_TRUST => found.trust = switch,
        IFLA_VF_LINK_STATE => {
            found.link_state = match number(1)? {
                0 => Some(VfLinkState::Auto),
                1 => Some(VfLinkState::Enable),
                2 => Some(VfLinkState::Disable),
                _ => None,
            }
        }
        IFLA_VF_RATE => (found.min_tx_rate, found.max_tx_rate) = (number(1), number(2)),
        IFLA_VF_IB_NODE_GUID => found.node_guid = guid,
        IFLA_VF_IB_PORT_GUID => found.port_guid = guid,
        _ => return None,
    }
    Some((number(0)?, found))
}

/// Parses a VLAN. The list has the tag and follows the older attribute, so the last one is correct.
fn vlan(value: &[u8], tag: u16) -> Option<(u32, VfAttributes)> {
    let number = |index: usize| u32_at(value, 4 * index).ok();
    let vlan = Vlan {
        id: u16::try_from(number(1)?).ok()?,
        qos: u8::try_from(number(2)?).ok()?,
        protocol: if tag == ETH_P_8021AD { VlanProtocol::Dot1ad } else { VlanProtocol::Dot1q },
    };
    Some((number(0)?, VfAttributes { vlan: Some(vlan), ..VfAttributes::default() }))
}

#[cfg(test)]
mod tests;
