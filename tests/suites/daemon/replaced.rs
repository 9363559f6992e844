//! A profile that tools replace by removing it first: what lies beside it is not enforced in between.

use bedplate_daemon::status::State;

use super::node::{CHANGE, Node, only};
use super::rig::{Rig, until};

const OWN: &str = "etc/bedplate/profile.toml";
const WAITS: &str = "waiting for it to come back";

/// A node whose own profile loads `loop`, and beside it the profile of a fleet, which asks for nothing.
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

/// Neither one that fits this machine nor one that fits none, which is an error.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn another_profile_is_not_enforced_while_ones_own_is_replaced() {
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
        // The fleet's profile takes the module's file away.
        assert!(
            node.applied() && !rig.logged("fleet") && !rig.logged("ERROR"),
            "{}",
            rig.read("log")
        );
    }
}

/// The profile without one of its layers is another one, too.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn a_layer_that_is_gone_is_named() {
    const LAYER: &str = "etc/bedplate/profile.d/10-site.toml";
    let rig = Rig::new();
    let node = node(&rig, &this_machine());
    rig.write(LAYER, "schema = 1\n[sysctl]\nset = {}\n");
    let _daemon = node.daemon();
    rig.until("converged", |status| status.state == State::Converged);
    std::fs::remove_file(rig.path(LAYER)).expect("ours");
    let named = format!("/{LAYER} is gone: {WAITS}");
    rig.until("named", |status| status.reason == named);
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn another_profile_is_enforced_once_ones_own_stays_away() {
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

/// The daemon names changes of the profile that it saw; the worker, a moment later, may see another one.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn the_worker_applies_nothing_of_a_profile_that_took_its_place() {
    let rig = Rig::new();
    let node = node(&rig, &this_machine());
    let only = only(CHANGE);
    let (code, said) = node.run(&["worker", &only, "--profile-file=/etc/bedplate/elsewhere.toml"]);
    assert!(code == Some(0) && said.contains("\"done\":[]") && !node.applied(), "{said}");
    let (code, said) = node.run(&["worker", &only, "--profile-file=/etc/bedplate/profile.toml"]);
    assert!(code == Some(0) && node.applied(), "{said}");
}

/// A tool's output, or a file's name, need not be UTF-8.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn what_the_worker_is_at_need_not_be_text() {
    let mut rig = Rig::new();
    rig.look(&super::rig::drifted(&rig));
    rig.after(&super::rig::fixed(&rig));
    std::fs::write(rig.path("at"), b"at writing /etc/\xff\n").expect("ours");
    rig.start_blindly();
    rig.until("at work", |status| status.reason.contains('\u{fffd}'));
    std::fs::remove_file(rig.path("at")).expect("ours");
    rig.until("converged", |status| status.state == State::Converged);
}
