//! Queries the running kernel by netlink: one request, its answers, and the driver's message on refusal. The requests
//! are in `rtm_link`, `route` and `dcb` (attributes of VFs, default routes and flow control, by rtnetlink) and
//! `devlink` (the eswitch, by generic netlink).

mod dcb;
pub(super) mod devlink;
mod route;
pub(super) mod rtm_link;

use std::collections::BTreeSet;
use std::time::Duration;

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR,
    NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NlaBuffer, NlasIterator,
};
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;

use super::errno::error_message;
use super::timeout::{Unfinished, run_with_timeout};
use super::{HostKind, Reader, snapshot_paths};
use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_base::value::flow_control::FlowControl;
use bedplate_base::value::vf::{EswitchMode, VfTable};

/// The driver's message in a refusal (include/uapi/linux/netlink.h, `enum nlmsgerr_attrs`).
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Time limit for a query, in seconds.
const READ_LIMIT_S: u32 = 30;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The kernel's error.
    pub errno: Errno,
    /// The driver's own message, if it has one.
    pub words: Option<String>,
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        Refusal { errno, words: None }
    }
}

impl From<Unfinished> for Refusal {
    fn from(unfinished: Unfinished) -> Self {
        match unfinished {
            Unfinished::NotStarted(error) => error.into(),
            Unfinished::TimedOut => Refusal { errno: Errno::ETIMEDOUT, words: None },
        }
    }
}

impl Refusal {
    /// Returns the error of an invalid answer.
    fn garbled() -> Self {
        Refusal { errno: Errno::EBADMSG, words: None }
    }
}

/// [`Reader::vfs`] for a directory host. An image has no interfaces.
pub(super) fn ask_for_vfs(
    reader: &dyn Reader,
    pf: PciAddress,
    interface: &str,
) -> Result<VfTable, ReadError> {
    let path = snapshot_paths::vfs_named(interface);
    if reader.kind() != HostKind::Live {
        return Err(ReadError::NotFound { path });
    }
    let index = index_below(reader, pf, interface)?;
    let mut table = rtm_link::vfs(index).map_err(|refusal| read_error(path.clone(), refusal))?;
    if index_below(reader, pf, interface) != Ok(index) {
        return Err(renamed(path));
    }
    // Kernels before 5.6 do not report the permanent address. If it was never changed, it is the current one
    // (include/uapi/linux/netdevice.h, NET_ADDR_PERM).
    let own = |name: &str| reader.attribute(&below(pf, interface, name)).ok();
    if table.mac.is_none()
        && table.guid.is_none()
        && own("addr_assign_type").as_deref() == Some("0")
        && own("addr_len").as_deref() == Some("6")
    {
        table.mac = own("address").and_then(|address| address.parse().ok());
    }
    Ok(table)
}

/// Returns the number of the PF's interface of this name. Interfaces of other PFs may have had the name or get it next;
/// the number stays with the interface.
pub(super) fn index_below(
    reader: &dyn Reader,
    pf: PciAddress,
    interface: &str,
) -> Result<u32, ReadError> {
    let path = below(pf, interface, "ifindex");
    let text = reader.attribute(&path)?;
    text.parse().map_err(|_| ReadError::Failed { path, reason: "not a number".to_owned() })
}

fn below(pf: PciAddress, interface: &str, name: &str) -> String {
    format!("/sys/bus/pci/devices/{pf}/net/{interface}/{name}")
}

/// [`Reader::eswitch`] for a directory host.
pub(super) fn ask_for_eswitch(
    reader: &dyn Reader,
    pf: PciAddress,
) -> Result<Option<EswitchMode>, ReadError> {
    let path = snapshot_paths::eswitch_named(pf);
    if reader.kind() != HostKind::Live {
        return Err(ReadError::NotFound { path });
    }
    match devlink::eswitch(pf) {
        Ok(mode) => Ok(Some(mode)),
        Err(refusal) if devlink::has_none(&refusal) => Ok(None),
        Err(refusal) => Err(read_error(path, refusal)),
    }
}

/// [`Reader::flow_control`] for a directory host. An image has no interfaces.
pub(super) fn ask_for_flow_control(
    reader: &dyn Reader,
    function: PciAddress,
    interface: &str,
) -> Result<Option<FlowControl>, ReadError> {
    let path = snapshot_paths::flow_control_named(interface);
    if reader.kind() != HostKind::Live {
        return Err(ReadError::NotFound { path });
    }
    let index = index_below(reader, function, interface)?;
    let answer = match dcb::flow_control(interface) {
        Ok(answer) => Some(answer),
        Err(refusal) if dcb::has_none(&refusal) => None,
        Err(refusal) => return Err(read_error(path, refusal)),
    };
    match index_below(reader, function, interface) == Ok(index) {
        true => Ok(answer),
        false => Err(renamed(path)),
    }
}

fn renamed(path: String) -> ReadError {
    let reason = "the interface was renamed or removed during the read; run again".to_owned();
    ReadError::Failed { path, reason }
}

/// [`Reader::default_routes`] for a directory host.
pub(super) fn ask_for_default_routes(reader: &dyn Reader) -> Result<BTreeSet<String>, ReadError> {
    let path = snapshot_paths::ROUTES_NAMED.to_owned();
    if reader.kind() != HostKind::Live {
        return Err(ReadError::NotRecorded { path });
    }
    route::default_interfaces().map_err(|refusal| read_error(path, refusal))
}

/// Returns the interfaces in a datagram of rtnetlink's group RTNLGRP_LINK, each with its flags
/// (include/uapi/linux/if.h).
pub fn changed_links(datagram: &[u8]) -> Vec<(String, u32)> {
    let mut bodies = Vec::new();
    // Invalid data ends the list.
    let _ = read(datagram, &mut bodies);
    bodies
        .iter()
        .filter_map(|body| Some((rtm_link::name_in(body)?, rtm_link::flags_in(body)?)))
        .collect()
}

/// Parses a datagram as the answer to every supported query; used by the tests with hostile bytes.
pub fn any_answer(datagram: &[u8]) {
    let mut bodies = Vec::new();
    // Invalid data ends the list.
    let _ = read(datagram, &mut bodies);
    for body in bodies {
        let _ = (
            rtm_link::table(&body),
            rtm_link::name_in(&body),
            route::hops(&body),
            devlink::mode(&body),
        );
        let _ = dcb::state(&body);
    }
}

fn read_error(path: String, refusal: Refusal) -> ReadError {
    match refusal.errno {
        Errno::EPERM | Errno::EACCES => ReadError::Denied { path },
        Errno::ENODEV => ReadError::NotFound { path },
        Errno::ETIMEDOUT => {
            let reason = format!(
                "no answer in {READ_LIMIT_S} s from the kernel; a driver may hold its lock (see the kernel log)"
            );
            ReadError::Failed { path, reason }
        }
        errno => ReadError::Failed {
            path,
            reason: refusal.words.unwrap_or_else(|| error_message(errno)),
        },
    }
}

/// Encodes one attribute, padded for the next one.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let attribute = DefaultNla::new(kind, value.to_vec());
    let mut bytes = vec![0; attribute.buffer_len()];
    attribute.emit(&mut bytes);
    bytes
}

/// Returns the attributes in `bytes`; truncated data ends the list.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(bytes).map_while(Result::ok)
}

/// Encodes a text attribute, which ends in a NUL.
fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

/// Encodes a whole message.
fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    framed(kind, NLM_F_REQUEST | NLM_F_ACK, body)
}

/// Encodes a message that requests a whole table.
fn dump(kind: u16, body: &[u8]) -> Vec<u8> {
    framed(kind, NLM_F_REQUEST | NLM_F_DUMP, body)
}

fn framed(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::new();
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence number and port: each socket sends one request.
    bytes.extend([1u32.to_ne_bytes(), 0u32.to_ne_bytes()].concat());
    bytes.extend(body);
    bytes
}

/// Sends a request and returns the bodies of all messages up to the kernel's end marker. Queries can block too, on the
/// lock that a driver holds while it queries its firmware.
fn ask(protocol: isize, request: Vec<u8>) -> Result<Vec<Vec<u8>>, Refusal> {
    ask_within(READ_LIMIT_S, protocol, request)
}

/// [`ask`] with a limit of `limit_s` seconds: a driver that queries its firmware may take long, under locks that all
/// other requests need.
fn ask_within(limit_s: u32, protocol: isize, request: Vec<u8>) -> Result<Vec<Vec<u8>>, Refusal> {
    let limit = Duration::from_secs(limit_s.into());
    run_with_timeout("netlink", limit, move || exchange(protocol, &request))?
}

fn exchange(protocol: isize, request: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut socket = Socket::new(protocol)?;
    // Kernels before 4.12 do not support this and report only numbers.
    let _ = socket.set_ext_ack(true);
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(request, 0)?;
    let mut bodies = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        if read(&bytes, &mut bodies)? {
            return Ok(bodies);
        }
    }
}

/// Parses the messages of one datagram. Returns `true` if the last one was among them.
fn read(mut bytes: &[u8], bodies: &mut Vec<Vec<u8>>) -> Result<bool, Refusal> {
    while bytes.len() >= HEADER {
        let length = usize::try_from(u32_at(bytes, 0)?).map_err(|_| Refusal::garbled())?;
        let body = bytes.get(HEADER..length).ok_or_else(Refusal::garbled)?;
        let (kind, flags) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
        // The listed objects changed during the read.
        if kind != NLMSG_ERROR && flags & NLM_F_DUMP_INTR != 0 {
            return Err(Refusal { errno: Errno::EINTR, words: None });
        }
        if matches!(kind, NLMSG_ERROR | NLMSG_DONE) {
            return match u32_at(body, 0)?.cast_signed() {
                0 => Ok(true),
                error => Err(Refusal {
                    errno: Errno::from_raw(error.wrapping_neg()),
                    words: extended_ack_message(body, flags),
                }),
            };
        }
        bodies.push(body.to_vec());
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Returns the driver's message next to the error number (Documentation/userspace-api/netlink/intro.rst, "Extended ACK").
fn extended_ack_message(body: &[u8], flags: u16) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    // A capped answer repeats only the header of the request.
    let request = match flags & NLM_F_CAPPED {
        0 => usize::try_from(u32_at(body, 4).ok()?).ok()?,
        _ => HEADER,
    };
    let rest = body.get(4 + request.next_multiple_of(4)..)?;
    let said = attributes(rest).find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)?;
    let text = String::from_utf8_lossy(said.value()).trim_end_matches('\0').trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Refusal> {
    let field = bytes.get(at..at + 2).and_then(|field| field.try_into().ok());
    field.map(u16::from_ne_bytes).ok_or_else(Refusal::garbled)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Refusal> {
    let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
    field.map(u32::from_ne_bytes).ok_or_else(Refusal::garbled)
}

#[cfg(test)]
mod tests;
