//! What is told of bedplate's own records, which a recording leaves out: when, what kind of thing, of which change, and how it
//! ended. No reasons, no commands, no contents: these hold words of people and of files. Pure.

use bedplate_base::Reading;
use bedplate_base::mask::{self, MASKED, identity};
use bedplate_core::kind::KINDS;
use bedplate_core::ledger::{Entry, LEDGER, Ledger};
use bedplate_core::reboot_record::last_boot::RebootOrigin;
use bedplate_core::reboot_record::{RECORD, Record};
use bedplate_host::{HostKind, Reader};

/// Longest id of a change that is shown.
const LONGEST: usize = 128;
/// What is entered in the history.
const COMMANDS: [&str; 2] = ["apply", "revert"];
/// How a change ends.
const RESULTS: [&str; 9] =
    ["done", "failed", "blocked", "deferred", "owed", "reverted", "left", "refused", "allowed"];
/// Why nothing is told.
const UNTOLD: &str = "a recording does not hold it";
/// The same, where there is something that cannot be used. What is wrong with it would quote it.
const UNUSABLE: &str = "it could not be read";

/// What was done on a host, and which reboots were asked for.
#[derive(Debug)]
pub(crate) struct Outline {
    /// Runs of `apply` and `revert`, oldest first.
    pub history: Reading<Vec<Run>>,
    /// The reboot record; absent: bedplate has asked for none.
    pub reboots: Reading<Reboots>,
}

/// One run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// `apply` or `revert`.
    pub command: String,
    /// The profile, for `apply`.
    pub profile: Option<String>,
    /// How each change ended, and which change it was.
    pub results: Vec<(String, String)>,
}

/// Reboots.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reboots {
    /// When each was asked for since the host was last right, and how.
    pub attempts: Vec<(String, String)>,
    /// Not before when an operator wants one.
    pub asked: Option<String>,
    /// Since when the host may hold the fleet's lock.
    pub lock: Option<String>,
    /// Which reboot the last boot followed.
    pub came: Option<String>,
}

/// Reads both.
pub(crate) fn outline(reader: &dyn Reader) -> Outline {
    let is_recording = reader.kind() == HostKind::Snapshot;
    let history = match Ledger::load(reader) {
        Ok(ledger) if is_recording && lacks_history(reader, &ledger) => {
            Reading::Unknown(UNTOLD.into())
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
        Err(_) if is_recording => Reading::Unknown(UNTOLD.into()),
        Err(_) => Reading::Unknown(UNUSABLE.into()),
    };
    Outline { history, reboots }
}

/// Whether a recording had a history, which it leaves out; all else of a ledger is kept.
pub(crate) fn lacks_history(recording: &dyn Reader, ledger: &Ledger) -> bool {
    ledger.history.is_empty() && recording.exists(LEDGER) != Ok(false)
}

fn run(entry: &Entry) -> Run {
    let results = entry.results.iter();
    let results = results.map(|one| (listed(&one.result, &RESULTS), subject(&one.subject)));
    Run {
        // A ledger may hold any text in the place of a time.
        at: entry
            .at
            .parse::<jiff::Timestamp>()
            .map_or(MASKED.to_owned(), bedplate_base::format_utc),
        command: listed(&entry.command, &COMMANDS),
        profile: entry.profile.as_deref().map(name),
        results: results.collect(),
    }
}

/// A word of bedplate's own.
fn listed(text: &str, words: &[&str]) -> String {
    if words.contains(&text) { text.to_owned() } else { MASKED.to_owned() }
}

/// What a profile is called.
fn name(text: &str) -> String {
    if mask::is_name(text) { text.to_owned() } else { MASKED.to_owned() }
}

/// The id of a change: its kind, and which. Whatever else was the subject of a run may be a word of a file.
fn subject(text: &str) -> String {
    let kind = text.split('/').next().unwrap_or_default();
    if !KINDS.iter().any(|known| known.id.name() == kind) {
        return MASKED.to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    match text.len() <= LONGEST && text.chars().all(plain) && identity::places(text).is_empty() {
        true => text.to_owned(),
        // Of a tool's run its arguments.
        false => format!("{kind}/{MASKED}"),
    }
}

fn of_record(record: &Record) -> Reboots {
    let attempts = record.attempts.iter().map(|attempt| {
        let rehearsal = if attempt.rehearsal { ", a rehearsal" } else { "" };
        (bedplate_base::format_utc(attempt.at), format!("{}{rehearsal}", attempt.method))
    });
    Reboots {
        attempts: attempts.collect(),
        asked: record.asked.as_ref().map(|asked| bedplate_base::format_utc(asked.at)),
        lock: record.lock.as_ref().map(|held| bedplate_base::format_utc(held.since)),
        came: record.came.as_ref().map(|came| by(came.by).to_owned()),
    }
}

/// Which reboot it was; the sentence in the record may hold other words.
fn by(by: RebootOrigin) -> &'static str {
    match by {
        RebootOrigin::Announced(method) => method.announced(),
        RebootOrigin::OrdinaryWithoutBmc => "an ordinary one, as the BMC did not cycle the power",
        RebootOrigin::Others => "not one of bedplate's",
        RebootOrigin::Unknown => "not known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_run_was_about_only_ids_of_changes_are_told() {
        for (given, told) in [
            ("cmdline/etc/default/grub", "cmdline/etc/default/grub"),
            ("acs/0000:18:00.0", "acs/0000:18:00.0"),
            ("modules/update-initramfs -u hunter2", "modules/…"),
            ("sysctl/net.ipv4.conf.enxaabbccddeeff.forwarding", "sysctl/…"),
            ("password=hunter2", "…"),
            ("hunter2", "…"),
        ] {
            assert_eq!(subject(given), told);
        }
        assert_eq!(listed("done", &RESULTS), "done");
        assert_eq!(listed("hunter2", &RESULTS), MASKED);
        assert_eq!(name("why not hunter2"), MASKED);
    }
}
