//! The mode of a PF's eswitch: set by devlink, read back, taken back.

use super::nic::refused;
use super::{Operation, StepError, Store, Task, Undo, UndoList, expect};
use crate::ledger::Ledger;
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::EswitchMode;

/// [`crate::plan::Action::SetEswitch`].
pub(super) struct SetEswitch {
    pub pf: PciAddress,
    pub before: EswitchMode,
    pub after: EswitchMode,
    pub limit_s: u32,
}

impl Operation for SetEswitch {
    fn describe(&self) -> String {
        format!("set the eswitch of {} to {}", self.pf, self.after)
    }

    fn diff(&self) -> String {
        let SetEswitch { pf, before, after, .. } = self;
        format!("-{pf} eswitch mode: {before}\n+{pf} eswitch mode: {after}\n")
    }

    fn target(&self) -> Option<String> {
        Some(format!("eswitch of {}", self.pf))
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        mode(store, self.pf).is_ok_and(|mode| mode == self.after)
    }

    fn record(
        &self,
        store: &mut Store,
        ledger: &mut Ledger,
        task: Task,
        _first: bool,
    ) -> Result<(), StepError> {
        let now = mode(store, self.pf)?;
        let planned = now == self.after || now == self.before;
        expect(planned, &format!("the eswitch of {}", self.pf), &now.to_string())?;
        let boot = store.boot_id()?;
        ledger.begin_eswitch(self.pf, task.change.kind, &boot, (now, self.after), self.limit_s);
        Ok(())
    }

    fn execute(
        &self,
        store: &mut Store,
        _task: Task,
        undo: &mut UndoList,
    ) -> Result<(), StepError> {
        let now = mode(store, self.pf)?;
        if now == self.after {
            return Ok(());
        }
        undo.push(Box::new(RestoreEswitchMode { pf: self.pf, mode: now, limit_s: self.limit_s }));
        switch(store, self.pf, self.after, self.limit_s)
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        ledger.settle_eswitch(self.pf, mode(store, self.pf)?);
        Ok(())
    }
}

/// Sets the mode that was there.
struct RestoreEswitchMode {
    pf: PciAddress,
    mode: EswitchMode,
    limit_s: u32,
}

impl Undo for RestoreEswitchMode {
    fn subject(&self) -> String {
        format!("eswitch of {}", self.pf)
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        switch(store, self.pf, self.mode, self.limit_s)?;
        store.ledger.settle_eswitch(self.pf, self.mode);
        Ok(())
    }
}

/// Change a mode and read it back.
pub(crate) fn switch(
    store: &mut Store,
    pf: PciAddress,
    to: EswitchMode,
    limit_s: u32,
) -> Result<(), StepError> {
    store.expect_answers(pf)?;
    if let Err(error) = store.writer.set_eswitch(pf, to, limit_s) {
        return Err(refused(store, pf, error));
    }
    match mode(store, pf)? {
        now if now == to => Ok(()),
        now => Err(StepError::EswitchIgnored { pf, now, to }),
    }
}

/// The mode now.
fn mode(store: &Store, pf: PciAddress) -> Result<EswitchMode, StepError> {
    store.reader.eswitch(pf)?.ok_or(StepError::NoEswitch { pf })
}
