//! Parser for the messages about connections. Pure.

use memchr::memmem;

use super::line::beginning;

/// A connection that a rank has established (handbook §8.8).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Channel<'l> {
    /// Rank that reports it.
    pub own: u32,
    /// Transport: `P2P`, `SHM`, `NET`, `COLLNET`.
    pub transport: &'l [u8],
    /// For a network its name (`IB`, `Socket`, `AWS Libfabric`), otherwise the mode (`CUMEM`, `IPC`).
    pub how: &'l [u8],
    /// Number of the NIC, for a network.
    pub nic: Option<u32>,
    /// Whether the NIC accesses GPU memory directly.
    pub direct: bool,
    /// Side that reports it, for a network.
    pub end: Option<End>,
}

/// Side of a network connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Send,
    Receive,
}

/// Parses `Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/0/GDRDMA`, and its variants since 2.4.
pub(crate) fn channel(text: &[u8]) -> Option<Channel<'_>> {
    // `Coll` up to 2.8.
    let is_channel = text.starts_with(b"Channel ");
    let collnet = !is_channel && (text.starts_with(b"CollNet ") || text.starts_with(b"Coll "));
    if !(is_channel || collnet || text.starts_with(b"Ring ")) {
        return None;
    }
    let rest = text.get(memchr::memchr(b':', text)? + 2..)?;
    let (first, rest) = end(rest)?;
    let (second, rest) = match rest.strip_prefix(b" -> ") {
        Some(rest) => {
            let (second, rest) = end(rest)?;
            (Some(second), rest)
        }
        None => (None, rest),
    };
    let (side, rest) = match (rest.strip_prefix(b" [receive]"), rest.strip_prefix(b" [send]")) {
        (Some(rest), _) => (Some(End::Receive), rest),
        (None, Some(rest)) => (Some(End::Send), rest),
        (None, None) => (None, rest),
    };
    let own = if side == Some(End::Receive) && !collnet { second? } else { first };
    let what = rest.strip_prefix(b" via ")?;
    let (transport, rest) = split(what);
    let is_net = matches!(transport, b"NET" | b"COLLNET");
    if !is_net {
        let how = split(rest).0;
        return Some(Channel { own, transport, how, nic: None, direct: false, end: None });
    }
    // A plugin's name can contain anything: the NIC number is the first digit after a slash.
    let number = rest.windows(2).position(|pair| pair[0] == b'/' && pair[1].is_ascii_digit());
    let (how, tail) = number.map_or((rest, &b""[..]), |at| (&rest[..at], &rest[at + 1..]));
    let (nic, tail) = beginning(tail).map_or((None, tail), |(nic, tail)| (Some(nic), tail));
    let direct = tail.starts_with(b"/GDRDMA") || memmem::find(tail, b"/GDRDMA").is_some();
    Some(Channel { own, transport, how, nic, direct, end: side })
}

/// Splits at the first slash.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'/') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

/// Parses `8[1a000]`, the rank and GPU of an endpoint; returns the rank with the rest.
fn end(text: &[u8]) -> Option<(u32, &[u8])> {
    let (rank, rest) = beginning(text)?;
    match rest.strip_prefix(b"[") {
        Some(rest) => Some((rank, &rest[rest.iter().position(|byte| *byte == b']')? + 1..])),
        None => Some((rank, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_lines_of_all_versions_are_parsed() {
        let cases = "
            Ring 00 : 0 -> 8 [receive] via NET/IB/0 | rank 8: NET IB, NIC 0
            Ring 01 : 3[3] -> 2[2] via P2P/IPC | rank 3: P2P IPC, NIC -
            Channel 02 : 1[1a000] -> 9[1b000] [send] via NET/IB/3/GDRDMA | rank 1: NET IB, NIC 3, direct
            Channel 00/0 : 1[1] -> 9[1] [send] via NET/Socket/0 | rank 1: NET Socket, NIC 0
            Channel 15/0 : 9[1] -> 1[1] [receive] via NET/IB/7/GDRDMA/Shared | rank 1: NET IB, NIC 7, direct
            Channel 00/1 : 1[1] -> 9[1] [send] via NET/IB/3(2)/GDRDMA(PCI) | rank 1: NET IB, NIC 3, direct
            Channel 00/1 : 1[1] -> 9[1] [send] via NET/AWS Libfabric/3/GDRDMA | rank 1: NET AWS Libfabric, NIC 3, direct
            Channel 00 : 1[1] -> 0[0] via SHM/direct/direct | rank 1: SHM direct, NIC -
            Channel 00/0 : 1[1] -> 0[0] via P2P/indirect/2[2] | rank 1: P2P indirect, NIC -
            CollNet 00/0 : 3 [receive] via COLLNET/SHARP/1/GDRDMA | rank 3: COLLNET SHARP, NIC 1, direct
        ";
        for (text, expected) in cases.trim().lines().map(|row| row.split_once(" | ").unwrap()) {
            let Channel { own, transport, how, nic, direct, .. } =
                channel(text.trim().as_bytes()).unwrap();
            let [transport, how] = [transport, how].map(String::from_utf8_lossy);
            let nic = nic.map_or("-".to_owned(), |nic| nic.to_string());
            let direct = if direct { ", direct" } else { "" };
            let found = format!("rank {own}: {transport} {how}, NIC {nic}{direct}");
            assert_eq!(found, expected, "{text}");
        }
        for text in ["Channel 00/16 :    0   1   2", "Channel", "Ring 0 : a -> b via P2P/IPC", ""] {
            assert_eq!(channel(text.as_bytes()), None, "{text}");
        }
    }
}
