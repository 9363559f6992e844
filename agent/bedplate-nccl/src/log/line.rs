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

    /// Parses a line that resembles a message of NCCL, without node and process id: torn, or with these replaced. Its
    /// host is `name`.
    pub(crate) fn anonymous(line: &'l [u8], name: &'l [u8]) -> Option<Self> {
        let starts = |marker: &[u8]| line.trim_ascii_start().starts_with(marker);
        let info = memmem::find(line, b"] NCCL INFO ").map(|at| at + b"] ".len());
        let info = info.or_else(|| memmem::find(line, INFO).filter(|_| starts(INFO)));
        let warn = memmem::find(line, b" NCCL WARN ").map(|at| at + b" ".len());
        let warn = warn.or_else(|| memmem::find(line, WARN).filter(|_| starts(WARN)));
        let (at, warning) = match (info, warn) {
            (Some(info), None) => (info, false),
            (None, Some(warn)) => (warn, true),
            (Some(info), Some(warn)) => (info.min(warn), warn < info),
            (None, None) => return None,
        };
        let before = line[..at].trim_ascii_end();
        let bracket = memchr::memrchr(b'[', before);
        let device = bracket.and_then(|start| beginning(&before[start + 1..]));
        let device = device.map_or(0, |(device, _)| device);
        let text = trimmed(&line[at + INFO.len()..]);
        Some(Line { host: name, pid: 0, device, warning, text })
    }
}

/// Splits a message from the next one in the same line.
fn until_next(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    // Most messages have no `L`, and searching for a byte is cheap.
    let mark = memchr::memchr(b'L', text).and_then(|_| {
        let info = memmem::find(text, b"] NCCL INFO ");
        memmem::find(&text[..info.unwrap_or(text.len())], WARN).or(info)
    });
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

/// Parses the number of `[3] `; returns it with the rest.
fn bracketed(text: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = beginning(text.strip_prefix(b"[")?)?;
    Some((number, rest.strip_prefix(b"] ")?))
}

/// Parses a leading number; returns it with the rest.
pub(super) fn beginning(text: &[u8]) -> Option<(u32, &[u8])> {
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

/// Source files whose failed calls do not fail the job: monitoring (RAS), sockets that another process has closed, and
/// optional features (NCCL src/ras, src/transport/nvls.cc, src/transport/net.cc, src/transport/coll_net.cc).
const OPTIONAL: [&[u8]; 7] = [
    b"ras/",
    b"misc/",
    b"os/",
    b"graph/",
    b"transport/nvls.cc",
    b"transport/net.cc",
    b"transport/coll_net.cc",
];

/// Whether a message is the trace of a failed call that fails the job: `proxy.cc:679 -> 6 [Proxy Thread]`, `init.cc:9
/// (initTransportsRank) -> 3` (NCCL src/include/checks.h, debug.h). Result 7 does not count (`ncclInProgress`).
pub(crate) fn is_trace(text: &[u8]) -> bool {
    let Some(at) = memmem::find(text, b" -> ") else { return false };
    let (before, after) = (&text[..at], &text[at + b" -> ".len()..]);
    let place = before.split(|byte| *byte == b' ').next().unwrap_or_default();
    let Some((_line, file)) = ending(place) else { return false };
    let is_source = [&b".cc"[..], b".cu", b".h"].iter().any(|end| file.ends_with(end));
    let Some((result, thread)) = beginning(after).filter(|_| is_source) else { return false };
    let is_in_thread =
        memmem::find(thread, b"Thread]").is_some() || memmem::find(thread, b"thread]").is_some();
    let is_below = |directory: &[u8]| {
        let mut starts = memmem::find_iter(file, directory);
        starts.any(|start| start == 0 || file[start - 1] == b'/')
    };
    let is_optional = OPTIONAL.iter().any(|optional| is_below(optional));
    let is_failure = result > 0 && result != 7;
    is_failure && (is_in_thread && !is_below(b"ras/") || !is_optional)
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
    fn trace_of_a_failed_call_is_recognized() {
        for text in [
            "proxy.cc:679 -> 6 [Proxy Thread]",
            "init.cc:1358 -> 3",
            "init.cc:1358 (initTransportsRank) -> 8",
            "group.cc:64 -> 1 [Async thread]",
            "transport/net.cc:1206 -> 6 [Progress Thread]",
            "include/socket.h:9 -> 2 (Connection reset by peer)",
        ] {
            assert!(is_trace(text.as_bytes()), "{text}");
        }
        for text in [
            "init.cc:1358 -> 7",
            "init.cc:1358 -> 0",
            "ras/ras.cc:331 -> 6",
            "misc/socket.cc:47 -> 3",
            "/build/hipify/src/misc/socket.cc:47 -> 3",
            "transport/nvls.cc:693 -> 1",
            "Channel 00/0 : 0[0] -> 1[0] via P2P/IPC",
            "Tree 0 : -1 -> 0 -> 1/-1/-1",
            "a -> 3",
        ] {
            assert!(!is_trace(text.as_bytes()), "{text}");
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
