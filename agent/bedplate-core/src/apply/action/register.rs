//! Bits of 16-bit registers in PCI config space.

use super::setting::Writable;
use super::{StepError, Store};
use crate::register;
use crate::setting::{SetConfigBits, SettingChange};
use bedplate_base::value::RegisterBits;

impl Writable for SetConfigBits {
    fn describe(&self) -> String {
        let RegisterBits { mask, value } = self.bits;
        format!("set {} (offset {:#x}) to {value:#06x} under {mask:#06x}", self.name(), self.offset)
    }

    fn may_take_long(&self) -> bool {
        false
    }

    fn diff(&self) -> String {
        let SetConfigBits { address, offset, bits, before, register } = self;
        let name = format!("{address} {register} [{offset:#05x}].w");
        format!("-{name} = {before:04x}\n+{name} = {:04x}\n", bits.applied_to(*before))
    }

    fn read(&self, store: &Store) -> Result<RegisterBits, StepError> {
        Ok(RegisterBits::whole(register::read(store.reader, self)?))
    }

    fn write(&self, store: &mut Store, bits: &RegisterBits) -> Result<(), StepError> {
        let written = bits.applied_to(register::read(store.reader, self)?);
        store.writer.write_config(self.address, self.offset, written)?;
        let now = register::read(store.reader, self)?;
        match (now ^ written) & bits.mask {
            0 => Ok(()),
            stuck => Err(StepError::new(format!(
                "{}: wrote {written:#06x}, read back {now:#06x}: bits {stuck:#06x} are hard-wired",
                self.name()
            ))),
        }
    }
}
