//! A profile with an error-level lint: nothing of it is enforced until it is corrected or the lint is allowed with a
//! reason. The worker is real, in its own namespaces.

use bedplate_daemon::status::State;

use super::node::{CHANGE, Node, only};
use super::rig::{Rig, until};

const PROFILE: &str = "etc/bedplate/profile.toml";
const LINT: &str = "no-such-module";

/// Requests `loop`, as [`Node::new`] does, and a module that does not exist.
fn profile(sections: &str) -> String {
    format!(
        "schema = 1\nname = \"node\"\n[modules]\ngpudirect = \"none\"\nload = [\"loop\", {{ name = \"dma_buf\", load = \"boot\" }}]\n{sections}"
    )
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn profile_with_an_error_lint_is_not_enforced() {
    let rig = Rig::new();
    let node = Node::new(&rig);
    rig.write(PROFILE, &profile("[reboot]\npolicy = \"schedule\"\n"));
    let (code, said) = node.run(&["boot"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("lint {LINT}")), "{said}");
    let _daemon = node.daemon();
    rig.until("blocked", |status| {
        status.state == State::Blocked
            && status.blockers.iter().any(|blocker| {
                blocker.subject.text == format!("lint {LINT}")
                    && blocker.fix.contains("[lints] allow = {")
            })
    });
    rig.settle();
    assert!(!node.applied(), "{}", rig.read("log"));
    let (code, said) = node.run(&["worker"]);
    let nothing_to_do = said.contains("\"changes\":[]") && said.contains("\"stopped\":true");
    assert!(code == Some(0) && nothing_to_do, "{said}");
    assert!(said.contains("\"policy\":\"schedule\""), "the policy is the profile's: {said}");
    // A worker that gets the change by its id also refuses it.
    let (code, said) = node.run(&["worker", &only(CHANGE)]);
    assert!(code == Some(4) && said.contains(&format!("{LINT} at /{PROFILE}:")), "{said}");
    assert!(!node.applied());

    let allow = format!(
        "[lints]\nallow = {{ {LINT} = \"other kernels have it\" }}\n[reboot]\npolicy = \"schedule\"\nwindows = [\"never\"]\n"
    );
    rig.write(PROFILE, &profile(&allow));
    until("the daemon makes it so", || node.applied());
    let line = format!("allowed lint {LINT}: other kernels have it");
    until("the history says why", || node.run(&["history"]).1.contains(&line));
    until("the status has the reminder", || node.run(&["status"]).1.contains("(no-window-yet)"));
}
