//! Persistence of the ledger and saved contents on the host. Every record is durable before its subject is changed. All
//! access goes through the host's reader and writer.

use std::collections::BTreeSet;

use super::error::{ContentError, StepError};
use crate::kind::cmdline;
use crate::ledger::{self, FileState, Ledger, Sha};
use crate::{restore_policy, setting};
use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_host::{Expected, Reader, Writer, boot_id};

/// Current state of a file.
pub struct FoundFile {
    /// State for the ledger.
    pub state: FileState,
    /// Content; `None`: the file is absent.
    pub bytes: Option<Vec<u8>>,
}

/// A host and its ledger.
pub struct Store<'a> {
    pub(crate) reader: &'a dyn Reader,
    pub(crate) writer: &'a mut dyn Writer,
    pub(crate) ledger: &'a mut Ledger,
    /// PFs that timed out and may still be busy: any further request to them would block.
    pub silent: BTreeSet<PciAddress>,
    /// Files that this run has written, or was about to write.
    pub written: BTreeSet<String>,
    /// Commands of the tools that this run has started.
    pub started: BTreeSet<Vec<String>>,
    /// Text of the ledger on disk.
    saved: String,
}

impl<'a> Store<'a> {
    /// Creates a store. `ledger` is the host's current ledger.
    pub fn new(reader: &'a dyn Reader, writer: &'a mut dyn Writer, ledger: &'a mut Ledger) -> Self {
        // A ledger that cannot be serialized cannot be saved later either; the error is reported then.
        let saved = ledger.text().unwrap_or_default();
        let (silent, written, started) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Store { reader, writer, ledger, silent, written, started, saved }
    }

    /// Changes the ledger durably. On failure the ledger stays unchanged.
    pub fn update_ledger(&mut self, change: impl FnOnce(&mut Ledger)) -> Result<(), StepError> {
        let old = self.ledger.clone();
        change(self.ledger);
        let saved = self.save();
        if saved.is_err() {
            *self.ledger = old;
        }
        saved
    }

    fn save(&mut self) -> Result<(), StepError> {
        let text = self.ledger.text();
        let text =
            text.map_err(|error| StepError::because("cannot serialize the ledger", error))?;
        if text == self.saved {
            return Ok(());
        }
        self.state_directory(ledger::DIRECTORY)?;
        self.writer.replace_file(ledger::LEDGER, text.as_bytes(), 0o600)?;
        self.saved = text;
        Ok(())
    }

    fn state_directory(&mut self, path: &str) -> Result<(), StepError> {
        Ok(self.writer.make_directory(path, 0o700)?)
    }

    /// Reads the current state of a file.
    pub fn file(&self, path: &str) -> Result<FoundFile, StepError> {
        find_file(self.reader, self.writer, path)
    }

    /// Reads the current value of an attribute.
    pub fn attribute(&self, path: &str) -> Result<String, StepError> {
        Ok(setting::read_attribute(self.reader, path)?)
    }

    /// Writes an attribute without reading it back.
    pub fn write_attribute(
        &mut self,
        path: &str,
        value: &str,
        limit_s: u32,
    ) -> Result<(), StepError> {
        Ok(self.writer.write_attribute(path, value, limit_s)?)
    }

    /// Fails if the PF has timed out before.
    pub fn expect_answers(&self, pf: PciAddress) -> Result<(), StepError> {
        match self.silent.contains(&pf) {
            true => Err(StepError::new(format!("skipped: {pf} timed out and may still be busy"))),
            false => Ok(()),
        }
    }

    /// Returns the id of the current boot.
    pub fn boot_id(&self) -> Result<String, StepError> {
        let boot = boot_id::read(self.reader);
        boot.map_err(|error| StepError::because("cannot read the boot id", error))
    }

    /// Saves a content so that the ledger can refer to it.
    pub fn save_content(&mut self, found: &FoundFile) -> Result<(), StepError> {
        let (Some(bytes), Some(sha)) = (&found.bytes, found.state.sha()) else { return Ok(()) };
        if saved_content(self.reader, sha).is_ok() {
            return Ok(());
        }
        self.state_directory(ledger::DIRECTORY)?;
        self.state_directory(ledger::BLOBS)?;
        Ok(self.writer.replace_file(&sha.blob(), bytes, 0o600)?)
    }

    /// Restores content, owner, mode, and attributes of a file that still is as `found`. A boot entry whose earlier
    /// initrds are gone keeps the present ones.
    pub fn restore_file(
        &mut self,
        path: &str,
        found: &FoundFile,
        to: &FileState,
    ) -> Result<(), StepError> {
        if found.state == *to {
            return Ok(());
        }
        let newer = self.kernel_cmdline_to_renew(path);
        let expected = Expected::Content(found.bytes.as_deref());
        let mut to = to.clone();
        match &mut to {
            FileState::Absent => self.writer.remove_expected(path, expected),
            FileState::File { sha256, meta } => {
                let mut content = saved_content(self.reader, sha256)?;
                let now = found.bytes.as_deref();
                if let Some(what) = restore_policy::refusal_on(self.reader, path, &content, now) {
                    let blob = sha256.blob();
                    return Err(StepError::new(format!(
                        "{path} left unchanged: {what}; to restore it anyway, copy it from {blob}"
                    )));
                }
                if let Some(entry) = cmdline::entry_with_initrds(self.reader, path, &content, now) {
                    *sha256 = Sha::digest(&entry);
                    content = entry;
                }
                self.writer.restore_expected(path, &content, meta, expected)
            }
        }?;
        self.renew_kernel_cmdline(newer)?;
        expect_written(self.file(path)?.state == to, path)
    }

    /// Returns the missing directories above `path`, outermost first.
    pub fn missing_directories(&self, path: &str) -> Result<Vec<String>, StepError> {
        let mut missing = Vec::new();
        let mut at = path;
        while let Some((parent, _)) = at.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            if self.reader.exists(parent)? {
                break;
            }
            missing.push(parent.to_owned());
            at = parent;
        }
        missing.reverse();
        Ok(missing)
    }

    /// Removes temporary files of killed runs next to the files that those may have been writing. Returns the failures.
    pub fn remove_stale_temporary_files<'p>(
        &mut self,
        paths: impl Iterator<Item = &'p str>,
    ) -> Vec<String> {
        let blob = format!("{}/any", ledger::BLOBS);
        let mut all: BTreeSet<String> = paths.map(str::to_owned).collect();
        all.extend(self.ledger.files.keys().cloned());
        all.extend([ledger::LEDGER.to_owned(), blob]);
        all.iter()
            .filter_map(|path| self.writer.remove_stale_temporary_files(path).err())
            .map(|error| error.to_string())
            .collect()
    }

    /// Removes saved contents that the ledger no longer references. Returns the failures.
    pub fn remove_surplus_contents(&mut self) -> Vec<String> {
        let names = match self.reader.list(ledger::BLOBS) {
            Ok(names) => names,
            Err(error) if error.is_absent() => return Vec::new(),
            Err(error) => return vec![error.to_string()],
        };
        let needed = self.ledger.blobs();
        let surplus: Vec<Sha> = names
            .iter()
            .filter_map(|name| name.parse().ok())
            .filter(|sha| !needed.contains(sha))
            .collect();
        let failed = surplus.iter().filter_map(|sha| self.writer.remove_file(&sha.blob()).err());
        failed.map(|error| error.to_string()).collect()
    }
}

/// Returns a saved content, which must match the digest in its name.
pub(crate) fn saved_content(reader: &dyn Reader, sha: &Sha) -> Result<Vec<u8>, ContentError> {
    let trusted = reader.trusted_directory(ledger::BLOBS);
    let bytes =
        trusted.and_then(|()| reader.read_trusted(&sha.blob())).map_err(|error| match error {
            ReadError::Untrusted { .. } => ContentError::Untrusted(error),
            error => ContentError::Lost(error),
        })?;
    match Sha::digest(&bytes) == *sha {
        true => Ok(bytes),
        false => Err(ContentError::Damaged { path: sha.blob() }),
    }
}

/// Fails unless the subject reads back as written.
pub(crate) fn expect_written(same: bool, subject: &str) -> Result<(), StepError> {
    match same {
        true => Ok(()),
        false => Err(StepError::new(format!("{subject}: read-back differs from what was written"))),
    }
}

/// Reads the current state of a file.
pub(crate) fn find_file(
    reader: &dyn Reader,
    writer: &dyn Writer,
    path: &str,
) -> Result<FoundFile, StepError> {
    let bytes = match reader.read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.is_absent() => None,
        Err(error) => return Err(error.into()),
    };
    let meta = writer.file_meta(path)?;
    let state = match (&bytes, meta) {
        (Some(bytes), Some(meta)) => FileState::File { sha256: Sha::digest(bytes), meta },
        (None, None) => FileState::Absent,
        _ => {
            return Err(StepError::new(format!(
                "{path} was created or removed concurrently; plan again"
            )));
        }
    };
    Ok(FoundFile { state, bytes })
}
