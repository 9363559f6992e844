//! Limits: missing privilege, images, VMs, lockdown, kernels that disobey.

use super::*;
use bedplate_facts::pci::PortType;

#[test]
fn unprivileged_read_is_unknown_never_converged() {
    let mut machine = lab();
    let bridges: Vec<_> =
        machine.tree.functions.values().filter(|f| f.is_bridge()).map(|f| f.address).collect();
    for bridge in bridges {
        let function = machine.tree.functions.get_mut(&bridge).unwrap();
        function.acs = Reading::unknown("only 64 bytes of config space");
        function.port = Reading::unknown("only 64 bytes of config space");
    }
    let facts = machine.facts();
    let resolved = resolve(&direct(), &facts);
    assert_eq!(resolved.acs.ports, []);
    assert!(matches!(resolved.arg, Reading::Unknown(_)));
    assert_eq!(resolved.unknowns.len(), 1);
    assert!(resolved.unknowns[0].subject.text.contains("0000:20:00.0"), "{:?}", resolved.unknowns);
    assert!(resolved.unknowns[0].reason.contains("64 bytes"));
    let section = plan_on(&resolved, &facts, &Files::default());
    assert_eq!((section.changes.len(), section.unchanged.len()), (0, 0));

    let blind = facts_without_pci(HostKind::Live);
    assert_eq!(resolve(&direct(), &blind).unknowns.len(), 1);
}

fn facts_without_pci(host: HostKind) -> Facts {
    Facts { host, ..facts(Reading::unknown("no /sys")) }
}

#[test]
fn image_without_devices_gets_one_deferred_change() {
    let facts = facts_without_pci(HostKind::Image);
    let resolved = resolve(&direct(), &facts);
    assert_eq!((resolved.unknowns.len(), resolved.blockers.len()), (0, 0));
    assert!(matches!(resolved.arg, Reading::Unknown(_)));
    let section = plan_on(&resolved, &facts, &Files::default());
    assert_eq!(section.changes.len(), 1);
    assert!(section.changes[0].deferred.is_some() && section.changes[0].actions.is_empty());
    assert!(!section.changes[0].items.is_empty());
    // The recorded machine's tree shows the ports; writing still waits for the machine.
    let known = Facts { host: HostKind::Image, ..lab().facts() };
    let section = plan_of(&direct(), &known);
    assert_eq!(section.changes.len(), 6);
    assert!(section.changes.iter().all(|change| change.deferred.is_some()));
}

#[test]
fn vm_below_port_blocks_write_and_argument() {
    let mut machine = lab();
    machine.vf("0000:24:10.0", "0000:24:00.0").vfio = true;
    let facts = machine.facts();
    let live = profile(AcsPolicy::DirectP2p, AcsPersist::Live);
    let section = plan_of(&live, &facts);
    let blocked: Vec<_> =
        section.blockers.iter().map(|blocker| blocker.subject.text.as_str()).collect();
    assert_eq!(blocked, ["port 0000:20:00.0", "port 0000:22:01.0"]);
    assert!(section.blockers[0].reason.contains("0000:24:10.0 below it"));
    assert_eq!(section.changes.len(), 4, "the other ports are free to go");

    let resolved = resolve(&direct(), &facts);
    assert!(!argument(&resolved).contains("0000:20:00.0"), "{}", argument(&resolved));
    assert!(!argument(&resolved).contains("0000:22:01.0"), "{}", argument(&resolved));
    let section = plan_on(&resolved, &facts, &Files::default());
    assert_eq!((section.changes.len(), section.blockers.len(), section.notes.len()), (4, 2, 0));

    // Redirect is already disabled, perhaps by an earlier argument: a blocker reports that it is no longer among the
    // arguments.
    machine.set_acs("0000:22:01.0", 0);
    assert_eq!(plan_of(&direct(), &machine.facts()).blockers.len(), 2);
    assert_eq!(plan_of(&live, &machine.facts()).blockers.len(), 1);
}

#[test]
fn vm_below_hidden_bridge_blocks_its_host_bridge() {
    let mut machine = lab();
    machine.get("0000:24:00.0").vfio = true;
    machine.tree.functions.remove(&at("0000:22:01.0"));
    let section = plan_of(&direct(), &machine.facts());
    assert_eq!(section.blockers, [], "no port of that switch is wanted then");
    // A second GPU keeps the other ports among the targets.
    machine.port("0000:22:03.0", Some("0000:21:00.0"), PortType::Downstream);
    machine.gpu("0000:25:00.0", Some("0000:22:03.0"));
    let section = plan_of(&direct(), &machine.facts());
    let blocked: Vec<_> =
        section.blockers.iter().map(|blocker| blocker.subject.text.as_str()).collect();
    assert_eq!(blocked, ["port 0000:20:00.0", "port 0000:22:00.0", "port 0000:22:03.0"]);
    assert!(section.blockers[0].reason.contains("perhaps"), "{}", section.blockers[0].reason);
    let others = section.changes.iter().filter(|change| change.id.contains(":8"));
    assert_eq!(others.count(), 3, "another host bridge is free to go");
    // A function at an unknown location blocks its whole domain.
    let guest = machine.get("0000:24:00.0");
    (guest.parent, guest.root) = (None, String::new());
    assert_eq!(plan_of(&direct(), &machine.facts()).changes, []);
}

#[test]
fn lockdown_permits_only_the_kernel_argument() {
    let mut facts = lab().facts();
    facts.os.lockdown = Reading::Known("integrity".into());
    let section = plan_of(&direct(), &facts);
    assert_eq!((section.changes.len(), section.blockers.len(), section.pending.len()), (0, 0, 6));
    let section = plan_of(&profile(AcsPolicy::DirectP2p, AcsPersist::Live), &facts);
    assert_eq!((section.changes.len(), section.blockers.len()), (0, 6));
    assert!(section.blockers[0].fix.contains("cmdline"));
    facts.os.lockdown = Reading::Absent;
    assert_eq!(plan_of(&direct(), &facts).changes.len(), 6);
}

#[test]
fn register_that_ignores_kernel_argument_is_noted() {
    let mut machine = lab();
    machine.set_acs("0000:80:00.0", 0);
    let facts = machine.facts();
    let resolved = resolve(&direct(), &facts);
    let line =
        format!("BOOT_IMAGE=/vmlinuz quiet pci=realloc,{}\n", &argument(&resolved)["pci=".len()..]);
    let section = plan_on(&resolved, &facts, &Files::new(&[("/proc/cmdline", &line)]));
    assert_eq!((section.notes.len(), section.changes.len()), (5, 5));
    assert!(section.notes[0].text.contains("SV RR CR UF (001d)"), "{}", section.notes[0].text);
    assert!(section.notes[0].text.contains("xx000x0"));
    let redir = Files::new(&[("/proc/cmdline", "pci=disable_acs_redir=0000:22:00.0")]);
    assert_eq!(plan_on(&resolved, &facts, &redir).notes.len(), 1);
    assert_eq!(plan_on(&resolved, &facts, &Files::new(&[("/proc/cmdline", "quiet")])).notes, []);
}

#[test]
fn no_isolation_is_lost_without_iommu() {
    let mut facts = lab().facts();
    facts.iommu.active = Reading::Known(vec![]);
    assert!(plan_of(&direct(), &facts).changes.iter().all(|change| change.disrupts.is_empty()));
    facts.iommu.active = Reading::unknown("?");
    assert!(plan_of(&direct(), &facts).changes.iter().all(|change| change.disrupts.len() == 2));
}

#[test]
fn gpu_below_hidden_bridge_is_unknown() {
    let mut machine = lab();
    machine.tree.functions.remove(&at("0000:22:00.0"));
    let resolved = resolve_direct(&machine);
    assert_eq!(ports(&resolved), ["0000:80:00.0", "0000:82:00.0", "0000:82:01.0"]);
    assert_eq!(resolved.notes, []);
    assert_eq!(resolved.unknowns[0].subject.text, "GPU 0000:23:00.0");
    assert!(
        argument(&resolved).starts_with("pci=config_acs=xx000x0@0000:80:00.0;"),
        "the other has its own"
    );
}

#[test]
fn bits_persist_only_with_an_existing_argument() {
    let mut machine = lab();
    let told = argument(&resolve_direct(&machine)).to_owned();
    machine.get("0000:82:01.0").acs = Reading::unknown("no answer");
    let mut facts = machine.facts();
    let resolved = ResolvedAcs { arg: Reading::unknown("no answer"), ..resolve(&direct(), &facts) };
    let effects = |line: &str| {
        let section = plan_on(&resolved, &facts, &Files::new(&[("/proc/cmdline", line)]));
        section.changes.iter().map(|change| change.effect).collect::<Vec<_>>()
    };
    assert_eq!(effects("quiet"), [Effect::EveryBoot; 5]);
    assert_eq!(effects(&format!("quiet {told}")), [Effect::Now; 5]);

    facts.os.lockdown = Reading::Known("integrity".into());
    let section = plan_on(&resolved, &facts, &Files::default());
    assert_eq!((section.notes.len(), section.blockers.len()), (0, 5));
    assert!(section.blockers[0].fix.contains("fix what"), "{:?}", section.blockers);
    // An earlier run's argument stays; this kernel was booted with it, and another boot would not help.
    let section = plan_on(&resolved, &facts, &Files::new(&[("/proc/cmdline", &told)]));
    assert_eq!((section.pending.len(), section.blockers.len()), (0, 5));
    assert!(section.blockers[0].reason.contains("although"), "{:?}", section.blockers);
}

#[test]
fn wider_argument_stays_while_ports_are_unknown() {
    let whole = argument(&resolve(&direct(), &lab().facts())).to_owned();
    let mut machine = lab();
    machine.get("0000:22:01.0").acs = Reading::unknown("no answer");
    let stays = |machine: &Machine, owned: &str| {
        let profile = of_text("schema = 1\n[acs]\npolicy = \"direct-p2p\"");
        let mut desired = Desired::default();
        let mut ledger = Ledger::default();
        ledger.owned.insert(KindId::Cmdline, vec!["iommu=pt".into(), owned.into()]);
        (KIND.resolve)(&profile, &machine.facts(), &ledger, &mut desired);
        assert_eq!(desired.cmdline.set.is_empty(), desired.cmdline.keep == KEPT);
        desired.cmdline.set.is_empty()
    };
    assert!(stays(&machine, &whole));
    assert!(!stays(&machine, "pci=config_acs=xx000x0@0000:80:00.0"), "it covers less");
    assert!(!stays(&machine, "pci=realloc"));
    assert!(!stays(&lab(), &format!("{whole};xx000x0@0000:90:00.0")), "all is known");
    machine.get("0000:84:00.0").vfio = true;
    assert!(!stays(&machine, &whole), "it would open a port above a guest");
}

#[test]
fn ports_with_misplaced_acs_are_omitted() {
    let mut machine = lab();
    let port = machine.get("0000:20:01.0");
    port.vendor = PciId(0x8086);
    port.device = PciId(0xa110);
    port.acs = Reading::unknown("lays ACS out against the specification");
    let resolved = resolve(&profile(AcsPolicy::Clear, AcsPersist::Auto), &machine.facts());
    assert_eq!(resolved.unknowns, []);
    assert!(resolved.notes[0].text.contains("PCH"), "{:?}", resolved.notes);
    assert!(resolved.arg.known().is_some(), "the other ports have their argument");
}
