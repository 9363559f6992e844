//! The daemon on a private bus: what it does about drift and about reboots, and what it says of it.

mod absent;
mod boot;
mod bus;
mod by_itself;
mod called_off;
mod came;
mod heard;
mod held;
mod lock;
mod logind;
mod node;
mod quiet;
mod reboots;
mod replaced;
mod rig;
mod tls;
mod truth;

use std::process::Command;
use std::time::Duration;

use bedplate::daemon::status::{State, Verdict};
use bedplate_tests::{fixtures, program};
use rig::{Rig, difference, drifted, mended, right, until};
use serde_json::json;

#[test]
fn what_differs_is_put_right_and_told() {
    let Some(mut rig) = Rig::new() else { return };
    rig.look(&drifted(&rig));
    rig.after(&mended(&rig));
    rig.start();
    let status = rig.until("converged", |status| status.state == State::Converged);
    assert_eq!(status.verdict, Verdict::Ready);
    assert_eq!(rig.calls()[..2], ["worker", "worker --only=acs/0000:22:00.0"]);
    assert!(rig.logged("not as the profile says: port 0000:22:00.0 ACS control: 001d → 0011"));
    assert!(rig.logged("done: port 0000:22:00.0"));
    // The same in files, for whoever has no bus.
    assert!(rig.read("run/bedplate/bedplate.prom").contains("bedplate_ready 1\n"));
    let file: serde_json::Value =
        serde_json::from_str(&rig.read("run/bedplate/status.json")).expect("JSON");
    assert_eq!(file["state"], "converged");
}

/// The host is right and bedplate's own files are not: revert will lack something, and nobody is there to see it.
#[test]
fn what_could_not_be_kept_is_told() {
    let Some(mut rig) = Rig::new() else { return };
    let mut round = mended(&rig);
    round["warnings"] = json!(["the history was not written: No space left on device"]);
    rig.look(&drifted(&rig));
    rig.after(&round);
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    assert!(rig.logged("the history was not written: No space left on device"));
}

/// What cannot be read is one story: not ready, and never "as the profile says" beside it.
#[test]
fn what_cannot_be_read_is_not_called_right() {
    let Some(mut rig) = Rig::new() else { return };
    let mut round = right(&rig);
    round["unknowns"] = json!([{ "kind": "acs", "subject": "port 0000:22:00.0", "reason": "no config space", "remedy": "" }]);
    rig.look(&round);
    rig.start();
    let status = rig.until("looked at", |status| status.state == State::Converged);
    assert_eq!((status.verdict, status.last_converged), (Verdict::CannotTell, None));
    assert!(rig.logged("acs port 0000:22:00.0 could not be read: no config space"));
    assert!(!rig.logged("this host is what profile"), "{}", rig.read("log"));
    rig.look(&right(&rig));
    rig.touch();
    rig.until("ready", |status| {
        status.verdict == Verdict::Ready && status.last_converged.is_some()
    });
    assert!(rig.logged("this host is what profile test says"));
}

#[test]
fn an_observer_never_applies() {
    let Some(mut rig) = Rig::new() else { return };
    let mut round = drifted(&rig);
    round["agent"]["mode"] = json!("observe");
    rig.look(&round);
    rig.start();
    let status = rig.until("drifted", |status| status.state == State::Drifted);
    assert_eq!(status.verdict, Verdict::NotReady);
    rig.touch();
    rig.settle();
    assert!(
        rig.calls().len() >= 2 && rig.calls().iter().all(|call| call == "worker"),
        "{:?}",
        rig.calls()
    );
}

/// Another bedplate is at it: the host is known all the same, and it is tried again.
#[test]
fn a_worker_that_cannot_begin_is_a_failed_change() {
    let Some(mut rig) = Rig::new() else { return };
    rig.look(&drifted(&rig));
    rig.after(&mended(&rig));
    let worker = rig.read("worker");
    let locked = "*--only*) if [ -e locked ]; then cat locked >&2; exit 1; fi;";
    rig.program("worker", &worker.replace("*--only*)", locked));
    rig.write("locked", "another bedplate is at work\n");
    rig.start();
    let status = rig.until("failed", |status| status.state == State::Failed);
    assert!(status.reason.contains("another bedplate is at work"), "{}", status.reason);
    assert_eq!(status.changes.len(), 1, "what differs is known");
    std::fs::remove_file(rig.path("locked")).expect("ours");
    rig.until("tried again", |status| status.state == State::Converged);
}

#[test]
fn a_burst_of_events_costs_one_look() {
    let Some(mut rig) = Rig::new() else { return };
    std::fs::create_dir(rig.path("watched")).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let before = rig.calls().len();
    for number in 0..1000 {
        std::fs::write(rig.path(&format!("watched/{number}")), "").expect("ours");
    }
    until("it has looked", || rig.calls().len() > before);
    rig.settle();
    assert_eq!(rig.calls().len(), before + 1, "{:?}", rig.calls());
}

#[test]
fn who_takes_it_back_three_times_has_it() {
    let Some(mut rig) = Rig::new() else { return };
    rig.after(&mended(&rig));
    rig.look(&right(&rig));
    std::fs::create_dir_all(rig.path("watched")).expect("ours");
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let applied = |rig: &Rig| rig.calls().iter().filter(|call| call.contains("--only")).count();
    for times in 1..=3 {
        rig.look(&drifted(&rig));
        std::fs::write(rig.path("watched/x"), times.to_string()).expect("ours");
        // Said when the worker has ended.
        until("it is put back", || rig.read("log").matches("done: port").count() == times);
        rig.until("converged", |status| status.state == State::Converged);
    }
    rig.look(&drifted(&rig));
    std::fs::write(rig.path("watched/x"), "again").expect("ours");
    let status = rig.until("contested", |status| status.state == State::Contested);
    assert_eq!((status.verdict, applied(&rig)), (Verdict::NotReady, 3));
    assert!(rig.logged("was changed back 3 times and is left alone; last seen: ACS control: 001d"));
    let (_, said) = rig.run(&["status"]);
    assert!(said.contains("`bedplate reconcile` tries it now"), "{said}");
    // An operator who has seen to it.
    let answered = rig.runtime.block_on(async { rig.agent().await?.reconcile().await });
    assert_eq!(answered.expect("root may"), "converged");
    assert_eq!(applied(&rig), 4);
}

#[test]
fn what_fails_is_tried_again_later() {
    let Some(mut rig) = Rig::new() else { return };
    let mut failed = drifted(&rig);
    failed["done"] = json!([{ "change": difference(), "failure": "no such port" }]);
    rig.look(&drifted(&rig));
    rig.after(&failed);
    rig.start();
    let status = rig.until("failed", |status| status.state == State::Failed);
    assert!(status.reason.contains("no such port"), "{}", status.reason);
    let applied = |rig: &Rig| rig.calls().iter().filter(|call| call.contains("--only")).count();
    // Events do not make it hurry; time does.
    rig.touch_watched();
    assert_eq!(applied(&rig), 1);
    // The look that was only a look has not forgotten why.
    let (_, said) = rig.run(&["status"]);
    for part in [
        "not ready: port 0000:22:00.0: no such port",
        "tried and failed\n  port 0000:22:00.0: no such port",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    rig.after(&mended(&rig));
    until("it is tried again", || applied(&rig) == 2);
    rig.until("converged", |status| status.state == State::Converged);
}

impl Rig {
    fn touch_watched(&self) {
        std::fs::create_dir_all(self.path("watched")).expect("ours");
        std::fs::write(self.path("watched/y"), "").expect("ours");
        self.settle();
    }
}

#[test]
fn a_profile_that_cannot_be_used_is_said_and_changes_nothing() {
    let Some(mut rig) = Rig::new() else { return };
    rig.look(&right(&rig));
    rig.start();
    rig.write("fails", "error: expected a table\n  --> /etc/bedplate/profile.toml:3:1");
    rig.touch();
    let status = rig.until("error", |status| status.state == State::Error);
    assert_eq!(status.verdict, Verdict::CannotTell);
    assert!(status.reason.contains("profile.toml:3:1"), "{}", status.reason);
    std::fs::remove_file(rig.path("fails")).expect("ours");
    rig.touch();
    rig.until("converged", |status| status.state == State::Converged);
}

#[test]
fn a_second_daemon_does_not_start() {
    let Some(mut rig) = Rig::new() else { return };
    rig.look(&right(&rig));
    rig.start();
    let second =
        program::bedplate(&["daemon", "--state-root", &rig.dir.path().display().to_string()])
            .env("DBUS_SYSTEM_BUS_ADDRESS", rig.address())
            .output()
            .expect("it starts");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("is a second daemon running?"), "{said}");
}

#[test]
fn without_a_bus_the_host_is_kept_right_all_the_same() {
    let Some(rig) = Rig::new() else { return };
    rig.look(&drifted(&rig));
    rig.after(&mended(&rig));
    let mut daemon =
        program::bedplate(&["daemon", "--state-root", &rig.dir.path().display().to_string()])
            .arg(format!("--worker={}", rig.path("worker").display()))
            .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/at/all")
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
    until("the file says so", || {
        rig.read("run/bedplate/status.json").contains("\"state\": \"converged\"")
    });
    let _ = daemon.kill();
    let _ = daemon.wait();
}

/// The commands people use, against the daemon and without it.
#[test]
fn the_commands() {
    let Some(mut rig) = Rig::new() else { return };
    let run = Rig::run;
    let (code, said) = run(&rig, &["reboot", "status"]);
    assert!(code == Some(1) && said.contains("systemctl start bedplate"), "{said}");
    let mut round = rig::waiting(&rig);
    round["reboot"]["policy"] = json!("never");
    rig.look(&round);
    rig.start();
    let (code, said) = run(&rig, &["status"]);
    assert_eq!(code, Some(3), "{said}");
    for line in [
        "not ready: iommu=pt counts only after a boot",
        "cmdline iommu=pt  [next cold boot]",
        "left to people",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let (code, said) = run(&rig, &["reboot", "status"]);
    assert_eq!(code, Some(3), "{said}");
    for line in [
        "needed: cold, which is through firmware",
        "iommu=pt: absent → iommu=pt",
        "never: people reboot",
        "bedplate reboot schedule",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let (code, said) = run(&rig, &["reboot", "cancel"]);
    assert!(code == Some(1) && said.contains("no reboot of bedplate's is announced"), "{said}");
    let (code, said) = run(&rig, &["reboot", "schedule", "--in", "2h", "--why", "new firmware"]);
    assert!(code == Some(0) && said.contains("announced for 20"), "{said}");
    assert!(
        rig.asked_of_logind().iter().any(|call| call.contains("new firmware")),
        "{:?}",
        rig.asked_of_logind()
    );
    let (code, said) = run(&rig, &["reboot", "cancel"]);
    assert!(code == Some(0) && said.contains("is taken back"), "{said}");
    assert_eq!(rig.login.lock().expect("not poisoned").scheduled, None);
    let (code, said) = run(&rig, &["status", "--wait", "1s"]);
    assert!(
        code == Some(0) && said.contains("released after 1 s although this host is not ready"),
        "{said}"
    );
    rig.look(&right(&rig));
    let (code, said) = run(&rig, &["reconcile"]);
    assert!(code == Some(0) && said.contains("converged"), "{said}");
    assert_eq!((code, said), run(&rig, &["status"]), "the same words and exit status");
    rig.look(&round);
    let (code, said) = run(&rig, &["reconcile"]);
    assert_eq!((code, said), run(&rig, &["status"]));
    assert_eq!(code, Some(3), "it waits for a boot");
    rig.look(&right(&rig));
    assert_eq!(run(&rig, &["reconcile"]).0, Some(0));
    let (code, said) = run(&rig, &["status", "--wait"]);
    assert!(code == Some(0) && said.contains("this host is ready"), "{said}");
    let (code, said) = run(&rig, &["status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).expect("JSON alone");
    assert_eq!(
        (code, &json["bedplate_status"], &json["verdict"]),
        (Some(0), &json!(1), &json!("ready"))
    );
}

/// Tools that nobody here wrote can read what is on the bus.
#[test]
fn busctl_and_gdbus_understand_it() {
    let Some(mut rig) = Rig::new() else { return };
    let (Some(busctl), Some(gdbus)) = (fixtures::tool("busctl"), fixtures::tool("gdbus")) else {
        return;
    };
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let name = "org.bedplate.Agent1";
    let shown = Command::new(busctl)
        .args([&format!("--address={}", rig.address()), "introspect", name, "/org/bedplate/Agent1"])
        .output()
        .expect("busctl starts");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for word in [
        ".Plan",
        ".Reconcile",
        ".Reload",
        ".ScheduleReboot",
        ".CancelReboot",
        ".State",
        "\"converged\"",
        ".PendingReboot",
        "\"none\"",
        ".LastConverged",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    let called = Command::new(gdbus)
        .args([
            "call",
            "--address",
            &rig.address(),
            "--dest",
            name,
            "--object-path",
            "/org/bedplate/Agent1",
        ])
        .args(["--method", "org.bedplate.Agent1.Plan"])
        .output()
        .expect("gdbus starts");
    let text = String::from_utf8_lossy(&called.stdout).into_owned();
    assert!(text.contains("bedplate_plan"), "{text}{}", String::from_utf8_lossy(&called.stderr));
}

/// Where there is no polkit, nobody but root changes anything; reading is for everybody.
#[test]
fn others_may_read_and_not_change() {
    let Some(mut rig) = Rig::new() else { return };
    let (Some(busctl), Some(setpriv)) = (fixtures::tool("busctl"), fixtures::tool("setpriv"))
    else {
        return;
    };
    if !nix::unistd::geteuid().is_root() {
        return fixtures::unchecked("only root can become somebody else");
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(rig.dir.path(), mode).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let call = |words: &[&str]| {
        let object = ["org.bedplate.Agent1", "/org/bedplate/Agent1", "org.bedplate.Agent1"];
        Command::new(&setpriv)
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&busctl)
            .arg(format!("--address={}", rig.address()))
            .arg(words[0])
            .args(object)
            .args(&words[1..])
            .output()
            .expect("it starts")
    };
    let read = call(&["get-property", "State"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout), "s \"converged\"\n");
    for words in [
        &["call", "Reconcile"][..],
        &["call", "Reload"],
        &["call", "CancelReboot"],
        &["call", "ScheduleReboot", "st", "mine", "0"],
    ] {
        let refused = call(words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        // busctl has words of its own for this error.
        assert!(!refused.status.success() && said.contains("Access denied"), "{words:?}: {said}");
    }
    assert!(rig.calls().iter().all(|call| call == "worker"), "{:?}", rig.calls());
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}

/// Whatever moment it is killed at, the next one goes on.
#[test]
fn killed_at_any_moment_it_goes_on() {
    let Some(mut rig) = Rig::new() else { return };
    rig.after(&mended(&rig));
    for number in 0..12 {
        rig.look(&drifted(&rig));
        rig.write("slow", "0.1");
        rig.start_blindly();
        std::thread::sleep(Duration::from_millis(number * 40));
        rig.kill();
    }
    std::fs::remove_file(rig.path("slow")).expect("ours");
    rig.look(&drifted(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
}
