//! Runs the operator's busy command: with a time limit and a clean environment. At the limit, it and all its children are
//! killed. A command that does not answer does not mean idle.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use bedplate_base::terminal::one_line;
use bedplate_host::child::{self, ChildEnd, ChildResult, KeptOutput, NotStarted};

/// Longest reason in characters: it is part of one line of a log or a status.
const REASON: usize = 200;
/// Bytes read from the start of the output: more than [`REASON`] characters of UTF-8.
const KEPT: usize = 4 << 10;

/// Runs the operator's command. Returns the reason in one line if the host counts as busy. Status 0 means idle. Status 1
/// means busy, and the first printed line is the reason. Any other status, a timeout or a failed start also counts as busy.
///
/// The program must be an absolute path, because other users could influence a search. Standard input is empty, the
/// environment is `PATH`, `LC_ALL=C` and `HOME=/root`, the directory `/`.
pub(crate) fn busy_command(argv: &[String], timeout: Duration) -> Option<String> {
    let why = match run(argv, timeout) {
        Ok((status, ran)) => match (status.code(), status.signal()) {
            (Some(0), _) => return None,
            (Some(1), _) => {
                let reason = first_line(&ran.output);
                let reason = reason.unwrap_or_else(|| "host is busy (no reason given)".into());
                return Some(format!("busy command: {reason}"));
            }
            (code, signal) => {
                let end = match code {
                    Some(code) => format!("exited with status {code}, expected 0 or 1"),
                    None => format!("killed by signal {}", signal.unwrap_or(0)),
                };
                let words = first_line(&ran.errors).or_else(|| first_line(&ran.output));
                end + &words.map(|words| format!(": {words}")).unwrap_or_default()
            }
        },
        Err(why) => why,
    };
    Some(format!("the busy command did not answer: {why}"))
}

/// Returns the first line that is not blank, cut to [`REASON`] characters.
fn first_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(one_line(line).chars().take(REASON).collect())
}

fn run(argv: &[String], timeout: Duration) -> Result<(ExitStatus, ChildResult), String> {
    let (program, arguments) = argv.split_first().ok_or("the command is empty")?;
    if !Path::new(program).is_absolute() {
        return Err(format!("`{}` is not an absolute path", one_line(program)));
    }
    let ran = child::run(Path::new(program), arguments, timeout, KeptOutput::Heads(KEPT));
    let ran = ran.map_err(|error| match error {
        NotStarted::Pipe(error) => format!("no pipe for its output: {error}"),
        NotStarted::Spawn(error) => format!("cannot start: {error}"),
        NotStarted::Thread(error) => format!("no thread for its output: {error}"),
    })?;
    match ran.end {
        ChildEnd::Status(status) => Ok((status, ran)),
        ChildEnd::TimedOut => Err(format!("timed out after {timeout:?} and was killed")),
        ChildEnd::Lost(error) => Err(format!("cannot wait for its end: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn sh(script: &str, timeout: Duration) -> Option<String> {
        busy_command(&["/bin/sh".into(), "-c".into(), script.into()], timeout)
    }

    fn says(reason: &str) -> Option<String> {
        Some(format!("busy command: {reason}"))
    }

    fn unknown(busy: Option<String>, part: &str) {
        let why = busy.unwrap();
        assert!(
            why.starts_with("the busy command did not answer: ") && why.contains(part),
            "{why}"
        );
    }

    #[test]
    fn status_0_means_idle_and_1_busy_with_reason() {
        assert_eq!(sh("echo noise; echo more >&2; exit 0", LONG), None);
        assert_eq!(sh("exit 0", LONG), None);
        let busy =
            sh("echo errors first >&2; echo; echo ' job 7 of ada '; echo second; exit 1", LONG);
        assert_eq!(busy, says("job 7 of ada"));
        assert_eq!(sh("exit 1", LONG), says("host is busy (no reason given)"));
    }

    #[test]
    fn every_other_end_counts_as_busy() {
        for (script, part) in [
            ("echo partly; echo broken >&2; exit 2", "status 2, expected 0 or 1: broken"),
            ("exit 255", "status 255"),
            ("kill -KILL $$", "signal 9"),
        ] {
            unknown(sh(script, LONG), part);
        }
        for (argv, part) in [
            (&[][..], "is empty"),
            (&["true"], "not an absolute path"),
            (&["/no/such/program"], "cannot start"),
            (&["/etc/passwd"], "cannot start"),
            (&["/bin/sh\0"], "cannot start"),
        ] {
            let argv: Vec<String> = argv.iter().map(|&word| word.into()).collect();
            unknown(busy_command(&argv, LONG), part);
        }
    }

    #[test]
    fn reason_is_short_without_control_characters() {
        let long = sh("yes é | head -c 100000 | tr -d '\\n'; exit 1", LONG);
        assert_eq!(long, says(&"é".repeat(REASON)));
        let steers = sh("printf 'a\\033[2Jb\\377'; exit 1", LONG);
        assert_eq!(steers, says("a\\u{1b}[2Jb\u{fffd}"));
    }

    #[test]
    fn large_output_does_not_block_the_command() {
        let script = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2";
        assert_eq!(sh(script, LONG), None);
    }

    #[test]
    fn command_gets_clean_environment_and_no_input() {
        let script = "read line && exit 3; echo $(env | cut -d= -f1 | grep -v -e ^PWD -e ^SHLVL -e ^_ | sort); exit 1";
        assert_eq!(sh(script, LONG), says("HOME LC_ALL PATH"));
    }

    #[test]
    fn hung_command_counts_as_busy() {
        let hung = sh("sleep 300", Duration::from_secs(1));
        unknown(hung, "timed out after 1s and was killed");
    }

    #[test]
    fn background_child_does_not_delay_the_answer() {
        let started = Instant::now();
        assert_eq!(sh("sleep 20 & echo run 9; exit 1", LONG), says("run 9"));
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
