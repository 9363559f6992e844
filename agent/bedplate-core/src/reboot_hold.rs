//! The operator's hold: "no reboot of this host until …", as a file. Text and arithmetic: the time is an argument, and
//! writing the file is the caller's. Whatever cannot be understood holds.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use bedplate_base::terminal::{brief, one_line};
use bedplate_base::{OptionalRead as _, duration, format_utc};
use bedplate_host::{Reader, file};

/// Where the hold is kept, inside the host. Beside the ledger: it must outlive a reboot.
pub const HOLD: &str = "/var/lib/bedplate/hold.json";
/// The format this program reads and writes.
pub(crate) const VERSION: u32 = 1;
/// The longest hold with an end. Longer is either a slip of the pen or meant for ever, which is said by no end at all.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Characters of a reason: it is for the next operator to read, in a line of a report.
pub const LONGEST_REASON: usize = 500;
/// Characters of an operator's name (useradd(8) takes 32).
pub const LONGEST_NAME: usize = 64;

/// An operator's word that this host is not to be rebooted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// When it lapses; never, if none.
    pub until: Option<Timestamp>,
    /// The operator's reason.
    pub why: String,
    /// Who said so.
    pub by: String,
}

/// The file's form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)] // A condition that is not understood must not be dropped.
struct File {
    version: u32,
    until: Option<Timestamp>,
    why: String,
    by: String,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Why a hold cannot be read, written or timed.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Not the JSON of a hold.
    #[error("this is not a hold file")]
    Parse(#[source] serde_json::Error),
    /// Written by another bedplate.
    #[error("its format is version {0}, and this bedplate knows version {VERSION}")]
    Version(u32),
    /// It cannot be put into JSON.
    #[error("the hold cannot be written as JSON")]
    Serialise(#[source] serde_json::Error),
    /// Not a length of time.
    #[error(
        "`{0}` is not a length of time; write a number with a unit: `30s`, `30m`, `4h`, `2d` or `1h30m`"
    )]
    Duration(String),
    /// No time at all.
    #[error("`{0}` is no time at all")]
    Zero(String),
    /// More than [`LONGEST`].
    #[error("`{0}` is longer than 90 days; a hold without an end says so better")]
    TooLong(String),
    /// The clock is so far off that the end has no date.
    #[error("a hold of this length from {at} has no end that could be written as a date", at = format_utc(*.0))]
    NoEnd(Timestamp),
}

impl Hold {
    /// A hold that starts now. No length: it has no end.
    ///
    /// # Errors
    /// [`HoldError::NoEnd`].
    pub fn starting(
        now: Timestamp,
        length: Option<SignedDuration>,
        why: &str,
        by: &str,
    ) -> Result<Hold, HoldError> {
        let end = |length| now.checked_add(length).map_err(|_| HoldError::NoEnd(now));
        Ok(Hold { until: length.map(end).transpose()?, why: why.to_owned(), by: by.to_owned() })
    }

    /// The host's hold. No file is no hold; a file that cannot be read or understood is one without an end.
    pub fn load(reader: &dyn Reader) -> Option<Hold> {
        match reader.read(HOLD).optional() {
            Ok(content) => content.map(|content| Hold::of_content(&content)),
            Err(error) => Some(Hold::unreadable(&error.to_string())),
        }
    }

    /// The hold of the host below `root`, read as [`Hold::load`] reads it.
    pub fn below(root: &Path) -> Option<Hold> {
        match file::bytes(&file::under(root, HOLD)) {
            Ok(content) => Some(Hold::of_content(&content)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(Hold::unreadable(&error.to_string())),
        }
    }

    /// Reads the content of [`HOLD`].
    ///
    /// # Errors
    /// [`HoldError::Parse`], [`HoldError::Version`].
    pub fn parse(content: &[u8]) -> Result<Hold, HoldError> {
        // First, as a later version may have fields that this one does not know.
        let Version { version } = serde_json::from_slice(content).map_err(HoldError::Parse)?;
        if version != VERSION {
            return Err(HoldError::Version(version));
        }
        let file: File = serde_json::from_slice(content).map_err(HoldError::Parse)?;
        Ok(Hold { until: file.until, why: file.why, by: file.by })
    }

    /// The hold that a file's content is: content that cannot be parsed is a hold without an end, whose reason names
    /// the file. An operator has put something there, and guessing that it meant nothing could cost a training run.
    pub fn of_content(content: &[u8]) -> Hold {
        Hold::parse(content).unwrap_or_else(|error| {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            Hold::unreadable(&format!("{error}{}", source.unwrap_or_default()))
        })
    }

    /// The hold for a file that is there but cannot be read: in force until an operator corrects or removes it.
    pub fn unreadable(reason: &str) -> Hold {
        let why = format!("{HOLD} cannot be parsed ({reason}); fix or remove it");
        Hold { until: None, why, by: "bedplate".into() }
    }

    /// The content of [`HOLD`], with a final line end.
    ///
    /// # Errors
    /// [`HoldError::Serialise`].
    pub fn to_json(&self) -> Result<String, HoldError> {
        let file = File {
            version: VERSION,
            until: self.until,
            why: self.why.clone(),
            by: self.by.clone(),
        };
        serde_json::to_string_pretty(&file).map(|json| json + "\n").map_err(HoldError::Serialise)
    }

    /// Whether it holds at this time. Only the end counts, never the start: when the clock jumps backwards, a hold that
    /// is in force stays so, and one that had lapsed holds again until its end comes back.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// One line for people: until when, how long that is, who and why.
    pub fn describe(&self, now: Timestamp) -> String {
        let until = match self.until {
            None => "held until released,".to_owned(),
            Some(until) if now < until => {
                format!(
                    "held until {} ({} left)",
                    format_utc(until),
                    duration::format_rounded(until.duration_since(now))
                )
            }
            Some(until) => format!("was held until {}", format_utc(until)),
        };
        let reason = |why: &str| {
            if why.trim().is_empty() {
                "no reason given".into()
            } else {
                brief(why, LONGEST_REASON)
            }
        };
        format!("{until} by {}: {}", brief(&self.by, LONGEST_NAME), reason(&self.why))
    }
}

/// A length of time that a hold can have.
///
/// # Errors
/// [`HoldError::Duration`], [`HoldError::Zero`], [`HoldError::TooLong`].
pub fn parse_length(text: &str) -> Result<SignedDuration, HoldError> {
    match duration::parse(text) {
        None => Err(HoldError::Duration(one_line(text))),
        Some(SignedDuration::ZERO) => Err(HoldError::Zero(one_line(text))),
        Some(length) if length > LONGEST => Err(HoldError::TooLong(one_line(text))),
        Some(length) => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::DirReader;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn hold() -> Hold {
        Hold {
            until: Some(at("2026-03-01T12:00:00Z")),
            why: "training run 7".into(),
            by: "ada".into(),
        }
    }

    #[test]
    fn a_hold_reads_back_as_written() {
        let forever = Hold { until: None, ..hold() };
        for hold in [hold(), forever] {
            let json = hold.to_json().unwrap();
            assert_eq!(Hold::parse(json.as_bytes()).unwrap(), hold);
            assert_eq!(Hold::of_content(json.as_bytes()), hold);
        }
        assert_eq!(
            hold().to_json().unwrap(),
            "{\n  \"version\": 1,\n  \"until\": \"2026-03-01T12:00:00Z\",\n  \"why\": \"training run 7\",\n  \"by\": \"ada\"\n}\n"
        );
    }

    #[test]
    fn it_holds_up_to_its_end_and_no_longer() {
        let hold = hold();
        assert!(hold.is_in_force(at("2026-03-01T11:59:59.999999999Z")));
        assert!(!hold.is_in_force(at("2026-03-01T12:00:00Z")));
        assert!(Hold { until: None, ..hold }.is_in_force(Timestamp::MAX));
    }

    #[test]
    fn a_clock_that_jumps_backwards_never_lifts_a_hold() {
        let hold = Hold::starting(
            at("2026-03-01T08:00:00Z"),
            Some(parse_length("4h").unwrap()),
            "",
            "ada",
        )
        .unwrap();
        // In force, then the battery of the clock is empty.
        assert!(hold.is_in_force(at("2026-03-01T09:00:00Z")));
        assert!(hold.is_in_force(at("1970-01-01T00:00:00Z")));
        assert!(hold.is_in_force(Timestamp::MIN));
        // Lapsed, then the clock is set back: it holds again, which can be fixed; a reboot cannot.
        assert!(!hold.is_in_force(at("2026-03-01T12:00:01Z")));
        assert!(hold.is_in_force(at("2026-03-01T11:00:00Z")));
        assert!(hold.describe(Timestamp::MIN).starts_with("held until 2026-03-01 12:00:00 UTC ("));
    }

    #[test]
    fn what_cannot_be_understood_holds_and_names_the_file() {
        let good = hold().to_json().unwrap();
        for bad in [
            String::new(),
            "\0\0\0".into(),
            "[]".into(),
            good[..good.len() / 2].into(),
            good.replace("\"version\": 1", "\"version\": 2"),
            good.replace("\"version\": 1,", ""),
            good.replace("\"version\": 1", "\"version\": 0"),
            good.replace("\"by\"", "\"unless\": \"idle\", \"by\""),
            good.replace("2026-03-01T12:00:00Z", "tomorrow"),
            good.replace("2026-03-01T12:00:00Z", "2026-03-01 12:00"),
            format!("{good}{good}"),
        ] {
            assert!(Hold::parse(bad.as_bytes()).is_err(), "{bad:?}");
            let held = Hold::of_content(bad.as_bytes());
            assert!(
                held.is_in_force(Timestamp::MAX) && held.why.contains(HOLD),
                "{bad:?}: {held:?}"
            );
        }
        assert!(Hold::of_content(&[0xff, 0xfe]).is_in_force(Timestamp::MAX));
        let newer = good.replace("\"version\": 1", "\"version\": 2, \"unless\": \"idle\"");
        assert!(matches!(Hold::parse(newer.as_bytes()), Err(HoldError::Version(2))));
        assert!(Hold::unreadable("permission denied").why.contains("permission denied"));
    }

    #[test]
    fn only_a_file_that_is_not_there_is_no_hold() {
        let root = std::env::temp_dir().join(format!("bedplate-hold-{}", std::process::id()));
        let file = file::under(&root, HOLD);
        std::fs::create_dir_all(root.join("etc")).unwrap();
        let load = || Hold::load(&DirReader::image(&root).unwrap());
        let none = load();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let none_either = load();
        std::fs::write(&file, hold().to_json().unwrap()).unwrap();
        let good = load();
        std::fs::write(&file, "").unwrap();
        let empty = load();
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let directory = load();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((none, none_either, good), (None, None, Some(hold())));
        for held in [empty, directory] {
            let held = held.unwrap();
            assert!(held.is_in_force(Timestamp::MAX) && held.why.contains(HOLD), "{held:?}");
        }
    }

    #[test]
    fn lengths_read_as_written() {
        for (text, minutes) in [("30m", 30), ("2d", 2880), ("90d", 129_600), ("2160h", 129_600)] {
            assert_eq!(parse_length(text).unwrap(), SignedDuration::from_mins(minutes), "{text}");
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        for text in ["", "4", "soon"] {
            assert!(matches!(parse_length(text), Err(HoldError::Duration(_))), "{text:?}");
        }
        for text in ["0m", "0d0h0m"] {
            assert!(matches!(parse_length(text), Err(HoldError::Zero(_))), "{text:?}");
        }
        for text in ["91d", "90d1m", "129601m"] {
            assert!(matches!(parse_length(text), Err(HoldError::TooLong(_))), "{text:?}");
        }
    }

    #[test]
    fn people_read_until_when_who_and_why() {
        let hold = hold();
        let says = |now| hold.describe(at(now));
        assert_eq!(
            says("2026-03-01T10:29:30.5Z"),
            "held until 2026-03-01 12:00:00 UTC (1h 30m left) by ada: training run 7"
        );
        assert_eq!(
            says("2026-02-27T09:00:00Z"),
            "held until 2026-03-01 12:00:00 UTC (2d 3h left) by ada: training run 7"
        );
        assert!(says("2026-03-01T11:59:59Z").contains("(1m left)"));
        assert_eq!(
            says("2026-03-01T12:00:00Z"),
            "was held until 2026-03-01 12:00:00 UTC by ada: training run 7"
        );
        let evil = Hold { until: None, why: "\x1b[2J\nok".into(), by: "e\u{202e}ve".into() };
        let line = evil.describe(at("2026-03-01T12:00:00Z"));
        assert_eq!(line, "held until released, by e\\u{202e}ve: \\u{1b}[2J\\nok");
        let silent = Hold { why: " ".into(), ..evil };
        assert!(silent.describe(at("2026-03-01T12:00:00Z")).ends_with(": no reason given"));
    }

    #[test]
    fn a_hold_that_would_end_after_all_dates_is_refused() {
        let day = parse_length("1d").unwrap();
        assert!(matches!(
            Hold::starting(Timestamp::MAX, Some(day), "", ""),
            Err(HoldError::NoEnd(_))
        ));
        assert_eq!(Hold::starting(Timestamp::MAX, None, "", "").unwrap().until, None);
    }
}
