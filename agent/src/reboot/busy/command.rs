//! The operator's own command that says whether the host is at work: run bounded in time, with a clean environment, and
//! with everything it started killed at the limit. A command that does not answer is not a "no".

use std::io::{PipeReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::visible::one_line;

/// The PATH that the command gets, whatever that of whoever calls.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How many characters of a reason are kept: it goes into one line of a log or a status.
const REASON: usize = 200;
/// How much of the output is kept, from its start: more than [`REASON`] characters of UTF-8.
const KEPT: usize = 4 << 10;
/// How long to wait for output once the command has ended: something it left in the background may hold the pipe.
const AFTERMATH: Duration = Duration::from_millis(500);
/// How often to look whether the command has ended.
const TICK: Duration = Duration::from_millis(10);

/// What the operator's command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Busy {
    /// Nothing is at work.
    Free,
    /// Something is: the reason, in one line.
    Busy(String),
    /// It did not say; why not, in one line. Counts as busy.
    Unknown(String),
}

impl Busy {
    /// Why the host is not to be disturbed; none only when the command said that it is free.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Busy::Free => None,
            Busy::Busy(reason) | Busy::Unknown(reason) => Some(reason),
        }
    }
}

/// Runs the operator's command: status 0 is free, status 1 is busy and the first line it prints is the reason. Anything
/// else, no end within `timeout` or no start is [`Busy::Unknown`].
///
/// The program is an absolute path: what a search finds is up to others. Standard input is empty, the environment is
/// `PATH`, `LC_ALL=C` and `HOME=/root`, the directory `/`.
pub fn busy_command(argv: &[String], timeout: Duration) -> Busy {
    match run(argv, timeout) {
        Ok((status, said)) => answer(status, &said),
        Err(why) => Busy::Unknown(format!("the busy command {why}")),
    }
}

/// What the command printed: the start of its output and of its errors.
struct Said {
    output: Vec<u8>,
    errors: Vec<u8>,
}

fn answer(status: ExitStatus, said: &Said) -> Busy {
    match (status.code(), status.signal()) {
        (Some(0), _) => Busy::Free,
        (Some(1), _) => {
            let reason = first_line(&said.output);
            Busy::Busy(reason.unwrap_or_else(|| "the busy command says so, and no reason".into()))
        }
        (code, signal) => {
            let end = match code {
                Some(code) => format!("ended with status {code}, expected 0 or 1"),
                None => format!("was ended by signal {}", signal.unwrap_or(0)),
            };
            let words = first_line(&said.errors).or_else(|| first_line(&said.output));
            let words = words.map(|words| format!(": {words}")).unwrap_or_default();
            Busy::Unknown(format!("the busy command {end}{words}"))
        }
    }
}

/// The first line that is not blank, cut to [`REASON`] characters.
fn first_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(one_line(line).chars().take(REASON).collect())
}

fn run(argv: &[String], timeout: Duration) -> Result<(ExitStatus, Said), String> {
    let (program, arguments) = argv.split_first().ok_or("is empty")?;
    if !Path::new(program).is_absolute() {
        return Err(format!("`{}` is not an absolute path", one_line(program)));
    }
    let pipe = || std::io::pipe().map_err(|error| format!("has no pipe for its output: {error}"));
    let ((output, output_end), (errors, errors_end)) = (pipe()?, pipe()?);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs([("PATH", PATH), ("LC_ALL", "C"), ("HOME", "/root")])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output_end)
        .stderr(errors_end)
        .process_group(0);
    let spawned = command.spawn();
    // The command holds the pipes' writing ends: while they are open here, the output has no end.
    drop(command);
    let mut child = spawned.map_err(|error| format!("cannot be started: {error}"))?;
    let readers = keep_start(output).and_then(|output| Ok((output, keep_start(errors)?)));
    let (output, errors) = match readers {
        Ok(readers) => readers,
        Err(error) => {
            end_group(&mut child);
            return Err(format!("has no thread for its output: {error}"));
        }
    };
    let status = wait(&mut child, timeout)?;
    let deadline = Instant::now() + AFTERMATH;
    Ok((status, Said { output: output.by(deadline), errors: errors.by(deadline) }))
}

fn wait(child: &mut Child, timeout: Duration) -> Result<ExitStatus, String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            // Compared this way round: an instant that far ahead need not exist.
            Ok(None) if started.elapsed() < timeout => std::thread::sleep(TICK),
            Ok(None) => {
                end_group(child);
                return Err(format!("did not end within {timeout:?} and was killed"));
            }
            Err(error) => {
                end_group(child);
                return Err(format!("cannot be waited for: {error}"));
            }
        }
    }
}

/// Kills what runs in the command's process group and takes its status, so that no zombie stays.
fn end_group(child: &mut Child) {
    // The leader has not been reaped, so the group's number is still its own.
    if let Some(pid) = i32::try_from(child.id()).ok().map(Pid::from_raw) {
        // ESRCH: all of it has ended already.
        let _ = killpg(pid, Signal::SIGKILL);
    }
    // SIGKILL ends it, unless it hangs in the kernel: then nothing can, and it must not hang us as well.
    let deadline = Instant::now() + AFTERMATH;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(TICK);
    }
}

/// A pipe that is read to its end in a thread, of which the start is kept.
struct Start {
    kept: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

fn keep_start(mut from: PipeReader) -> std::io::Result<Start> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let thread = std::thread::Builder::new().name("busy command".into()).spawn(move || {
        let mut buffer = [0; KEPT];
        // Read on when there is enough: a full pipe would stop the command.
        while let Ok(got @ 1..) = from.read(&mut buffer) {
            let mut kept = keep.lock().unwrap_or_else(PoisonError::into_inner);
            let room = KEPT - kept.len();
            kept.extend_from_slice(&buffer[..got.min(room)]);
        }
    })?;
    Ok(Start { kept, thread })
}

impl Start {
    /// What there is at the end of the pipe, or at the deadline.
    fn by(self, deadline: Instant) -> Vec<u8> {
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(TICK);
        }
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn sh(script: &str, timeout: Duration) -> Busy {
        busy_command(&["/bin/sh".into(), "-c".into(), script.into()], timeout)
    }

    fn unknown(busy: &Busy, part: &str) -> bool {
        matches!(busy, Busy::Unknown(why) if why.contains(part)) && busy.reason().is_some()
    }

    #[test]
    fn status_0_is_free_and_1_is_busy_for_the_reason_printed() {
        assert_eq!(sh("echo noise; echo more >&2; exit 0", LONG), Busy::Free);
        assert_eq!(sh("exit 0", LONG).reason(), None);
        let busy =
            sh("echo errors first >&2; echo; echo ' job 7 of ada '; echo second; exit 1", LONG);
        assert_eq!(busy, Busy::Busy("job 7 of ada".into()));
        assert_eq!(busy.reason(), Some("job 7 of ada"));
        assert_eq!(
            sh("exit 1", LONG),
            Busy::Busy("the busy command says so, and no reason".into())
        );
    }

    #[test]
    fn every_other_end_counts_as_busy() {
        assert!(unknown(
            &sh("echo partly; echo broken >&2; exit 2", LONG),
            "status 2, expected 0 or 1: broken"
        ));
        assert!(unknown(&sh("exit 255", LONG), "status 255"));
        assert!(unknown(&sh("kill -KILL $$", LONG), "signal 9"));
        let start =
            |argv: &[&str]| busy_command(&argv.iter().map(|&a| a.into()).collect::<Vec<_>>(), LONG);
        assert!(unknown(&start(&[]), "is empty"));
        assert!(unknown(&start(&["true"]), "not an absolute path"));
        assert!(unknown(&start(&["/no/such/program"]), "cannot be started"));
        assert!(unknown(&start(&["/etc/passwd"]), "cannot be started"));
        assert!(unknown(&start(&["/bin/sh\0"]), "cannot be started"));
    }

    #[test]
    fn a_reason_is_short_and_cannot_steer_a_terminal() {
        let Busy::Busy(reason) = sh("yes é | head -c 100000 | tr -d '\\n'; exit 1", LONG) else {
            panic!()
        };
        assert_eq!(reason, "é".repeat(REASON));
        assert_eq!(
            sh("printf 'a\\033[2Jb\\377'; exit 1", LONG),
            Busy::Busy("a\\u{1b}[2Jb\u{fffd}".into())
        );
    }

    #[test]
    fn much_output_does_not_stop_the_command() {
        assert_eq!(
            sh("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2", LONG),
            Busy::Free
        );
    }

    #[test]
    fn it_gets_a_clean_environment_and_no_input() {
        let script = "read line && exit 3; echo $(env | cut -d= -f1 | grep -v -e ^PWD -e ^SHLVL -e ^_ | sort); exit 1";
        assert_eq!(sh(script, LONG), Busy::Busy("HOME LC_ALL PATH".into()));
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_what_it_started() {
        let pid = std::env::temp_dir().join(format!("bedplate-busy-{}", std::process::id()));
        let script = format!("sleep 300 & echo $! > {}; wait", pid.display());
        let started = Instant::now();
        assert!(unknown(
            &sh(&script, Duration::from_secs(1)),
            "did not end within 1s and was killed"
        ));
        assert!(started.elapsed() < Duration::from_secs(10));
        let child = std::fs::read_to_string(&pid).unwrap().trim().to_owned();
        std::fs::remove_file(&pid).unwrap();
        let gone = (0..500).any(|_| {
            std::thread::sleep(TICK);
            // A zombie that nobody has reaped yet is dead all the same.
            std::fs::read_to_string(format!("/proc/{child}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
        });
        assert!(gone, "process {child} is still there");
    }

    #[test]
    fn what_it_leaves_in_the_background_does_not_hold_us() {
        let started = Instant::now();
        assert_eq!(sh("sleep 20 & echo run 9; exit 1", LONG), Busy::Busy("run 9".into()));
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
