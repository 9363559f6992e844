//! Commands that speak with the daemon, where there is no bus to speak by: sentences with what to do, no errors of sockets
//! or of D-Bus.

use crate::session::{Session, text};

const REMEDY: &str =
    "`systemctl status dbus` shows why; `bedplate plan` and `bedplate apply` work without it";

/// stdout and stderr of a command whose system bus is nowhere, and its exit status.
fn without_a_bus(address: &str, args: &[&str]) -> (String, String, Option<i32>) {
    let output = Session::new()
        .command(args)
        .env("DBUS_SYSTEM_BUS_ADDRESS", address)
        .output()
        .expect("it starts");
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn without_a_bus_commands_say_so_in_words() {
    for address in ["unix:path=/nowhere", "nonsense", "unix:path=/etc/hostname", ""] {
        for args in [
            ["reconcile"].as_slice(),
            &["reboot", "schedule"],
            &["reboot", "schedule", "--in", "10m"],
        ] {
            let (stdout, stderr, status) = without_a_bus(address, args);
            assert_eq!((stdout.as_str(), status), ("", Some(1)), "{address} {args:?}");
            let undone = match args {
                ["reconcile"] => "error: nothing was changed: ",
                _ => "error: nothing was scheduled: ",
            };
            assert!(stderr.starts_with(undone), "{args:?}: {stderr}");
            assert!(
                stderr.contains("the system bus cannot be reached\n  hint: "),
                "{args:?}: {stderr}"
            );
            assert!(stderr.contains(REMEDY), "{args:?}: {stderr}");
            assert_eq!(stderr.lines().count(), 2, "{stderr}");
        }
    }
}

/// The record says as much as there is.
#[test]
fn without_a_bus_the_record_of_reboots_is_read() {
    let (stdout, stderr, status) =
        without_a_bus("unix:path=/nowhere", &["reboot", "status", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&shown["state"]["state"], status), (&"unknown".into(), Some(5)), "{stdout}");
    assert!(stderr.contains("the system bus cannot be reached"), "{stderr}");
    let (stdout, stderr, status) = without_a_bus("unix:path=/nowhere", &["reboot", "cancel"]);
    assert_eq!((stdout.as_str(), status), ("", Some(1)));
    assert!(stderr.contains("no reboot of bedplate's is announced"), "{stderr}");
    assert!(stderr.contains("`shutdown -c`"), "{stderr}");
}

#[test]
fn status_looks_by_itself_and_says_why() {
    let (_, stderr, _) = without_a_bus("unix:path=/nowhere", &["status"]);
    assert!(stderr.contains("no daemon answers (the system bus cannot be reached)"), "{stderr}");
    assert!(stderr.contains(REMEDY), "{stderr}");
    for raw in ["os error", "I/O", "org.freedesktop", "No such file"] {
        let of_the_bus = stderr.lines().take(2).any(|line| line.contains(raw));
        assert!(!of_the_bus, "{raw}: {stderr}");
    }
}

/// A slip of the pen is a usage error, before anybody is asked.
#[test]
fn bad_times_and_reasons_are_usage_errors() {
    for args in [
        ["reboot", "schedule", "--in", "soon"].as_slice(),
        &["reboot", "schedule", "--at", "tomorrow"],
        &["reboot", "hold", "--why", "x", "--for", "0h"],
        &["reboot", "hold", "--why", "x", "--for", "4 parsecs"],
        &["reboot", "hold", "--why", " "],
        &["reboot", "hold", "--why", ""],
        &["status", "--wait", "soon"],
    ] {
        // `--help` after it: were the value taken, nothing would be held on the machine that runs this.
        let args = [args, &["--help"]].concat();
        let (stdout, stderr, status) = without_a_bus("unix:path=/nowhere", &args);
        assert_eq!((stdout.as_str(), status), ("", Some(64)), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: invalid value '"), "{args:?}: {stderr}");
    }
}
