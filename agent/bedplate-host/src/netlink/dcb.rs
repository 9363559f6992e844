//! Flow control of a network interface: DCB_CMD_IEEE_GET of RTM_GETDCB (include/uapi/linux/dcbnl.h, net/dcb/dcbnl.c).
//! Requires no privilege.

use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;

use super::{Refusal, ask, attributes, message, text, u16_at};
use bedplate_base::value::flow_control::FlowControl;

const RTM_GETDCB: u16 = 78;
const DCB_CMD_IEEE_GET: u8 = 21;
/// Length of `struct dcbmsg`: family, command, padding.
const DCBMSG: usize = 4;

const DCB_ATTR_IFNAME: u16 = 1;
const DCB_ATTR_IEEE: u16 = 13;
const DCB_ATTR_IEEE_PFC: u16 = 2;
const DCB_ATTR_IEEE_APP_TABLE: u16 = 3;
const DCB_ATTR_IEEE_APP: u16 = 1;

/// Selectors of `struct dcb_app`: UDP ports, TCP or UDP ports, and DSCPs.
const SELECTORS_OF_UDP: [u8; 2] = [3, 4];
const IEEE_8021QAZ_APP_SEL_DSCP: u8 = 5;
/// UDP port of RoCE v2 (include/rdma/ib_verbs.h, ROCE_V2_UDP_DPORT).
const ROCE_V2: u16 = 4791;

/// Queries the driver of the interface.
pub(super) fn flow_control(interface: &str) -> Result<FlowControl, Refusal> {
    let bodies = ask(NETLINK_ROUTE, request(interface))?;
    bodies.first().map(|body| state(body)).ok_or_else(Refusal::garbled)
}

fn request(interface: &str) -> Vec<u8> {
    let head = vec![0, DCB_CMD_IEEE_GET, 0, 0];
    message(RTM_GETDCB, &[head, text(DCB_ATTR_IFNAME, interface)].concat())
}

/// Whether the driver does not support the query, or the kernel has no DCB.
pub(super) fn has_none(refusal: &Refusal) -> bool {
    refusal.errno == Errno::EOPNOTSUPP
}

/// Parses the answer's body. Skips truncated data.
pub(super) fn state(body: &[u8]) -> FlowControl {
    let mut found = FlowControl::default();
    let own = attributes(body.get(DCBMSG..).unwrap_or_default());
    for ieee in own.filter(|attribute| attribute.kind() == DCB_ATTR_IEEE) {
        for attribute in attributes(ieee.value()) {
            match attribute.kind() {
                // `struct ieee_pfc`: number of priorities that can use PFC, then the bit mask of those that do …
                DCB_ATTR_IEEE_PFC => found.pfc = attribute.value().get(1).copied(),
                DCB_ATTR_IEEE_APP_TABLE => {
                    let entries = attributes(attribute.value());
                    let entries = entries.filter(|entry| entry.kind() == DCB_ATTR_IEEE_APP);
                    entries.for_each(|entry| add(entry.value(), &mut found));
                }
                _ => {}
            }
        }
    }
    found
}

/// Adds an entry: `struct dcb_app` with selector, priority, protocol.
fn add(entry: &[u8], found: &mut FlowControl) {
    let (Some([selector, priority]), Ok(protocol)) = (entry.first_chunk(), u16_at(entry, 2)) else {
        return;
    };
    if *priority > 7 {
        return;
    }
    match (*selector, u8::try_from(protocol)) {
        (IEEE_8021QAZ_APP_SEL_DSCP, Ok(dscp)) if dscp < 64 => {
            found.dscp.insert(dscp, *priority);
        }
        (selector, _) if protocol == ROCE_V2 && SELECTORS_OF_UDP.contains(&selector) => {
            found.roce = Some(*priority);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
