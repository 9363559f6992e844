//! Effects of creating VFs on the PF's own traffic, by driver, and refusals.

use super::*;

const FLAGS: &str = "/sys/class/net/net000024000/flags";
const ROUTES: &str = "/proc/net/route";
const ROUTE: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                     net000024000 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0\n";

/// Plans 4 VFs on the PF with this driver.
fn section(driver: &str, files: &Files) -> KindPlan {
    let mut machine = lab();
    machine.get(PF).driver = Some(driver.to_owned());
    plan_on(&auto(4), &machine, files)
}

#[test]
fn disruption_depends_on_driver() {
    let up = Files::new(&[(FLAGS, "0x1003")]);
    let down = Files::new(&[(FLAGS, "0x1002")]);
    for (driver, said) in [
        ("ixgbe", Some("loses its link")),
        ("igb", Some("loses its link")),
        ("ice", Some("stops and restarts its queues")),
        ("bnxt_en", Some("stops and restarts its queues")),
        ("mlx5_core", None),
        ("atlantic", None),
    ] {
        let disrupts = |files| the_change(&section(driver, files)).disrupts.clone();
        assert_eq!(disrupts(&up).len(), usize::from(said.is_some()), "{driver}");
        if let Some(said) = said {
            assert!(disrupts(&up)[0].contains(said), "{driver}: {:?}", disrupts(&up));
            assert!(disrupts(&up)[0].contains("net000024000"), "{driver}");
        }
        assert_eq!(disrupts(&down), Vec::<String>::new(), "{driver}: no traffic to disturb");
    }
}

/// Only flow tables show the ports below an internal port of Open vSwitch; other interfaces show theirs.
#[test]
fn possible_route_through_open_vswitch_is_refused() {
    let port = ("/sys/class/net/net000024000/upper_ovs-system", "");
    let names = [
        ("/sys/class/net/br-ex.7/lower_br-ex", ""),
        ("/sys/class/net/br-ex/flags", "0x1003"),
        ("/sys/class/net/bond0/lower_eth9", ""),
        ("/sys/class/net/eth9/device", ""),
    ];
    for (routes, of_switch, refused) in [
        (r#"["br-ex"]"#, true, true),
        (r#"["br-ex.7"]"#, true, true),
        (r#"["bond0", "eth9"]"#, true, false),
        (r#"["bond0", "br-ex"]"#, true, true),
        (r#"["br-ex"]"#, false, false),
        (r#"[]"#, true, false),
    ] {
        let mut all = vec![(bedplate_host::snapshot_paths::ROUTES, routes)];
        all.extend(names.iter().copied().chain(of_switch.then_some(port)));
        let section = section("mlx5_core", &Files::new(&all));
        assert_eq!(section.blockers.len(), usize::from(refused), "{routes} {of_switch}");
        if let Some(blocker) = section.blockers.first() {
            let said = "may go through net000024000 (it names br-ex";
            assert!(blocker.reason.contains(said), "{}", blocker.reason);
        }
    }
}

#[test]
fn routes_are_read_once_for_a_pf() {
    let files = Files::new(&[(FLAGS, "0x1003"), (bedplate_host::snapshot_paths::ROUTES, "[]")]);
    the_change(&section("mlx5_core", &files));
    let asked = files.asked.borrow();
    assert_eq!(
        asked.iter().filter(|path| *path == bedplate_host::snapshot_paths::ROUTES).count(),
        1
    );
}

#[test]
fn unreadable_routes_prevent_changes() {
    let mut files = Files::new(&[(FLAGS, "0x1003"), (ROUTES, ROUTE)]);
    assert_eq!(section("mlx5_core", &files).blockers.len(), 1);
    files.denied.insert(ROUTES.to_owned());
    let section = section("mlx5_core", &files);
    assert_eq!((section.changes.len(), section.blockers.len()), (0, 0));
    assert!(section.unknowns[0].reason.contains("default route"), "{section:?}");
}

#[test]
fn unchanged_vfs_ignore_default_route() {
    let (machine, mut files) = with_vfs(4, Some("mlx5_core"));
    files.files.insert(ROUTES.to_owned(), ROUTE.to_owned());
    let section = plan_on(&auto(4), &machine, &files);
    assert_eq!((section.blockers.len(), section.unchanged.len()), (0, 1));
    // Removing VFs is refused as creating them is.
    let section = plan_on(&auto(0), &machine, &files);
    assert_eq!((section.changes.len(), section.blockers.len()), (0, 1), "{section:?}");
    assert!(section.blockers[0].reason.contains("default route"), "{section:?}");
}
