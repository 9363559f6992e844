//! Random PCIe trees: parents, types, capabilities and drivers, including loops.

use proptest::prelude::*;

use super::*;
use bedplate_facts::pci::PortType;
use bedplate_facts::topology::Topology;

/// One function: type, claimed parent, port type, ACS, and whether it is a VM's.
type Seed = (u8, Option<u8>, u8, Option<(u16, u16)>, bool);

fn machine(seeds: &[Seed]) -> Machine {
    let mut machine = Machine::default();
    let name = |n: usize| format!("0000:{n:02x}:00.0");
    // Bridges first, then devices: most parents are then bridges, and many devices share a switch.
    let bridges = seeds.len() / 3 + 2;
    for (n, (what, parent, port, acs, guest)) in seeds.iter().enumerate() {
        let what = if n < bridges { 2 } else { *what };
        let function = match what % 4 {
            0 => machine.gpu(&name(n), None),
            1 => machine.nic(&name(n), None),
            _ => {
                let types = [
                    PortType::RootPort,
                    PortType::Upstream,
                    PortType::Reserved(9),
                    PortType::Upstream,
                ];
                machine.port(&name(n), None, types[usize::from(port % 4)])
            }
        };
        // A bridge is downstream of an earlier one, occasionally of a later one or of itself.
        let above = if n < bridges && port % 8 != 0 { n.max(1) } else { bridges };
        function.parent = parent
            .filter(|_| n > 0 || port % 8 == 0)
            .map(|parent| at(&name(usize::from(parent) % above)));
        function.vfio = *guest;
        if what % 4 > 1 {
            function.acs = match acs {
                Some((capable, control)) => Reading::Known(Acs {
                    offset: 0x100,
                    capable: AcsBits(*capable),
                    control: AcsBits(control & capable),
                }),
                None => Reading::Absent,
            };
        }
    }
    machine
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let acs = proptest::option::weighted(0.8, (0u16..0x80, 0u16..0x80));
    let seed = (
        any::<u8>(),
        proptest::option::weighted(0.95, any::<u8>()),
        any::<u8>(),
        acs,
        prop::bool::weighted(0.1),
    );
    prop::collection::vec(seed, 1..30)
}

/// Slow reference implementation: for any GPU and any other GPU or NIC, finds the first bridge above both. If that is the
/// inside of a switch, returns everything from both up to it, its upstream port, and the root port on top.
fn ports_between(machine: &Machine) -> BTreeSet<PciAddress> {
    let topology = Topology::new(&machine.tree);
    let up = |address: PciAddress| machine.tree.path_up(address);
    let mut ports = BTreeSet::new();
    for gpu in topology.gpus() {
        for peer in topology.gpus().into_iter().chain(topology.nics()).filter(|peer| *peer != gpu) {
            let Some(switch) = up(gpu).into_iter().find(|bridge| up(peer).contains(bridge)) else {
                continue;
            };
            if topology.role(switch) == Role::Upstream {
                let below =
                    |address| up(address).into_iter().take_while(|bridge| *bridge != switch);
                ports.extend(below(gpu).chain(below(peer)).chain([switch]));
                ports.extend(up(gpu).pop().filter(|top| topology.role(*top) == Role::RootPort));
            }
        }
    }
    ports
}

proptest! {
    #[test]
    fn plan_changes_only_ports_between_peers_and_converges(seeds in seeds(), live in any::<bool>()) {
        let machine = machine(&seeds);
        let mut facts = machine.facts();
        let persistence = if live { AcsPersist::Live } else { AcsPersist::Auto };
        let profile = profile(AcsPolicy::DirectP2p, persistence);
        let resolved = resolve(&profile, &facts);
        // SV RR CR UF; a port without these bits needs nothing. Upstream ports: RR CR.
        let topology = Topology::new(&machine.tree);
        let bits = |port: &&PciAddress| match machine.tree.get(**port).map(|function| &function.acs) {
            Some(Reading::Known(acs)) => {
                let upstream = topology.role(**port) == Role::Upstream;
                acs.capable.0 & if upstream { 0x0c } else { 0x1d } != 0
            }
            _ => false,
        };
        let between = ports_between(&machine);
        let expected: Vec<_> = between.iter().filter(bits).copied().collect();
        let wanted: Vec<_> = resolved.acs.ports.iter().map(|wanted| wanted.port).collect();
        prop_assert_eq!(wanted, expected);
        let section = plan_of(&profile, &facts);
        carry_out(&section, &mut facts);
        let again = plan_of(&profile, &facts);
        prop_assert_eq!(&again.changes, &vec![]);
        prop_assert_eq!(again.blockers, section.blockers);
        let Reading::Known(after) = &facts.pci else { panic!("no tree") };
        for (address, function) in &after.functions {
            let wanted = resolved.acs.ports.iter().any(|wanted| wanted.port == *address);
            prop_assert!(wanted || machine.tree.get(*address) == Some(function));
        }
        prop_assert_eq!(resolve(&profile, &facts), resolved);
    }
}
