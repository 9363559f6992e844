//! One bedplate at a time on one host, and words that say who is in the way.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use bedplate::host::lock::LockError;
use bedplate::host::write::DirWriter;

fn writer(root: &tempfile::TempDir) -> DirWriter {
    DirWriter::image(root.path(), false).expect("a directory of our own")
}

#[test]
fn the_second_one_is_told_who_is_at_work() {
    let root = tempfile::tempdir().expect("a directory");
    let first = writer(&root).lock().expect("nobody has it");
    let second = writer(&root).lock();
    assert!(
        matches!(second, Err(LockError::Held { pid: Some(pid) }) if pid == std::process::id()),
        "{second:?}"
    );
    drop(first);
    writer(&root).lock().expect("it is free again");
}

/// flock(1) takes the lock and ends; the shell's child, which has inherited it, goes on: as with a bedplate that was
/// killed while update-grub ran.
#[test]
fn a_tool_that_outlived_its_bedplate_is_told_apart() {
    let root = tempfile::tempdir().expect("a directory");
    drop(writer(&root).lock().expect("nobody has it"));
    let lock = root.path().join("var/lib/bedplate/lock");
    let script = format!("exec 9<'{}'; flock 9; echo taken; exec sleep 60", lock.display());
    let mut tool =
        Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("sh runs");
    let mut said = String::new();
    BufReader::new(tool.stdout.take().expect("piped")).read_line(&mut said).expect("it speaks");
    assert_eq!(said, "taken\n");
    let refused = writer(&root).lock();
    tool.kill().expect("ours to end");
    tool.wait().expect("ours to end");
    assert!(matches!(refused, Err(LockError::Orphaned { pid }) if pid != tool.id()), "{refused:?}");
    writer(&root).lock().expect("with the tool the lock has gone");
}
