//! What needs rights done by processes that somebody else starts, as PID 1 does where there is systemd: here by the test,
//! for each connection to a socket.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use bedplate_tests::program;
use serde_json::json;

use super::rig::{Rig, drifted, fixed, right, until, waiting};

/// As `bedplate-NAME.socket` with `Accept=yes`. What was asked for is in the file `asked`, the name first.
fn serve(rig: &Rig, name: &'static str, relay: &std::path::Path) {
    let socket = rig.path("helpers").join(name);
    std::fs::create_dir_all(rig.path("helpers")).expect("ours");
    let listener = UnixListener::bind(&socket).expect("ours");
    let (worker, asked, relay) = (rig.path("worker"), rig.path("asked"), relay.to_owned());
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut log =
                std::fs::OpenOptions::new().create(true).append(true).open(&asked).expect("ours");
            std::io::Write::write_all(&mut log, format!("{name}\n").as_bytes()).expect("ours");
            let mut serve = Command::new(&relay);
            serve.arg("relay").arg(format!("--worker={}", worker.display()));
            serve.stdin(Stdio::from(OwnedFd::from(connection))).stdout(Stdio::null());
            std::thread::spawn(move || serve.status().expect("it starts"));
        }
    });
}

const ALL: [&str; 5] = ["worker", "loader", "holders", "check", "marker"];

fn rig() -> Option<Rig> {
    let mut rig = Rig::new()?;
    rig.sockets = true;
    Some(rig)
}

fn asked(rig: &Rig, name: &str) -> usize {
    rig.read("asked").lines().filter(|line| *line == name).count()
}

#[test]
fn a_host_is_put_right_by_processes_of_others() {
    let Some(mut rig) = rig() else { return };
    ALL.iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    rig.start();
    rig.until("put right", |status| status.state.name() == "converged");
    assert!(
        rig.calls().iter().any(|call| call.contains("--only=acs/0000:22:00.0")),
        "{:?}",
        rig.calls()
    );
    assert_eq!(asked(&rig, "loader"), 0, "nothing of it has to do with modules");

    // What loads a module is done by the unit that may.
    let mut seen = drifted(&rig);
    seen["changes"][0]["modules"] = json!(true);
    rig.look(&seen);
    rig.touch();
    until("the loader is asked", || asked(&rig, "loader") == 1);
    rig.until("put right", |status| status.state.name() == "converged");

    // Others are asked for a reboot by the one that may write there, once.
    let mut seen = waiting(&rig);
    seen["reboot"]["policy"] = json!("mark");
    rig.look(&seen);
    rig.touch();
    until("the marker is there", || rig.path("run/reboot-required").exists());
    rig.look(&right(&rig));
    rig.touch();
    until("the marker is gone", || !rig.path("run/reboot-required").exists());
    assert_eq!(asked(&rig, "marker"), 2);
}

/// Whether the host is in use is looked at by processes of their own, and one that cannot be asked is no "no".
#[test]
fn what_cannot_be_asked_keeps_the_host_up() {
    let Some(mut rig) = rig() else { return };
    ["worker", "check"].iter().for_each(|name| serve(&rig, name, program::path().as_ref()));
    rig.program("check", "#!/bin/sh\necho 'job 7 runs'\nexit 1\n");
    let mut seen = waiting(&rig);
    seen["reboot"]["busy_devices"] = json!(true);
    seen["reboot"]["busy_command"] = json!([rig.path("check")]);
    rig.look(&seen);
    rig.start();
    let status = rig.until("it waits", |status| status.reboot.vetoes.len() == 2);
    let vetoes = status.reboot.vetoes.join("\n");
    assert!(vetoes.contains("the busy command says: job 7 runs"), "{vetoes}");
    assert!(
        vetoes.contains("open devices cannot be looked at")
            && vetoes.contains("bedplate-holders.socket"),
        "{vetoes}"
    );
    assert_eq!(rig.asked_of_logind(), [""; 0], "a reboot was asked for");
}

/// A hanging pass ends with the daemon, and so does what it started.
#[test]
fn what_nobody_waits_for_ends() {
    let Some(mut rig) = rig() else { return };
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

/// A package has put another build in the program's place: the daemon ends, to be started as that one.
#[test]
fn another_build_is_not_mistaken_for_this_one() {
    let Some(mut rig) = rig() else { return };
    let other = rig.path("bedplate");
    std::fs::copy(program::path(), &other).expect("ours");
    serve(&rig, "worker", &other);
    rig.look(&drifted(&rig));
    rig.start_blindly();
    until("it ends by itself", || rig.logged("replaced by another build"));
    let mut daemon = rig.daemon.take().expect("it was started");
    let ended = daemon.wait().expect("it can be waited for");
    assert_eq!(ended.code(), Some(1), "{}", rig.read("log"));
    assert!(rig.logged("replaced by another build"), "{}", rig.read("log"));
    assert_eq!(rig.calls(), [""; 0], "its answer would not have been understood");
}
