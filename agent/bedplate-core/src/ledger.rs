//! The ledger of a host: bedplate's own settings and files, their previous state, and the history. Pure data with its
//! text form and loader. `apply` stores it on disk; `record` maintains its records. Resource types have read access
//! only.

mod error;
mod record;
mod settings;
mod sha;
mod tool;

use crate::kind_id::KindId;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::setting::{SetConfigBits, SetEswitch, SetVf, WriteAttribute};
use bedplate_host::{FileMeta, Reader};

pub use error::LedgerError;
pub use record::Author;
pub use settings::{Recorded, SettingRecord, StartRecord};
pub use sha::Sha;
pub(crate) use tool::Generator;
pub use tool::UndoTool;

/// State directory inside the host. Not world-readable: it holds copies of other files.
pub const DIRECTORY: &str = bedplate_host::STATE_DIRECTORY;
/// Path of the ledger.
pub const LEDGER: &str = "/var/lib/bedplate/ledger.json";
/// Directory of saved file contents, named by their SHA-256.
pub(crate) const BLOBS: &str = "/var/lib/bedplate/blobs";

/// Change id of a revert.
pub(crate) const REVERT: &str = "revert";

/// Format version that this program reads and writes.
pub(crate) const VERSION: u32 = 2;
/// Maximum number of history entries; the oldest are dropped first.
const HISTORY_KEPT: usize = 200;

/// The ledger, as stored in [`LEDGER`] of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)] // Unknown fields would be lost at the next write.
pub struct Ledger {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Tools that still have to run: a file that they read was changed, and they have not succeeded since.
    pub owed: Vec<PendingTool>,
    /// bedplate's own kernel arguments, by resource type.
    pub owned: BTreeMap<KindId, Vec<String>>,
    /// Undo commands of tools whose state no file shows; to be run last first.
    #[serde(default)]
    pub undo: Vec<UndoTool>,
    /// Files that differ from their original state, by path.
    #[serde(default)]
    pub files: BTreeMap<String, FileRecord>,
    /// Directories that bedplate created.
    #[serde(default)]
    pub directories: BTreeSet<String>,
    /// Sysfs attributes that bedplate wrote, by path.
    #[serde(default)]
    pub attributes: BTreeMap<String, SettingRecord<WriteAttribute>>,
    /// Config-space registers that bedplate wrote, by name.
    #[serde(default)]
    pub registers: BTreeMap<String, SettingRecord<SetConfigBits>>,
    /// VF attributes that bedplate set, by VF.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vfs: BTreeMap<String, SettingRecord<SetVf>>,
    /// VFs whose driver still has to start, by VF.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<String, StartRecord>,
    /// Eswitch modes that bedplate set, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eswitches: BTreeMap<String, SettingRecord<SetEswitch>>,
    /// Changes that take effect at the next boot and are not visible on the running host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitRecord>,
    /// History, oldest first.
    #[serde(default)]
    pub history: Vec<Entry>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            version: VERSION,
            owed: Vec::new(),
            owned: BTreeMap::new(),
            undo: Vec::new(),
            files: BTreeMap::new(),
            directories: BTreeSet::new(),
            attributes: BTreeMap::new(),
            registers: BTreeMap::new(),
            vfs: BTreeMap::new(),
            starts: BTreeMap::new(),
            eswitches: BTreeMap::new(),
            waiting: Vec::new(),
            history: Vec::new(),
        }
    }
}

/// A tool run that was recorded before its input was written and has not succeeded since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingTool {
    /// Resource type whose change requires the run.
    pub kind: KindId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Purpose of the run.
    pub purpose: String,
    /// Whether bedplate has started the tool, so that its output may be incomplete. Otherwise the image build runs it.
    /// Defaults to `true`: ledgers of earlier versions lack the field.
    #[serde(default = "default_true")]
    pub begun: bool,
    /// Contents of the tool's output files before a run that is left to the image build, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Sha>,
}

const fn default_true() -> bool {
    true
}

impl PendingTool {
    /// Creates the record of a tool that has not been started and whose outputs are unknown.
    pub fn new(kind: KindId, argv: &[String], purpose: &str) -> Self {
        PendingTool {
            kind,
            argv: argv.to_vec(),
            purpose: purpose.to_owned(),
            begun: false,
            outputs: BTreeMap::new(),
        }
    }
}

/// Returns the SHA-256 of each readable file, by path.
pub(crate) fn contents(
    reader: &dyn Reader,
    paths: impl IntoIterator<Item = String>,
) -> BTreeMap<String, Sha> {
    let content = |path: String| reader.digest(&path).ok().map(|digest| (path, digest.into()));
    paths.into_iter().filter_map(content).collect()
}

/// State of a file at some time. Its bytes are a backup copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FileState {
    /// The file is absent.
    Absent,
    /// The file exists.
    File {
        /// Digest of the content.
        sha256: Sha,
        /// Owner, mode, and attributes.
        meta: FileMeta,
    },
}

impl FileState {
    /// Returns the content's digest; `None`: absent.
    pub fn sha(&self) -> Option<&Sha> {
        match self {
            FileState::Absent => None,
            FileState::File { sha256, .. } => Some(sha256),
        }
    }
}

/// A file that bedplate, or a tool that it ran, has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Resource type whose change wrote the file first.
    pub kind: KindId,
    /// State before the first change; later records keep it.
    pub original: FileState,
    /// Contents that bedplate wrote (`null` = absent): the last finished one, and the one being written.
    pub ours: Vec<Option<Sha>>,
    /// Change in progress, or interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// Whether another program or an operator edited the file between two changes: restoring the original loses that
    /// edit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Tool that generates the file from other files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// Tools that generate other files from this one, and must run again after it is restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<Generator>,
}

/// A change that has begun and may have been interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfinished {
    /// Id of the change; a later plan gives the remaining work the same id.
    pub change: String,
    /// State of the file before the change, to be restored if the change fails.
    pub before: FileState,
    /// Contents that the change, or a tool that it ran, wrote to the file (`null` = absent). Any other content is
    /// another program's work, which a rollback must not replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<Option<Sha>>,
}

impl Unfinished {
    /// Creates the record of a change that begins at this state.
    pub fn new(change: &str, before: FileState) -> Self {
        Unfinished { change: change.to_owned(), before, wrote: Vec::new() }
    }
}

/// An unobservable pending change, recorded for the boot in which it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitRecord {
    /// Resource type of the change.
    pub kind: KindId,
    /// `/proc/sys/kernel/random/boot_id` at the time of the change.
    pub boot: String,
    /// Module whose next load applies the change.
    pub module: String,
    /// Subject, as named in the plan.
    pub subject: String,
    /// Value in the file when that boot began; `None`: no value. If the file holds it again, nothing is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// Value from the next boot on; `None`: no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Time, RFC 3339 in UTC.
    pub at: String,
    /// `apply` or `revert`.
    pub command: String,
    /// Name of the profile, for `apply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Result of each change.
    pub results: Vec<EntryResult>,
}

/// Result of a change, or an allowed lint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryResult {
    /// Id of the change, reverted subject, or `lint ID`.
    pub subject: String,
    /// One word: `done`, `already-done`, `failed`, `blocked`, `deferred`, `tools-pending`, `reverted`, `left`, `refused`,
    /// `allowed`.
    pub result: String,
    /// Reason, unless the result is `done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Ledger {
    /// Loads the host's ledger. An absent ledger yields a new one; any other failure is an error.
    pub fn load(reader: &dyn Reader) -> Result<Self, LedgerError> {
        let trusted = reader.trusted_directory(DIRECTORY);
        match trusted.and_then(|()| reader.read_trusted(LEDGER)) {
            Ok(bytes) if reader.is_recording() => {
                Self::parse(&without_old_settings(bytes), &reader.display_path(LEDGER))
            }
            Ok(bytes) => Self::parse(&bytes, &reader.display_path(LEDGER)),
            Err(error) if error.is_absent() => Ok(Ledger::default()),
            Err(error) => Err(LedgerError::Unreadable(error)),
        }
    }

    /// Parses the text form; `path` is used in errors.
    ///
    /// # Errors
    /// Every [`LedgerError`] but the first.
    pub fn parse(bytes: &[u8], path: &str) -> Result<Self, LedgerError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let path = || path.to_owned();
        let damaged = |error: serde_json::Error| LedgerError::Damaged {
            path: path(),
            reason: error.to_string(),
        };
        // Valid JSON of another shape: a torn write cannot produce it, another version can.
        let other = |error: serde_json::Error| LedgerError::Foreign {
            path: path(),
            what: error.to_string(),
        };
        let Version { version: found } = serde_json::from_slice(bytes).map_err(damaged)?;
        match found {
            VERSION => serde_json::from_slice(bytes).map_err(|error| match error.is_data() {
                true => other(error),
                false => damaged(error),
            }),
            0 => Err(LedgerError::Damaged { path: path(), reason: "unknown format 0".into() }),
            1..VERSION => Err(LedgerError::Older { path: path(), found }),
            _ => Err(LedgerError::Newer { path: path(), found }),
        }
    }

    /// Returns the text form: JSON, equal for equal ledgers.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Returns every backup copy that is still needed.
    pub fn blobs(&self) -> BTreeSet<&Sha> {
        let states = self.files.values().flat_map(|record| {
            [
                Some(&record.original),
                record.unfinished.as_ref().map(|unfinished| &unfinished.before),
            ]
        });
        states.flatten().filter_map(FileState::sha).collect()
    }

    /// Appends a history entry; drops the oldest beyond the limit.
    pub fn remember(&mut self, entry: Entry) {
        self.history.push(entry);
        let surplus = self.history.len().saturating_sub(HISTORY_KEPT);
        self.history.drain(..surplus);
    }
}

/// Converts a ledger of format 1 in a snapshot to the present format, without its settings. Only the records of
/// settings differ between the formats, and nothing reverts settings in a snapshot.
fn without_old_settings(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(mut ledger) = serde_json::from_slice::<serde_json::Map<_, _>>(&bytes) else {
        return bytes;
    };
    if ledger.get("version").and_then(serde_json::Value::as_u64) != Some(1) {
        return bytes;
    }
    ledger
        .retain(|key, _| !["attributes", "registers", "vfs", "eswitches"].contains(&key.as_str()));
    ledger.insert("version".to_owned(), VERSION.into());
    serde_json::to_vec(&ledger).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};

    const OLD: &str = r#"{"version":1,"owed":[],"owned":{"acs":["pci=x"]},"registers":{"0000:15:01.0+0x14e":{"kind":"acs","boot":"b",
        "address":"0000:15:01.0","offset":334,"register":"ACS control","mask":12,"original":29,"ours":[0]}}}"#;

    #[test]
    fn older_ledger_loads_from_recordings_but_not_on_hosts() {
        for running in [true, false] {
            let mut host = Snapshot::new(running);
            host.insert(LEDGER, Node::File(OLD.into()));
            let ledger = Ledger::load(&host).unwrap();
            let kept = (ledger.version, ledger.registers.len(), ledger.owned.len());
            assert_eq!(kept, (VERSION, 0, 1));
        }
        let refused = Ledger::parse(OLD.as_bytes(), LEDGER).unwrap_err();
        assert!(matches!(refused, LedgerError::Older { found: 1, .. }), "{refused}");
    }
}
