//! One bedplate process per host, and a message that names the holder of the lock.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use bedplate_host::LockError;
use bedplate_host::write::DirWriter;

fn writer(root: &tempfile::TempDir) -> DirWriter {
    DirWriter::image(root.path(), false).expect("a directory of our own")
}

#[test]
fn second_process_gets_the_holder() {
    let root = tempfile::tempdir().expect("a directory");
    let first = writer(&root).lock().expect("nobody has it");
    let second = writer(&root).lock();
    assert!(
        matches!(&second, Err(LockError::Held { by: Some(by) }) if by.pid == std::process::id() && by.command.is_some()),
        "{second:?}"
    );
    drop(first);
    writer(&root).lock().expect("it is free again");
}

/// flock(1) takes the lock and ends; its child has inherited the lock and continues, as after a bedplate that was killed
/// while update-grub ran.
#[test]
fn tool_that_outlived_its_bedplate_is_identified() {
    let root = tempfile::tempdir().expect("a directory");
    drop(writer(&root).lock().expect("nobody has it"));
    let lock = root.path().join("var/lib/bedplate/lock");
    let script = format!("exec 9<'{}'; flock 9; echo taken; read -r _", lock.display());
    let mut tool = Command::new("sh");
    let tool = tool.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tool = tool.spawn().expect("sh runs");
    let mut said = String::new();
    BufReader::new(tool.stdout.take().expect("piped")).read_line(&mut said).expect("it speaks");
    assert_eq!(said, "taken\n");
    let refused = writer(&root).lock();
    tool.kill().expect("ours to end");
    tool.wait().expect("ours to end");
    assert!(
        matches!(&refused, Err(LockError::Orphaned { killed, .. }) if *killed != tool.id()),
        "{refused:?}"
    );
    // Only root can identify the process that inherited the lock.
    match &refused {
        Err(LockError::Orphaned { by: Some(by), .. }) => {
            assert_eq!((by.pid, by.command.as_deref()), (tool.id(), Some("sh")));
        }
        _ => assert!(!nix::unistd::geteuid().is_root(), "{refused:?}"),
    }
    writer(&root).lock().expect("with the tool the lock has gone");
}

/// A daemon that a tool leaves in the background inherits the descriptor as well.
#[test]
fn background_process_of_a_tool_does_not_keep_the_lock() {
    let root = tempfile::tempdir().expect("a directory");
    let lock = writer(&root).lock().expect("nobody has it");
    let mut left =
        Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().expect("it starts");
    drop(lock);
    let again = writer(&root).lock();
    left.kill().expect("ours to end");
    left.wait().expect("ours to end");
    again.expect("it was given back");
}

/// Any user who can open the file can lock it.
#[test]
fn lock_file_is_private_to_its_owner() {
    let root = tempfile::tempdir().expect("a directory");
    drop(writer(&root).lock().expect("nobody has it"));
    let lock = root.path().join("var/lib/bedplate/lock");
    let mode = || lock.metadata().expect("it is there").permissions().mode() & 0o7777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&lock, std::fs::Permissions::from_mode(0o666)).expect("ours");
    drop(writer(&root).lock().expect("nobody has it"));
    assert_eq!(mode(), 0o600);
    std::fs::remove_file(&lock).expect("ours");
    let made = Command::new("mkfifo").arg(&lock).status().expect("it starts");
    assert!(made.success());
    let refused = writer(&root).lock().expect_err("a pipe").to_string();
    assert!(refused.contains("not a regular file"), "{refused}");
}
