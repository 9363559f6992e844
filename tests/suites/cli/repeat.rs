//! `bedplate verify --every`, with its files for other containers.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bedplate_tests::program::bedplate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(120);

fn wait_for(file: &Path) -> String {
    let begun = Instant::now();
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) => return text,
            Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => panic!("{}: {error}", file.display()),
        }
    }
}

/// The program ends at once when it is terminated, also in the middle of its wait.
#[test]
fn repeated_runs_publish_both_stages() {
    let dir = tempfile::tempdir().expect("a directory");
    let (conditions, labels) = (dir.path().display().to_string(), dir.path().join("labels"));
    let labels_argument = labels.display().to_string();
    let mut running = bedplate(&[
        "verify",
        "--every",
        "10m",
        "--conditions",
        &conditions,
        "--labels",
        &labels_argument,
    ])
    .stdout(std::process::Stdio::piped())
    .stderr(std::process::Stdio::null())
    .spawn()
    .expect("it starts");
    let labels = wait_for(&labels);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    for stage in ["host", "gpudirect"] {
        let line = wait_for(&dir.path().join(stage));
        let (until, answer) = line.split_once(' ').expect("two parts");
        let until: u64 = until.parse().expect("seconds");
        assert!((now + 1200..=now + 1900).contains(&until), "{line}");
        let known = ["ready: ", "not ready: ", "unknown: "];
        assert!(known.iter().any(|word| answer.starts_with(word)), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    assert!(labels.starts_with("# +expiry-time=20"), "{labels}");
    assert!(labels.contains("\nbedplate.ready=") && labels.contains("\nbedplate.host-ready="));
    assert!(!labels.contains("bedplate.state"), "only a daemon has a state: {labels}");
    let pid = Pid::from_raw(running.id().cast_signed());
    kill(pid, Signal::SIGTERM).expect("it runs");
    let done = running.wait().expect("it ends");
    assert_eq!(done.code(), Some(0));
}

#[test]
fn interval_and_files_are_checked() {
    for args in [
        &["verify", "--every", "1s"][..],
        &["verify", "--conditions", "/nowhere"],
        &["verify", "--every", "1m", "--demo", "hgx"],
        &["verify", "--every", "1m", "--json"],
    ] {
        assert_eq!(bedplate(args).output().expect("it starts").status.code(), Some(64), "{args:?}");
    }
    let done = bedplate(&["verify", "--every", "1m", "--conditions", "/nowhere"]).output();
    assert_eq!(done.expect("it starts").status.code(), Some(1));
}
