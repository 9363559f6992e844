//! GRUB's environment block in the header of a Btrfs file system.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::refusal::refused;
use super::{DirReader, Root};
use crate::Reader as _;
use bedplate_base::{ReadError, lossless_text};

/// Offset in bytes (GRUB 2.14 `include/grub/fs.h`, `GRUB_ENV_BTRFS_OFFSET`).
const OFFSET: u64 = 256 << 10;
/// Size in bytes: one sector (`util/grub-editenv.c`, `fs_envblk_spec`).
const SIZE: usize = 512;
/// First line of every environment block (`include/grub/lib/envblk.h`). Other bytes must not reach a snapshot.
const SIGNATURE: &[u8] = b"# GRUB Environment Block\n";
/// Mounted Btrfs file systems, by UUID (`fs/btrfs/sysfs.c`).
const FILE_SYSTEMS: &str = "/sys/fs/btrfs";

/// [`Reader::grub_header_block`](crate::Reader::grub_header_block) for the running system. An image has no block
/// device.
pub(super) fn read(reader: &DirReader, device: &str) -> Result<String, ReadError> {
    if matches!(reader.root, Root::Image { .. }) {
        return Err(ReadError::NotFound { path: device.to_owned() });
    }
    let file = File::from(reader.open_block_device(device)?);
    // GRUB may start from another device than its tools write to.
    if !is_only_device(reader, device)? {
        return Err(refused(device, "not known to be the only device of its Btrfs file system"));
    }
    let mut block = [0; SIZE];
    reader.count(1);
    file.read_exact_at(&mut block, OFFSET).map_err(|error| refused(device, &error.to_string()))?;
    match block.starts_with(SIGNATURE) {
        true => Ok(lossless_text::decode(&block)),
        false => Err(refused(device, "no environment block of GRUB in the Btrfs header")),
    }
}

/// Whether a mounted file system has this device and no other.
fn is_only_device(reader: &DirReader, device: &str) -> Result<bool, ReadError> {
    let name = device.rsplit('/').next().unwrap_or_default();
    for file_system in reader.list(FILE_SYSTEMS)? {
        let Ok(devices) = reader.list(&format!("{FILE_SYSTEMS}/{file_system}/devices")) else {
            continue;
        };
        if devices.iter().any(|other| other == name) {
            return Ok(devices.len() == 1);
        }
    }
    Ok(false)
}
