//! Meanings of NCCL's warnings, in one table (`docs/nccl-log.md`). Unknown warnings are shown verbatim.

use std::sync::LazyLock;

/// Severity of a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WarningSeverity {
    /// Informational.
    Note,
    /// The job fails, or is slower than possible.
    Fault,
}

/// A known warning.
#[derive(Debug)]
pub struct Meaning {
    /// Substring of its text.
    pub has: &'static str,
    /// Severity.
    pub weight: WarningSeverity,
    /// Whether another process or node has the cause.
    pub is_effect: bool,
    /// Meaning.
    pub means: &'static str,
    /// Fix, if one is known.
    pub fix: Option<&'static str>,
}

/// Table of known warnings.
const TABLE: &str = include_str!("warnings.txt");

/// Known warnings.
pub static MEANINGS: LazyLock<Vec<Meaning>> = LazyLock::new(|| {
    let mut group = None;
    let rows = TABLE.lines().filter_map(|line| {
        let heads = [
            ("fault: ", WarningSeverity::Fault),
            ("effect: ", WarningSeverity::Fault),
            ("note: ", WarningSeverity::Note),
        ];
        let head = heads.iter().find_map(|(head, weight)| {
            Some((*weight, *head == "effect: ", line.strip_prefix(head)?))
        });
        if let Some((weight, is_effect, fix)) = head {
            group = Some((weight, is_effect, (fix != "-").then_some(fix)));
            return None;
        }
        let (weight, is_effect, fix) = group?;
        let (has, means) = line.split_once(" => ")?;
        Some(Meaning { has, weight, is_effect, means, fix })
    });
    rows.collect()
});

/// Meanings of completion statuses (rdma-core libibverbs/verbs.h, enum ibv_wc_status).
pub const STATUSES: &[(u32, &str, &str)] = &[
    (
        1,
        "local length error",
        "the receive buffer is too small: versions or settings differ between ranks",
    ),
    (2, "local QP operation error", "the queue pair was misused, or the NIC's firmware failed"),
    (
        4,
        "local protection error",
        "the memory is not registered for this access: check ATS, ACS and the driver's peer memory",
    ),
    (5, "work request flushed", "follows an earlier error on the connection; find the first"),
    (9, "remote invalid request", "the peer rejected the request: settings differ between ranks"),
    (
        10,
        "remote access error",
        "the peer's memory is not registered for this access, or a PCIe access there failed",
    ),
    (11, "remote operation error", "the peer could not complete it: check its NIC and kernel log"),
    (
        12,
        "transport retry counter exceeded",
        "no answer: the link or a switch loses packets, routes differ, or the peer has ended",
    ),
    (13, "RNR retry counter exceeded", "the peer is stuck: not ready to receive"),
];

/// Returns the meaning of a warning: that of the longest part that its text has.
pub(crate) fn meaning(text: &str) -> Option<&'static Meaning> {
    MEANINGS.iter().filter(|row| text.contains(row.has)).max_by_key(|row| row.has.len())
}

/// Parses the status of a failed completion: `status=12`, `status=IBV_WC_RETRY_EXC_ERR(12)`, `with error 12`.
pub(crate) fn status(text: &str) -> Option<&'static (u32, &'static str, &'static str)> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u32>().ok()
    };
    let rest = text.split_once("status=").map(|(_, rest)| rest);
    let named = |rest: &str| {
        let word = rest.split([' ', ',']).next()?;
        digits(word.split_once('(')?.1)
    };
    let number = match rest {
        Some(rest) => digits(rest).or_else(|| named(rest)),
        None => digits(text.split_once("with error ")?.1),
    }?;
    STATUSES.iter().find(|row| row.0 == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row() {
        let is_row = |line: &&str| {
            !line.is_empty()
                && !["# ", "fault: ", "effect: ", "note: "]
                    .iter()
                    .any(|head| line.starts_with(head))
        };
        assert_eq!(TABLE.lines().filter(is_row).count(), MEANINGS.len());
        let mut all: Vec<&str> = MEANINGS.iter().map(|row| row.has).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        let known = |text: &str| meaning(text).map(|row| row.weight);
        assert_eq!(known("async fatal event on QP"), Some(WarningSeverity::Fault));
        assert_eq!(
            known("async fatal event on SRQ, unused for now (x)"),
            Some(WarningSeverity::Note)
        );
    }

    #[test]
    fn completion_status_is_parsed_in_all_forms() {
        for text in [
            "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129",
            "NET/IB : Got completion from peer 10.0.0.1<4791> with status=12 opcode=0 len=0 vendor err 129",
            "NET/IB: Got completion from peer x with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129",
        ] {
            assert_eq!(status(text).map(|row| row.0), Some(12), "{text}");
            assert_eq!(meaning(text).unwrap().has, "Got completion");
        }
        assert_eq!(status("Got completion with status=77"), None);
        assert_eq!(status("status="), None);
    }
}
