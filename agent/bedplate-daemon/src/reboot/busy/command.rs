//! The operator's own command that says whether the host is at work: run bounded in time, with a clean environment, and
//! with everything it started killed at the limit. A command that does not answer is not a "no".

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use bedplate_base::terminal::one_line;
use bedplate_host::child::{self, ChildEnd, ChildResult, KeptOutput, NotStarted};

/// How many characters of a reason are kept: it goes into one line of a log or a status.
const REASON: usize = 200;
/// How much of the output is kept, from its start: more than [`REASON`] characters of UTF-8.
const KEPT: usize = 4 << 10;

/// What the operator's command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Nothing is at work.
    Free,
    /// Something is: the reason, in one line.
    Busy(String),
    /// It did not say; why not, in one line. Counts as busy.
    Unknown(String),
}

/// Runs the operator's command: status 0 is free, status 1 is busy and the first line it prints is the reason. Anything
/// else, no end within `timeout` or no start is [`Activity::Unknown`].
///
/// The program is an absolute path: what a search finds is up to others. Standard input is empty, the environment is
/// `PATH`, `LC_ALL=C` and `HOME=/root`, the directory `/`.
pub(crate) fn busy_command(argv: &[String], timeout: Duration) -> Activity {
    match run(argv, timeout) {
        Ok((status, ran)) => answer(status, &ran.output, &ran.errors),
        Err(why) => Activity::Unknown(format!("the busy command {why}")),
    }
}

fn answer(status: ExitStatus, output: &[u8], errors: &[u8]) -> Activity {
    match (status.code(), status.signal()) {
        (Some(0), _) => Activity::Free,
        (Some(1), _) => {
            let reason = first_line(output);
            Activity::Busy(reason.unwrap_or_else(|| "the host is busy (no reason given)".into()))
        }
        (code, signal) => {
            let end = match code {
                Some(code) => format!("ended with status {code}, expected 0 or 1"),
                None => format!("was ended by signal {}", signal.unwrap_or(0)),
            };
            let words = first_line(errors).or_else(|| first_line(output));
            let words = words.map(|words| format!(": {words}")).unwrap_or_default();
            Activity::Unknown(format!("the busy command {end}{words}"))
        }
    }
}

/// The first line that is not blank, cut to [`REASON`] characters.
fn first_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(one_line(line).chars().take(REASON).collect())
}

fn run(argv: &[String], timeout: Duration) -> Result<(ExitStatus, ChildResult), String> {
    let (program, arguments) = argv.split_first().ok_or("is empty")?;
    if !Path::new(program).is_absolute() {
        return Err(format!("`{}` is not an absolute path", one_line(program)));
    }
    let ran = child::run(Path::new(program), arguments, timeout, KeptOutput::Heads(KEPT));
    let ran = ran.map_err(|error| match error {
        NotStarted::Pipe(error) => format!("has no pipe for its output: {error}"),
        NotStarted::Spawn(error) => format!("cannot be started: {error}"),
        NotStarted::Thread(error) => format!("has no thread for its output: {error}"),
    })?;
    match ran.end {
        ChildEnd::Status(status) => Ok((status, ran)),
        ChildEnd::TimedOut => Err(format!("did not end within {timeout:?} and was killed")),
        ChildEnd::Lost(error) => Err(format!("cannot be waited for: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn sh(script: &str, timeout: Duration) -> Activity {
        busy_command(&["/bin/sh".into(), "-c".into(), script.into()], timeout)
    }

    fn unknown(busy: &Activity, part: &str) -> bool {
        matches!(busy, Activity::Unknown(why) if why.contains(part))
    }

    #[test]
    fn status_0_is_free_and_1_is_busy_for_the_reason_printed() {
        assert_eq!(sh("echo noise; echo more >&2; exit 0", LONG), Activity::Free);
        assert_eq!(sh("exit 0", LONG), Activity::Free);
        let busy =
            sh("echo errors first >&2; echo; echo ' job 7 of ada '; echo second; exit 1", LONG);
        assert_eq!(busy, Activity::Busy("job 7 of ada".into()));
        assert_eq!(busy, Activity::Busy("job 7 of ada".into()));
        assert_eq!(sh("exit 1", LONG), Activity::Busy("the host is busy (no reason given)".into()));
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
        let Activity::Busy(reason) = sh("yes é | head -c 100000 | tr -d '\\n'; exit 1", LONG)
        else {
            panic!()
        };
        assert_eq!(reason, "é".repeat(REASON));
        assert_eq!(
            sh("printf 'a\\033[2Jb\\377'; exit 1", LONG),
            Activity::Busy("a\\u{1b}[2Jb\u{fffd}".into())
        );
    }

    #[test]
    fn much_output_does_not_stop_the_command() {
        assert_eq!(
            sh("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2", LONG),
            Activity::Free
        );
    }

    #[test]
    fn it_gets_a_clean_environment_and_no_input() {
        let script = "read line && exit 3; echo $(env | cut -d= -f1 | grep -v -e ^PWD -e ^SHLVL -e ^_ | sort); exit 1";
        assert_eq!(sh(script, LONG), Activity::Busy("HOME LC_ALL PATH".into()));
    }

    #[test]
    fn a_command_that_hangs_is_no_answer() {
        let hung = sh("sleep 300", Duration::from_secs(1));
        assert!(unknown(&hung, "did not end within 1s and was killed"));
    }

    #[test]
    fn what_it_leaves_in_the_background_does_not_hold_us() {
        let started = Instant::now();
        assert_eq!(sh("sleep 20 & echo run 9; exit 1", LONG), Activity::Busy("run 9".into()));
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
