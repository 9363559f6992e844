//! The operator's hold on enforcement: "leave this host as it is until `bedplate release`", as a file. While it is there
//! the daemon and `bedplate boot` only observe, and nothing is rebooted for what differs. Beside the ledger, as it has to
//! outlive a reboot; not [`crate::reboot_hold`], which keeps the host from being rebooted and is about nothing else.

use std::io::{Error, ErrorKind};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::reboot_hold::{LONGEST_NAME, LONGEST_REASON};
use bedplate_base::format_utc;
use bedplate_base::terminal::brief;
use bedplate_host::file;
use bedplate_host::write::{remove_own_file, replace_own_file};

/// Where it is kept, inside the host.
pub const HOLD: &str = "/var/lib/bedplate/enforce-hold.json";
/// Its name alone, for those who watch the directory.
pub const NAME: &str = "enforce-hold.json";
/// The format this program reads and writes.
pub(crate) const VERSION: u32 = 1;
/// How it ends.
pub(crate) const REMEDY: &str = "`bedplate release` ends it";

/// Nothing is enforced on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforceHold {
    /// [`VERSION`].
    pub version: u32,
    /// Since when; `None`: the file cannot be understood.
    pub since: Option<Timestamp>,
    /// The operator's reason.
    pub why: String,
    /// Who said so.
    pub by: String,
}

impl EnforceHold {
    /// One that starts now.
    pub fn starting(now: Timestamp, why: &str, by: &str) -> Self {
        let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
        EnforceHold {
            version: VERSION,
            since: Some(second),
            why: why.to_owned(),
            by: by.to_owned(),
        }
    }

    /// The hold of the host below `root`. A file that cannot be read or understood holds: an operator has put it there, and
    /// taking it for nothing would undo a revert.
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
            Ok(hold) => Self::unreadable(&format!("its format is version {}", hold.version)),
            Err(error) => Self::unreadable(&error.to_string()),
        }
    }

    fn unreadable(reason: &str) -> Self {
        let why = format!("{HOLD} cannot be understood ({reason})");
        EnforceHold { version: VERSION, since: None, why, by: "bedplate".into() }
    }

    /// Puts it in force on the host below `root`; on the disk when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, root: &Path) -> Result<(), Error> {
        let json = serde_json::to_string_pretty(self).map_err(Error::other)? + "\n";
        let path = file::under(root, HOLD);
        replace_own_file(&path, json.as_bytes(), 0o600, 0o700)
    }

    /// Ends it; whether there was one.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn release(root: &Path) -> Result<bool, Error> {
        remove_own_file(&file::under(root, HOLD))
    }

    /// One line for people: since when, by whom, why, and how it ends.
    pub fn describe(&self) -> String {
        let since =
            self.since.map(|since| format!(" since {}", format_utc(since))).unwrap_or_default();
        let why = if self.why.trim().is_empty() {
            "no reason given".into()
        } else {
            brief(&self.why, LONGEST_REASON)
        };
        format!("enforcement is held{since} by {}: {why}; {REMEDY}", brief(&self.by, LONGEST_NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> EnforceHold {
        EnforceHold::starting("2026-03-01T12:00:00.9Z".parse().unwrap(), "revert", "ada")
    }

    #[test]
    fn it_is_kept_until_it_is_released() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(EnforceHold::load(root.path()), None);
        hold().keep(root.path()).unwrap();
        assert_eq!(EnforceHold::load(root.path()), Some(hold()));
        assert!(EnforceHold::release(root.path()).unwrap());
        assert!(!EnforceHold::release(root.path()).unwrap());
        assert_eq!(EnforceHold::load(root.path()), None);
        assert_eq!(
            hold().describe(),
            "enforcement is held since 2026-03-01 12:00:00 UTC by ada: revert; `bedplate release` ends it"
        );
    }

    #[test]
    fn what_cannot_be_understood_holds_and_names_the_file() {
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
