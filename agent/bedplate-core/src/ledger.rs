//! What bedplate owns on a host, what it found there before, and what it did: pure data, its text form, and how it is
//! read. Keeping it on disk is `apply`'s business; how records come and go is `record`'s. Kinds only look.

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

/// Where bedplate keeps its state, inside the host. Not for everybody's eyes: it holds copies of other files.
pub const DIRECTORY: &str = bedplate_host::STATE_DIRECTORY;
/// The ledger itself.
pub const LEDGER: &str = "/var/lib/bedplate/ledger.json";
/// Saved file contents, named by their SHA-256.
pub(crate) const BLOBS: &str = "/var/lib/bedplate/blobs";

/// The format this program reads and writes.
pub(crate) const VERSION: u32 = 2;
/// How many history entries are kept; the oldest go first.
const HISTORY_KEPT: usize = 200;

/// The ledger, as kept in [`LEDGER`] of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)] // What is not understood would be lost at the next write.
pub struct Ledger {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Tools that still have to run because a file they read was changed and they had not succeeded yet.
    pub owed: Vec<PendingTool>,
    /// What is bedplate's own, by kind (kernel tokens).
    pub owned: BTreeMap<KindId, Vec<String>>,
    /// What undoes tools that keep their state where no file shows it; to be run last first.
    #[serde(default)]
    pub undo: Vec<UndoTool>,
    /// Files that are not as they were found, by path.
    #[serde(default)]
    pub files: BTreeMap<String, FileRecord>,
    /// Directories that were not there.
    #[serde(default)]
    pub directories: BTreeSet<String>,
    /// Sysfs attributes written, by path.
    #[serde(default)]
    pub attributes: BTreeMap<String, SettingRecord<WriteAttribute>>,
    /// Config-space registers written, by name.
    #[serde(default)]
    pub registers: BTreeMap<String, SettingRecord<SetConfigBits>>,
    /// Attributes of VFs set, by VF.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vfs: BTreeMap<String, SettingRecord<SetVf>>,
    /// VFs whose driver has still to start, by VF.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<String, StartRecord>,
    /// Modes of eswitches set, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eswitches: BTreeMap<String, SettingRecord<SetEswitch>>,
    /// What was done and counts only from the next boot on, where nothing on the running host shows that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitRecord>,
    /// What was done, oldest first.
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

/// A tool run that was promised before its input was written and has not succeeded since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingTool {
    /// The kind whose change promised it.
    pub kind: KindId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What for.
    pub purpose: String,
    /// bedplate has started it: what it made may be half a file. Otherwise the image build runs it, or has. A ledger that does
    /// not say may be of a version that did not.
    #[serde(default = "default_true")]
    pub begun: bool,
    /// Contents of the files that the tool makes, before a run that is left to the image build, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Sha>,
}

const fn default_true() -> bool {
    true
}

impl PendingTool {
    /// One that has not been started, of whose outputs nothing is known.
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

/// SHA-256 of each of these files that can be read, by path.
pub(crate) fn contents(
    reader: &dyn Reader,
    paths: impl IntoIterator<Item = String>,
) -> BTreeMap<String, Sha> {
    let content = |path: String| reader.digest(&path).ok().map(|digest| (path, digest.into()));
    paths.into_iter().filter_map(content).collect()
}

/// A file as it was at some time. Its bytes are a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FileState {
    /// Not there.
    Absent,
    /// There.
    File {
        /// Its content.
        sha256: Sha,
        /// What it was besides.
        meta: FileMeta,
    },
}

impl FileState {
    /// Its content; `None` = not there.
    pub fn sha(&self) -> Option<&Sha> {
        match self {
            FileState::Absent => None,
            FileState::File { sha256, .. } => Some(sha256),
        }
    }
}

/// A file that bedplate, or a tool it ran, has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// The kind whose change wrote it first.
    pub kind: KindId,
    /// As bedplate found it; the first record wins.
    pub original: FileState,
    /// Contents that are bedplate's work (`null` = absent): the last one left, and the one being written.
    pub ours: Vec<Option<Sha>>,
    /// While a change of it is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// Another program or an operator changed it between two changes of ours: the original is not the whole truth any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The tool that makes it from other files, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// Tools that make other files from it, and have to run again when it is put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<Generator>,
}

/// A change that has begun and may have been cut short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfinished {
    /// The change's id; a plan made after the cut gives it the same one, whatever is left to do of it.
    pub change: String,
    /// The file before that change, to be put back if the change fails.
    pub before: FileState,
    /// Contents that the change writes to the file (`null` = absent), and that tools which it ran left there. Any other
    /// content is another program's work: it is not put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<Option<Sha>>,
}

impl Unfinished {
    /// A change that begins at this state.
    pub fn new(change: &str, before: FileState) -> Self {
        Unfinished { change: change.to_owned(), before, wrote: Vec::new() }
    }
}

/// Something that waits for a boot and shows nowhere; only in the boot that it was done in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitRecord {
    /// The kind whose change did it.
    pub kind: KindId,
    /// `/proc/sys/kernel/random/boot_id` at the time.
    pub boot: String,
    /// The module whose next load brings it.
    pub module: String,
    /// What, as the plan named it.
    pub subject: String,
    /// What the file said of it when that boot began; `None` = nothing. Back at this, nothing waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// What the next boot will have; `None` = nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// `apply` or `revert`.
    pub command: String,
    /// The profile, for `apply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What became of each change.
    pub results: Vec<EntryResult>,
}

/// What became of one change, or a lint that was let pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EntryResult {
    /// The change's id, what was put back, or `lint ID`.
    pub subject: String,
    /// One word: `done`, `failed`, `blocked`, `deferred`, `owed`, `reverted`, `refused`, `allowed`.
    pub result: String,
    /// Why, where it is not `done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Ledger {
    /// The host's ledger. Not there = a new one; anything else that is wrong with it is an error.
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

    /// From its text form; `path` is what errors call it.
    ///
    /// # Errors
    /// [`LedgerError`], all but the first.
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
        // Whole JSON that is not ours: no torn write makes that, another version does.
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
            0 => Err(LedgerError::Damaged { path: path(), reason: "there is no format 0".into() }),
            1..VERSION => Err(LedgerError::Older { path: path(), found }),
            _ => Err(LedgerError::Newer { path: path(), found }),
        }
    }

    /// Its text form: JSON, the same for the same ledger.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Every blob that is still needed.
    pub fn blobs(&self) -> BTreeSet<&Sha> {
        let states = self.files.values().flat_map(|record| {
            [
                Some(&record.original),
                record.unfinished.as_ref().map(|unfinished| &unfinished.before),
            ]
        });
        states.flatten().filter_map(FileState::sha).collect()
    }

    /// Add a line of history; the oldest go when there are too many.
    pub fn remember(&mut self, entry: Entry) {
        self.history.push(entry);
        let surplus = self.history.len().saturating_sub(HISTORY_KEPT);
        self.history.drain(..surplus);
    }
}

/// The ledger in a recording, whose settings nobody puts back: where an older bedplate wrote it, in the present format without
/// them. Format 1 had other records of settings, and the rest of it is the same.
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
    fn a_recording_with_an_older_ledger_is_read_and_a_host_is_not() {
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
