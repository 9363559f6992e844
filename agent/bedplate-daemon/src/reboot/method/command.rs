//! The `command` method: the operator's own program has the machine power-cycled from outside (Redfish, MAAS, a PDU …). It
//! runs in place of a logind reboot: the external tool must shut the machine down in order itself, or not need to.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Env, MethodError, Next, Row, Unusable, is_executable, under, unusable};
use bedplate_host::{ToolEnd, Writer};

/// The operator's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Absolute path of the program, and its arguments; no shell is used.
    pub argv: Vec<String>,
    /// Seconds after which it is killed with all its children.
    pub timeout_s: u32,
    /// Seconds after its success within which the machine must go down.
    pub grace_s: u32,
}

/// Registry entry.
pub(super) const ROW: Row = Row {
    subject: "a power cycle by the profile's command",
    next: Next::RunCommand,
    probe,
    find_undo: |_| Ok(Vec::new()),
    prepare: |_| Ok(()),
    undoes: |_| false,
    survives_boot: false,
};

/// Checks that the method can be used.
fn probe(env: &Env<'_>) -> Result<String, Unusable> {
    let Some(command) = env.command else { return unusable("the profile names no command") };
    let Some(program) = command.argv.first() else {
        return unusable("the command in the profile is empty");
    };
    // The daemon's PATH is not the operator's: a bare name may resolve to another program.
    if !Path::new(program).is_absolute() {
        return unusable(format!("the command `{program}` must be an absolute path"));
    }
    if command.timeout_s == 0 {
        let why = "has no time to run; set a timeout of at least one second";
        return unusable(format!("the command `{program}` {why}"));
    }
    if !is_executable(&under(env.root, program)) {
        let why = "is missing or not an executable file";
        return unusable(format!("the command `{program}` {why}"));
    }
    let (limit, grace) = (command.timeout_s, command.grace_s);
    Ok(format!(
        "runs `{program}` (for {limit} s at most), which power-cycles the machine within {grace} s"
    ))
}

/// Runs the command; this cannot be undone. Returns how long to wait for the machine to go down before it counts as failed.
/// Blocks for up to the command's timeout.
///
/// # Errors
/// If the command did not succeed.
pub fn run(command: &Command, host: &mut dyn Writer) -> Result<Duration, MethodError> {
    let ran = host.run_tool(&command.argv, command.timeout_s);
    if ran.end == ToolEnd::Exited(0) {
        return Ok(Duration::from_secs(command.grace_s.into()));
    }
    let last = ran.output.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let last = last.map(|line| format!(": {line}")).unwrap_or_default();
    // Only the program name: the arguments may contain a password.
    let program = command.argv.first().map_or("", String::as_str);
    let what = format!("the reboot command `{program}` failed ({}){last}", ran.end);
    Err(MethodError::new(what))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::tests::{Tree, cannot, works};
    use super::super::{Method, prepare};
    use super::*;
    use bedplate_host::write::DirWriter;

    fn sh(script: &str) -> Command {
        Command {
            argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
            timeout_s: 1,
            grace_s: 90,
        }
    }

    #[test]
    fn only_an_existing_command_is_usable() {
        let tree = Tree::new();
        assert!(cannot(Method::Command, &tree.env()).contains("no command"));
        let says = |argv: &[&str], timeout_s| {
            let argv = argv.iter().map(|&word| word.to_owned()).collect();
            let command = Command { argv, timeout_s, grace_s: 90 };
            super::probe(&Env { command: Some(&command), ..tree.env() })
                .map_err(|Unusable(why)| why)
        };
        assert!(says(&[], 1).unwrap_err().contains("empty"));
        assert!(says(&["cycle"], 1).unwrap_err().contains("absolute"));
        assert!(says(&["/opt/cycle"], 1).unwrap_err().contains("is missing"));
        tree.put("/opt/cycle", "#!/bin/sh\n");
        assert!(says(&["/opt/cycle"], 1).unwrap_err().contains("executable"));
        tree.chmod("/opt/cycle", 0o755);
        assert!(says(&["/opt/cycle"], 0).unwrap_err().contains("timeout"));
        assert!(says(&["/opt/cycle"], 1).is_ok());
        let command = Command { argv: vec!["/opt/cycle".into()], timeout_s: 1, grace_s: 1 };
        let env = Env { command: Some(&command), ..tree.env() };
        works(Method::Command, &env);
        let prepared = prepare(Method::Command, &env).unwrap();
        assert_eq!(prepared.next, Next::RunCommand);
    }

    #[test]
    fn failure_shows_last_line_without_arguments() {
        let mut host = DirWriter::live();
        assert_eq!(run(&sh("exit 0"), &mut host).unwrap(), Duration::from_secs(90));
        let said = run(&sh("echo first; echo 401 unauthorized >&2; echo; exit 7"), &mut host)
            .unwrap_err()
            .to_string();
        assert_eq!(said, "the reboot command `/bin/sh` failed (exit status 7): 401 unauthorized");
    }

    #[test]
    fn hung_command_is_killed_with_its_children() {
        let tree = Tree::new();
        let mark = tree.0.join("mark");
        let started = Instant::now();
        let script = format!("(sleep 3; touch {}) & wait", mark.display());
        let failed = run(&sh(&script), &mut DirWriter::live()).unwrap_err();
        assert!(failed.to_string().contains(&format!("({})", ToolEnd::TimedOut)), "{failed}");
        std::thread::sleep(Duration::from_secs(4).saturating_sub(started.elapsed()));
        assert!(!mark.exists(), "what it started lived on");
    }
}
