//! Topology classes: switches for VMs, Data Direct, upstream ports, disks, old NICs.

use super::*;
use bedplate_facts::pci::PortType;
use bedplate_facts::vpd::Vpd;

fn vpd(adapter: &str, board: &str) -> Reading<Vpd> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Reading::Known(Vpd { adapter: text(adapter), board: text(board), manages_switches: false })
}

/// One domain of a GB300 node: a DMA function and a GPU below one switch; its NIC is elsewhere.
fn gb300() -> Machine {
    let mut machine = Machine::default();
    machine.root_port("0008:00:00.0", 0);
    (machine.get("0008:00:00.0").vendor, machine.get("0008:00:00.0").device) =
        (PciId(0x10de), PciId(0x22b1));
    machine.port("0008:01:00.0", Some("0008:00:00.0"), PortType::Upstream);
    for port in ["0008:02:00.0", "0008:02:02.0", "0008:02:03.0"] {
        machine.port(port, Some("0008:01:00.0"), PortType::Downstream);
    }
    machine.add("0008:03:00.0", Some("0008:02:00.0"), 0x080100, (0x15b3, 0x2100)).vpd =
        vpd("aaaa", "B1");
    machine.add("0008:05:00.0", Some("0008:02:02.0"), 0x010802, (0x144d, 0xa80a));
    machine.gpu("0008:06:00.0", Some("0008:02:03.0"));
    machine.root_port("0000:00:00.0", 0);
    machine.nic("0000:03:00.0", Some("0000:00:00.0")).vpd = vpd("aaaa", "B1");
    machine
}

#[test]
fn data_direct_path_gets_published_bits() {
    let mut facts = gb300().facts();
    let resolved = resolve(&direct(), &facts);
    assert_eq!(
        argument(&resolved),
        "pci=config_acs=xx111x0@0008:00:00.0;xx110x1@0008:02:00.0;xx101x1@0008:02:03.0"
    );
    assert_eq!((&resolved.notes[..], &resolved.unknowns[..]), (&[][..], &[][..]));
    let why = &resolved.acs.ports[1].why[0].reason;
    assert!(why.contains("NIC 0000:03:00.0 by its Data Direct function 0008:03:00.0"), "{why}");
    let section = plan_of(&direct(), &facts);
    carry_out(&section, &mut facts);
    let control = |port: &str| {
        let tree = facts.pci.known().unwrap();
        tree.get(at(port)).unwrap().acs.known().unwrap().control.0
    };
    assert_eq!(["0008:00:00.0", "0008:02:00.0", "0008:02:03.0"].map(control), [0x1c, 0x19, 0x15]);
    assert_eq!(plan_of(&direct(), &facts).changes, []);

    // Bits that are off and required are set.
    let Reading::Known(tree) = &mut facts.pci else { panic!("no tree") };
    for port in tree.functions.values_mut() {
        port.acs = port.acs.clone().map(|acs| Acs { control: AcsBits(0), ..acs });
    }
    let section = plan_of(&direct(), &facts);
    let after: Vec<_> = section.changes.iter().map(|c| c.items[0].after.clone().unwrap()).collect();
    assert_eq!(after, ["RR CR UF (001c)", "SV CR UF (0019)", "SV RR UF (0015)"]);
}

#[test]
fn kernel_without_config_acs_gets_runtime_writes() {
    let mut facts = gb300().facts();
    kernel(&mut facts, "6.8.0-45-generic-64k");
    let resolved = resolve(&direct(), &facts);
    assert_eq!((resolved.acs.persistence, &resolved.arg), (AcsPersistence::Live, &Reading::Absent));
    assert_eq!(plan_of(&direct(), &facts).changes.len(), 3);
    assert!(resolved.notes[0].text.contains("together"), "{:?}", resolved.notes);
}

#[test]
fn kernel_that_refuses_pasids_gets_no_argument() {
    let mut facts = gb300().facts();
    kernel(&mut facts, "6.12.50");
    let resolved = resolve(&direct(), &facts);
    assert_eq!((resolved.acs.persistence, &resolved.arg), (AcsPersistence::Live, &Reading::Absent));
    assert_eq!(resolved.acs.ports.len(), 3);
    assert!(resolved.notes[0].text.contains("refuses PASIDs"), "{:?}", resolved.notes);

    let insists = profile(AcsPolicy::DirectP2p, AcsPersist::Cmdline);
    let resolved = resolve(&insists, &facts);
    assert_eq!((&resolved.acs.ports[..], &resolved.arg), (&[][..], &Reading::Absent));
    assert!(resolved.blockers[0].fix.starts_with("boot Linux 6.12.93, 6.15 or newer"));

    kernel(&mut facts, "6.12.93");
    assert_eq!(resolve(&insists, &facts).acs.persistence, AcsPersistence::ConfigAcs);
    // A vendor's kernel may have the fix.
    kernel(&mut facts, "6.14.0-1007-nvidia-64k");
    let signature = "Ubuntu 6.14.0-1007.7-nvidia-64k 6.14.6";
    facts.os.version_signature = Reading::Known(signature.into());
    let resolved = resolve(&insists, &facts);
    assert_eq!(resolved.acs.persistence, AcsPersistence::ConfigAcs);
    assert!(resolved.notes[0].text.contains("b3f6fcd8404f"), "{:?}", resolved.notes);
    let resolved = resolve(&direct(), &facts);
    assert_eq!((resolved.acs.persistence, &resolved.arg), (AcsPersistence::Live, &Reading::Absent));
    assert!(resolved.notes[0].text.contains("may refuse PASIDs"), "{:?}", resolved.notes);
    // Without Data Direct, no GPU depends on it.
    let mut facts = lab().facts();
    kernel(&mut facts, "6.12.50");
    assert_eq!(resolve(&direct(), &facts).acs.persistence, AcsPersistence::ConfigAcs);
}

#[test]
fn clear_gets_no_argument_if_kernel_refuses_pasids() {
    let clear = profile(AcsPolicy::Clear, AcsPersist::Auto);
    let persistence = |machine: &Machine, release: &str| {
        let mut facts = machine.facts();
        kernel(&mut facts, release);
        resolve(&clear, &facts).acs.persistence
    };
    let mut machine = lab();
    assert_eq!(persistence(&machine, "6.12.50"), AcsPersistence::ConfigAcs);
    // A GB200, whose group would have its root port.
    machine.get("0000:23:00.0").device = PciId(0x2941);
    assert_eq!(persistence(&machine, "6.12.50"), AcsPersistence::Live);
    assert_eq!(persistence(&machine, "6.12.93"), AcsPersistence::ConfigAcs);
}

#[test]
fn missing_vpd_leaves_only_the_pairing_unknown() {
    let mut machine = gb300();
    machine.get("0008:03:00.0").vpd = Reading::unknown("not recorded");
    let resolved = resolve_direct(&machine);
    assert_eq!((resolved.acs.ports.len(), resolved.unknowns.len()), (3, 0));
    assert_eq!(resolved.notes[0].subject, "0008:03:00.0");
    assert!(resolved.notes[0].text.contains("Vital Product Data"), "{:?}", resolved.notes);

    // The board number pairs them if the adapter has no number, but only on a board with one NIC.
    machine.get("0008:03:00.0").vpd = vpd("", "B1");
    machine.nic("0000:03:00.1", Some("0000:00:00.0")).vpd = vpd("aaaa", "B1");
    assert_eq!(resolve_direct(&machine).notes, []);
    machine.nic("0000:04:00.0", Some("0000:00:00.0")).vpd = vpd("bbbb", "B1");
    assert_eq!(resolve_direct(&machine).notes.len(), 1);
}

#[test]
fn unfamiliar_data_direct_path_is_unknown() {
    for (root, gpus, reason) in
        [((0x10de, 0x2f95), 1, "root port 10de:2f95"), ((0x10de, 0x22b1), 2, "2 GPUs")]
    {
        let mut machine = gb300();
        machine.get("0008:00:00.0").device = PciId(root.1);
        if gpus == 2 {
            machine.gpu("0008:07:00.0", Some("0008:02:02.0"));
        }
        let resolved = resolve_direct(&machine);
        assert_eq!(resolved.acs.ports, [], "{reason}");
        assert!(resolved.unknowns[0].reason.contains(reason), "{:?}", resolved.unknowns);
        assert!(matches!(resolved.arg, Reading::Unknown(_)));
    }
    let mut hidden = gb300();
    hidden.tree.functions.remove(&at("0008:00:00.0"));
    assert_eq!(resolve(&direct(), &hidden.facts()).acs.ports, []);
    let guests = section::Acs { guests: Guests::Yes, ..direct() };
    assert_eq!(resolve(&guests, &gb300().facts()).acs.ports, []);
}

#[test]
fn data_direct_pair_in_two_groups_is_noted() {
    let mut machine = gb300();
    machine.set_acs("0008:00:00.0", 0x1c);
    machine.set_acs("0008:02:00.0", 0x19);
    machine.set_acs("0008:02:03.0", 0x15);
    machine.get("0008:03:00.0").iommu_group = Reading::Known(4);
    machine.get("0008:06:00.0").iommu_group = Reading::Known(7);
    let notes = resolve_direct(&machine).notes;
    assert!(notes.iter().any(|note| note.text.contains("refuses DMA-BUF")), "{notes:?}");
    machine.get("0008:06:00.0").iommu_group = Reading::Known(4);
    assert_eq!(resolve_direct(&machine).notes, []);
}

fn with_ats(mut machine: Machine) -> Machine {
    for nic in ["0000:24:00.0", "0000:84:00.0"] {
        machine.get(nic).ats = Reading::Known(true);
    }
    machine
}

/// Adds ATS to each NIC, and one VF per NIC that is assigned to a VM.
fn with_guests(machine: Machine) -> Machine {
    let mut machine = with_ats(machine);
    for (vf, pf) in [("0000:24:00.2", "0000:24:00.0"), ("0000:84:00.2", "0000:84:00.0")] {
        machine.vf(vf, pf).vfio = true;
    }
    machine
}

#[test]
fn ats_without_a_guest_changes_nothing() {
    let bare = resolve(&direct(), &lab().facts());
    let resolved = resolve(&direct(), &with_ats(lab()).facts());
    assert_eq!(argument(&resolved), argument(&bare));
    assert_eq!(resolved.ats.needless.len(), 2);
    assert!(resolved.notes[0].text.contains("ATS_ENABLED=0"), "{:?}", resolved.notes);
}

#[test]
fn nics_with_ats_next_to_vms_get_bits_for_vms() {
    let mut facts = with_guests(lab()).facts();
    let resolved = resolve(&direct(), &facts);
    assert_eq!(
        argument(&resolved),
        "pci=config_acs=xx111x1@0000:20:00.0;xx111x1@0000:22:00.0;1x111x1@0000:22:01.0;\
         xx111x1@0000:80:00.0;xx111x1@0000:82:00.0;1x111x1@0000:82:01.0"
    );
    assert!(resolved.notes[0].text.contains("acs.guests = false"), "{:?}", resolved.notes);
    let section = plan_of(&direct(), &facts);
    let after: Vec<_> = section.changes.iter().map(|c| c.items[0].after.clone().unwrap()).collect();
    assert_eq!(after, ["SV RR CR UF DT (005d)", "SV RR CR UF DT (005d)"]);
    assert!(section.changes.iter().all(|change| change.disrupts.is_empty()), "nothing is opened");
    carry_out(&section, &mut facts);
    assert_eq!(plan_of(&direct(), &facts).changes, []);

    // A VM that already runs is not affected.
    let mut guests = with_ats(lab());
    guests.get("0000:24:00.0").vfio = true;
    assert_eq!(plan_of(&direct(), &guests.facts()).blockers, []);
    // Without an active IOMMU, ATS has no effect.
    let mut off = with_guests(lab()).facts();
    off.iommu.active = Reading::Known(vec![]);
    let ports = resolve(&direct(), &off).acs.ports;
    assert!(ports.iter().all(|wanted| wanted.bits.on().is_empty()), "{ports:?}");
}

#[test]
fn profile_setting_overrides_guest_detection() {
    let told = |guests| section::Acs { guests, ..direct() };
    let bare = resolve(&told(Guests::No), &with_ats(lab()).facts());
    assert!(argument(&bare).contains("xx000x0@0000:22:01.0"));
    assert!(bare.notes[0].text.contains("ATS_ENABLED=0"), "{:?}", bare.notes);

    let guests = resolve(&told(Guests::Yes), &lab().facts());
    assert!(argument(&guests).contains("1x111x1@0000:22:01.0"));
    assert_eq!(guests.blockers.len(), 1);
    assert_eq!(guests.blockers[0].subject.text, "NIC 0000:24:00.0, 0000:84:00.0");
    assert!(guests.blockers[0].fix.contains("ATS_ENABLED=1"), "{:?}", guests.blockers);

    let mut machine = with_ats(lab());
    let no_dt = Acs { capable: AcsBits(0x1d), ..ACS };
    machine.get("0000:22:01.0").acs = Reading::Known(no_dt);
    let guests = resolve(&told(Guests::Yes), &machine.facts());
    assert_eq!(guests.blockers[0].subject.text, "port 0000:22:01.0");
    // Without a setting in the profile, the switch is not for VMs.
    assert!(argument(&resolve_direct(&machine)).contains("xx000x0@0000:22:01.0"));
}

#[test]
fn unreadable_ats_leaves_topology_class_unknown() {
    let mut machine = lab();
    machine.get("0000:24:00.0").ats = Reading::unknown("no answer");
    assert_eq!(resolve_direct(&machine).unknowns, [], "nobody asks without a guest");
    machine.vf("0000:24:00.2", "0000:24:00.0").vfio = true;
    let resolved = resolve_direct(&machine);
    assert_eq!(ports(&resolved), ["0000:80:00.0", "0000:82:00.0", "0000:82:01.0"]);
    assert_eq!(resolved.unknowns[0].subject.text, "ATS of NIC 0000:24:00.0");
    assert!(argument(&resolved).contains("0000:82:01.0"), "the other switch has its argument");
    // Another NIC of the switch has no ATS, which decides.
    machine.nic("0000:25:00.0", Some("0000:22:02.0"));
    machine.get("0000:25:00.0").ats = Reading::Absent;
    let decided = resolve_direct(&machine);
    assert_eq!(decided.unknowns, []);
    assert!(decided.acs.ports.iter().all(|wanted| wanted.bits.on().is_empty()), "{decided:?}");
    machine.tree.functions.remove(&at("0000:25:00.0"));
    let told = section::Acs { guests: Guests::No, ..direct() };
    assert_eq!(resolve(&told, &machine.facts()).acs.ports.len(), 6);
}

#[test]
fn upstream_port_redirect_is_cleared() {
    let mut machine = lab();
    let upstream = Acs { capable: AcsBits(0x2c), control: AcsBits(0x0c), ..ACS };
    machine.get("0000:21:00.0").acs = Reading::Known(upstream);
    let mut facts = machine.facts();
    let resolved = resolve(&direct(), &facts);
    assert!(argument(&resolved).contains(";xxx00xx@0000:21:00.0;"), "{}", argument(&resolved));
    let why = &resolved.acs.ports[1].why[0].reason;
    assert!(why.starts_with("upstream port of the switch between GPU"), "{why}");
    carry_out(&plan_of(&direct(), &facts), &mut facts);
    assert_eq!(plan_of(&direct(), &facts).changes, []);
    assert_eq!(argument(&resolve(&direct(), &facts)), argument(&resolved), "it does not flip");
    // Isolation does not depend on an upstream port, so VMs do not restrict it; Linux checks its redirect bits.
    kernel(&mut facts, "6.1.0-56-amd64");
    assert!(argument(&resolve(&direct(), &facts)).contains(";0000:21:00.0;"));
}

#[test]
fn disks_are_peers_only_if_the_profile_lists_them() {
    let mut machine = lab();
    machine.add("0000:25:00.0", Some("0000:22:02.0"), 0x010802, (0x144d, 0xa80a));
    machine.get("0000:22:02.0").acs = Reading::Known(ACS);
    assert!(!ports(&resolve_direct(&machine)).contains(&"0000:22:02.0".to_owned()));
    let peers = vec![PeerKind::Nic, PeerKind::Nvme];
    let storage = section::Acs { peers, ..direct() };
    let resolved = resolve(&storage, &machine.facts());
    assert!(argument(&resolved).contains("xx000x0@0000:22:02.0"));
    let why = &resolved.acs.ports[3].why[0].reason;
    assert!(why.contains("GPU 0000:23:00.0 and NVMe 0000:25:00.0"), "{why}");
    let nothing = section::Acs { peers: vec![], ..direct() };
    assert_eq!(resolve(&nothing, &machine.facts()).acs.ports, []);
}

#[test]
fn nics_with_old_class_codes_are_recognized() {
    for (class, id) in [(0x0c0600, (0x15b3, 0x6732)), (0x00ff00, (0x1af4, 0x1000))] {
        let mut machine = lab();
        machine.tree.functions.remove(&at("0000:24:00.0"));
        machine.add("0000:24:00.0", Some("0000:22:01.0"), class, id);
        machine.add("0000:24:00.1", Some("0000:22:01.0"), class, id);
        let resolved = resolve_direct(&machine);
        assert_eq!(resolved.acs.ports.len(), 6, "{class:#x}");
        let why = &resolved.acs.ports[1].why[0].reason;
        assert!(why.contains("NIC 0000:24:00.0") && why.contains("NIC 0000:24:00.1"), "{why}");
    }
}

#[test]
fn policy_keep_reports_lost_isolation() {
    let mut machine = lab();
    for (number, function) in machine.tree.functions.values_mut().enumerate() {
        function.iommu_group = Reading::Known(number as u32);
    }
    let keep = profile(AcsPolicy::Keep, AcsPersist::Auto);
    let off = Acs { control: AcsBits(0x01), ..ACS };
    machine.get("0000:22:01.0").acs = Reading::Known(off);
    let resolved = resolve(&keep, &machine.facts());
    let note = resolved.notes.iter().find(|note| note.subject == "port 0000:22:01.0").unwrap();
    assert!(note.text.starts_with("RR CR UF off, while 0000:24:00.0"), "{}", note.text);
    assert_eq!(resolved.blockers, []);

    machine.get("0000:24:00.0").vfio = true;
    let resolved = resolve(&keep, &machine.facts());
    assert_eq!(resolved.blockers[0].subject.text, "port 0000:22:01.0");

    // Groups built with redirect disabled on the port show that themselves.
    let group = machine.get("0000:22:01.0").iommu_group.clone();
    machine.get("0000:24:00.0").iommu_group = group;
    let resolved = resolve(&keep, &machine.facts());
    assert_eq!(resolved.blockers, []);
    assert!(resolved.notes.iter().all(|note| note.subject != "port 0000:22:01.0"));
}

#[test]
fn stale_groups_of_cleared_ports_are_noted() {
    let mut machine = lab();
    for (number, function) in machine.tree.functions.values_mut().enumerate() {
        function.iommu_group = Reading::Known(number as u32);
    }
    let mut facts = machine.facts();
    assert_eq!(resolve(&direct(), &facts).notes, [], "the ports are still to be opened");
    carry_out(&plan_of(&direct(), &facts), &mut facts);
    let notes = resolve(&direct(), &facts).notes;
    assert_eq!(notes.len(), 2);
    assert!(notes[0].text.contains("overstate isolation"), "{notes:?}");
    // Below isolating root ports, no boot merges the groups.
    let isolated = section::Acs { root_port: false, ..direct() };
    let notes = resolve(&isolated, &facts).notes;
    assert!(notes.iter().all(|note| !note.text.contains("overstate isolation")), "{notes:?}");
}

#[test]
fn mlxconfig_is_suggested_only_for_nvidia_nics() {
    let told = |guests| section::Acs { guests, ..direct() };
    let mut machine = lab();
    for nic in ["0000:24:00.0", "0000:84:00.0"] {
        machine.get(nic).vendor = PciId(0x8086);
    }
    let lacking = resolve(&told(Guests::Yes), &machine.facts());
    assert!(lacking.blockers[0].fix.starts_with("enable ATS in the NIC's firmware"));
    let needless = resolve(&told(Guests::No), &with_ats(machine).facts());
    assert!(needless.notes[0].text.contains("disable ATS in the NIC's firmware"));
}
