//! Reads the 16-bit registers in PCI config space that bedplate writes.

use crate::setting::SetConfigBits;
use bedplate_base::ReadError;
use bedplate_host::Reader;

/// Reads the whole register.
///
/// # Errors
/// It cannot be read, or the device does not answer: no register that bedplate writes has all bits set. Written back with
/// other bits, such a value would start a reset (bit 15 of device control).
pub(crate) fn read(reader: &dyn Reader, action: &SetConfigBits) -> Result<u16, ReadError> {
    let SetConfigBits { address, offset, .. } = *action;
    let failed = |reason: String| {
        let path = format!("/sys/bus/pci/devices/{address}/config");
        Err(ReadError::Failed { path, reason })
    };
    let mut bytes = [0; 2];
    match reader.config(address)?.read(offset, &mut bytes)? {
        2 if bytes == [0xff; 2] => {
            failed(format!("{address} does not answer (all ones at offset {offset:#x})"))
        }
        2 => Ok(u16::from_le_bytes(bytes)),
        // Unprivileged readers see 64 bytes.
        _ => failed(format!("config space ends before offset {offset:#x}: run as root")),
    }
}
