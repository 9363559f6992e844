//! `bedplate verify --every`, with its files for other containers.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
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

/// A `verify --every` that is terminated at the end, also after a failed assertion.
struct Running(Child);

impl Running {
    fn start(directory: &Path, more: &[&str]) -> Self {
        let conditions = directory.display().to_string();
        let labels = directory.join("labels").display().to_string();
        let args = ["verify", "--every", "10m", "--conditions", &conditions, "--labels", &labels];
        let mut command = bedplate(&[&args, more].concat());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Running(command.spawn().expect("it starts"))
    }

    /// Terminates it as kubelet does. Returns its exit status and stderr.
    fn terminate(mut self) -> (Option<i32>, String) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        kill(pid, Signal::SIGTERM).expect("it runs");
        let status = self.0.wait().expect("it ends");
        let mut errors = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
        (status.code(), errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The program ends at once when it is terminated, also in the middle of its wait.
#[test]
fn repeated_runs_publish_both_stages() {
    let dir = tempfile::tempdir().expect("a directory");
    let running = Running::start(dir.path(), &[]);
    let labels = wait_for(&dir.path().join("labels"));
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
    assert_eq!(running.terminate().0, Some(0));
}

/// The next round may find it corrected, so the program goes on.
#[test]
fn invalid_profile_is_unknown_and_explained() {
    let dir = tempfile::tempdir().expect("a directory");
    let profile = dir.path().join("bad.toml");
    std::fs::write(&profile, "schema = 1\nname = 7\n").expect("ours");
    let running = Running::start(dir.path(), &["--profile", &profile.display().to_string()]);
    let labels = wait_for(&dir.path().join("labels"));
    assert!(labels.contains("bedplate.ready=false\nbedplate.host-ready=false\n"), "{labels}");
    let line = wait_for(&dir.path().join("gpudirect"));
    assert!(line.contains(" unknown: "), "{line}");
    let (status, errors) = running.terminate();
    assert_eq!(status, Some(0));
    assert!(errors.contains("bad.toml:2"), "{errors}");
}

/// A full disk must not take the conditions with it.
#[test]
fn unwritable_labels_are_reported_with_conditions() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("labels")).expect("ours");
    let running = Running::start(dir.path(), &[]);
    for stage in ["host", "gpudirect"] {
        wait_for(&dir.path().join(stage));
    }
    let (status, errors) = running.terminate();
    assert_eq!(status, Some(0), "{errors}");
    assert!(errors.contains("labels: "), "{errors}");
}

#[test]
fn interval_and_files_are_checked() {
    for args in [
        &["verify", "--every", "1s"][..],
        &["verify", "--conditions", "/nowhere"],
        &["verify", "--every", "1m", "--demo", "hgx"],
        &["verify", "--every", "1m", "--json"],
        &["verify", "--every", "1m", "--stage", "host"],
        // A part of the checks must not set the label `ready`.
        &["verify", "--every", "1m", "--check", "iommu"],
        &["verify", "--every", "1m", "--skip", "modules"],
    ] {
        assert_eq!(bedplate(args).output().expect("it starts").status.code(), Some(64), "{args:?}");
    }
    let done = bedplate(&["verify", "--every", "1m", "--conditions", "/nowhere"]).output();
    assert_eq!(done.expect("it starts").status.code(), Some(1));
}
