//! Keeps /etc/kernel/cmdline newer than /etc/default/grub: a kernel-install that compares the two would otherwise write
//! it again from there (handbook §10.3). The ledger records a renewal as unfinished before /etc/default/grub is written.

use super::{StepError, Store};
use crate::kind::cmdline::{ENTRY_PLUGIN, KERNEL_CMDLINE};
use crate::ledger::FileState;
use bedplate_base::chain;
use bedplate_cmdline::boot::grub_default::MAIN;
use bedplate_host::Expected;

impl Store<'_> {
    /// Returns the content of /etc/kernel/cmdline if a write of `path` (/etc/default/grub) would make it the older
    /// file, on a host with a kernel-install that compares the two. `None` if it is the older file already and no
    /// renewal is due: then an operator has edited /etc/default/grub, and that edit must reach it.
    pub(crate) fn kernel_cmdline_to_renew(&self, path: &str) -> Option<Vec<u8>> {
        if path != MAIN
            || self.reader.exists(ENTRY_PLUGIN) != Ok(true)
            || (self.is_kernel_cmdline_older()? && !self.is_renewal_due())
        {
            return None;
        }
        self.reader.read(KERNEL_CMDLINE).ok()
    }

    /// Whether /etc/kernel/cmdline is older than /etc/default/grub. `None`: it does not exist.
    fn is_kernel_cmdline_older(&self) -> Option<bool> {
        let written = self.reader.modified(KERNEL_CMDLINE).ok()?;
        Some(self.reader.modified(MAIN).is_ok_and(|main| written < main))
    }

    /// Saves /etc/kernel/cmdline and returns its state if a write of `path` makes a renewal necessary. The caller
    /// records that state as unfinished: it shows a later run that this one was killed between the two writes.
    pub(crate) fn state_to_renew(&mut self, path: &str) -> Result<Option<FileState>, StepError> {
        if self.kernel_cmdline_to_renew(path).is_none() {
            return Ok(None);
        }
        let found = self.file(KERNEL_CMDLINE)?;
        self.save_content(&found)?;
        Ok(Some(found.state))
    }

    /// Whether a renewal is recorded as unfinished, and no other program has edited /etc/default/grub since.
    fn is_renewal_due(&self) -> bool {
        let unfinished =
            self.ledger.files.get(KERNEL_CMDLINE).and_then(|record| record.unfinished.as_ref());
        let is_recorded =
            unfinished.is_some_and(|cut| cut.wrote.contains(&cut.before.sha().cloned()));
        let main = self.ledger.files.get(MAIN).filter(|_| is_recorded);
        main.zip(self.file(MAIN).ok()).is_some_and(|(main, found)| main.knows(found.state.sha()))
    }

    /// Renews /etc/kernel/cmdline if that is due: an earlier run was killed after it wrote /etc/default/grub, or the
    /// disk was full. Returns a warning if that fails.
    pub(crate) fn finish_renewal(&mut self) -> Option<String> {
        let is_due = self.is_renewal_due() && self.is_kernel_cmdline_older() == Some(true);
        let line = is_due.then(|| self.reader.read(KERNEL_CMDLINE).ok()).flatten();
        let error = self.renew_kernel_cmdline(line).err()?;
        Some(format!("cannot renew {KERNEL_CMDLINE}: {}", chain(&error)))
    }

    /// Writes the content from [`Store::kernel_cmdline_to_renew`] again, so that /etc/kernel/cmdline is the newer file.
    pub(crate) fn renew_kernel_cmdline(
        &mut self,
        content: Option<Vec<u8>>,
    ) -> Result<(), StepError> {
        let Some(bytes) = content else { return Ok(()) };
        let expected = Expected::Content(Some(bytes.as_slice()));
        Ok(self.writer.replace_expected(KERNEL_CMDLINE, &bytes, 0o644, expected)?)
    }
}
