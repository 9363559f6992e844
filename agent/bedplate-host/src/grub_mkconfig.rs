//! Serializes runs of GRUB's generator. It writes `grub.cfg.new` without a lock, so two concurrent runs (an operator's
//! or a package's `update-grub`, and ours) check and install each other's partial file. Ours waits for the other, and
//! runs again if the other started during its run.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{ToolOutput, tool};

/// Commands that run GRUB's generator.
const COMMANDS: [&str; 3] = ["update-grub", "grub-mkconfig", "grub2-mkconfig"];
/// The generator, by the kernel's name for its process (`update-grub` execs it).
const GENERATORS: [&str; 2] = ["grub-mkconfig", "grub2-mkconfig"];
/// Longest wait for another run. It takes seconds, with many disks minutes.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// Interval between checks for its end.
const TICK: Duration = Duration::from_millis(100);
/// Attempts, if another run starts each time.
const RUNS: usize = 3;

/// Runs the tool `argv` by calling `run`; GRUB's generator only while no other one is among the processes in `proc`.
pub(super) fn run(
    argv: &[String],
    proc: &Path,
    patience: Duration,
    mut run: impl FnMut() -> ToolOutput,
) -> ToolOutput {
    if !argv.first().is_some_and(|program| COMMANDS.contains(&program.as_str())) {
        return run();
    }
    let deadline = Instant::now() + patience;
    for _ in 0..RUNS {
        while let Some(other) = other(proc) {
            if Instant::now() >= deadline {
                return tool::not_started(format!(
                    "{other} is running too; each would install the other's partial grub.cfg"
                ));
            }
            std::thread::sleep(TICK);
        }
        let output = run();
        if other(proc).is_none() {
            return output;
        }
    }
    tool::not_started("another program keeps running GRUB's generator".into())
}

/// Returns a description of a running generator.
fn other(proc: &Path) -> Option<String> {
    fs::read_dir(proc).ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let name = name.trim_end();
        // A zombie no longer writes.
        let ended =
            fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| stat.contains(") Z "));
        (GENERATORS.contains(&name) && !ended).then(|| format!("{name} (process {pid})"))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::ToolEnd;
    use super::*;

    fn begins(proc: &Path, stat: &str) {
        fs::create_dir_all(proc.join("42")).unwrap();
        fs::write(proc.join("42/comm"), "grub-mkconfig\n").unwrap();
        fs::write(proc.join("42/stat"), stat).unwrap();
    }

    fn ran() -> ToolOutput {
        ToolOutput { end: ToolEnd::Exited(0), output: String::new() }
    }

    fn update_grub() -> Vec<String> {
        vec!["update-grub".into()]
    }

    #[test]
    fn run_waits_for_other_generator() {
        let proc = tempfile::tempdir().unwrap();
        begins(proc.path(), "42 (grub-mkconfig) S 1");
        let other = proc.path().join("42");
        let ends = other.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(TICK * 3);
            fs::remove_dir_all(ends).unwrap();
        });
        let output = run(&update_grub(), proc.path(), PATIENCE, || {
            assert!(!other.exists(), "two at once");
            ran()
        });
        assert_eq!(output.end, ToolEnd::Exited(0));
        thread.join().unwrap();
    }

    #[test]
    fn stuck_generator_is_reported_and_blocks_run() {
        let proc = tempfile::tempdir().unwrap();
        begins(proc.path(), "42 (grub-mkconfig) S 1");
        let output = run(&update_grub(), proc.path(), Duration::ZERO, || panic!("two at once"));
        let ToolEnd::NotStarted(why) = output.end else { panic!("{output:?}") };
        assert!(why.starts_with("grub-mkconfig (process 42) is running too"), "{why}");
        // Other tools do not wait, and an ended generator blocks nothing.
        let other = run(&["update-initramfs".into()], proc.path(), Duration::ZERO, ran);
        assert_eq!(other.end, ToolEnd::Exited(0));
        begins(proc.path(), "42 (grub-mkconfig) Z 1");
        assert_eq!(run(&update_grub(), proc.path(), Duration::ZERO, ran).end, ToolEnd::Exited(0));
    }

    #[test]
    fn run_repeats_if_other_generator_started() {
        let proc = tempfile::tempdir().unwrap();
        let runs = Cell::new(0);
        let output = run(&update_grub(), proc.path(), PATIENCE, || {
            runs.set(runs.get() + 1);
            if runs.get() == 1 {
                begins(proc.path(), "42 (grub-mkconfig) S 1");
                let ends = proc.path().join("42");
                std::thread::spawn(move || {
                    std::thread::sleep(TICK * 3);
                    fs::remove_dir_all(ends).unwrap();
                });
            }
            ran()
        });
        assert_eq!((output.end, runs.get()), (ToolEnd::Exited(0), 2));
    }
}
