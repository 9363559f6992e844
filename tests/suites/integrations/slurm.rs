//! Slurm's health check, prolog and reboot program, with a fake `scontrol` that stores a node in two files.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{fake, shipped, text};

/// A node as Slurm stores it, and a bedplate that prints one line.
struct Node(tempfile::TempDir);

impl Node {
    fn new(state: &str, reason: &str) -> Node {
        let node = Node(tempfile::tempdir().expect("a directory"));
        std::fs::write(node.at("state"), state).expect("ours");
        std::fs::write(node.at("reason"), reason).expect("ours");
        let here = node.0.path().display();
        fake(
            node.0.path(),
            "scontrol",
            &format!(
                r#"cd {here}
echo "$*" >>asked
case $1 in
show)
  echo "NodeName=gpu01 Arch=x86_64 CoresPerSocket=1"
  echo "   State=$(cat state) ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A"
  [ ! -s reason ] || echo "   Reason=$(cat reason) [root@2026-03-03T03:00:00]"
  ;;
update)
  for word in "$@"; do
    case $word in
      state=drain) echo IDLE+DRAIN >state ;;
      state=resume) echo IDLE >state; : >reason ;;
      reason=*) [ "$2$3" = nodename=gpu01state=resume ] || printf %s "${{word#reason=}}" >reason ;;
    esac
  done
  ;;
esac"#
            ),
        );
        node
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    /// Runs a program with this output of bedplate. Returns whether it succeeded.
    fn run(&self, program: &str, says: &str) -> bool {
        let here = self.0.path().display();
        let bedplate =
            fake(self.0.path(), "bedplate", &format!("echo \"$*\" >>{here}/questions\n{says}"));
        for file in ["asked", "questions"] {
            let _ = std::fs::remove_file(self.at(file));
        }
        let done = Command::new(shipped("slurm").join(program))
            .env_clear()
            .env("SCONTROL", self.at("scontrol"))
            .env("BEDPLATE", bedplate)
            .env("SLURMD_NODENAME", "gpu01")
            .output()
            .expect("it starts");
        let questions = self.read("questions");
        assert!(!questions.is_empty());
        assert!(questions.lines().all(|line| line == "verify --since-boot --quiet"), "{questions}");
        let asked = self.read("asked");
        assert!(asked.lines().all(|line| line.contains("gpu01")), "{asked}");
        done.status.success()
    }

    /// State, reason, and number of updates by the last program.
    fn now(&self) -> (String, String, usize) {
        let changed = self.read("asked").lines().filter(|line| line.starts_with("update ")).count();
        (self.read("state").trim().to_owned(), self.read("reason"), changed)
    }

    /// Runs the health check with this output of bedplate.
    fn checked(&self, says: &str) -> (String, String, usize) {
        assert!(self.run("bedplate-health", says), "slurmd would not register");
        self.now()
    }
}

const READY: &str = "echo 'ready: everything is in effect'";
const NOT_READY: &str = "echo 'not ready: ACS of 0000:22:00.0'; exit 4";

fn after(state: &str, reason: &str, changed: usize) -> (String, String, usize) {
    (state.into(), reason.into(), changed)
}

#[test]
fn node_is_drained_with_the_reason_and_resumed() {
    let node = Node::new("IDLE", "");
    assert_eq!(node.checked(READY), after("IDLE", "", 0));
    let why = "bedplate: not ready: ACS of 0000:22:00.0";
    assert_eq!(node.checked(NOT_READY), after("IDLE+DRAIN", why, 1));
    // Updated once: the time in the reason is that of the first update.
    assert_eq!(node.checked(NOT_READY), after("IDLE+DRAIN", why, 0));
    // Another reason is an update.
    let unknown = "bedplate: unknown: one thing could not be read";
    assert_eq!(
        node.checked("echo 'unknown: one thing could not be read'; exit 5"),
        after("IDLE+DRAIN", unknown, 1)
    );
    assert_eq!(node.checked(READY), after("IDLE", "", 1));
}

/// The state of a port in bedplate's reason is not that of the node.
#[test]
fn node_drained_for_a_port_that_was_down_is_resumed() {
    let why = "bedplate: not ready: mlx5_3/1 0000:4e:00.0 (1: DOWN): not active; LINK FAILED";
    for state in ["IDLE", "IDLE+DRAIN"] {
        let node = Node::new(state, why);
        assert_eq!(node.checked(NOT_READY).0, "IDLE+DRAIN");
        assert_eq!(node.checked(READY), after("IDLE", "", 1));
    }
}

#[test]
fn node_drained_by_another_tool_is_left_alone() {
    for (state, reason) in [
        ("IDLE+DRAIN", "memory errors"),
        ("IDLE+DRAIN", "ticket 7: bedplate: is it right?"),
        ("DOWN", "bedplate: not ready: it was"),
        ("DOWN+DRAIN", "bedplate: not ready: it was"),
        ("FAILING", ""),
    ] {
        for says in [READY, NOT_READY] {
            let node = Node::new(state, reason);
            assert_eq!(node.checked(says), after(state, reason, 0), "{says}");
        }
    }
}

/// `scontrol reboot` of a node drained by bedplate, which becomes ready before the node is idle.
#[test]
fn requested_reboot_is_not_cancelled() {
    let (state, reason) = ("MIXED+DRAIN+REBOOT_REQUESTED", "bedplate: not ready: ACS");
    let node = Node::new(state, reason);
    assert_eq!(node.checked(READY), after(state, reason, 0));
}

/// Slurm 24.11 retains the reason after `scontrol reboot`, and also if it drains the node itself.
#[test]
fn reason_of_node_in_service_is_given_up() {
    let node = Node::new("IDLE", "bedplate: not ready: ACS : reboot issued");
    assert_eq!(node.checked(READY), after("IDLE", "resumed by bedplate", 1));
    assert_eq!(node.checked(READY), after("IDLE", "resumed by bedplate", 0));
    let node = Node::new("IDLE", "bedplate: not ready: ACS : reboot issued");
    assert_eq!(node.checked(NOT_READY).0, "IDLE+DRAIN");
}

#[test]
fn prolog_on_ready_node_calls_only_bedplate() {
    let node = Node::new("MIXED", "");
    assert!(node.run("bedplate-prolog", READY));
    assert_eq!(node.read("asked"), "");
    assert_eq!(node.read("questions").lines().count(), 1);
}

#[test]
fn prolog_fails_and_drains_unless_ready() {
    let node = Node::new("MIXED", "");
    assert!(!node.run("bedplate-prolog", NOT_READY));
    assert_eq!(node.now(), after("IDLE+DRAIN", "bedplate: not ready: ACS of 0000:22:00.0", 1));
    // The health check resumes it.
    assert_eq!(node.checked(READY), after("IDLE", "", 1));
    // Another tool's reason remains, but the job does not start.
    let node = Node::new("MIXED+DRAIN", "memory errors");
    assert!(!node.run("bedplate-prolog", NOT_READY));
    assert_eq!(node.now(), after("MIXED+DRAIN", "memory errors", 0));
    // A version without this command, or no program.
    for says in ["exit 64", "exit 127"] {
        let node = Node::new("MIXED", "");
        assert!(!node.run("bedplate-prolog", says));
        assert_eq!(node.now(), after("IDLE+DRAIN", "bedplate: no answer", 1));
    }
    // No answer of Slurm.
    let node = Node::new("MIXED", "");
    fake(node.0.path(), "scontrol", "exit 1");
    assert!(!node.run("bedplate-prolog", NOT_READY));
}

/// A daemon that restarts has no verdict for a moment.
#[test]
fn prolog_waits_for_a_verdict() {
    let node = Node::new("MIXED", "");
    let count = node.at("questions");
    let says = format!(
        "[ $(wc -l <{}) -gt 3 ] || {{ echo 'unknown: no daemon'; exit 5; }}\n{READY}",
        count.display()
    );
    assert!(node.run("bedplate-prolog", &says));
    assert_eq!(node.now(), after("MIXED", "", 0));
    assert!(!node.run("bedplate-prolog", "echo 'unknown: no daemon'; exit 5"));
    assert_eq!(node.now(), after("IDLE+DRAIN", "bedplate: unknown: no daemon", 1));
}

/// No daemon, no program, quotes in the line: never ready, and never an error.
#[test]
fn invalid_answer_drains_the_node() {
    let (state, reason, _) = Node::new("IDLE", "").checked("exit 1");
    assert_eq!((state.as_str(), reason.as_str()), ("IDLE+DRAIN", "bedplate: no answer"));
    let (_, reason, _) = Node::new("IDLE", "").checked("echo \"not ready: it's \\\"x\\\"\"");
    assert_eq!(reason, "bedplate: not ready: its x");
    // The verdict must be at the beginning of the line.
    let (state, ..) = Node::new("MIXED", "").checked("echo 'error: not ready: or ready: '");
    assert_eq!(state, "IDLE+DRAIN");
}

#[test]
fn failing_scontrol_changes_nothing() {
    let node = Node::new("IDLE", "");
    fake(node.0.path(), "scontrol", "exit 1");
    assert_eq!(node.checked(NOT_READY), after("IDLE", "", 0));
}

/// slurmd kills the check after 60 seconds: all its timeouts together are shorter.
#[test]
fn health_check_time_is_bounded() {
    let script = text("slurm/bedplate-health");
    let bounds = script.split("timeout ").skip(1).filter_map(|rest| rest.split(' ').next());
    let seconds: Vec<u32> = bounds.map(|word| word.parse().expect("seconds")).collect();
    let [question, show, update] = seconds[..] else { panic!("{seconds:?}") };
    let pauses = script.split("for pause in ").nth(1).and_then(|rest| rest.split(';').next());
    let pauses: Vec<u32> =
        pauses.expect("the pauses").split(' ').map(|word| word.parse().expect("seconds")).collect();
    let questions: u32 = pauses.iter().map(|pause| pause + question).sum();
    assert!(questions + show + update < 60, "{pauses:?} {seconds:?}");
    // Slurm expects the prolog to end within MessageTimeout, by default 10 seconds, if every program answers at once.
    let patience: u32 = pauses.iter().sum();
    assert!(patience < 8, "{pauses:?}");
    let unit = include_str!("../../../systemd/bedplate.service");
    let restart = unit.split("\nRestartSec=").nth(1).and_then(|rest| rest.lines().next());
    let restart: u32 = restart.expect("it is set").parse().expect("seconds");
    assert!(restart + 3 < patience, "no time to start and observe the host");
}

#[test]
fn reboot_program_schedules_through_bedplate() {
    let directory = tempfile::tempdir().expect("a directory");
    let asked = directory.path().join("asked");
    let bedplate =
        fake(directory.path(), "bedplate", &format!("echo \"$*\" >{}; exit 3", asked.display()));
    let run = |program: &Path| {
        Command::new(shipped("slurm/bedplate-reboot")).env("BEDPLATE", program).output()
    };
    // Its exit status is bedplate's.
    assert_eq!(run(&bedplate).expect("it starts").status.code(), Some(3));
    let line = std::fs::read_to_string(&asked).expect("it was asked");
    assert_eq!(line, "reboot schedule --in now --why requested by Slurm\n");
    // The real program accepts the command line, and refuses without a daemon.
    let real = run(&bedplate_tests::program::path()).expect("it starts");
    assert_ne!(real.status.code(), Some(64), "{}", String::from_utf8_lossy(&real.stderr));
    // The programs named in the configuration are shipped.
    let configuration = text("slurm/slurm.conf");
    for name in ["bedplate-health", "bedplate-prolog", "bedplate-reboot"] {
        assert!(configuration.contains(&format!("/usr/lib/bedplate/{name}\n")));
    }
}
