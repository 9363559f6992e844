//! Reads owner, mode and extended attributes of a file, and sets them on another. No paths.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::sys::statfs::{MSDOS_SUPER_MAGIC, fstatfs};
use nix::unistd::{Gid, Uid, fchown};
use rustix::fs::XattrFlags;

use super::error_text::{Fault, failed_to, from_rustix};
use crate::FileMeta;

/// Longest list of names and longest value (include/uapi/linux/limits.h, XATTR_LIST_MAX, XATTR_SIZE_MAX).
const LONGEST: usize = 64 << 10;
/// Attributes that are not kept: signatures of the content (wrong for new content), an overlay's private data about one
/// inode, and the capabilities of a program, which a write removes too (fs/attr.c, setattr_should_drop_suidgid;
/// fs/inode.c, file_remove_privs).
const NOT_KEPT: [&str; 5] =
    ["security.capability", "security.ima", "security.evm", "trusted.overlay.", "user.overlay."];
/// Permissions and the sticky bit. A write clears set-id bits, and bedplate writes no programs.
const MODE: u32 = 0o1777;
/// The file's own ACL.
const ACL: &str = "system.posix_acl_access";

/// Reads the metadata that a replacement keeps.
pub(super) fn read(file: &OwnedFd) -> Result<FileMeta, Fault> {
    let stat = fstat(file).map_err(failed_to("inspect"))?;
    let xattrs = xattrs(file)?.into_iter().map(|(name, value)| (name, hex(&value))).collect();
    Ok(FileMeta { mode: stat.st_mode & MODE, uid: stat.st_uid, gid: stat.st_gid, xattrs })
}

/// Sets `meta` on `file`; does not touch values that already match.
pub(super) fn give(file: &OwnedFd, meta: &FileMeta) -> Result<(), Fault> {
    let had = xattrs(file)?;
    // A new file inherits the directory's default ACL, which would change the meaning of the mode: remove it first.
    if had.contains_key(ACL) && !meta.xattrs.contains_key(ACL) {
        rustix::fs::fremovexattr(file, ACL)
            .map_err(from_rustix)
            .map_err(failed_to("remove an inherited ACL"))?;
    }
    let stat = fstat(file).map_err(failed_to("inspect"))?;
    if (stat.st_uid, stat.st_gid) != (meta.uid, meta.gid) {
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        fchown(file, Some(uid), Some(gid)).map_err(failed_to("set the owner"))?;
    }
    give_mode(file, meta.mode & MODE)?;
    for (name, value) in meta.xattrs.iter().filter(|(name, _)| is_kept(name)) {
        let value = unhex(value)
            .ok_or_else(|| Fault::refusal(format!("invalid record of attribute {name}")))?;
        if had.get(name) == Some(&value) {
            continue;
        }
        rustix::fs::fsetxattr(file, name, &value, XattrFlags::empty())
            .map_err(from_rustix)
            .map_err(|errno| {
                Fault::refusal(format!(
                    "set attribute {name}: {}",
                    crate::errno::error_message(errno)
                ))
            })?;
    }
    Ok(())
}

/// Sets the mode, independent of the umask. Must follow chown(2), which may clear set-id bits.
pub(super) fn give_mode(file: &OwnedFd, mode: u32) -> Result<(), Fault> {
    let stat = fstat(file).map_err(failed_to("inspect"))?;
    if stat.st_mode & 0o7777 == mode {
        return Ok(());
    }
    fchmod(file, Mode::from_bits_truncate(mode)).or_else(fat_has_no_modes(file))
}

/// Ignores a failed change of the mode on FAT, which gets its modes from the mount and returns EPERM for others.
pub(super) fn fat_has_no_modes(file: &OwnedFd) -> impl Fn(Errno) -> Result<(), Fault> {
    move |errno| match fstatfs(file) {
        // FAT: the EFI system partition.
        Ok(fs) if fs.filesystem_type() == MSDOS_SUPER_MAGIC => Ok(()),
        _ => Err(failed_to("set the mode")(errno)),
    }
}

fn xattrs(file: &OwnedFd) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
    let mut buffer = vec![0; LONGEST];
    let length = match rustix::fs::flistxattr(file, &mut buffer[..]).map_err(from_rustix) {
        Ok(length) => length,
        // A file system without attributes.
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => 0,
        Err(errno) => return Err(failed_to("read the attributes")(errno)),
    };
    let names: Vec<String> = buffer[..length]
        .split(|byte| *byte == 0)
        .filter_map(|name| std::str::from_utf8(name).ok())
        .filter(|name| !name.is_empty() && is_kept(name))
        .map(str::to_owned)
        .collect();
    let mut all = BTreeMap::new();
    for name in names {
        match rustix::fs::fgetxattr(file, &name, &mut buffer[..]).map_err(from_rustix) {
            Ok(length) => {
                all.insert(name, buffer[..length].to_vec());
            }
            // Listed but missing: some file systems list attributes that a security module provides.
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {}
            Err(errno) => return Err(failed_to("read the attributes")(errno)),
        }
    }
    Ok(all)
}

fn is_kept(name: &str) -> bool {
    !NOT_KEPT.iter().any(|not| name.starts_with(not))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    bytes.filter(|_| rest.is_empty())
}
