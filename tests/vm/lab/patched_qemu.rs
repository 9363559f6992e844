//! Copy of the QEMU program with what no device of QEMU has: an NVIDIA GPU (`bochs-display` with other ids, which no device
//! accepts on the command line), and read requests and relaxed ordering in device control (if it runs on x86_64). The copy
//! stays on this machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Result, fail};

/// Vendor and device id of `bochs-display` (hw/display/bochs-display.c: 1234:1111), little endian, adjacent as the
/// class initializer stores them.
const BOCHS: [u8; 4] = [0x34, 0x12, 0x11, 0x11];
/// Vendor id of NVIDIA, little endian.
const NVIDIA: [u8; 2] = [0xde, 0x10];

/// End of `pcie_cap_deverr_init` (hw/pci/pcie.c): bits 3:0 of device control become writable, those of device status are
/// cleared by a write; then registers are cleared before the return.
const ERROR_BITS: [u8; 24] = [
    0x83, 0x4c, 0x02, 0x08, 0x0f, // orl $0xf,8(%rdx,%rax)
    0x48, 0x8b, 0x97, 0xb8, 0x00, 0x00, 0x00, // mov 0xb8(%rdi),%rdx
    0x83, 0x4c, 0x02, 0x0a, 0x0f, // orl $0xf,10(%rdx,%rax)
    0x31, 0xc0, 0x31, 0xd2, 0x31, 0xff, // xor of eax, edx, edi
    0xc3, // ret
];
/// The same with bits 14:12 and 4 of device control, without clearing eax.
const ALL_BITS: [u8; 24] = [
    0x66, 0x81, 0x4c, 0x02, 0x08, 0x1f, 0x70, // orw $0x701f,8(%rdx,%rax)
    0x48, 0x8b, 0x97, 0xb8, 0x00, 0x00, 0x00, // mov 0xb8(%rdi),%rdx
    0x83, 0x4c, 0x02, 0x0a, 0x0f, // orl $0xf,10(%rdx,%rax)
    0x31, 0xd2, 0x31, 0xff, // xor of edx, edi
    0xc3, // ret
];

/// Makes the copy of `qemu` at `copy`, with this device id of the GPU, unless it already exists.
///
/// # Errors
/// A pattern does not occur exactly once, as in a QEMU of another build.
pub fn patched(qemu: &Path, copy: &Path, device: u16) -> Result<PathBuf> {
    let mut program =
        std::fs::read(qemu).map_err(|err| format!("reading {}: {err}", qemu.display()))?;
    if std::fs::metadata(copy).is_ok_and(|found| found.len() == program.len() as u64) {
        return Ok(copy.to_owned());
    }
    let [low, high] = device.to_le_bytes();
    replace(&mut program, &BOCHS, &[NVIDIA[0], NVIDIA[1], low, high], "the ids of bochs-display")?;
    if cfg!(target_arch = "x86_64") {
        replace(&mut program, &ERROR_BITS, &ALL_BITS, "pcie_cap_deverr_init")?;
    }
    let new = copy.with_extension("new");
    std::fs::write(&new, program)?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755))?;
    std::fs::rename(&new, copy)?;
    Ok(copy.to_owned())
}

/// Replaces the only occurrence of a pattern.
fn replace(program: &mut [u8], before: &[u8], after: &[u8], name: &str) -> Result<()> {
    let windows = program.windows(before.len()).enumerate();
    let places: Vec<usize> =
        windows.filter(|(_, bytes)| *bytes == before).map(|(at, _)| at).collect();
    let [at] = places[..] else {
        return fail(format!(
            "QEMU has {name} in {} places, not in one: no node of this suite can be made of it; use Debian's QEMU 10.0 on \
             x86_64",
            places.len()
        ));
    };
    program[at..at + after.len()].copy_from_slice(after);
    Ok(())
}
