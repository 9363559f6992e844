//! Privileged work in processes that are not the daemon's children. The test starts one for each connection to a socket, as
//! PID 1 does under systemd.

mod builds;
mod down;
mod foreign;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bedplate_daemon::reboot::state::RebootState;
use bedplate_tests::{fixtures, program};
use serde_json::json;

use super::rig::{KEY, Rig, drifted, fixed, right, until, waiting};

fn note(file: &Path, line: &str) {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let line = format!("{line}\n");
    std::io::Write::write_all(&mut log.expect("ours"), line.as_bytes()).expect("ours");
}

/// Serves a socket as `bedplate-NAME.socket` with `Accept=yes` does. Logs each request in the file `asked`, by name.
pub fn serve(rig: &Rig, name: &'static str, relay: &Path) {
    let socket = rig.path("helpers").join(name);
    std::fs::create_dir_all(rig.path("helpers")).expect("ours");
    let listener = UnixListener::bind(&socket).expect("ours");
    let (worker, asked, relay) = (rig.path("worker"), rig.path("asked"), relay.to_owned());
    let root = rig.dir.path().to_owned();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            note(&asked, name);
            let mut serve = Command::new(&relay);
            serve.arg("relay").arg(format!("--for=bedplate-{name}"));
            serve.arg(format!("--worker={}", worker.display()));
            serve.arg(format!("--state-root={}", root.display()));
            serve.stdin(Stdio::from(OwnedFd::from(connection))).stdout(Stdio::null());
            let asked = asked.clone();
            std::thread::spawn(move || {
                serve.status().expect("it starts");
                // PID 1 keeps the connection until all processes of the unit have ended.
                std::thread::sleep(Duration::from_millis(300));
                note(&asked, &format!("{name} ended"));
                drop(serve);
            });
        }
    });
}

pub const ALL: [&str; 5] = ["observer", "worker", "loader", "holders", "check"];

pub fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.sockets = true;
    rig
}

fn asked(rig: &Rig, name: &str) -> usize {
    rig.read("asked").lines().filter(|line| *line == name).count()
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn helper_units_remediate_the_host() {
    let mut rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    rig.start();
    rig.until("put right", |status| status.state.name() == "converged");
    assert!(
        rig.calls().iter().any(|call| call.contains(&format!("--only={KEY}"))),
        "{:?}",
        rig.calls()
    );
    assert_eq!(asked(&rig, "loader"), 0, "nothing of it has to do with modules");

    // A change that loads a module is applied by the unit that may load modules.
    let mut seen = drifted(&rig);
    seen["changes"][0]["modules"] = json!(true);
    rig.look(&seen);
    rig.touch();
    until("the loader is asked", || asked(&rig, "loader") == 1);
    rig.until("put right", |status| status.state.name() == "converged");

    // The reboot marker is written once, by the unit that may write there.
    let mut seen = waiting(&rig);
    seen["reboot"]["policy"] = json!("mark");
    rig.look(&seen);
    rig.touch();
    until("the marker is there", || rig.path("run/reboot-required").exists());
    rig.look(&right(&rig));
    rig.touch();
    until("the marker is gone", || !rig.path("run/reboot-required").exists());
    assert_eq!(asked(&rig, "check"), 2);
}

/// Separate processes check whether the host is in use. A failed check never means "not in use".
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failed_busy_check_blocks_the_reboot() {
    let mut rig = rig();
    ["observer", "worker", "check"]
        .iter()
        .for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.program("check", "#!/bin/sh\necho 'job 7 runs'\nexit 1\n");
    let mut seen = waiting(&rig);
    seen["reboot"]["busy_devices"] = json!(true);
    seen["reboot"]["busy_command"] = json!([rig.path("check")]);
    rig.look(&seen);
    rig.start();
    let status = rig.until("it waits", |status| status.reboot.vetoes.len() == 2);
    let vetoes = status.reboot.vetoes.join("\n");
    assert!(vetoes.contains("busy command: job 7 runs"), "{vetoes}");
    assert!(
        vetoes.contains("cannot check for open devices")
            && vetoes.contains("bedplate-holders.socket"),
        "{vetoes}"
    );
    assert_eq!(rig.asked_of_logind(), [""; 0], "a reboot was asked for");
}

/// A hanging observation ends with the daemon, together with its child processes.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn worker_ends_with_its_daemon() {
    let mut rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.program(
        "worker",
        &format!("#!/bin/sh\necho $$ >{}\nexec sleep 300\n", rig.path("pid").display()),
    );
    rig.look(&right(&rig));
    rig.start_blindly();
    until("the worker runs", || !rig.read("pid").trim().is_empty());
    let process = format!("/proc/{}/stat", rig.read("pid").trim());
    let runs = || std::fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(runs());
    rig.kill();
    until("the worker is gone", || !runs());
}

/// A connection of an unprivileged user gets no answer, whatever the socket's mode.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "perl", has = "root")),
    ignore = "needs dbus-daemon, perl and root"
)]
fn unit_refuses_other_users() {
    let perl = fixtures::tool("perl");
    fixtures::root();
    let rig = rig();
    serve(&rig, "worker", program::path().as_ref());
    let socket = rig.path("helpers/worker");
    for (path, mode) in [(rig.dir.path(), 0o755), (&*socket, 0o666)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("ours");
    }
    let answer = |user: u32| {
        let ask = r#"POSIX::setuid($ARGV[1]); socket(S, AF_UNIX, SOCK_STREAM, 0);
            connect(S, sockaddr_un($ARGV[0])) or die;
            syswrite S, '{"program":"1:1","arguments":[],"input":""}' . "\n"; print while <S>"#;
        let said = Command::new(&perl)
            .args(["-MSocket", "-MPOSIX", "-e", ask])
            .arg(&socket)
            .arg(user.to_string())
            .output()
            .expect("it starts");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    assert!(answer(0).contains("replaced"), "{}", answer(0));
    assert_eq!(answer(65534), "");
}

/// `systemctl stop bedplate` during an observation: the daemon does not wait for the result, and ends the unit before it
/// ends itself.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn stopping_daemon_ends_its_units_first() {
    let mut rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.look(&right(&rig));
    rig.write("wait", "");
    rig.start_blindly();
    until("it looks", || !rig.calls().is_empty());
    rig.stop();
    assert_eq!(asked(&rig, "observer ended"), 1, "{}", rig.read("asked"));
}

/// PID 1 starts no unit during a shutdown, and `systemctl reboot` makes logind forget the scheduled reboot. The attempt
/// must count, otherwise the next boot would repeat a reboot that had no effect.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn shutdown_keeps_the_attempt() {
    let mut rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    let mut seen = waiting(&rig);
    rig.program("check", "#!/bin/sh\nexit 0\n");
    seen["reboot"]["busy_command"] = json!([rig.path("check")]);
    rig.look(&seen);
    rig.start();
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    for forgotten in [false, true] {
        let mut login = rig.login.lock().expect("not poisoned");
        login.stops = true;
        login.scheduled.take_if(|_| forgotten);
        drop(login);
        std::fs::rename(rig.path("helpers"), rig.path("stopped")).expect("ours");
        rig.touch();
        rig.inhibit(&[]);
        rig.until("under way", |status| {
            matches!(status.reboot.state, RebootState::UnderWay { .. })
        });
        rig.settle();
        assert!(
            rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"boot_id\": \"boot-1\"")
        );
        assert_eq!(rig.phase(), "going-down");
        assert!(!rig.asked_of_logind().contains(&"cancel".to_owned()));
        assert!(!rig.logged("cancelled: ") && !rig.logged("cannot start"), "{}", rig.read("log"));
        std::fs::rename(rig.path("stopped"), rig.path("helpers")).expect("ours");
    }
    // `systemctl reboot` was cancelled (`shutdown.target` has no job any more).
    rig.login.lock().expect("not poisoned").stops = false;
    rig.touch();
    rig.until("called off", |status| matches!(status.reboot.state, RebootState::Cancelled { .. }));
}

/// An unwritable marker is reported once, and its unit is not started again at every event.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unwritable_marker_is_not_retried_at_every_event() {
    let mut rig = rig();
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.write("run/reboot-required.pkgs/in-the-way", "");
    let mut seen = waiting(&rig);
    seen["reboot"]["policy"] = json!("mark");
    rig.look(&seen);
    rig.start();
    for _ in 0..3 {
        rig.touch();
        rig.settle();
    }
    assert!(asked(&rig, "observer") > 3, "{}", rig.read("asked"));
    assert_eq!(asked(&rig, "check"), 1, "{}", rig.read("asked"));
    assert_eq!(rig.read("log").matches("cannot write /run/reboot-required").count(), 1);
    // A different state of the marker is requested.
    rig.look(&right(&rig));
    rig.touch();
    until("tried", || asked(&rig, "check") == 2);
    std::fs::remove_dir_all(rig.path("run/reboot-required.pkgs")).expect("ours");
    rig.look(&seen);
    rig.touch();
    until("the marker is there", || rig.path("run/reboot-required").exists());
}
