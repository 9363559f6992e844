//! The operator's pause of enforcement, "no changes to this host until `bedplate release`", stored in a file. While it
//! exists, the daemon and `bedplate boot` only observe, and differences cause no reboot. Stored next to the ledger,
//! since it must outlive a reboot. Not [`crate::reboot_hold`], which only prevents reboots.

use std::io::{Error, ErrorKind};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::reboot_hold::{LONGEST_NAME, LONGEST_REASON};
use bedplate_base::format_utc;
use bedplate_base::terminal::brief;
use bedplate_host::file;
use bedplate_host::write::{remove_own_file, replace_own_file};

/// Path of the file inside the host.
pub const HOLD: &str = "/var/lib/bedplate/enforce-hold.json";
/// Name of the file, for watches on the directory.
pub const NAME: &str = "enforce-hold.json";
/// Format version that this program reads and writes.
pub(crate) const VERSION: u32 = 1;
/// Fix.
pub(crate) const REMEDY: &str = "`bedplate release` resumes it";

/// Pause of enforcement on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforceHold {
    /// [`VERSION`].
    pub version: u32,
    /// Start time; `None`: the file cannot be parsed.
    pub since: Option<Timestamp>,
    /// The operator's reason.
    pub why: String,
    /// Name of the operator.
    pub by: String,
}

impl EnforceHold {
    /// Creates a pause that starts now.
    pub fn starting(now: Timestamp, why: &str, by: &str) -> Self {
        let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
        EnforceHold {
            version: VERSION,
            since: Some(second),
            why: why.to_owned(),
            by: by.to_owned(),
        }
    }

    /// Loads the pause of the host below `root`. A file that cannot be read or parsed is a pause: an operator has
    /// written it, and ignoring it would undo a revert.
    pub fn load(root: &Path) -> Option<Self> {
        match file::bytes(&file::under(root, HOLD)) {
            Ok(content) => Some(Self::parse(&content)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => Some(Self::unreadable(&error.to_string())),
        }
    }

    fn parse(content: &[u8]) -> Self {
        match serde_json::from_slice::<Self>(content) {
            Ok(hold) if hold.version == VERSION => hold,
            Ok(hold) => Self::unreadable(&format!("unsupported format version {}", hold.version)),
            Err(error) => Self::unreadable(&error.to_string()),
        }
    }

    fn unreadable(reason: &str) -> Self {
        let why = format!("cannot parse {HOLD} ({reason})");
        EnforceHold { version: VERSION, since: None, why, by: "bedplate".into() }
    }

    /// Stores the pause on the host below `root`, durably.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self, root: &Path) -> Result<(), Error> {
        let json = serde_json::to_string_pretty(self).map_err(Error::other)? + "\n";
        let path = file::under(root, HOLD);
        replace_own_file(&path, json.as_bytes(), 0o600, 0o700)
    }

    /// Removes the pause. Returns whether there was one.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn release(root: &Path) -> Result<bool, Error> {
        remove_own_file(&file::under(root, HOLD))
    }

    /// Describes it in one line for operators: start, operator, reason, and how to resume.
    pub fn describe(&self) -> String {
        let since =
            self.since.map(|since| format!(" since {}", format_utc(since))).unwrap_or_default();
        let why = if self.why.trim().is_empty() {
            "no reason given".into()
        } else {
            brief(&self.why, LONGEST_REASON)
        };
        format!("enforcement paused{since} by {}: {why}; {REMEDY}", brief(&self.by, LONGEST_NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> EnforceHold {
        EnforceHold::starting("2026-03-01T12:00:00.9Z".parse().unwrap(), "revert", "ada")
    }

    #[test]
    fn pause_lasts_until_released() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(EnforceHold::load(root.path()), None);
        hold().keep(root.path()).unwrap();
        assert_eq!(EnforceHold::load(root.path()), Some(hold()));
        assert!(EnforceHold::release(root.path()).unwrap());
        assert!(!EnforceHold::release(root.path()).unwrap());
        assert_eq!(EnforceHold::load(root.path()), None);
        assert_eq!(
            hold().describe(),
            "enforcement paused since 2026-03-01 12:00:00 UTC by ada: revert; `bedplate release` resumes it"
        );
    }

    #[test]
    fn unreadable_file_is_a_pause_and_is_named() {
        let root = tempfile::tempdir().unwrap();
        hold().keep(root.path()).unwrap();
        let file = root.path().join("var/lib/bedplate").join(NAME);
        let good = std::fs::read_to_string(&file).unwrap();
        for bad in ["", "{}", "[]", &good[..20], &good.replace("\"version\": 1", "\"version\": 2")]
        {
            std::fs::write(&file, bad).unwrap();
            let held = EnforceHold::load(root.path()).unwrap();
            assert!(
                held.why.contains(HOLD) && held.describe().contains("bedplate release"),
                "{bad:?}: {held:?}"
            );
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(EnforceHold::load(root.path()).is_some());
    }
}
