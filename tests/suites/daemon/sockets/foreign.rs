//! Requests that a compromised daemon could send to the units, and units that cannot end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;

use bedplate_daemon::launch::{END, ExitResult, Request};
use bedplate_tests::program;
use serde_json::json;

use super::super::rig::{Rig, right};
use super::{ALL, rig, serve};

/// Returns a unit's answer to a request of a compromised daemon.
fn answer(rig: &Rig, unit: &str, arguments: &[&str], input: &str) -> ExitResult {
    let file = std::fs::metadata(program::path()).expect("it is there");
    let request = Request {
        program: format!("{}:{}", file.dev(), file.ino()),
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        input: input.to_owned(),
    };
    let mut connection = UnixStream::connect(rig.path("helpers").join(unit)).expect("it listens");
    let line = serde_json::to_string(&request).expect("JSON") + "\n";
    connection.write_all(line.as_bytes()).expect("it listens");
    let lines = BufReader::new(connection).lines().map(|line| line.expect("it answers"));
    let end = lines.filter_map(|line| line.strip_prefix(END).map(str::to_owned)).next();
    serde_json::from_str(&end.expect("an end")).expect("an end")
}

/// A unit's rights are for its own tasks: it refuses tasks of other units at any request.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unit_does_only_its_own_tasks() {
    let rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    let ran = rig.path("ran");
    let mut seen = right(&rig);
    seen["reboot"]["busy_command"] = json!(["/bin/sh", "-c", format!("echo >{}", ran.display())]);
    rig.look(&seen);
    let prepared = json!({ "method": "ordinary", "next": "logind-reboot", "undo": [] });
    let tasks = [
        ("holders", json!({ "task": "holders", "idle": [] })),
        ("worker", json!({ "task": "methods", "need": "cold" })),
        (
            "worker",
            json!({ "task": "way-back", "method": "ordinary", "at": "2026-01-01T00:00:00Z" }),
        ),
        (
            "worker",
            json!({
                "task": "prepare", "method": "ordinary", "plan": "p", "at": "2026-01-01T00:00:00Z"
            }),
        ),
        ("worker", json!({ "task": "take-back", "prepared": prepared })),
        ("worker", json!({ "task": "power-command" })),
        ("worker", json!({ "task": "restart-cause" })),
        ("check", json!({ "task": "busy-command" })),
        ("check", json!({ "task": "marker", "wanted": false })),
    ];
    for (its, task) in &tasks {
        for unit in ALL {
            let end = answer(&rig, unit, &["helper"], &task.to_string());
            let refused = format!("bedplate-{unit} does not do this task; bedplate-{its} does");
            assert_eq!(end.said == refused, unit != *its, "{unit}: {task}: {}", end.said);
        }
    }
    assert!(ran.exists(), "bedplate-check runs it");
    rig.after(&right(&rig));
    for unit in ALL {
        let changes = matches!(unit, "worker" | "loader");
        for (arguments, does) in [
            (&["worker"][..], unit == "observer"),
            (&["worker", "--settings"], unit == "observer"),
            (&["worker", "--only=acs/0000:22:00.0"], changes),
            (&["worker", "--unjudged", "--only", "acs/0000:22:00.0"], changes),
        ] {
            let end = answer(&rig, unit, arguments, "");
            assert_eq!(end.code == Some(0), does, "{unit}: {arguments:?}: {}", end.said);
            let refused = format!("bedplate-{unit} does not do this task");
            assert_eq!(end.said == refused, !does, "{unit}: {arguments:?}: {}", end.said);
        }
    }
    for arguments in
        [&["helper", "--state-root=/"][..], &["daemon"], &["relay", "--for=bedplate-loader"], &[]]
    {
        let end = answer(&rig, "check", arguments, &tasks[7].1.to_string());
        assert_eq!(end.said, "unknown task", "{arguments:?}");
    }
}

/// Commands are those of the profile, and an undo restores only what a reboot method has changed.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn task_with_its_own_command_or_path_is_refused() {
    let rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.look(&right(&rig));
    let helper = |unit: &str, task: serde_json::Value| {
        let end = answer(&rig, unit, &["helper"], &task.to_string());
        assert_ne!(end.code, Some(0), "{task}");
        end.said
    };
    let argv = ["/bin/sh", "-c", "exit 0"];
    let said = helper("check", json!({ "task": "busy-command", "argv": argv }));
    assert!(said.contains("unknown task"), "{said}");
    let settings = json!({ "command": argv });
    let said = helper("worker", json!({ "task": "power-command", "settings": settings }));
    assert!(said.contains("unknown task"), "{said}");
    let said = helper("worker", json!({ "task": "power-command" }));
    assert_eq!(said, "the profile has no `command`");
    let at = "2026-01-01T00:00:00Z";
    let task = json!({ "task": "prepare", "method": "firmware", "plan": "p", "at": at });
    let said = helper("worker", task);
    assert!(said.contains("the profile does not list it"), "{said}");
    let said = helper("worker", json!({ "task": "way-back", "method": "firmware", "at": at }));
    assert!(said.contains("the profile does not list it"), "{said}");

    let kept = [
        "etc/shadow",
        "sys/kernel/reboot/mode",
        "sys/class/rtc/rtc0/wakealarm",
        "run/bedplate/power-cycle",
    ];
    kept.iter().for_each(|path| rig.write(path, "kept"));
    for step in [
        json!({ "write": { "path": "/etc/shadow", "value": "cold" } }),
        json!({ "write": { "path": "/sys/kernel/reboot/../../../etc/shadow", "value": "cold" } }),
        json!({ "write": { "path": "/sys/kernel/reboot/mode", "value": "no mode" } }),
        json!({ "write": { "path": "/sys/class/rtc/rtc0/wakealarm", "value": "+60" } }),
        json!({ "write": { "path": "/run/bedplate/power-cycle", "value": "0" } }),
        json!({ "remove": { "path": "/etc/shadow" } }),
        json!({ "remove": { "path": "/run/bedplate/../../etc/shadow" } }),
    ] {
        let prepared = json!({ "method": "firmware", "next": "logind-reboot", "undo": [step] });
        let said = helper("worker", json!({ "task": "take-back", "prepared": prepared }));
        assert!(said.contains("is not restored: no reboot method makes this change"), "{said}");
    }
    kept.iter().for_each(|path| assert_eq!(rig.read(path), "kept", "{path}"));
}

/// systemd abandons a unit with a process that hangs in a driver. No further observation is started to hang there as well.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn no_observation_starts_while_an_earlier_one_hangs() {
    let rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.look(&right(&rig));
    rig.after(&right(&rig));
    let slice = "system.slice/system-bedplate.slice";
    rig.write("proc/self/cgroup", &format!("0::/{slice}/bedplate-observer@2.service\n"));
    let earlier = format!("sys/fs/cgroup/{slice}/bedplate-observer@1.service/cgroup.procs");
    rig.write(&earlier, "78\n77\n");
    rig.write("proc/78/status", "Name:\tsleep\nState:\tS (sleeping)\nSigPnd:\t0\nShdPnd:\t100\n");
    let state = |state: &str, pending: &str| {
        let masks = format!("SigPnd:\t0000000000000000\nShdPnd:\t{pending}\n");
        rig.write("proc/77/status", &format!("Name:\tbedplate\nState:\t{state}\n{masks}"));
    };
    for (what, pending, hangs) in [
        ("D (disk sleep)", "0000000000000100", true),
        ("D (disk sleep)", "0000000000000000", false),
        ("S (sleeping)", "0000000000000100", false),
    ] {
        state(what, pending);
        for (unit, arguments) in
            [("observer", &["worker"][..]), ("loader", &["worker", "--only=modules/x"])]
        {
            let end = answer(&rig, unit, arguments, "");
            assert_eq!(end.code == Some(0), !hangs, "{what} {pending}: {}", end.said);
            assert_eq!(
                end.said.starts_with("process 77 of an earlier observation"),
                hangs,
                "{}",
                end.said
            );
        }
        // Cancelling a reboot still works.
        let prepared = json!({ "method": "bmc", "next": "logind-reboot", "undo": [] });
        let task = json!({ "task": "take-back", "prepared": prepared });
        assert_eq!(answer(&rig, "worker", &["helper"], &task.to_string()).code, Some(0));
    }
}
