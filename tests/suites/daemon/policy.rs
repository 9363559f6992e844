//! Authorization of the daemon's callers under the shipped bus policy and the stock one of the system bus: the bus denies
//! method calls unless a service's own file allows them. A fake polkit records its requests.

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use bedplate_daemon::status::State;
use bedplate_tests::fixtures;
use zbus::interface;

use super::rig::{Rig, right};

const POLICY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/dbus/org.bedplate.Agent1.conf");
const ALLOW_USER_INTERACTION: u32 = 1;

/// A polkit that authorizes everything and records the flags of each request.
struct Polkit(Arc<Mutex<Vec<(String, u32)>>>);

type Subject = (String, std::collections::HashMap<String, zbus::OwnedVariant>);

#[interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Polkit {
    fn check_authorization(
        &self,
        _subject: Subject,
        action: String,
        _details: std::collections::HashMap<String, String>,
        flags: u32,
        _cancellation: String,
    ) -> ((bool, bool, std::collections::HashMap<String, String>),) {
        self.0.lock().expect("not poisoned").push((action, flags));
        ((true, false, std::collections::HashMap::new()),)
    }
}

/// Configures the stock policy of /usr/share/dbus-1/system.conf plus the shipped file. Root owns its names as on a real
/// bus.
fn stock(rig: &Rig) {
    let shipped = std::fs::read_to_string(POLICY).expect("it is shipped");
    let (_, shipped) = shipped.split_once("<busconfig>").expect("a configuration of a bus");
    let (shipped, _) = shipped.split_once("</busconfig>").expect("a configuration of a bus");
    let allowed = |destination: &str| format!("<allow send_destination=\"{destination}\"/>");
    rig.configure_bus(|text| {
        let (before, _) = text.split_once("<policy").expect("it has one");
        format!(
            "{before}<policy context=\"default\"><allow user=\"*\"/><deny own=\"*\"/><deny send_type=\"method_call\"/>\
             <allow send_type=\"signal\"/><allow send_requested_reply=\"true\" send_type=\"method_return\"/>\
             <allow send_requested_reply=\"true\" send_type=\"error\"/><allow receive_type=\"method_call\"/>\
             <allow receive_type=\"method_return\"/><allow receive_type=\"error\"/><allow receive_type=\"signal\"/>{}</policy>\
             <policy user=\"root\"><allow own=\"*\"/>{}{}{}</policy>{shipped}</busconfig>",
            allowed("org.freedesktop.DBus"),
            allowed("org.freedesktop.login1"),
            allowed("org.freedesktop.systemd1"),
            allowed("org.freedesktop.PolicyKit1"),
        )
    });
}

/// A converged rig that another user can reach. Needs root.
pub fn converged() -> Rig {
    fixtures::root();
    let mut rig = Rig::new();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(rig.dir.path(), mode).expect("ours");
    stock(&rig);
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    rig
}

/// Runs busctl as another user.
fn other(rig: &Rig, args: &[&str]) -> Output {
    let (busctl, setpriv) = (fixtures::tool("busctl"), fixtures::tool("setpriv"));
    Command::new(setpriv)
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(busctl)
        .arg(format!("--address={}", rig.address()))
        .args(args)
        .output()
        .expect("it starts")
}

#[test]
#[cfg_attr(
    not(all(has = "busctl", has = "dbus-daemon", has = "root", has = "setpriv")),
    ignore = "needs busctl, dbus-daemon, root and setpriv"
)]
fn bus_admits_four_interfaces_only() {
    let rig = converged();
    let call = |interface: &str, method: &str, args: &[&str]| {
        let words = ["call", "org.bedplate.Agent1", "/org/bedplate/Agent1", interface, method];
        other(&rig, &[&words, args].concat())
    };
    for (interface, method, args) in [
        ("org.bedplate.Agent1", "Plan", &[][..]),
        ("org.freedesktop.DBus.Peer", "Ping", &[]),
        ("org.freedesktop.DBus.Introspectable", "Introspect", &[]),
        ("org.freedesktop.DBus.Properties", "GetAll", &["s", "org.bedplate.Agent1"]),
    ] {
        let answer = call(interface, method, args);
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(answer.status.success(), "{interface}: {said}");
    }
    for interface in
        ["org.freedesktop.DBus.ObjectManager", "org.bedplate.Agent2", "org.example.Any"]
    {
        let answer = call(interface, "GetManagedObjects", &[]);
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        // The bus denies this. The daemon would report an unknown interface.
        assert!(!answer.status.success() && said.contains("Access denied"), "{interface}: {said}");
    }
}

/// A program without a terminal must not open a password prompt on a user's screen.
#[test]
#[cfg_attr(
    not(all(has = "busctl", has = "dbus-daemon", has = "root", has = "setpriv")),
    ignore = "needs busctl, dbus-daemon, root and setpriv"
)]
fn polkit_prompts_only_if_the_caller_allows_it() {
    let rig = converged();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let polkit = rig.runtime.block_on(async {
        zbus::connection::Builder::address(rig.address().as_str())
            .serve_at("/org/freedesktop/PolicyKit1/Authority", Polkit(asked.clone()))
            .name("org.freedesktop.PolicyKit1")
            .build()
            .await
            .expect("the fake polkit is on the bus")
    });
    for (allow, flags) in [("no", 0), ("yes", ALLOW_USER_INTERACTION)] {
        let switch = format!("--allow-interactive-authorization={allow}");
        let object = ["org.bedplate.Agent1", "/org/bedplate/Agent1", "org.bedplate.Agent1"];
        let words = [&[switch.as_str(), "call"], &object[..], &["Reload"]].concat();
        let answer = other(&rig, &words);
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        let last = asked.lock().expect("not poisoned").last().cloned();
        assert_eq!(last, Some(("org.bedplate.reload".to_owned(), flags)), "{allow}");
    }
    drop(polkit);
}
