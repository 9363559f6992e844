//! A temporary tree, a BMC with scripted answers, and tests of all methods.

use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::ipmi::{Answer, Command, Ipmi, IpmiError};
use super::*;

/// A temporary root directory, removed at the end.
pub(crate) struct Tree(pub PathBuf, #[expect(dead_code)] tempfile::TempDir);

impl Tree {
    pub(crate) fn new() -> Tree {
        let directory = tempfile::tempdir().unwrap();
        Tree(directory.path().to_owned(), directory)
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = under(&self.0, path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(under(&self.0, path)).unwrap()
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(under(&self.0, path), permissions).unwrap();
    }

    /// Without BMC and command, and without confirmed wake-up by the clock.
    pub(crate) fn env(&self) -> Env<'_> {
        Env {
            root: &self.0,
            ipmi: &NoBmc,
            rtc_wakes: false,
            rtc_after_s: 600,
            command: None,
            plan_hash: "abc123",
            now: "2026-11-21T10:00:00Z".parse().unwrap(),
        }
    }
}

struct NoBmc;

impl Ipmi for NoBmc {
    fn ask(&self, _: Command) -> Result<Answer, IpmiError> {
        panic!("this test has no BMC");
    }
}

/// A BMC that gives these answers in order, and records the commands.
pub(in crate::reboot) struct Bmc {
    answers: RefCell<Vec<Result<Answer, IpmiError>>>,
    asked: RefCell<Vec<Command>>,
}

impl Bmc {
    pub(crate) fn new(mut answers: Vec<Result<Answer, IpmiError>>) -> Bmc {
        answers.reverse();
        Bmc { answers: RefCell::new(answers), asked: RefCell::default() }
    }

    pub(crate) fn asked(&self) -> Vec<Command> {
        self.asked.borrow().clone()
    }
}

impl Ipmi for Bmc {
    fn ask(&self, command: Command) -> Result<Answer, IpmiError> {
        self.asked.borrow_mut().push(command);
        self.answers.borrow_mut().pop().expect("one answer more")
    }
}

/// The answer of QEMU's ipmi-bmc-sim for a running machine.
pub(in crate::reboot) fn on() -> Answer {
    Answer { code: 0, data: vec![0x61, 0, 0] }
}

pub(in crate::reboot) fn code(code: u8) -> Answer {
    Answer { code, data: Vec::new() }
}

/// Returns why the method cannot be used.
pub(in crate::reboot) fn cannot(method: Method, env: &Env<'_>) -> String {
    match probe(method, env) {
        Err(Unusable(why)) => why,
        Ok(how) => panic!("promised: {how}"),
    }
}

/// Asserts that the method can be used.
pub(in crate::reboot) fn works(method: Method, env: &Env<'_>) {
    let answer = probe(method, env);
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
fn ordinary_method_always_works_and_changes_nothing() {
    let tree = Tree::new();
    works(Method::Ordinary, &tree.env());
    let prepared = prepare(Method::Ordinary, &tree.env()).unwrap();
    assert_eq!((prepared.next, prepared.undo.len()), (Next::LogindReboot, 0));
    undo(&prepared, &tree.0).unwrap();
}

#[test]
fn preparation_round_trips_through_json() {
    let undo = vec![
        Undo::Write { path: "/sys/kernel/reboot/type".into(), value: "acpi".into() },
        Undo::Remove { path: "/run/bedplate/power-cycle".into() },
    ];
    let prepared = Preparation { method: Method::Firmware, next: Next::LogindReboot, undo };
    let text = serde_json::to_string(&prepared).unwrap();
    assert!(
        text.starts_with(r#"{"method":"firmware","next":"logind-reboot","undo":[{"write":{"#),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Preparation>(&text).unwrap(), prepared);
}

#[test]
fn failed_undo_step_does_not_stop_later_steps() {
    let tree = Tree::new();
    let [absent, there] = ["/sys/kernel/reboot/type", "/sys/class/rtc/rtc0/wakealarm"];
    tree.put(there, "1");
    let step = |path: &str, value: &str| Undo::Write { path: path.into(), value: value.into() };
    let undo_steps = vec![step(absent, "acpi"), step(there, "0")];
    let prepared =
        Preparation { method: Method::Firmware, next: Next::LogindReboot, undo: undo_steps };
    let failed = undo(&prepared, &tree.0).unwrap_err();
    assert_eq!(failed.to_string(), format!("cannot write `acpi` to {absent}"));
    assert_eq!(tree.get(there), "0");
    assert!(!under(&tree.0, absent).exists(), "undo created an attribute");
}

#[test]
fn method_names_match_the_profile() {
    for method in Method::ALL {
        assert_eq!(serde_json::to_string(&method).unwrap(), format!("\"{method}\""));
    }
}
