mod any_tree;
mod late_acs;
mod limits;
mod published;
mod shapes;

use super::section::{AcsPersist, Guests, PeerKind};
use super::*;
use crate::desired::Desired;
use crate::kind::plan_alone;
use crate::ledger::Ledger;
use crate::plan::Rationale;
use crate::profile::of_text;
use crate::setting::SetConfigBits;
use bedplate_base::value::{PciId, RegisterBits};
use bedplate_facts::Facts;
use bedplate_facts::pci::PciTree;
use bedplate_testhosts::fixture::{ACS, Files, Machine, at, facts, hgx, lab};

fn profile(policy: AcsPolicy, persistence: AcsPersist) -> section::Acs {
    section::Acs {
        policy,
        peers: vec![PeerKind::Nic, PeerKind::Gpu],
        guests: Guests::Auto,
        persistence,
        root_port: true,
        why: vec![Rationale::new("asked for", "site.toml:3")],
    }
}

fn direct() -> section::Acs {
    profile(AcsPolicy::DirectP2p, AcsPersist::Auto)
}

fn kernel(facts: &mut Facts, release: &str) {
    facts.os.kernel = Reading::Known(release.into());
    facts.os.next_kernel = Reading::Known(release.into());
}

fn plan_on(resolved: &ResolvedAcs, facts: &Facts, reader: &Files) -> KindPlan {
    let mut desired = Desired { acs: resolved.acs.clone(), ..Desired::default() };
    desired.cmdline.set.extend(resolved.arg.known().cloned());
    if let Reading::Unknown(_) = resolved.arg {
        desired.cmdline.keep.extend(KEPT.map(str::to_owned));
    }
    let profile = of_text("schema = 1");
    plan_alone(&KIND, (&profile, &desired), facts, reader, &Ledger::default())
}

fn plan_of(profile: &section::Acs, facts: &Facts) -> KindPlan {
    plan_on(&resolve(profile, facts), facts, &Files::default())
}

/// Resolves direct traffic between GPUs and NICs on a machine.
fn resolve_direct(machine: &Machine) -> ResolvedAcs {
    resolve(&direct(), &machine.facts())
}

/// Returns the change of a port of domain 0.
fn change_of<'a>(section: &'a KindPlan, port: &str) -> &'a Change {
    section.changes.iter().find(|change| change.id == format!("acs/0000:{port}")).unwrap()
}

fn ports(resolved: &ResolvedAcs) -> Vec<String> {
    resolved.acs.ports.iter().map(|wanted| wanted.port.to_string()).collect()
}

fn argument(resolved: &ResolvedAcs) -> &str {
    resolved.arg.known().expect("an argument").token.as_str()
}

/// Executes the plan's actions on the facts, as on hardware where every capable bit is writable.
fn carry_out(section: &KindPlan, facts: &mut Facts) {
    let Reading::Known(tree) = &mut facts.pci else { panic!("no tree") };
    for action in section.changes.iter().flat_map(|change| &change.actions) {
        let Action::SetConfigBits(SetConfigBits { address, offset, bits, before, .. }) = action
        else {
            panic!("only registers are written: {action:?}")
        };
        let Reading::Known(acs) = &mut tree.functions.get_mut(address).unwrap().acs else {
            panic!("no ACS")
        };
        assert_eq!((*offset, *before), (acs.offset + 6, acs.control.0));
        assert_eq!(bits.mask & !acs.capable.0, 0, "only bits the port has");
        acs.control = AcsBits(bits.applied_to(acs.control.0));
    }
}

#[test]
fn emulated_node_gets_the_tested_argument() {
    let mut facts = lab().facts();
    let resolved = resolve(&direct(), &facts);
    assert_eq!(
        argument(&resolved),
        "pci=config_acs=xx000x0@0000:20:00.0;xx000x0@0000:22:00.0;xx000x0@0000:22:01.0;\
         xx000x0@0000:80:00.0;xx000x0@0000:82:00.0;xx000x0@0000:82:01.0"
    );
    assert_eq!(resolved.acs.persistence, AcsPersistence::ConfigAcs);
    assert_eq!((resolved.blockers.len(), resolved.unknowns.len(), resolved.notes.len()), (0, 0, 0));

    let section = plan_on(&resolved, &facts, &Files::default());
    assert_eq!(section.changes.len(), 6);
    let change = change_of(&section, "22:00.0");
    assert_eq!(change.effect, Effect::Now);
    assert_eq!(change.items[0].before.as_deref(), Some("SV RR CR UF (001d)"));
    assert_eq!(change.items[0].after.as_deref(), Some("none (0000)"));
    assert!(change.items[0].why.iter().any(|why| why.source.as_deref() == Some("site.toml:3")));
    assert_eq!(
        change.actions,
        [Action::SetConfigBits(SetConfigBits {
            address: at("0000:22:00.0"),
            offset: 0x14e,
            bits: RegisterBits { mask: 0x1d, value: 0 },
            before: 0x1d,
            register: "ACS control".into()
        })]
    );
    assert!(change.disrupts[0].contains("0000:23:00.0 below this port can reach 0000:24:00.0"));

    carry_out(&section, &mut facts);
    let again = resolve(&direct(), &facts);
    assert_eq!(again, resolved, "what is wanted does not depend on what is there");
    let section = plan_on(&again, &facts, &Files::default());
    assert_eq!((section.changes.len(), section.unchanged.len(), section.blockers.len()), (0, 6, 0));
}

#[test]
fn eight_gpu_machine_keeps_acs_on_other_ports() {
    let mut facts = hgx().facts();
    let resolved = resolve(&direct(), &facts);
    assert_eq!(
        resolved.acs.ports.len(),
        4 * 5,
        "four legs and a root port a switch, not the empty ports"
    );
    assert!(!ports(&resolved).contains(&"0000:18:04.0".to_owned()));
    let before = facts.pci.known().unwrap().clone();
    let section = plan_of(&direct(), &facts);
    carry_out(&section, &mut facts);
    let touched = |tree: &PciTree| -> Vec<_> {
        let differs = |f: &&bedplate_facts::pci::Function| tree.get(f.address) != Some(f);
        before.functions.values().filter(differs).map(|f| f.address).collect()
    };
    let planned: Vec<_> = resolved.acs.ports.iter().map(|wanted| wanted.port).collect();
    assert_eq!(touched(facts.pci.known().unwrap()), planned);

    let without = resolve(&section::Acs { root_port: false, ..direct() }, &facts);
    assert_eq!(without.acs.ports.len(), 4 * 4);
    assert!(without.acs.ports.iter().all(|wanted| !wanted.port.to_string().ends_with("6:01.0")));
}

#[test]
fn stacked_switches_are_cleared_on_both_levels() {
    let mut machine = Machine::default();
    machine.root_port("0000:10:00.0", 0);
    let upper = machine.switch("0000:10:00.0", "0000:11:00.0", 2);
    let left = machine.switch(&upper[0], "0000:20:00.0", 1);
    let right = machine.switch(&upper[1], "0000:30:00.0", 2);
    machine.gpu("0000:22:00.0", Some(&left[0]));
    machine.nic("0000:32:00.0", Some(&right[0]));
    let expected = ["0000:10:00.0", "0000:12:00.0", "0000:12:01.0", "0000:21:00.0", "0000:31:00.0"];
    assert_eq!(ports(&resolve_direct(&machine)), expected);
}

#[test]
fn gpus_sharing_a_switch_without_nic_are_cleared() {
    let mut machine = Machine::default();
    machine.root_port("0000:10:00.0", 0);
    let down = machine.switch("0000:10:00.0", "0000:11:00.0", 3);
    machine.gpu("0000:13:00.0", Some(&down[0]));
    machine.gpu("0000:14:00.0", Some(&down[2]));
    machine.root_port("0000:20:00.0", 0);
    machine.nic("0000:21:00.0", Some("0000:20:00.0"));
    let resolved = resolve_direct(&machine);
    assert_eq!(ports(&resolved), ["0000:10:00.0", "0000:12:00.0", "0000:12:02.0"]);
    let why = &resolved.acs.ports[1].why[0].reason;
    assert!(why.contains("GPU 0000:13:00.0 and GPU 0000:14:00.0"), "{why}");
    assert!(
        resolved.notes.iter().any(|note| note.text.contains("root complex")),
        "{:?}",
        resolved.notes
    );
}

#[test]
fn no_common_switch_is_noted_without_changes() {
    let mut machine = Machine::default();
    machine.root_port("0000:10:00.0", 0);
    machine.root_port("0000:20:00.0", 1);
    let down = machine.switch("0000:20:00.0", "0000:21:00.0", 1);
    machine.gpu("0000:11:00.0", Some("0000:10:00.0"));
    machine.nic("0000:23:00.0", Some(&down[0]));
    let facts = machine.facts();
    let resolved = resolve(&profile(AcsPolicy::DirectP2p, AcsPersist::Cmdline), &facts);
    assert_eq!((&resolved.acs.ports[..], &resolved.arg), (&[][..], &Reading::Absent));
    assert_eq!(resolved.notes.len(), 1);
    assert_eq!(resolved.notes[0].subject, "GPU 0000:11:00.0");
    assert_eq!(plan_of(&direct(), &facts), KindPlan::default());

    machine.tree.functions.remove(&at("0000:11:00.0"));
    assert_eq!(
        resolve_direct(&machine).notes,
        [],
        "that there is no GPU is the whole plan's to say"
    );
}

#[test]
fn unimplemented_bits_and_ports_without_acs_are_skipped() {
    let mut machine = hgx();
    machine.get("0000:18:00.0").acs = Reading::Absent;
    let odd = Acs { capable: AcsBits(0x05), ..ACS };
    machine.get("0000:18:01.0").acs = Reading::Known(Acs { control: AcsBits(0x05), ..odd });
    let idle = Acs { capable: AcsBits::DT, control: AcsBits::DT, ..ACS };
    machine.get("0000:18:02.0").acs = Reading::Known(idle);
    let mut facts = machine.facts();
    let resolved = resolve(&direct(), &facts);
    assert_eq!(resolved.acs.ports.len(), 18);
    assert!(
        argument(&resolved).contains(";xx000x0@0000:18:01.0;xx000x0@0000:18:03.0;"),
        "flags read alike"
    );
    let [note] = &resolved.notes[..] else { panic!("{:?}", resolved.notes) };
    assert_eq!(note.subject, "port 0000:18:00.0");
    assert!(note.text.starts_with("no ACS"), "{}", note.text);
    let section = plan_of(&direct(), &facts);
    carry_out(&section, &mut facts);
    assert!(plan_of(&direct(), &facts).changes.is_empty());
}

#[test]
fn hard_wired_zero_bit_needs_no_change() {
    let mut machine = lab();
    let wired = Acs { control: AcsBits(0x15), ..ACS };
    machine.get("0000:22:00.0").acs = Reading::Known(wired);
    machine.set_acs("0000:22:01.0", 0x42);
    let section = plan_of(&direct(), &machine.facts());
    let change = change_of(&section, "22:00.0");
    assert_eq!(change.items[0].after.as_deref(), Some("none (0000)"));
    // DT and TB stay unchanged, and redirect nothing (handbook §12.40).
    assert!(
        section
            .unchanged
            .iter()
            .any(|s| s.subject == "port 0000:22:01.0" && s.state == "TB DT (0042)")
    );
}

#[test]
fn egress_control_is_unchanged() {
    let mut machine = lab();
    let with_ec =
        |control| Reading::Known(Acs { capable: AcsBits(0x7f), control: AcsBits(control), ..ACS });
    machine.get("0000:22:00.0").acs = with_ec(0x21);
    machine.get("0000:22:01.0").acs = with_ec(0x00);
    let mut facts = machine.facts();
    let resolved = resolve(&direct(), &facts);
    assert!(argument(&resolved).contains("xx000x0@0000:22:00.0;xx000x0@0000:22:01.0"));
    let section = plan_of(&direct(), &facts);
    let change = change_of(&section, "22:00.0");
    assert_eq!(change.items[0].before.as_deref(), Some("SV EC (0021)"));
    assert_eq!(change.items[0].after.as_deref(), Some("EC (0020)"));
    carry_out(&section, &mut facts);
    assert_eq!(
        argument(&resolve(&direct(), &facts)),
        argument(&resolved),
        "the argument does not flip"
    );
}

#[test]
fn persistence_depends_on_next_kernel() {
    let mut facts = lab().facts();
    kernel(&mut facts, "6.1.0-56-amd64");
    let old = resolve(&direct(), &facts);
    assert_eq!(old.acs.persistence, AcsPersistence::DisableAcsRedir);
    assert!(argument(&old).starts_with("pci=disable_acs_redir=0000:20:00.0;0000:22:00.0;"));
    // The kernel sets SV and UF again at boot; requesting them clear would never converge.
    assert!(old.acs.ports.iter().all(|wanted| wanted.bits.mask == AcsBits::REDIRECT.0));
    let section = plan_of(&direct(), &facts);
    assert_eq!(section.changes[0].items[0].after.as_deref(), Some("SV UF (0011)"));
    assert_eq!(section.changes[0].effect, Effect::Now);

    for release in ["6.12.0-55.el10", "4.18.0-553.el8_10.x86_64", "strange"] {
        kernel(&mut facts, release);
        let live = resolve(&direct(), &facts);
        assert_eq!(live.acs.persistence, AcsPersistence::Live, "{release}");
        assert_eq!(live.arg, Reading::Absent);
        assert!(live.notes.iter().any(|note| note.text.contains(release)), "{:?}", live.notes);
        assert!(
            plan_of(&direct(), &facts)
                .changes
                .iter()
                .all(|change| change.effect == Effect::EveryBoot)
        );
        let insisting = resolve(&profile(AcsPolicy::DirectP2p, AcsPersist::Cmdline), &facts);
        assert_eq!((insisting.acs.ports.len(), insisting.blockers.len()), (0, 1), "{release}");
    }
    // The kernel of the default boot entry decides: neither the running one nor the newest directory.
    facts.os.next_kernel = Reading::Known("6.18.1".into());
    assert_eq!(resolve(&direct(), &facts).acs.persistence, AcsPersistence::ConfigAcs);
    facts.os.installed_kernels = vec!["6.18.1".into()];
    for next in [Reading::Absent, Reading::unknown("no")] {
        facts.os.next_kernel = next;
        assert_eq!(resolve(&direct(), &facts).acs.persistence, AcsPersistence::Live);
    }
}

#[test]
fn runtime_persistence_ignores_kernel_support() {
    let facts = lab().facts();
    let resolved = resolve(&profile(AcsPolicy::DirectP2p, AcsPersist::Live), &facts);
    assert_eq!((resolved.acs.persistence, &resolved.arg), (AcsPersistence::Live, &Reading::Absent));
    assert_eq!(resolved.notes, []);
    assert_eq!(plan_on(&resolved, &facts, &Files::default()).changes[0].effect, Effect::EveryBoot);
}

#[test]
fn too_many_ports_for_command_line_use_runtime_writes() {
    let mut machine = Machine::default();
    for bus in 0..20u8 {
        let root = format!("0000:{:02x}:00.0", bus * 8);
        machine.root_port(&root, 0);
        let down = machine.switch(&root, &format!("0000:{:02x}:00.0", bus * 8 + 1), 3);
        machine.gpu(&format!("0000:{:02x}:00.0", bus * 8 + 3), Some(&down[0]));
        machine.nic(&format!("0000:{:02x}:00.0", bus * 8 + 4), Some(&down[1]));
        machine.nic(&format!("0000:{:02x}:00.0", bus * 8 + 5), Some(&down[2]));
    }
    let resolved = resolve_direct(&machine);
    assert_eq!((resolved.acs.ports.len(), resolved.acs.persistence), (80, AcsPersistence::Live));
    assert!(resolved.notes.iter().any(|note| note.text.contains("80 ports")));
    assert!(matches!(resolved.arg, Reading::Absent));
}

#[test]
fn policy_clear_covers_every_port_and_bit() {
    let mut machine = lab();
    machine.get("0000:20:01.0").vendor = PciId(0x8086);
    machine.get("0000:20:01.0").device = PciId(0xa110);
    let mut facts = machine.facts();
    let clear = profile(AcsPolicy::Clear, AcsPersist::Auto);
    let resolved = resolve(&clear, &facts);
    let expected = ["20:00.0", "22:00.0", "22:01.0", "80:00.0", "80:01.0", "82:00.0", "82:01.0"];
    assert_eq!(ports(&resolved), expected.map(|port| format!("0000:{port}")));
    assert!(resolved.acs.ports.iter().all(|wanted| wanted.bits.mask == AcsBits::ALL.0));
    assert!(resolved.notes[0].text.contains("PCH"), "{:?}", resolved.notes);
    // Ports that could have ACS and lack it are noted; upstream ports, which do not need it, are not.
    assert_eq!(resolved.notes[1].subject, "port 0000:22:02.0, 0000:82:02.0");
    assert!(argument(&resolved).starts_with("pci=config_acs=0000000@0000:20:00.0;"));
    let section = plan_of(&clear, &facts);
    let disrupts = |port: &str| &change_of(&section, port).disrupts;
    assert!(
        disrupts("80:01.0")[0].starts_with("0000:86:00.0 below this root port"),
        "{:?}",
        disrupts("80:01.0")
    );
    carry_out(&section, &mut facts);
    assert_eq!(plan_of(&clear, &facts).changes, []);
    kernel(&mut facts, "6.1.0-56-amd64");
    let old = resolve(&clear, &facts);
    assert_eq!(old.acs.persistence, AcsPersistence::Live);
    assert!(old.notes.iter().any(|note| note.text.contains("disable_acs_redir")));
}

#[test]
fn policy_keep_only_reports() {
    let facts = lab().facts();
    let resolved = resolve(&profile(AcsPolicy::Keep, AcsPersist::Cmdline), &facts);
    assert_eq!((resolved.acs.ports.len(), &resolved.arg), (0, &Reading::Absent));
    // One note covers all four ports.
    assert_eq!(resolved.notes.len(), 1);
    assert_eq!(
        resolved.notes[0].subject.matches("0000:").count(),
        4,
        "{}",
        resolved.notes[0].subject
    );
    assert!(resolved.notes[0].text.starts_with("RR CR is on"), "{}", resolved.notes[0].text);
    assert_eq!(plan_on(&resolved, &facts, &Files::default()), KindPlan::default());
}

#[test]
fn empty_port_has_no_disruption() {
    let section = plan_of(&profile(AcsPolicy::Clear, AcsPersist::Live), &lab().facts());
    let change = change_of(&section, "20:01.0");
    assert_eq!(change.disrupts, Vec::<String>::new());
}
