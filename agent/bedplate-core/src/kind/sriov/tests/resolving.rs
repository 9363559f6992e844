use super::super::resolve::ResolvedSriov;
use super::*;
use bedplate_base::value::PciId;
use bedplate_testhosts::fixture::hgx;

fn cx7() -> FunctionSelector {
    FunctionSelector {
        vendor: Some(PciId(0x15b3)),
        device: Some(PciId(0x1021)),
        ..FunctionSelector::default()
    }
}

#[test]
fn selectors_match_only_pfs_and_first_rule_wins() {
    let mut machine = lab();
    machine.vf("0000:24:10.0", PF).sriov = Reading::Absent;
    machine.get("0000:22:00.0").vendor = PciId(0x15b3);
    let vendor = FunctionSelector { vendor: Some(PciId(0x15b3)), ..FunctionSelector::default() };
    let table: [(&str, FunctionSelector); 6] = [
        (
            "interface",
            FunctionSelector { interface: Some("net*24*".into()), ..FunctionSelector::default() },
        ),
        ("node", FunctionSelector { numa_node: Some(1), ..vendor.clone() }),
        ("driver", FunctionSelector { driver: Some("ice".into()), ..FunctionSelector::default() }),
        ("vendor", vendor.clone()),
        ("late", FunctionSelector { address: Some(at(PF)), ..vendor.clone() }),
        ("broken", FunctionSelector { interface: Some("[".into()), ..FunctionSelector::default() }),
    ];
    let rules = table.map(|(name, select)| rule(name, select, SriovCount::Number(2))).to_vec();
    let resolved = resolve(&profile(rules.clone()), &machine.facts());
    let found: Vec<_> =
        resolved.vfs.iter().map(|w| (w.pf.to_string(), w.rule.name.as_str())).collect();
    let expected = [(PF, "interface"), ("0000:84:00.0", "node"), ("0000:86:00.0", "node")];
    assert_eq!(found, expected.map(|(pf, rule)| (pf.to_owned(), rule)));
    let notes: Vec<_> =
        resolved.notes.iter().map(|note| (note.subject.as_str(), note.text.as_str())).collect();
    assert_eq!(
        notes.iter().map(|n| n.0).collect::<Vec<_>>(),
        ["rule driver", "rule vendor", "rule late", "rule broken"]
    );
    assert!(notes[0].1.contains("selects no PF") && notes[1].1.contains("earlier rule"));

    machine.get(PF).numa_node = Reading::unknown("EIO");
    let node = profile(vec![rules[1].clone(), rules[3].clone()]);
    let resolved = resolve(&node, &machine.facts());
    assert_eq!(resolved.unknowns[0].subject.text, "PF 0000:24:00.0");
    assert!(
        resolved.vfs.iter().all(|wanted| wanted.pf != at(PF)),
        "a later rule must not take what the first may have"
    );
}

#[test]
fn vfs_per_gpu_follow_the_switches() {
    let mut machine = hgx();
    let per_gpu = |select| profile(vec![rule("fabric", select, SriovCount::PerGpu)]);
    let counts = |machine: &Machine, profile: &Sriov| -> Vec<u16> {
        resolve(profile, &machine.facts()).vfs.iter().map(|wanted| wanted.count).collect()
    };
    assert_eq!(counts(&machine, &per_gpu(cx7())), [1; 8]);
    // A storage NIC behind the other CPU is nearest to no GPU, and still gets one VF.
    machine.root_port("0000:e0:01.0", 0);
    machine.nic("0000:e1:00.0", Some("0000:e0:01.0"));
    assert_eq!(counts(&machine, &per_gpu(cx7())), [1; 9]);
    // One NIC per switch.
    for nic in ["0000:1c:00.0", "0000:3c:00.0", "0000:9c:00.0", "0000:bc:00.0", "0000:e1:00.0"] {
        machine.tree.functions.remove(&at(nic));
    }
    assert_eq!(counts(&machine, &per_gpu(cx7())), [2; 4]);
    machine.tree.functions.retain(|_, function| !function.is_gpu());
    let resolved = resolve(&per_gpu(cx7()), &machine.facts());
    assert_eq!((resolved.vfs.len(), resolved.notes.len()), (0, 1));
}

#[test]
fn max_is_what_the_firmware_allows() {
    let resolved = resolve(&profile(vec![rule("all", cx7(), SriovCount::Max)]), &hgx().facts());
    assert!(resolved.vfs.iter().all(|wanted| wanted.count == 8) && resolved.vfs.len() == 8);
}

#[test]
fn firmware_limit_blocker_names_the_command() {
    let mut machine = lab();
    let blocker = |machine: &Machine, vfs| {
        let select = FunctionSelector { address: Some(at(PF)), ..FunctionSelector::default() };
        let resolved = resolve(&profile(vec![rule("fabric", select, vfs)]), &machine.facts());
        assert_eq!((resolved.vfs.len(), resolved.blockers.len()), (0, 1), "{resolved:?}");
        resolved.blockers[0].clone()
    };
    let text = blocker(&machine, SriovCount::Number(16));
    assert_eq!(text.reason, "at most 8 VFs available, 16 requested");
    assert!(
        text.fix.contains("`mlxconfig -d 0000:24:00.0 set SRIOV_EN=1 NUM_OF_VFS=16`"),
        "{}",
        text.fix
    );
    // Firmware with SRIOV_EN=0 hides the SR-IOV capability.
    machine.get(PF).sriov = Reading::Absent;
    assert!(blocker(&machine, SriovCount::PerGpu).fix.contains("NUM_OF_VFS=2`"));
    assert!(blocker(&machine, SriovCount::Max).fix.contains("NUM_OF_VFS=COUNT`"));
    machine.get(PF).vendor = PciId(0x8086);
    assert!(blocker(&machine, SriovCount::Max).fix.contains("BIOS"));
    assert_eq!(resolve(&auto(0), &machine.facts()), ResolvedSriov::default());
}

#[test]
fn nics_without_sriov_are_skipped_if_others_have_it() {
    let mut machine = lab();
    let plain = machine.nic("0000:00:1f.6", None);
    (plain.vendor, plain.sriov) = (PciId(0x8086), Reading::Absent);
    let every = profile(vec![rule("every", FunctionSelector::default(), SriovCount::Number(2))]);
    let resolved = resolve(&every, &machine.facts());
    assert_eq!((resolved.vfs.len(), resolved.blockers.len(), resolved.notes.len()), (3, 0, 1));
    assert_eq!(resolved.notes[0].subject, "PF 0000:00:1f.6");
}
