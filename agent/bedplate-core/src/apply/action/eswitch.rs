//! Sets eswitch modes through devlink.

use super::setting::Writable;
use super::vf_attributes::refused;
use super::{StepError, Store};
use crate::setting::SetEswitch;
use bedplate_base::value::vf::EswitchMode;

impl Writable for SetEswitch {
    fn describe(&self) -> String {
        format!("set the eswitch of {} to {}", self.pf, self.after)
    }

    fn diff(&self) -> String {
        let SetEswitch { pf, before, after, .. } = self;
        format!("-{pf} eswitch mode: {before}\n+{pf} eswitch mode: {after}\n")
    }

    fn read(&self, store: &Store) -> Result<EswitchMode, StepError> {
        let mode = store.reader.eswitch(self.pf)?;
        mode.ok_or_else(|| StepError::new(format!("the driver of {} has no eswitch", self.pf)))
    }

    fn write(&self, store: &mut Store, mode: &EswitchMode) -> Result<(), StepError> {
        let (pf, to) = (self.pf, *mode);
        store.expect_answers(pf)?;
        if let Err(error) = store.writer.set_eswitch(pf, to, self.limit_s) {
            return Err(refused(store, pf, error));
        }
        match self.read(store)? {
            now if now == to => Ok(()),
            now => Err(StepError::new(format!("eswitch of {pf}: set to {to}, read back {now}"))),
        }
    }
}
