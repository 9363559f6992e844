//! Default routes: RTM_GETROUTE of both families (include/uapi/linux/rtnetlink.h). /proc/net/route shows only the first
//! next hop of a route (net/ipv4/fib_trie.c fib_route_seq_show); this returns all of them.

use std::collections::BTreeSet;

use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;

use super::{Refusal, ask, attributes, dump, rtm_link, u16_at, u32_at};

const RTM_GETROUTE: u16 = 26;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Length of `struct rtmsg`.
const RTMSG: usize = 12;
const RTN_UNICAST: u8 = 1;
const RT_TABLE_MAIN: u32 = 254;

const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_NH_ID: u16 = 30;
/// Length of `struct rtnexthop`: length, flags, hops, number of the interface.
const RTNEXTHOP: usize = 8;

/// Attempts, if routes change during the read.
const TRIES: usize = 8;

/// Returns the names of all interfaces in default routes of the main table, every next hop included.
pub(crate) fn default_interfaces() -> Result<BTreeSet<String>, Refusal> {
    named(defaults, rtm_link::name)
}

/// Reads numbers and names. Repeats both queries if an interface is removed in between.
fn named(
    numbers: impl Fn() -> Result<BTreeSet<u32>, Refusal>,
    name: impl Fn(u32) -> Result<String, Refusal>,
) -> Result<BTreeSet<String>, Refusal> {
    for _ in 0..TRIES {
        match numbers()?.into_iter().map(&name).collect() {
            Err(Refusal { errno: Errno::ENODEV, .. }) => {}
            other => return other,
        }
    }
    let words = "an interface of a default route was removed during each query";
    Err(Refusal { errno: Errno::EAGAIN, words: Some(words.to_owned()) })
}

/// Returns the numbers of all interfaces in default routes of the main table, every next hop included.
fn defaults() -> Result<BTreeSet<u32>, Refusal> {
    let mut found = BTreeSet::new();
    for family in [AF_INET, AF_INET6] {
        for body in all(family)? {
            found.extend(hops(&body)?);
        }
    }
    Ok(found)
}

fn all(family: u8) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut body = [0; RTMSG];
    body[0] = family;
    let request = dump(RTM_GETROUTE, &body);
    for _ in 1..TRIES {
        match ask(NETLINK_ROUTE, request.clone()) {
            Err(Refusal { errno: Errno::EINTR, .. }) => {}
            other => return other,
        }
    }
    ask(NETLINK_ROUTE, request)
}

/// Returns the interfaces of one RTM_NEWROUTE message, if it is a default route.
pub(super) fn hops(body: &[u8]) -> Result<Vec<u32>, Refusal> {
    let head = body.get(..RTMSG).ok_or_else(Refusal::garbled)?;
    let (family, to, table, kind) = (head[0], head[1], head[4], head[7]);
    if !matches!(family, AF_INET | AF_INET6) || to != 0 || kind != RTN_UNICAST {
        return Ok(Vec::new());
    }
    let (mut table, mut object, mut found) = (u32::from(table), None, Vec::new());
    for attribute in attributes(&body[RTMSG..]) {
        match attribute.kind() {
            RTA_TABLE => table = u32_at(attribute.value(), 0)?,
            RTA_OIF => found.push(u32_at(attribute.value(), 0)?),
            RTA_MULTIPATH => found.extend(of_multipath(attribute.value())?),
            RTA_NH_ID => object = Some(u32_at(attribute.value(), 0)?),
            _ => {}
        }
    }
    match object {
        // Rails of RDMA networks have default routes in separate tables, which do not carry the host's other traffic.
        _ if table != RT_TABLE_MAIN => Ok(Vec::new()),
        Some(object) if found.is_empty() => Err(Refusal {
            errno: Errno::ENODATA,
            words: Some(format!(
                "a default route has only next-hop object {object} (sysctl net.ipv4.nexthop_compat_mode is 0)"
            )),
        }),
        _ => Ok(found),
    }
}

/// Parses consecutive `struct rtnexthop`, each with its own attributes.
fn of_multipath(mut bytes: &[u8]) -> Result<Vec<u32>, Refusal> {
    let mut found = Vec::new();
    while bytes.len() >= RTNEXTHOP {
        let length = usize::from(u16_at(bytes, 0)?);
        found.push(u32_at(bytes, 4)?);
        let next = length.max(RTNEXTHOP).next_multiple_of(4);
        bytes = bytes.get(next..).unwrap_or_default();
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
