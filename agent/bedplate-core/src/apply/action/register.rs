//! Setting bits of a 16-bit register in PCI config space. Other bits keep their present value.

use super::{Operation, StepError, Store, Task, Undo, UndoList, expect};
use crate::ledger::{Ledger, RegisterKey};
use bedplate_base::value::PciAddress;
use bedplate_host::Reader;

/// [`crate::plan::Action::SetConfigBits`].
pub(super) struct SetConfigBits {
    key: RegisterKey,
    bits: Bits,
}

/// What is to become of a register.
#[derive(Clone, Copy)]
pub(super) struct Bits {
    /// Which bits.
    pub mask: u16,
    /// Their new value.
    pub value: u16,
    /// The register when planned.
    pub before: u16,
}

impl SetConfigBits {
    pub(super) fn new(address: PciAddress, offset: u16, register: &str, bits: Bits) -> Self {
        SetConfigBits { key: RegisterKey { address, offset, register: register.to_owned() }, bits }
    }

    fn are_set(&self, now: u16) -> bool {
        now & self.bits.mask == self.bits.value & self.bits.mask
    }

    fn expect_planned(&self, now: u16) -> Result<(), StepError> {
        let Bits { mask, before, .. } = self.bits;
        expect(now & mask == before & mask, &subject(&self.key), &format!("{now:#06x}"))
    }
}

impl Operation for SetConfigBits {
    fn describe(&self) -> String {
        let RegisterKey { offset, .. } = self.key;
        let Bits { mask, value, .. } = self.bits;
        format!("set {} (offset {offset:#x}) to {value:#06x} under {mask:#06x}", subject(&self.key))
    }

    fn diff(&self) -> String {
        let Bits { mask, value, before } = self.bits;
        let RegisterKey { address, offset, register } = &self.key;
        let after = (before & !mask) | (value & mask);
        let name = format!("{address} {register} [{offset:#05x}].w");
        format!("-{name} = {before:04x}\n+{name} = {after:04x}\n")
    }

    fn target(&self) -> Option<String> {
        Some(format!("{} {} {}", self.key.address, self.key.offset, self.bits.mask))
    }

    fn is_done(&self, store: &Store, _task: Task) -> bool {
        read(store.reader, &self.key).is_ok_and(|now| self.are_set(now))
    }

    fn record(
        &self,
        store: &mut Store,
        ledger: &mut Ledger,
        task: Task,
        first: bool,
    ) -> Result<(), StepError> {
        let now = read(store.reader, &self.key)?;
        if first && !self.are_set(now) {
            self.expect_planned(now)?;
        }
        let Bits { mask, value, .. } = self.bits;
        let boot = store.boot_id()?;
        ledger.begin_register(&self.key, task.change.kind, &boot, now, (mask, value));
        Ok(())
    }

    fn execute(
        &self,
        store: &mut Store,
        _task: Task,
        undo: &mut UndoList,
    ) -> Result<(), StepError> {
        let now = read(store.reader, &self.key)?;
        if self.are_set(now) {
            return Ok(());
        }
        self.expect_planned(now)?;
        let Bits { mask, value, .. } = self.bits;
        undo.push(Box::new(RestoreBits { key: self.key.clone(), mask, value: now & mask }));
        write(store, &self.key, mask, value)
    }

    fn record_result(&self, store: &Store, ledger: &mut Ledger) -> Result<(), StepError> {
        ledger.settle_register(&self.key, read(store.reader, &self.key)?);
        Ok(())
    }
}

/// Sets the bits as they were.
struct RestoreBits {
    key: RegisterKey,
    mask: u16,
    value: u16,
}

impl Undo for RestoreBits {
    fn subject(&self) -> String {
        subject(&self.key)
    }

    fn run(&self, store: &mut Store) -> Result<(), StepError> {
        write(store, &self.key, self.mask, self.value)?;
        let now = read(store.reader, &self.key)?;
        store.ledger.settle_register(&self.key, now);
        Ok(())
    }
}

/// Put the bits `after` back into a register whose bits under `mask` are still `before`.
pub(crate) fn put_back(
    store: &mut Store,
    key: &RegisterKey,
    mask: u16,
    (before, after): (u16, u16),
) -> Result<(), StepError> {
    let now = read(store.reader, key)?;
    expect(now & mask == before, &subject(key), &format!("{now:#06x}"))?;
    write(store, key, mask, after)
}

/// A register now.
pub fn read(reader: &dyn Reader, key: &RegisterKey) -> Result<u16, StepError> {
    let RegisterKey { address, offset, .. } = key;
    let mut bytes = [0; 2];
    let config = reader.config(*address)?;
    match config.read(*offset, &mut bytes)? {
        2 => Ok(u16::from_le_bytes(bytes)),
        _ => Err(StepError::ConfigTooShort { address: *address, offset: *offset }),
    }
}

/// Set bits of a register and read them back.
fn write(store: &mut Store, key: &RegisterKey, mask: u16, value: u16) -> Result<(), StepError> {
    let now = read(store.reader, key)?;
    let to = now & !mask | value & mask;
    store.writer.write_config(key.address, key.offset, to)?;
    let now = read(store.reader, key)?;
    match (now ^ to) & mask {
        0 => Ok(()),
        stuck => Err(StepError::HardWired { subject: subject(key), now, written: to, stuck }),
    }
}

fn subject(key: &RegisterKey) -> String {
    format!("{} of {}", key.register, key.address)
}
