//! Emulated GPU. No QEMU device accepts NVIDIA's ids on the command line, so this copies the QEMU program and gives
//! `bochs-display` the ids of an NVIDIA GPU. The copy stays on this machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Result, fail};

/// Vendor and device id of `bochs-display` (hw/display/bochs-display.c: 1234:1111), little endian, adjacent as the
/// class initializer stores them.
const BOCHS: [u8; 4] = [0x34, 0x12, 0x11, 0x11];
/// Vendor id of NVIDIA, little endian.
const NVIDIA: [u8; 2] = [0xde, 0x10];

/// Makes the copy of `qemu` at `copy`, with this device id, unless it already exists.
///
/// # Errors
/// The ids do not occur exactly once, as in a QEMU that stores them differently.
pub fn stand_in(qemu: &Path, copy: &Path, device: u16) -> Result<PathBuf> {
    let mut program =
        std::fs::read(qemu).map_err(|err| format!("reading {}: {err}", qemu.display()))?;
    if std::fs::metadata(copy).is_ok_and(|found| found.len() == program.len() as u64) {
        return Ok(copy.to_owned());
    }
    let places: Vec<usize> =
        program.windows(4).enumerate().filter(|(_, ids)| *ids == BOCHS).map(|(at, _)| at).collect();
    let [at] = places[..] else {
        return fail(format!(
            "{} has the ids of bochs-display in {} places, not in one: no GPU stand-in can be made of it; \
             use Debian's QEMU 10.0",
            qemu.display(),
            places.len()
        ));
    };
    program[at..at + 2].copy_from_slice(&NVIDIA);
    program[at + 2..at + 4].copy_from_slice(&device.to_le_bytes());
    let new = copy.with_extension("new");
    std::fs::write(&new, program)?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755))?;
    std::fs::rename(&new, copy)?;
    Ok(copy.to_owned())
}
