//! The operator's hold, "no reboot of this host until …", stored in a file. Text and arithmetic only: time is an
//! argument, and the caller writes the file. A file that cannot be parsed is a hold.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use bedplate_base::terminal::{brief, one_line};
use bedplate_base::{OptionalRead as _, duration, format_utc};
use bedplate_host::{Reader, file};

/// Path of the hold inside the host. Stored next to the ledger: it must outlive a reboot.
pub const HOLD: &str = "/var/lib/bedplate/hold.json";
/// Format version that this program reads and writes.
pub(crate) const VERSION: u32 = 1;
/// Longest hold with an end. Anything longer is a typing error, or means a hold without an end.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Maximum length of a reason in characters: it is shown in one line of a report.
pub const LONGEST_REASON: usize = 500;
/// Maximum length of an operator's name in characters (useradd(8) accepts 32).
pub const LONGEST_NAME: usize = 64;

/// An operator's instruction that this host must not be rebooted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// End of the hold; `None`: it never expires.
    pub until: Option<Timestamp>,
    /// The operator's reason.
    pub why: String,
    /// Name of the operator.
    pub by: String,
}

/// JSON form of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)] // An unknown condition must not be dropped.
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

/// Error of reading, writing, or timing a hold.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Not the JSON of a hold.
    #[error("not a hold file")]
    Parse(#[source] serde_json::Error),
    /// Written by another version of bedplate.
    #[error("unsupported format version {0} (supported: {VERSION})")]
    Version(u32),
    /// The hold cannot be serialized.
    #[error("cannot serialize the hold")]
    Serialise(#[source] serde_json::Error),
    /// Not a length of time.
    #[error(
        "`{0}` is not a duration; write a number with a unit: `30s`, `30m`, `4h`, `2d` or `1h30m`"
    )]
    Duration(String),
    /// A length of zero.
    #[error("`{0}` is a duration of zero")]
    Zero(String),
    /// More than [`LONGEST`].
    #[error("`{0}` exceeds 90 days; omit the duration for a hold without an end")]
    TooLong(String),
    /// The end is out of range, because the clock is far off.
    #[error("hold end is out of range (start: {at})", at = format_utc(*.0))]
    NoEnd(Timestamp),
}

impl Hold {
    /// Creates a hold that starts now. Without a length it has no end.
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

    /// Loads the host's hold. A file that cannot be read or parsed is a hold without an end.
    pub fn load(reader: &dyn Reader) -> Option<Hold> {
        match reader.read(HOLD).optional() {
            Ok(content) => content.map(|content| Hold::of_content(&content)),
            Err(error) => Some(Hold::unreadable(&error.to_string())),
        }
    }

    /// Loads the hold of the host below `root`, like [`Hold::load`].
    pub fn below(root: &Path) -> Option<Hold> {
        match file::bytes(&file::under(root, HOLD)) {
            Ok(content) => Some(Hold::of_content(&content)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(Hold::unreadable(&error.to_string())),
        }
    }

    /// Parses the content of [`HOLD`].
    ///
    /// # Errors
    /// [`HoldError::Parse`], [`HoldError::Version`].
    pub fn parse(content: &[u8]) -> Result<Hold, HoldError> {
        // Must be first: other versions may have other fields.
        let Version { version } = serde_json::from_slice(content).map_err(HoldError::Parse)?;
        if version != VERSION {
            return Err(HoldError::Version(version));
        }
        let file: File = serde_json::from_slice(content).map_err(HoldError::Parse)?;
        Ok(Hold { until: file.until, why: file.why, by: file.by })
    }

    /// Converts a file's content to a hold. Content that cannot be parsed is a hold without an end, whose reason names
    /// the file: an operator has written it, and ignoring it could cost a training run.
    pub fn of_content(content: &[u8]) -> Hold {
        Hold::parse(content).unwrap_or_else(|error| {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            Hold::unreadable(&format!("{error}{}", source.unwrap_or_default()))
        })
    }

    /// Returns the hold for a file that cannot be read: in force until an operator corrects or removes it.
    pub fn unreadable(reason: &str) -> Hold {
        let why = format!("{HOLD} cannot be parsed ({reason}); fix or remove it");
        Hold { until: None, why, by: "bedplate".into() }
    }

    /// Returns the content of [`HOLD`], with a final line end.
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

    /// Whether it is in force at this time. Only the end is checked, never the start: if the clock jumps back,
    /// a hold in force stays so, and an expired one is in force again until its end.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Describes it in one line for operators: end, remaining time, operator, reason.
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

/// Parses the length of a hold.
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
    fn hold_parses_back() {
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
    fn hold_expires_at_its_end() {
        let hold = hold();
        assert!(hold.is_in_force(at("2026-03-01T11:59:59.999999999Z")));
        assert!(!hold.is_in_force(at("2026-03-01T12:00:00Z")));
        assert!(Hold { until: None, ..hold }.is_in_force(Timestamp::MAX));
    }

    #[test]
    fn clock_jump_back_never_lifts_a_hold() {
        let hold = Hold::starting(
            at("2026-03-01T08:00:00Z"),
            Some(parse_length("4h").unwrap()),
            "",
            "ada",
        )
        .unwrap();
        // In force; then the clock's battery is empty.
        assert!(hold.is_in_force(at("2026-03-01T09:00:00Z")));
        assert!(hold.is_in_force(at("1970-01-01T00:00:00Z")));
        assert!(hold.is_in_force(Timestamp::MIN));
        // Expired; then the clock is set back. A hold in force again can be corrected, a reboot cannot.
        assert!(!hold.is_in_force(at("2026-03-01T12:00:01Z")));
        assert!(hold.is_in_force(at("2026-03-01T11:00:00Z")));
        assert!(hold.describe(Timestamp::MIN).starts_with("held until 2026-03-01 12:00:00 UTC ("));
    }

    #[test]
    fn unreadable_file_is_a_hold_and_is_named() {
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
    fn only_an_absent_file_means_no_hold() {
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
    fn valid_lengths_are_parsed() {
        for (text, minutes) in [("30m", 30), ("2d", 2880), ("90d", 129_600), ("2160h", 129_600)] {
            assert_eq!(parse_length(text).unwrap(), SignedDuration::from_mins(minutes), "{text}");
        }
    }

    #[test]
    fn invalid_lengths_are_rejected() {
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
    fn description_shows_end_operator_and_reason() {
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
    fn hold_with_end_out_of_range_is_rejected() {
        let day = parse_length("1d").unwrap();
        assert!(matches!(
            Hold::starting(Timestamp::MAX, Some(day), "", ""),
            Err(HoldError::NoEnd(_))
        ));
        assert_eq!(Hold::starting(Timestamp::MAX, None, "", "").unwrap().until, None);
    }
}
