//! Running a tool of the host: bounded in time, with a clean environment, everything it started killed at the limit.
//! No knowledge of what the tools are.

use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{ToolEnd, ToolOutput};

/// Where programs are looked for, and the PATH they get.
const STANDARD: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// How much of the output is kept: its end.
const KEPT: usize = 64 << 10;
/// How long to wait for output once the tool has ended: something it left in the background may hold the pipe.
const AFTERMATH: Duration = Duration::from_millis(500);
/// How often to look whether the tool has ended.
const TICK: Duration = Duration::from_millis(10);

/// An output for a tool that could not be started.
pub(super) fn not_started(why: String) -> ToolOutput {
    ToolOutput { end: ToolEnd::NotStarted(why), output: String::new() }
}

/// Run `argv`, in `chroot` if given. Standard input is empty; output and errors are kept together, as they came.
pub(super) fn run(argv: &[String], limit_s: u32, chroot: Option<&Path>) -> ToolOutput {
    let (mut command, output) = match prepare(argv, chroot) {
        Ok(prepared) => prepared,
        Err(why) => return not_started(why),
    };
    let spawned = command.spawn();
    // The command holds the pipe's writing ends: while they are open here, the output has no end.
    drop(command);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return not_started(error.to_string()),
    };
    let tail = Arc::new(Mutex::new(VecDeque::new()));
    let reading = match keep_tail(output, Arc::clone(&tail)) {
        Ok(reading) => reading,
        Err(error) => {
            kill_group(&child);
            let _ = child.wait();
            return not_started(format!("no thread for its output: {error}"));
        }
    };
    let end = wait(&mut child, Duration::from_secs(limit_s.into()));
    let deadline = Instant::now() + AFTERMATH;
    while !reading.is_finished() && Instant::now() < deadline {
        std::thread::sleep(TICK);
    }
    let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    let output = String::from_utf8_lossy(tail.make_contiguous()).into_owned();
    ToolOutput { end, output }
}

fn prepare(argv: &[String], chroot: Option<&Path>) -> Result<(Command, PipeReader), String> {
    let (program, arguments) = argv.split_first().ok_or("no program was named")?;
    let mut command = match chroot {
        None => Command::new(find(program)?),
        Some(root) => {
            let mut command = Command::new(find("chroot")?);
            command.arg(root).arg(program);
            command
        }
    };
    let (output, input) =
        std::io::pipe().map_err(|error| format!("no pipe for its output: {error}"))?;
    let again = input.try_clone().map_err(|error| format!("no pipe for its output: {error}"))?;
    command
        .args(arguments)
        .env_clear()
        .envs([("PATH", STANDARD.join(":").as_str()), ("LC_ALL", "C"), ("HOME", "/root")])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(input)
        .stderr(again)
        .process_group(0);
    Ok((command, output))
}

/// The program in the standard directories, whatever the PATH of whoever calls.
fn find(program: &str) -> Result<PathBuf, String> {
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let places = STANDARD.iter().map(|directory| Path::new(directory).join(program));
    places
        .into_iter()
        .find(runs)
        .ok_or_else(|| format!("{program} is not installed (looked in {})", STANDARD.join(", ")))
}

fn wait(child: &mut Child, limit: Duration) -> ToolEnd {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return ended(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(TICK),
            Ok(None) => break,
            Err(error) => {
                kill_group(child);
                return ToolEnd::NotStarted(format!(
                    "it was started, but cannot be waited for: {error}"
                ));
            }
        }
    }
    kill_group(child);
    // SIGKILL ends it, unless it hangs in the kernel: then nothing can, and it must not hang us as well.
    let deadline = Instant::now() + AFTERMATH;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(TICK);
    }
    ToolEnd::TimedOut
}

fn ended(status: ExitStatus) -> ToolEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ToolEnd::Exited(code),
        (None, signal) => ToolEnd::Signal(signal.unwrap_or(0)),
    }
}

fn kill_group(child: &Child) {
    let pid = i32::try_from(child.id()).ok().map(Pid::from_raw);
    if let Some(pid) = pid {
        // ESRCH: all of it has ended already.
        let _ = killpg(pid, Signal::SIGKILL);
    }
}

fn keep_tail(
    mut from: PipeReader,
    tail: Arc<Mutex<VecDeque<u8>>>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tool output".into()).spawn(move || {
        let mut buffer = vec![0; KEPT];
        while let Ok(got @ 1..) = from.read(&mut buffer) {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(&buffer[..got]);
            let surplus = tail.len().saturating_sub(KEPT);
            tail.drain(..surplus);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit_s: u32) -> ToolOutput {
        run(&["sh".into(), "-c".into(), script.into()], limit_s, None)
    }

    #[test]
    fn output_is_kept_as_it_came_and_the_environment_is_clean() {
        let ran = sh(
            "echo one; echo two >&2; echo three; read line || echo no input; env; pwd; exit 3",
            10,
        );
        assert_eq!(ran.end, ToolEnd::Exited(3));
        assert!(ran.output.starts_with("one\ntwo\nthree\nno input\n"), "{}", ran.output);
        assert!(ran.output.contains("LC_ALL=C\n") && ran.output.ends_with("/\n"), "{}", ran.output);
        assert!(!ran.output.contains("CARGO"), "{}", ran.output);
    }

    #[test]
    fn only_the_end_of_long_output_is_kept() {
        let ran = sh("yes bedplate | head -c 1000000; echo last", 20);
        assert_eq!((ran.end, ran.output.len()), (ToolEnd::Exited(0), KEPT));
        assert!(ran.output.ends_with("last\n"));
    }

    #[test]
    fn a_tool_that_hangs_is_killed_with_what_it_started() {
        let started = Instant::now();
        let ran = sh("sleep 300 & echo child $!; wait", 1);
        assert_eq!(ran.end, ToolEnd::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(10));
        let child = ran.output.trim().rsplit(' ').next().unwrap().to_owned();
        let gone = (0..100).any(|_| {
            std::thread::sleep(TICK);
            // A zombie that nobody has reaped yet is dead all the same.
            std::fs::read_to_string(format!("/proc/{child}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
        });
        assert!(gone, "process {child} is still there");
    }

    #[test]
    fn what_a_tool_leaves_in_the_background_does_not_hold_us() {
        let started = Instant::now();
        let ran = sh("sleep 5 & echo done", 60);
        assert_eq!((ran.end, ran.output.as_str()), (ToolEnd::Exited(0), "done\n"));
        assert!(started.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn a_tool_that_is_missing_or_killed_is_told_apart() {
        let ran = run(&["no-such-tool-here".into()], 1, None);
        assert!(
            matches!(&ran.end, ToolEnd::NotStarted(why) if why.contains("not installed")),
            "{ran:?}"
        );
        assert_eq!(sh("kill -TERM $$", 5).end, ToolEnd::Signal(15));
    }
}
