//! The daemon's interface as third-party programs see it: its description is well-formed XML, and a client that follows
//! it can read, call and listen.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use bedplate_daemon::bus::{NAME, PATH};
use bedplate_tests::fixtures;
use serde_json::json;

use super::rig::{Rig, right, waiting};

/// zbus turns doc comments into XML comments without checking them. `--` in one ends the document for every parser that
/// follows the standard (XML 1.0, section 2.5), and for every client that reads the description.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn introspection_xml_is_well_formed() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let introspectable = Some("org.freedesktop.DBus.Introspectable");
    let answer = rig.runtime.block_on(rig.logind.call_method(
        Some(NAME),
        PATH,
        introspectable,
        "Introspect",
        &(),
    ));
    let xml: String = answer.expect("it answers").body().deserialize().expect("a string");
    // The document type is D-Bus' own; the parser does not fetch it.
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&xml, options)
        .unwrap_or_else(|error| panic!("{error}\n{xml}"));
    let interface = document.descendants().find(|node| node.attribute("name") == Some(NAME));
    let interface = interface.expect("it is there");
    let schedule =
        interface.children().find(|node| node.attribute("name") == Some("ScheduleReboot"));
    let answer = schedule
        .expect("it is there")
        .children()
        .filter(|argument| argument.attribute("direction") == Some("out"));
    let answer: Vec<_> = answer.map(|out| (out.attribute("name"), out.attribute("type"))).collect();
    assert_eq!(answer, [(Some("state"), Some("s")), (Some("text"), Some("s"))]);
    let names: Vec<&str> = interface.children().filter_map(|node| node.attribute("name")).collect();
    for name in
        ["Plan", "ScheduleReboot", "CancelReboot", "State", "Checks", "PlanJson", "StatusJson"]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "target/python")),
    ignore = "needs dbus-daemon and target/python"
)]
fn python_client_reads_calls_and_listens() {
    let python = fixtures::python();
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let mut client = Command::new(python)
        .args([concat!(env!("CARGO_MANIFEST_DIR"), "/suites/daemon/client.py"), &rig.address()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines =
        BufReader::new(client.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let first: Vec<String> = lines.by_ref().take(4).collect();
    let expected = [
        "state: converged",
        "verdict: ready",
        "last converged: known",
        "plan: {\"bedplate_plan\":1}",
    ];
    assert_eq!(first, expected);
    let mut seen = waiting(&rig);
    seen["reboot"]["policy"] = json!("never");
    rig.look(&seen);
    rig.touch();
    assert_eq!(lines.collect::<Vec<_>>(), ["changed to: waiting-for-boot"]);
    assert!(client.wait().expect("it was started").success());
}

/// The reason is stored, logged, and sent to every terminal of the host.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reason_longer_than_the_limit_is_refused() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    let asked = async { rig.agent().await?.schedule_reboot(&"w".repeat(501), 0).await };
    let refused = rig.runtime.block_on(asked).expect_err("it is too long").to_string();
    assert!(refused.contains("the reason exceeds 500 characters"), "{refused}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_more_than_a_year_away_is_refused() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    let asked = async { rig.agent().await?.schedule_reboot("far", u64::MAX).await };
    let refused = rig.runtime.block_on(asked).expect_err("it is too far").to_string();
    assert!(refused.contains("InvalidArgs") && refused.contains("a year"), "{refused}");
}
