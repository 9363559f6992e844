//! A profile that tools replace by removing it first: no other profile is enforced in between.

use bedplate_daemon::status::State;

use super::node::{CHANGE, Node, only};
use super::rig::{Rig, until};

const OWN: &str = "etc/bedplate/profile.toml";
const WAITS: &str = "waiting for its return";

/// A node whose own profile loads `loop`, with a fleet profile next to it that requests nothing.
fn node<'a>(rig: &'a Rig, fits: &str) -> Node<'a> {
    let node = Node::new(rig);
    let fleet = format!(
        "schema = 1\nname = \"fleet\"\n[match]\n{fits}\n[modules]\ngpudirect = \"none\"\n[agent]\nmode = \"enforce\"\n"
    );
    rig.write("etc/bedplate/profiles/fleet.toml", &fleet);
    node
}

fn this_machine() -> String {
    format!("arch = \"{}\"", std::env::consts::ARCH)
}

/// Tests a fleet profile that fits this machine, and one that fits no machine, which is an error.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn other_profile_is_not_enforced_during_a_replacement() {
    for fits in [this_machine(), "product_name = \"no such machine\"".to_owned()] {
        let rig = Rig::new();
        let node = node(&rig, &fits);
        let _daemon = node.daemon();
        rig.until("converged", |status| status.state == State::Converged);
        let own = rig.read(OWN);
        std::fs::remove_file(rig.path(OWN)).expect("ours");
        rig.until("waits", |status| {
            status.state == State::Working && status.reason.contains(WAITS)
        });
        rig.write(OWN, &own);
        let status = rig.until("converged", |status| status.state == State::Converged);
        assert_eq!(status.profile, "node");
        // The fleet's profile would remove the module's file.
        assert!(
            node.applied() && !rig.logged("fleet") && !rig.logged("ERROR"),
            "{}",
            rig.read("log")
        );
    }
}

/// The profile without one of its layers is a different profile, too.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn missing_layer_is_named() {
    const LAYER: &str = "etc/bedplate/profile.d/10-site.toml";
    let rig = Rig::new();
    let node = node(&rig, &this_machine());
    rig.write(LAYER, "schema = 1\n[sysctl]\nset = {}\n");
    let _daemon = node.daemon();
    rig.until("converged", |status| status.state == State::Converged);
    std::fs::remove_file(rig.path(LAYER)).expect("ours");
    let named = format!("/{LAYER} is missing: {WAITS}");
    rig.until("named", |status| status.reason == named);
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn other_profile_is_enforced_after_a_removal() {
    let rig = Rig::new();
    let node = node(&rig, &this_machine());
    let _daemon = node.daemon();
    rig.until("converged", |status| status.state == State::Converged);
    std::fs::remove_file(rig.path(OWN)).expect("ours");
    rig.until("the fleet's", |status| {
        status.state == State::Converged && status.profile == "fleet"
    });
    until("the module's file is taken away", || !node.applied());
}

/// The daemon names changes of the profile that it read. A moment later the worker may read another profile.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn worker_applies_nothing_of_a_replaced_profile() {
    let rig = Rig::new();
    let node = node(&rig, &this_machine());
    let only = only(CHANGE);
    let (code, said) = node.run(&["worker", &only, "--profile-file=/etc/bedplate/elsewhere.toml"]);
    assert!(code == Some(0) && said.contains("\"done\":[]") && !node.applied(), "{said}");
    let (code, said) = node.run(&["worker", &only, "--profile-file=/etc/bedplate/profile.toml"]);
    assert!(code == Some(0) && node.applied(), "{said}");
}

/// A tool's output or a file name may be invalid UTF-8.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn progress_line_that_is_not_utf8_is_shown() {
    let mut rig = Rig::new();
    rig.look(&super::rig::drifted(&rig));
    rig.after(&super::rig::fixed(&rig));
    std::fs::write(rig.path("at"), b"at writing /etc/\xff\n").expect("ours");
    rig.start_blindly();
    rig.until("at work", |status| status.reason.contains('\u{fffd}'));
    std::fs::remove_file(rig.path("at")).expect("ours");
    rig.until("converged", |status| status.state == State::Converged);
}
