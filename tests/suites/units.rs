//! Confinement of the units as installed, measured by systemd.

use std::collections::BTreeSet;
use std::process::Command;

use bedplate_daemon::ready_target;
use bedplate_tests::fixtures;
use bedplate_tests::program::install_sh as script;

/// Exposure of the units as measured by systemd, within the project's own limits.
#[test]
#[cfg_attr(not(has = "systemd-analyze"), ignore = "needs systemd-analyze")]
fn units_are_confined() {
    let analyze = fixtures::tool("systemd-analyze");
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    assert!(script(&["--destdir", &dir]).status.success());
    for (unit, most) in [
        ("bedplate.service", 12),
        ("bedplate-boot.service", 30),
        ("bedplate-observer@1.service", 22),
        ("bedplate-worker@1.service", 26),
        ("bedplate-loader@1.service", 29),
        ("bedplate-holders@1.service", 12),
        ("bedplate-check@1.service", 22),
        ("bedplate-ready.service", 12),
        ("bedplate-host-ready.service", 12),
    ] {
        let said = Command::new(&analyze)
            .args([
                "security",
                "--offline=true",
                &format!("--threshold={most}"),
                "--root",
                &dir,
                unit,
            ])
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&said.stdout).into_owned()
            + &String::from_utf8_lossy(&said.stderr);
        let level = text.lines().find(|line| line.contains("exposure level")).unwrap_or(&text);
        println!("{level} (at most {most} tenths)");
        assert!(level.contains(&format!("exposure level for {unit}")), "{text}");
        assert!(said.status.success(), "more than {most} tenths: {level}");
    }
}

/// The two units with most rights differ only in the rights for loading modules.
#[test]
fn loader_is_the_worker_plus_module_rights() {
    let root = tempfile::tempdir().expect("a directory");
    assert!(script(&["--destdir", &root.path().display().to_string()]).status.success());
    let units = root.path().join("usr/lib/systemd/system");
    let read = |name: &str| std::fs::read_to_string(units.join(name)).expect("installed");
    assert_eq!(read("bedplate-worker@.service"), read("bedplate-loader@.service"));
    assert!(!read("bedplate-worker@.service").contains("CAP_SYS_MODULE"));
    let more = read("bedplate-loader@.service.d/modules.conf");
    for line in ["CapabilityBoundingSet=CAP_SYS_MODULE", "SystemCallFilter=@module"] {
        assert!(more.lines().any(|own| own == line), "{line} is not in\n{more}");
    }
    assert!(read("system-bedplate.slice").contains("\nTasksMax="));
    // The units that the daemon calls exist.
    for name in ["observer", "worker", "loader", "holders", "check"] {
        assert!(
            read(&format!("bedplate-{name}.socket"))
                .contains(&format!("/run/bedplate-helpers/{name}\n"))
        );
        for setting in ["Wants", "After", "Upholds"] {
            let daemon = read("bedplate.service");
            let line = daemon
                .lines()
                .find(|line| line.starts_with(&format!("{setting}=bedplate-observer.socket")));
            let sockets = line.unwrap_or_default();
            assert!(sockets.contains(&format!("bedplate-{name}.socket")), "{setting} {name}");
        }
        let socket = read(&format!("bedplate-{name}.socket"));
        assert!(socket.lines().any(|line| line == "PartOf=bedplate.service"), "{name}");
        // A hanging process in one of them counts against the limit of all.
        let unit = read(&format!("bedplate-{name}@.service"));
        assert!(unit.lines().any(|line| line == "Slice=system-bedplate.slice"), "{name}");
    }
}

#[test]
fn verdict_target_ends_with_the_daemon() {
    let root = tempfile::tempdir().expect("a directory");
    assert!(script(&["--destdir", &root.path().display().to_string()]).status.success());
    let units = root.path().join("usr/lib/systemd/system");
    let unit = std::fs::read_to_string(units.join(ready_target::UNIT)).expect("installed");
    let condition = format!("ConditionPathExists={}", ready_target::MARKER);
    for line in ["BindsTo=bedplate.service", "After=bedplate.service", &condition] {
        assert!(unit.lines().any(|own| own == line), "{line} is not in\n{unit}");
    }
    // An enabled target would start before the verdict.
    assert!(!unit.lines().any(|line| line == "[Install]"), "{unit}");
}

#[test]
#[cfg_attr(not(has = "systemd-analyze"), ignore = "needs systemd-analyze")]
fn systemd_accepts_the_target() {
    let analyze = fixtures::tool("systemd-analyze");
    let root = tempfile::tempdir().expect("a directory");
    assert!(script(&["--destdir", &root.path().display().to_string()]).status.success());
    let root = format!("--root={}", root.path().display());
    let said = Command::new(analyze)
        .args(["verify", "--man=no", "--recursive-errors=no", &root, ready_target::UNIT])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(!text.contains(ready_target::UNIT), "{text}");
}

/// Both ways to uninstall stop the targets: a target whose file was removed stays active.
#[test]
fn uninstalling_stops_the_targets() {
    let read = |path: &str| {
        std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).expect("ours")
    };
    let install = read("install.sh");
    let stopped = install.lines().find(|line| line.contains("for unit in observer.socket"));
    let stopped = stopped.expect("the units that --uninstall stops");
    let package = read("packaging/scripts/common.sh");
    for unit in ["is-ready.target", "ready.target", "ready.service"] {
        assert!(stopped.split([' ', ';']).any(|word| word == unit), "{unit}: {stopped}");
        let of_package = package.lines().any(|line| {
            line.contains("systemctl stop")
                && line.split(' ').any(|word| word == format!("bedplate-{unit}"))
        });
        assert!(of_package, "{unit}: {package}");
    }
}

/// A daemon that was replaced by another build exits to be restarted, which is not a failure and is always allowed.
#[test]
fn replaced_daemon_is_restarted_without_a_failure() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/bedplate.service");
    let unit = std::fs::read_to_string(unit).expect("it is there");
    for key in ["RestartForceExitStatus", "SuccessExitStatus"] {
        let line = format!("{key}={}", bedplate_daemon::launch::REPLACED);
        assert!(unit.lines().any(|own| own == line), "{line} is not in\n{unit}");
    }
}

/// Each drop-in stays within its own limit, and so do all of them together.
#[test]
#[cfg_attr(not(has = "systemd-analyze"), ignore = "needs systemd-analyze")]
fn units_stay_confined_with_drop_ins() {
    let analyze = fixtures::tool("systemd-analyze");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd");
    let names = |unit: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(format!("{shipped}/{unit}.d")).expect("it is there");
        entries.map(|entry| entry.expect("ours").file_name().into_string().expect("text")).collect()
    };
    let daemons = ["fleetlock.conf", "no-user-namespace.conf"].map(str::to_owned);
    assert_eq!(names("bedplate.service"), daemons.into(), "each has its limit");
    let workers = ["cold-reboot.conf", "limits.conf", "network.conf", "vf-attributes.conf"];
    let workers = workers.map(str::to_owned);
    assert_eq!(names("bedplate-worker@.service"), workers.into(), "each has its limit");
    let lock = "bedplate.service.d/fleetlock.conf";
    let namespace = "bedplate.service.d/no-user-namespace.conf";
    let network = "bedplate-worker@.service.d/network.conf";
    let cold = "bedplate-worker@.service.d/cold-reboot.conf";
    let attributes = "bedplate-worker@.service.d/vf-attributes.conf";
    let limits = "bedplate-worker@.service.d/limits.conf";
    let cases: [(&str, &[&str], u32); 12] = [
        ("bedplate.service", &[lock], 15),
        ("bedplate.service", &[namespace], 13),
        ("bedplate.service", &[lock, namespace], 17),
        ("bedplate-check@.service", &[network], 25),
        ("bedplate-observer@.service", &[attributes], 24),
        ("bedplate-worker@.service", &[network], 28),
        ("bedplate-worker@.service", &[cold], 27),
        ("bedplate-worker@.service", &[attributes], 28),
        ("bedplate-loader@.service", &[attributes], 31),
        ("bedplate-worker@.service", &[limits], 26),
        ("bedplate-boot.service", &["bedplate-boot.service.d/limits.conf"], 31),
        ("bedplate-worker@.service", &[network, cold, attributes, limits], 32),
    ];
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    assert!(script(&["--destdir", &dir]).status.success());
    for (unit, drop_ins, limit) in cases {
        let own = root.path().join("etc/systemd/system");
        _ = std::fs::remove_dir_all(&own);
        let to = own.join(format!("{unit}.d"));
        std::fs::create_dir_all(&to).expect("ours");
        for drop_in in drop_ins {
            let name = drop_in.rsplit('/').next().unwrap_or_default();
            std::fs::copy(format!("{shipped}/{drop_in}"), to.join(name)).expect("it is there");
        }
        let threshold = format!("--threshold={limit}");
        let one = unit.replace('@', "@1");
        let said = Command::new(&analyze)
            .args(["security", "--offline=true", &threshold, "--root", &dir, &one])
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&said.stdout);
        let last = text.lines().last().unwrap_or_default();
        println!("{last} ({drop_ins:?}, at most {limit} tenths)");
        assert!(said.status.success(), "with {drop_ins:?} more than {limit} tenths: {last}");
        assert!(text.contains(&format!("exposure level for {one}")), "{text}");
    }
}

/// A slot is released right after the boot. `After=` alone would order the daemon after a target that no unit may pull in.
#[test]
fn fleetlock_drop_in_waits_for_the_network() {
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

/// The drop-in allows what a FleetLock client needs, and nothing else: it opens the Internet's address families and
/// addresses, and keeps those for name lookup (systemd-resolved's socket, the interfaces' addresses).
#[test]
#[cfg_attr(not(has = "systemd-analyze"), ignore = "needs systemd-analyze")]
fn fleetlock_drop_in_opens_the_network_to_the_daemon() {
    let analyze = fixtures::tool("systemd-analyze");
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
