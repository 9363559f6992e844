//! Bits of 16-bit registers in PCI config space.

use super::setting::Writable;
use super::{StepError, Store};
use crate::setting::{SetConfigBits, SettingChange};
use bedplate_base::value::RegisterBits;
use bedplate_host::Reader;

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
        read(store.reader, self).map(RegisterBits::whole)
    }

    fn write(&self, store: &mut Store, bits: &RegisterBits) -> Result<(), StepError> {
        let written = bits.applied_to(read(store.reader, self)?);
        store.writer.write_config(self.address, self.offset, written)?;
        let now = read(store.reader, self)?;
        match (now ^ written) & bits.mask {
            0 => Ok(()),
            stuck => Err(StepError::new(format!(
                "{}: wrote {written:#06x}, read back {now:#06x}: bits {stuck:#06x} are hard-wired",
                self.name()
            ))),
        }
    }
}

/// Reads the whole register.
pub(crate) fn read(reader: &dyn Reader, action: &SetConfigBits) -> Result<u16, StepError> {
    let SetConfigBits { address, offset, .. } = *action;
    let mut bytes = [0; 2];
    match reader.config(address)?.read(offset, &mut bytes)? {
        2 => Ok(u16::from_le_bytes(bytes)),
        // Unprivileged readers see 64 bytes.
        _ => Err(StepError::new(format!(
            "config space of {address} ends before offset {offset:#x}: run as root"
        ))),
    }
}
