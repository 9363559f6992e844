//! What the units allow the daemon, by systemd's own measure, as installed.

use std::collections::BTreeSet;
use std::process::Command;

use bedplate_tests::fixtures;
use bedplate_tests::program::install_sh as script;

/// The units' exposure, by systemd's own measure, with the limit that the project has set itself.
#[test]
fn the_units_are_confined() {
    let Some(analyze) = fixtures::tool("systemd-analyze") else { return };
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    assert!(script(&["--destdir", &dir]).status.success());
    for unit in ["bedplate.service", "bedplate-boot.service"] {
        let said = Command::new(&analyze)
            .args(["security", "--offline=true", "--threshold=30", "--root", &dir, unit])
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&said.stdout).into_owned()
            + &String::from_utf8_lossy(&said.stderr);
        let level = text.lines().last().unwrap_or_default();
        println!("{level}");
        assert!(text.contains(&format!("exposure level for {unit}")), "{text}");
        assert!(said.status.success(), "more than 3.0: {level}");
    }
}

/// What each drop-in opens stays within a limit of its own, and so does what all of them open together.
#[test]
fn the_unit_stays_confined_with_drop_ins() {
    let Some(analyze) = fixtures::tool("systemd-analyze") else { return };
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/bedplate.service.d");
    let entries = std::fs::read_dir(shipped).expect("it is there");
    let names = entries.map(|entry| entry.expect("ours").file_name().into_string().expect("text"));
    let names: BTreeSet<String> = names.collect();
    let limits = [("cold-reboot.conf", 30), ("fleetlock.conf", 33), ("vf-attributes.conf", 32)];
    assert_eq!(names, limits.map(|(name, _)| name.to_owned()).into(), "each has its limit");
    let all: Vec<&str> = limits.map(|(name, _)| name).to_vec();
    let one_by_one = limits.map(|(name, limit)| (vec![name], limit));
    for (drop_ins, limit) in one_by_one.into_iter().chain([(all, 35)]) {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().display().to_string();
        assert!(script(&["--destdir", &dir]).status.success());
        let to = root.path().join("etc/systemd/system/bedplate.service.d");
        std::fs::create_dir_all(&to).expect("ours");
        for name in &drop_ins {
            std::fs::copy(format!("{shipped}/{name}"), to.join(name)).expect("it is there");
        }
        let threshold = format!("--threshold={limit}");
        let said = Command::new(&analyze)
            .args(["security", "--offline=true", &threshold, "--root", &dir, "bedplate.service"])
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&said.stdout);
        let last = text.lines().last().unwrap_or_default();
        assert!(said.status.success(), "with {drop_ins:?} more than {limit} tenths: {last}");
        assert!(text.contains("exposure level for bedplate.service"), "{text}");
    }
}

/// A slot is given back right after the boot. `After=` alone orders the daemon after a target that nothing may pull in.
#[test]
fn the_drop_in_waits_for_the_network() {
    let drop_in =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/bedplate.service.d/fleetlock.conf");
    let text = std::fs::read_to_string(drop_in).expect("it is there");
    let unit = text
        .split("[Service]")
        .next()
        .and_then(|text| text.split("[Unit]").nth(1))
        .expect("a section");
    for line in ["Wants=network-online.target", "After=network-online.target"] {
        assert!(unit.lines().any(|own| own == line), "{line} is not in {unit}");
    }
}

/// What a FleetLock client needs, and only that: the drop-in opens the Internet's families and addresses, and leaves those
/// by which names are looked up (systemd-resolved's socket, the interfaces' addresses).
#[test]
fn the_drop_in_opens_the_network_to_the_daemon() {
    let Some(analyze) = fixtures::tool("systemd-analyze") else { return };
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    assert!(script(&["--destdir", &dir]).status.success());
    let closed = || {
        let said = Command::new(&analyze)
            .args([
                "security",
                "--offline=true",
                "--json=short",
                "--root",
                &dir,
                "bedplate.service",
            ])
            .output()
            .expect("it starts");
        let checks: Vec<serde_json::Value> = serde_json::from_slice(&said.stdout).expect("JSON");
        let closed = checks.iter().filter(|check| check["set"] == true);
        closed
            .filter_map(|check| check["json_field"].as_str().map(str::to_owned))
            .collect::<BTreeSet<_>>()
    };
    let before = closed();
    let drop_ins = root.path().join("etc/systemd/system/bedplate.service.d");
    std::fs::create_dir_all(&drop_ins).expect("ours");
    let drop_in =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/bedplate.service.d/fleetlock.conf");
    std::fs::copy(drop_in, drop_ins.join("fleetlock.conf")).expect("it is there");
    let after = closed();
    let opened: Vec<&str> = before.difference(&after).map(String::as_str).collect();
    assert_eq!(opened, ["IPAddressDeny", "RestrictAddressFamilies_AF_INET_INET6"]);
    for needed in ["RestrictAddressFamilies_AF_UNIX", "RestrictAddressFamilies_AF_NETLINK"] {
        assert!(!after.contains(needed), "{needed}");
    }
    assert!(after.contains("RestrictAddressFamilies_AF_PACKET"), "{after:?}");
}
