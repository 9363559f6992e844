//! Parser for one line of NCCL or RCCL: sender and message (NCCL src/debug.cc; handbook §8.8). Launchers, container
//! runtimes and terminals add prefixes and colours to the lines of a job. Pure.

use memchr::memmem;

/// A message and its sender.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'l> {
    /// Node name, as the process reports it.
    pub host: &'l [u8],
    /// Process id.
    pub pid: u32,
    /// GPU of the thread, by CUDA's number.
    pub device: u32,
    /// Whether this is a warning.
    pub warning: bool,
    /// Message text.
    pub text: &'l [u8],
}

/// Markers before a message.
const INFO: &[u8] = b"NCCL INFO ";
const WARN: &[u8] = b"NCCL WARN ";
/// Maximum bytes of the source location of a warning.
const LONGEST_PLACE: usize = 512;

impl<'l> Line<'l> {
    /// Parses the first message of a line, and returns the start of the next message if there is one. Returns `None` if
    /// the line has no message of NCCL, or the start of the message is missing.
    ///
    /// A log has millions of lines, so this reads each byte before the message only once.
    pub(crate) fn parse(line: &'l [u8]) -> Option<(Self, Option<&'l [u8]>)> {
        // `host:pid:tid [device] NCCL INFO text`; in a warning the source location follows the bracket.
        let mut from = 0;
        let mut warn = None;
        for blank in memchr::memchr_iter(b' ', line) {
            let before = &line[from..blank];
            from = blank + 1;
            let Some((device, rest)) = bracketed(&line[from..]) else { continue };
            let (warning, text) = match rest.strip_prefix(INFO) {
                Some(text) => (false, text),
                None => {
                    let begins = line.len() - rest.len();
                    let at = *warn.get_or_insert_with(|| memmem::find(line, WARN));
                    let Some(at) = at.filter(|at| (begins..begins + LONGEST_PLACE).contains(at))
                    else {
                        continue;
                    };
                    (true, &line[at + WARN.len()..])
                }
            };
            let (_tid, before) = ending(before)?;
            let (pid, host) = ending(before)?;
            let host = node(host)?;
            let (text, next) = until_next(text);
            return Some((Line { host, pid, device, warning, text: trimmed(text) }, next));
        }
        None
    }
}

/// Splits a message from the next one in the same line.
fn until_next(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    // Most messages have no `L`, and searching for a byte is cheap.
    let mark = memchr::memchr(b'L', text)
        .and_then(|_| memmem::find(text, b"] NCCL INFO ").or_else(|| memmem::find(text, WARN)));
    let Some(mark) = mark else {
        return (text, None);
    };
    // `…GDRDMAnode-7:41:57 [3] NCCL INFO`: the start of the name is ambiguous, but text before a blank is not part of
    // it.
    let bracket = memchr::memrchr(b'[', &text[..mark]).unwrap_or(mark);
    let end = text[..bracket].trim_ascii_end();
    let start = memchr::memrchr(b' ', end).map_or(0, |blank| blank + 1);
    (&text[..start], Some(&text[start..]))
}

/// Whether a line resembles a message of NCCL.
pub(crate) fn is_torn(line: &[u8]) -> bool {
    memmem::find(line, b"] NCCL INFO ").is_some() || memmem::find(line, b" NCCL WARN ").is_some()
}

/// Parses the number of `[3] `; returns it with the rest.
fn bracketed(text: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = beginning(text.strip_prefix(b"[")?)?;
    Some((number, rest.strip_prefix(b"] ")?))
}

/// Parses a leading number; returns it with the rest.
fn beginning(text: &[u8]) -> Option<(u32, &[u8])> {
    let (mut number, mut length) = (0_u32, 0);
    while let Some(digit) =
        text.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10)
    {
        number = number.checked_mul(10)?.checked_add(digit.into())?;
        length += 1;
    }
    (length > 0).then(|| (number, &text[length..]))
}

/// Parses the number after the last colon, at the end of the text; returns it with the text before the colon.
fn ending(text: &[u8]) -> Option<(u32, &[u8])> {
    let (mut number, mut scale, mut at) = (0_u32, 1_u32, text.len());
    loop {
        let byte = text[..at].last()?;
        at -= 1;
        match byte {
            b':' if at + 1 < text.len() => return Some((number, &text[..at])),
            b'0'..=b'9' => {
                number = number.checked_add(u32::from(byte - b'0').checked_mul(scale)?)?;
                // A digit after the tenth would overflow.
                scale = scale.saturating_mul(10);
            }
            _ => return None,
        }
    }
}

/// Returns the version that NCCL prints alone or within a line, `2.21.5+cuda12.4`, and whether it is RCCL's.
pub fn version(text: &[u8]) -> Option<(&[u8], bool)> {
    let at = memmem::find(text, b"CCL version ")?;
    let rccl = match text.get(at.checked_sub(1)?)? {
        b'N' => false,
        b'R' => true,
        _ => return None,
    };
    // Some RCCL releases print a colon in between.
    let rest = trimmed(&text[at + b"CCL version ".len()..]);
    let rest = trimmed(rest.strip_prefix(b":").unwrap_or(rest));
    let end = rest.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(rest.len());
    let version = &rest[..end.min(64)];
    version.first()?.is_ascii_digit().then_some((version, rccl))
}

/// Characters of names, by byte.
const IS_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] =
            (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'-' | b'.' | b'_');
        byte += 1;
    }
    table
};

/// Returns the node name without the prefix of a launcher (`[1,0]<stdout>:`), a colour or a pod.
fn node(text: &[u8]) -> Option<&[u8]> {
    let mut from =
        text.iter().rposition(|byte| !IS_NAME[usize::from(*byte)]).map_or(0, |at| at + 1);
    // Skips the letter of `ESC [ 3 2 m`.
    if from > 0
        && let Some(escape) = memchr::memrchr(0x1b, &text[..from])
        && let Some(end) = text[escape..].iter().position(|byte| *byte == b'm')
    {
        from = from.max(escape + end + 1);
    }
    let name = &text[from..];
    (!name.is_empty() && name.len() <= 255).then_some(name)
}

/// Removes blanks, line ends and trailing colours.
fn trimmed(text: &[u8]) -> &[u8] {
    let mut text = text.trim_ascii();
    while text.last() == Some(&b'm') {
        let Some(escape) = memchr::memrchr(0x1b, text) else { break };
        let code = &text[escape + 1..text.len() - 1];
        if !code.iter().all(|byte| b"[;0123456789".contains(byte)) {
            break;
        }
        text = text[..escape].trim_ascii_end();
    }
    text
}

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
}

/// Parses `Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/0/GDRDMA`, and its variants since 2.4.
pub(crate) fn channel(text: &[u8]) -> Option<Channel<'_>> {
    let collnet = text.starts_with(b"CollNet ");
    if !(text.starts_with(b"Channel ") || collnet || text.starts_with(b"Ring ")) {
        return None;
    }
    let rest = text.get(text.iter().position(|byte| *byte == b':')? + 2..)?;
    let (first, rest) = end(rest)?;
    let (second, rest) = match rest.strip_prefix(b" -> ") {
        Some(rest) => {
            let (second, rest) = end(rest)?;
            (Some(second), rest)
        }
        None => (None, rest),
    };
    let (receives, rest) = match (rest.strip_prefix(b" [receive]"), rest.strip_prefix(b" [send]")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => (false, rest),
    };
    let own = if receives && !collnet { second? } else { first };
    let what = rest.strip_prefix(b" via ")?;
    let (transport, rest) = split(what);
    let is_net = matches!(transport, b"NET" | b"COLLNET");
    if !is_net {
        return Some(Channel { own, transport, how: split(rest).0, nic: None, direct: false });
    }
    // A plugin's name can contain anything: the NIC number is the first digit after a slash.
    let number = rest.windows(2).position(|pair| pair[0] == b'/' && pair[1].is_ascii_digit());
    let (how, tail) = number.map_or((rest, &b""[..]), |at| (&rest[..at], &rest[at + 1..]));
    let (nic, tail) = beginning(tail).map_or((None, tail), |(nic, tail)| (Some(nic), tail));
    let direct = tail.starts_with(b"/GDRDMA") || memmem::find(tail, b"/GDRDMA").is_some();
    Some(Channel { own, transport, how, nic, direct })
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

/// Returns the number after a word (`rank 3`).
pub(crate) fn after(text: &[u8], word: &[u8]) -> Option<u32> {
    beginning(&text[memmem::find(text, word)? + word.len()..]).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(line: &str) -> Option<(String, u32, u32, bool, String)> {
        let (line, _) = Line::parse(line.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((text(line.host), line.pid, line.device, line.warning, text(line.text)))
    }

    #[test]
    fn line_is_parsed_after_any_prefix() {
        let own = ("node-7".to_owned(), 41, 3, false, "Using network IB".to_owned());
        for before in [
            "",
            "[2026-11-20 10:00:00] ",
            "[1,12]<stdout>:",
            "12: ",
            "[pod/worker-3/main] ",
            "2026-11-20T10:00:00.123456789Z stdout F ",
            "\u{1b}[32m",
            "worker-3 | ",
        ] {
            let line = format!("{before}node-7:41:57 [3] NCCL INFO Using network IB\r\n");
            assert_eq!(who(&line), Some(own.clone()), "{before:?}");
        }
        let coloured = "\u{1b}[32mnode-7:41:57 [3] NCCL INFO Using network IB\u{1b}[0m";
        assert_eq!(who(coloured), Some(own));
    }

    #[test]
    fn warning_is_parsed_after_its_source_location() {
        for place in ["ibvwrap.cc:95", "transport/net_ib.cc:1295 (ncclIbTest)", "include/x.h:1"] {
            let line = format!("n.example:1:2 [0] {place} NCCL WARN Call to ibv_reg_mr failed");
            let found = who(&line).unwrap();
            assert_eq!((found.0.as_str(), found.3), ("n.example", true));
            assert_eq!(found.4, "Call to ibv_reg_mr failed");
        }
    }

    #[test]
    fn truncated_and_unrelated_lines_are_rejected() {
        for line in [
            "",
            " NCCL INFO x",
            "[0] NCCL INFO x",
            "node:1 [0] NCCL INFO x",
            "node:1:2 NCCL INFO x",
            "node:1:2 [0] NCCL DEBUG x",
            "node:99999999999:2 [0] NCCL INFO x",
            "the NCCL INFO of my program",
            "node:1:2 [] NCCL INFO x",
            "node:1:2 [0]NCCL INFO x",
            "node:1:2 [0] NCCL",
        ] {
            assert_eq!(who(line), None, "{line}");
        }
    }

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
            let Channel { own, transport, how, nic, direct } =
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

    #[test]
    fn version_is_parsed_alone_or_within_a_line() {
        let found = |text: &'static str| {
            version(text.as_bytes())
                .map(|(version, rccl)| (std::str::from_utf8(version).unwrap(), rccl))
        };
        assert_eq!(found("NCCL version 2.21.5+cuda12.4\n"), Some(("2.21.5+cuda12.4", false)));
        assert_eq!(found("12: NCCL version 2.4.8+cuda10.1"), Some(("2.4.8+cuda10.1", false)));
        assert_eq!(
            found("RCCL version : 2.20.5-HEAD:d380693"),
            Some(("2.20.5-HEAD:d380693", true))
        );
        assert_eq!(found("NCCL version mismatch"), None);
        assert_eq!(found("CCL version 2"), None);
    }
}
