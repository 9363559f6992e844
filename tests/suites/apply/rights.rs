//! Set-id bits, file capabilities and owners that are neither retained nor restored.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use bedplate_host::{FileMeta, Writer as _};
use bedplate_tests::fake::Machine;
use bedplate_tests::fixtures;
use rustix::fs::XattrFlags;

use crate::places::{image, xattr};

/// As with write(2), which clears them on the file that it writes to.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn program_rights_are_neither_retained_nor_restored() {
    fixtures::root();
    let machine = Machine::new();
    let path = machine.at("/etc/file");
    // cap_setuid, permitted and effective (include/uapi/linux/capability.h, vfs_cap_data, revision 2).
    let capability = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let armed = || {
        machine.put("/etc/file", "old\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        rustix::fs::setxattr(&path, "security.capability", &capability, XattrFlags::empty())
            .unwrap();
    };
    let rights =
        || (fs::metadata(&path).unwrap().mode() & 0o7777, xattr(&path, "security.capability"));
    armed();
    let mut writer = image(&machine);
    let meta = writer.file_meta("/etc/file").unwrap().unwrap();
    assert_eq!((meta.mode, meta.xattrs.len()), (0o755, 0), "{meta:?}");
    writer.replace_file("/etc/file", b"new\n", 0o600).unwrap();
    assert_eq!(rights(), (0o755, None));
    // A record with these rights.
    let hex = capability.iter().map(|byte| format!("{byte:02x}")).collect();
    let xattrs = [("security.capability".to_owned(), hex)].into();
    let wrong = FileMeta { mode: 0o6755, xattrs, ..meta.clone() };
    writer.restore_file("/etc/file", b"old\n", &wrong).unwrap();
    assert_eq!(rights(), (0o755, None));
    // A record alone does not give a file to a user; a file that already belongs to that user is restored.
    let given = FileMeta { uid: 1234, gid: 2345, ..meta };
    let error = writer.restore_file("/etc/file", b"x\n", &given).unwrap_err().to_string();
    assert!(error.contains("the ledger records owner 1234:2345"), "{error}");
    assert_eq!(machine.text("/etc/file"), "old\n");
    chown(&path, Some(1234), Some(2345)).unwrap();
    writer.restore_file("/etc/file", b"x\n", &given).unwrap();
    assert_eq!(machine.text("/etc/file"), "x\n");
}
