//! Outline of bedplate's own records, which a snapshot omits: times, types of events, changes, results. Excludes
//! reasons, commands and contents, which may quote operators and files. Pure.

use bedplate_base::Reading;
use bedplate_base::mask::{self, MASKED, identity};
use bedplate_core::kind::KINDS;
use bedplate_core::ledger::{Entry, LEDGER, Ledger};
use bedplate_core::reboot_record::last_boot::RebootOrigin;
use bedplate_core::reboot_record::{RECORD, Record};
use bedplate_host::{HostKind, Reader};

/// Maximum length of a displayed change id.
const LONGEST: usize = 128;
/// Commands in the history.
const COMMANDS: [&str; 2] = ["apply", "revert"];
/// Results of a change.
const RESULTS: [&str; 10] = [
    "done",
    "already-done",
    "failed",
    "blocked",
    "deferred",
    "tools-pending",
    "reverted",
    "left",
    "refused",
    "allowed",
];
/// Reason if a snapshot omits the record.
const NOT_RECORDED: &str = "not in the snapshot";
/// Reason if the record is unusable. A more specific error would quote its content.
const UNUSABLE: &str = "could not be read";

/// Changes on a host, and requested reboots.
#[derive(Debug)]
pub(crate) struct Outline {
    /// Runs of `apply` and `revert`, oldest first.
    pub history: Reading<Vec<Run>>,
    /// Reboot record. Absent: bedplate has requested no reboot.
    pub reboots: Reading<Reboots>,
}

/// One run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Start time, RFC 3339 in UTC.
    pub at: String,
    /// `apply` or `revert`.
    pub command: String,
    /// Profile name, for `apply`.
    pub profile: Option<String>,
    /// Result and id of each change.
    pub results: Vec<(String, String)>,
}

/// Reboots requested by bedplate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reboots {
    /// Time and method of each attempt since the host last converged.
    pub attempts: Vec<(String, String)>,
    /// Earliest time of a reboot that an operator requested.
    pub requested: Option<String>,
    /// Time since which the host may hold the reboot lock.
    pub lock: Option<String>,
    /// Cause of the last boot.
    pub cause: Option<String>,
}

/// Reads both records.
pub(crate) fn outline(reader: &dyn Reader) -> Outline {
    let is_recording = reader.kind() == HostKind::Snapshot;
    let history = match Ledger::load(reader) {
        Ok(ledger) if is_recording && lacks_history(reader, &ledger) => {
            Reading::Unknown(NOT_RECORDED.into())
        }
        Ok(ledger) => Reading::Known(ledger.history.iter().map(run).collect()),
        Err(_) => Reading::Unknown(UNUSABLE.into()),
    };
    let reboots = match reader.read(RECORD) {
        Ok(bytes) => match Record::parse(&String::from_utf8_lossy(&bytes)) {
            Ok(record) => Reading::Known(of_record(&record)),
            Err(_) => Reading::Unknown(UNUSABLE.into()),
        },
        Err(error) if error.is_absent() => Reading::Absent,
        Err(_) if is_recording => Reading::Unknown(NOT_RECORDED.into()),
        Err(_) => Reading::Unknown(UNUSABLE.into()),
    };
    Outline { history, reboots }
}

/// Whether a recording had a history and omits it. The rest of a ledger is recorded.
pub(crate) fn lacks_history(recording: &dyn Reader, ledger: &Ledger) -> bool {
    ledger.history.is_empty() && recording.exists(LEDGER) != Ok(false)
}

fn run(entry: &Entry) -> Run {
    let results = entry.results.iter();
    let results = results.map(|one| (listed(&one.result, &RESULTS), subject(&one.subject)));
    Run {
        // A ledger may hold any text in place of a time.
        at: entry
            .at
            .parse::<jiff::Timestamp>()
            .map_or(MASKED.to_owned(), bedplate_base::format_utc),
        command: listed(&entry.command, &COMMANDS),
        profile: entry.profile.as_deref().map(name),
        results: results.collect(),
    }
}

/// Returns a known word of bedplate, or masks the text.
fn listed(text: &str, words: &[&str]) -> String {
    if words.contains(&text) { text.to_owned() } else { MASKED.to_owned() }
}

/// Returns a profile name, or masks text that is not a name.
fn name(text: &str) -> String {
    if mask::is_name(text) { text.to_owned() } else { MASKED.to_owned() }
}

/// Returns the id of a change: resource type and object. Masks any other subject, which may quote a file.
fn subject(text: &str) -> String {
    let kind = text.split('/').next().unwrap_or_default();
    if !KINDS.iter().any(|known| known.id.name() == kind) {
        return MASKED.to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    match text.len() <= LONGEST && text.chars().all(plain) && identity::places(text).is_empty() {
        true => text.to_owned(),
        // The subject of a tool run contains arguments.
        false => format!("{kind}/{MASKED}"),
    }
}

fn of_record(record: &Record) -> Reboots {
    let attempts = record.attempts.iter().map(|attempt| {
        let dry_run = if attempt.dry_run { ", dry run" } else { "" };
        (bedplate_base::format_utc(attempt.at), format!("{}{dry_run}", attempt.method))
    });
    Reboots {
        attempts: attempts.collect(),
        requested: record.asked.as_ref().map(|asked| bedplate_base::format_utc(asked.at)),
        lock: record.lock.as_ref().map(|held| bedplate_base::format_utc(held.since)),
        cause: record.last_boot.as_ref().map(|last_boot| cause(last_boot.by).to_owned()),
    }
}

/// Describes the cause of a boot. The sentence in the record may contain other text.
fn cause(origin: RebootOrigin) -> &'static str {
    match origin {
        RebootOrigin::Scheduled(method) => method.origin(),
        RebootOrigin::OrdinaryWithoutBmc => {
            "an ordinary reboot, because the BMC did not cycle the power"
        }
        RebootOrigin::External => "a reboot that bedplate did not request",
        RebootOrigin::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outline_shows_only_change_ids_as_subjects() {
        for (given, shown) in [
            ("cmdline/etc/default/grub", "cmdline/etc/default/grub"),
            ("acs/0000:18:00.0", "acs/0000:18:00.0"),
            ("modules/update-initramfs -u hunter2", "modules/…"),
            ("sysctl/net.ipv4.conf.enxaabbccddeeff.forwarding", "sysctl/…"),
            ("password=hunter2", "…"),
            ("hunter2", "…"),
        ] {
            assert_eq!(subject(given), shown);
        }
        assert_eq!(listed("done", &RESULTS), "done");
        assert_eq!(listed("hunter2", &RESULTS), MASKED);
        assert_eq!(name("why not hunter2"), MASKED);
    }
}
