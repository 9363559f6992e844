//! Real processes: one applies and reverts in a loop, and its parent kills it with SIGKILL at any time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bedplate_host::LockError;
use bedplate_host::write::DirWriter;
use bedplate_host::{ToolEnd, Writer as _};
use bedplate_tests::fake::tree::{foreign, times};
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{NUMVFS, WANTED, apply, assert_done, contents, ledger, machine, revert};

const VARIABLE: &str = "BEDPLATE_TEST_VICTIM";
/// Number of times that the victim is killed.
const ROUNDS: u32 = 120;

/// Runs the same test again as the process to kill.
fn again(name: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(VARIABLE, root);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Whether this is the process that [`again`] started.
fn is_again() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

fn victim_machine() -> Machine {
    let mut machine =
        Machine::open(Path::new(&std::env::var(VARIABLE).expect("run by the test outside")));
    machine.habits.hard_wired = 0x01;
    machine
}

fn victim() {
    let machine = victim_machine();
    loop {
        apply(&machine, &Fuse::none());
        revert(&machine, &Fuse::none(), false);
    }
}

#[test]
fn sigkill_at_any_time() {
    if is_again() {
        return victim();
    }
    let machine = machine();
    // The kernel creates all VFs even if the writer is killed; the fake host cannot guarantee that. So they exist already.
    machine.writer(&Fuse::none()).write_attribute(NUMVFS, "8", 1).unwrap();
    let strip = |mut tree: std::collections::BTreeMap<String, String>| {
        tree.retain(|path, _| !path.starts_with("sys/module"));
        tree
    };
    let (before, old) = (foreign(machine.root()), contents(&machine));
    let (mut cut_short, mut random) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    for round in 0..ROUNDS {
        let mut child = again("kill::sigkill_at_any_time", machine.root()).spawn().unwrap();
        // xorshift; the quality of the spread does not matter.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(3_000 + random % 60_000));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9),
            "the victim ended by itself"
        );
        let context = format!("round {round}");
        for (path, content) in contents(&machine) {
            let new = WANTED.iter().find(|(wanted, _)| *wanted == path).unwrap().1;
            assert!(
                content == old[path] || content.as_deref() == new,
                "{context}: {path} is {content:?}"
            );
        }
        let unfinished = ledger(&machine).files.values().any(|record| record.unfinished.is_some());
        cut_short += u32::from(unfinished);
        if random % 2 == 0 {
            let report = apply(&machine, &Fuse::none());
            assert!(report.succeeded(), "{context}: {report:#?}");
            assert_done(&machine, &context);
        }
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        assert!(plan.refused.is_empty() && report.succeeded(), "{context}: {plan:#?} {report:#?}");
        assert_eq!(strip(foreign(machine.root())), strip(before.clone()), "{context}");
    }
    assert!(
        cut_short > ROUNDS / 20,
        "only {cut_short} of {ROUNDS} kills hit a change that was under way"
    );
}

fn holder() {
    let mut writer = DirWriter::image(victim_machine().root(), true).unwrap();
    let _lock = writer.lock().unwrap();
    std::fs::write(victim_machine().at("/locked"), "").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn one_at_a_time() {
    if is_again() {
        return holder();
    }
    let machine = machine();
    let mut writer = DirWriter::image(machine.root(), false).unwrap();
    drop(writer.lock().expect("nobody has it"));
    let before = times(machine.root());
    let mut child = again("kill::one_at_a_time", machine.root()).spawn().unwrap();
    let locked = machine.at("/locked");
    wait_until(|| locked.exists());
    let error = writer.lock().unwrap_err();
    assert!(
        matches!(&error, LockError::Held { by: Some(by) } if by.pid == child.id()),
        "{error:?}"
    );
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_file(locked).unwrap();
    let lock = writer.lock().expect("the holder is gone");
    let mut after = times(machine.root());
    // `times` leaves out the root directory itself; everything else is unchanged.
    assert_eq!(std::mem::take(&mut after), before, "taking the lock changes nothing that is there");
    let mut second = DirWriter::image(machine.root(), false).unwrap();
    assert!(matches!(second.lock(), Err(LockError::Held { .. })), "one process, two writers");
    drop(lock);
    second.lock().expect("it was given back");
}

fn wait_until(mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not come to be");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tool_runner() {
    let machine = victim_machine();
    // The running system's tools with the fake host's lock.
    let _lock = DirWriter::image(machine.root(), false).unwrap().lock().unwrap();
    let marker = machine.at("/running").display().to_string();
    let script = format!("echo > {marker}; sleep 2; rm {marker}");
    let ran = DirWriter::live().run_tool(&["sh".into(), "-c".into(), script], 60);
    assert_eq!(ran.end, ToolEnd::Exited(0));
}

#[test]
fn a_tool_outlives_its_killed_parent_and_keeps_the_lock() {
    if is_again() {
        return tool_runner();
    }
    let machine = machine();
    let mut writer = DirWriter::image(machine.root(), false).unwrap();
    let mut child =
        again("kill::a_tool_outlives_its_killed_parent_and_keeps_the_lock", machine.root())
            .spawn()
            .unwrap();
    let running = machine.at("/running");
    wait_until(|| running.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    if running.exists() {
        assert!(
            matches!(writer.lock(), Err(LockError::Orphaned { .. })),
            "the tool is still at work"
        );
    }
    wait_until(|| !running.exists());
    let mut lock = None;
    wait_until(|| {
        lock = writer.lock().ok();
        lock.is_some()
    });
}
