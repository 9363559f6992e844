//! Runs a tool of the host. Knows nothing about specific tools.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use super::child::{self, ChildEnd, ChildResult, KeptOutput, NotStarted};
use super::{ToolEnd, ToolOutput};

/// Bytes kept of the end of the output.
const KEPT: usize = 64 << 10;

/// Creates the output of a tool that could not be started.
pub(super) fn not_started(why: String) -> ToolOutput {
    ToolOutput { end: ToolEnd::NotStarted(why), output: String::new() }
}

/// Runs `argv`, in `chroot` if given: a path that only the child resolves. Standard input is empty. Keeps stdout and
/// stderr together, in order of arrival.
pub(super) fn run(argv: &[String], limit_s: u32, chroot: Option<&Path>) -> ToolOutput {
    match try_run(argv, limit_s, chroot) {
        Ok(ChildResult { end, output, .. }) => {
            ToolOutput { end: ended(end), output: String::from_utf8_lossy(&output).into_owned() }
        }
        Err(why) => not_started(why),
    }
}

fn try_run(argv: &[String], limit_s: u32, chroot: Option<&Path>) -> Result<ChildResult, String> {
    let (program, arguments) = argv.split_first().ok_or("no program given")?;
    let find = |program: &str| child::find(program).map_err(|error| error.to_string());
    let (program, mut all) = match chroot {
        None => (find(program)?, Vec::new()),
        // Use the child's current directory, not the name, which may lead to another directory by now.
        Some(_) => (find("chroot")?, vec![OsStr::new("."), OsStr::new(program)]),
    };
    all.extend(arguments.iter().map(OsStr::new));
    let limit = Duration::from_secs(limit_s.into());
    let directory = chroot.unwrap_or(Path::new("/"));
    child::run_in(directory, &program, all, limit, KeptOutput::Tail(KEPT)).map_err(|error| {
        match error {
            NotStarted::Pipe(error) => format!("cannot create a pipe: {error}"),
            NotStarted::Spawn(error) => error.to_string(),
            NotStarted::Thread(error) => format!("cannot create a thread: {error}"),
        }
    })
}

fn ended(end: ChildEnd) -> ToolEnd {
    match end {
        ChildEnd::Status(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ToolEnd::Exited(code),
            (None, signal) => ToolEnd::Signal(signal.unwrap_or(0)),
        },
        ChildEnd::TimedOut => ToolEnd::TimedOut,
        ChildEnd::Lost(error) => {
            ToolEnd::NotStarted(format!("started, but waiting for it failed: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn sh(script: &str, limit_s: u32) -> ToolOutput {
        run(&["sh".into(), "-c".into(), script.into()], limit_s, None)
    }

    #[test]
    fn output_keeps_order_and_environment_is_clean() {
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
    fn long_output_keeps_only_its_end() {
        let ran = sh("yes bedplate | head -c 1000000; echo last", 20);
        assert_eq!((ran.end, ran.output.len()), (ToolEnd::Exited(0), KEPT));
        assert!(ran.output.ends_with("last\n"));
    }

    #[test]
    fn hung_tool_times_out() {
        assert_eq!(sh("sleep 300", 1).end, ToolEnd::TimedOut);
    }

    #[test]
    fn background_process_does_not_block_run() {
        let started = Instant::now();
        let ran = sh("sleep 5 & echo done", 60);
        assert_eq!((ran.end, ran.output.as_str()), (ToolEnd::Exited(0), "done\n"));
        assert!(started.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn missing_and_killed_tools_are_distinguished() {
        let ran = run(&["no-such-tool-here".into()], 1, None);
        assert!(
            matches!(&ran.end, ToolEnd::NotStarted(why) if why.contains("not installed")),
            "{ran:?}"
        );
        assert_eq!(sh("kill -TERM $$", 5).end, ToolEnd::Signal(15));
    }
}
