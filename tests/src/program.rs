//! Program under test: `bedplate` as built by cargo next to this test.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Path of the built program.
///
/// # Panics
/// If it has not been built.
pub fn path() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    // target/PROFILE/deps/TEST → target/PROFILE/bedplate
    let profile = exe.ancestors().find(|dir| dir.ends_with("deps")).and_then(|deps| deps.parent());
    let directory = profile.or(exe.parent()).expect("a test lives in a directory");
    let path = directory.join("bedplate");
    assert!(
        path.exists(),
        "{} is not built: run `cargo build` first (./tests/run does)",
        path.display()
    );
    path
}

/// Returns a command that runs it without the caller's terminal settings.
pub fn bedplate(args: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(args).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("TERM", "dumb");
    // Keeps searched texts on one line; line breaking has its own tests.
    command.env("COLUMNS", "1000");
    command
}

/// Runs it and waits for its end.
///
/// # Panics
/// If it cannot be started.
pub fn run(args: &[&str]) -> Output {
    bedplate(args).output().expect("bedplate starts")
}

/// Runs `install.sh` with this program.
///
/// # Panics
/// If it cannot be started.
pub fn install_sh(args: &[&str]) -> Output {
    Command::new("./install.sh")
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("BEDPLATE_PROGRAM", path())
        .output()
        .expect("it starts")
}

/// Returns stdout of a run that must succeed.
///
/// # Panics
/// If the exit status is not 0.
pub fn stdout(args: &[&str]) -> String {
    let output = run(args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{args:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
