//! Daemon commands without a system bus: each error has a fix and shows no socket or D-Bus error.

use crate::session::{Session, text};

const FIX: &str =
    "check `systemctl status dbus`; `bedplate plan` and `bedplate apply` work without the bus";

/// stdout, stderr and exit status of a command with this address of the system bus.
fn without_a_bus(address: &str, args: &[&str]) -> (String, String, Option<i32>) {
    run_without_a_bus(&Session::new(), address, args)
}

fn run_without_a_bus(
    session: &Session,
    address: &str,
    args: &[&str],
) -> (String, String, Option<i32>) {
    let output =
        session.command(args).env("DBUS_SYSTEM_BUS_ADDRESS", address).output().expect("it starts");
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn commands_without_a_bus_report_it_with_a_fix() {
    for address in ["unix:path=/nowhere", "nonsense", "unix:path=/etc/hostname", ""] {
        for args in [
            ["reconcile"].as_slice(),
            &["reboot", "schedule"],
            &["reboot", "schedule", "--in", "10m"],
        ] {
            let (stdout, stderr, status) = without_a_bus(address, args);
            assert_eq!((stdout.as_str(), status), ("", Some(1)), "{address} {args:?}");
            let undone = match args {
                ["reconcile"] => "error: no changes made: ",
                _ => "error: reboot not scheduled: ",
            };
            assert!(stderr.starts_with(undone), "{args:?}: {stderr}");
            assert!(stderr.contains("cannot reach the system bus\nhint: "), "{args:?}: {stderr}");
            assert!(stderr.contains(FIX), "{args:?}: {stderr}");
            assert_eq!(stderr.lines().count(), 2, "{stderr}");
        }
    }
}

/// Without a bus, the output is limited to the record.
#[test]
fn without_a_bus_the_record_of_reboots_is_read() {
    let session = Session::new();
    let state_root = session.path("").display().to_string();
    let status_of_reboots = || {
        let args = ["reboot", "status", "--json", "--state-root", &state_root];
        run_without_a_bus(&session, "unix:path=/nowhere", &args)
    };
    let (stdout, stderr, status) = status_of_reboots();
    let shown: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&shown["state"]["state"], status), (&"unknown".into(), Some(5)), "{stdout}");
    assert!(stderr.contains("cannot reach the system bus"), "{stderr}");
    // The cause and its fix are not hidden by the missing daemon.
    session.file("var/lib/bedplate/daemon/reboot.json", r#"{"version":2,"attempts":[]}"#);
    let (stdout, stderr, status) = status_of_reboots();
    assert_eq!((stdout.as_str(), status), ("", Some(1)));
    assert!(stderr.contains("has version 2") && stderr.contains("remove it"), "{stderr}");
    let (stdout, stderr, status) = without_a_bus("unix:path=/nowhere", &["reboot", "cancel"]);
    assert_eq!((stdout.as_str(), status), ("", Some(1)));
    assert!(stderr.contains("no reboot is scheduled by bedplate"), "{stderr}");
    assert!(stderr.contains("`shutdown -c`"), "{stderr}");
}

#[test]
fn status_without_a_bus_inspects_the_host_and_says_why() {
    let (_, stderr, _) = without_a_bus("unix:path=/nowhere", &["status"]);
    assert!(stderr.contains("daemon unreachable (cannot reach the system bus)"), "{stderr}");
    assert!(stderr.contains(FIX), "{stderr}");
    for raw in ["os error", "I/O", "org.freedesktop", "No such file"] {
        let of_the_bus = stderr.lines().take(2).any(|line| line.contains(raw));
        assert!(!of_the_bus, "{raw}: {stderr}");
    }
}

/// A typing error is a usage error, before the daemon is contacted.
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
        // With `--help` at the end, an accepted value would not hold reboots on the machine that runs this.
        let args = [args, &["--help"]].concat();
        let (stdout, stderr, status) = without_a_bus("unix:path=/nowhere", &args);
        assert_eq!((stdout.as_str(), status), ("", Some(64)), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: invalid value '"), "{args:?}: {stderr}");
    }
}
