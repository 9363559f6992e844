//! `[acs]` of a profile on given facts: which ports, which bits, and how they last. Pure; nothing is compared here.

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::{AcsPersistence, AcsPolicy, Desired, DesiredAcs, WantedAcs, WantedArg};
use crate::facts::pci::{Acs, Function, PciTree};
use crate::facts::{Facts, Os};
use crate::host::{HostKind, Reading};
use crate::kind::some_of;
use crate::plan::{Blocker, Note, Unknown, Why};
use crate::section::Declared;
use crate::topology::{Pair, Role, Topology};
use crate::value::{AcsBits, PciAddress, PciId};

use super::NAME;
use super::section::{self, AcsPersist};
use super::support::{self, Support, of_next_boot};
use super::token;

/// What `[acs]` comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Ports and bits.
    pub acs: DesiredAcs,
    /// The kernel argument that makes them last: `Absent` = none is wanted; `Unknown` = it cannot be worked out now,
    /// so an argument that bedplate put on the command line earlier must stay there.
    pub arg: Reading<WantedArg>,
    /// What stands in the way already.
    pub blockers: Vec<Blocker>,
    /// Ports that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Remarks.
    pub notes: Vec<Note>,
}

/// Adds it to what is desired of the machine: the kernel argument goes on the command line, behind those listed there.
pub(super) fn resolve_into(profile: &dyn Declared, facts: &Facts, desired: &mut Desired) {
    let Some(section) = profile.get::<section::Acs>() else { return };
    let Resolved { acs, arg, blockers, unknowns, notes } = resolve(section, facts);
    match arg {
        Reading::Known(arg) => desired.cmdline.set.push(arg),
        Reading::Absent => {}
        // The ports cannot be seen from here: what an earlier run put on the command line for them stays.
        Reading::Unknown(_) => {
            let keep = ["pci=config_acs", "pci=disable_acs_redir"].map(str::to_owned);
            desired.cmdline.keep.extend(keep);
        }
    }
    desired.acs = acs;
    desired.blockers.extend(blockers);
    desired.unknowns.extend(unknowns);
    desired.notes.extend(notes);
}

/// Ports that the policy is about, with the reasons.
type Targets = BTreeMap<PciAddress, Vec<Why>>;

/// Which bits of which ports the profile wants, and how they are to last.
pub fn resolve(profile: &section::Acs, facts: &Facts) -> Resolved {
    let mut resolved = Resolved {
        acs: DesiredAcs { policy: profile.policy, ..DesiredAcs::default() },
        arg: Reading::Absent,
        blockers: Vec::new(),
        unknowns: Vec::new(),
        notes: Vec::new(),
    };
    match &facts.pci {
        Reading::Known(tree) => on_tree(profile, facts, tree, &mut resolved),
        Reading::Absent => {}
        Reading::Unknown(_) if profile.policy == AcsPolicy::Keep => {}
        Reading::Unknown(reason) => {
            // An image has no PCI devices to look at: its plan says so itself, by a deferred change.
            if facts.host != HostKind::Image {
                resolved.unknown("PCI functions", reason.clone());
            }
            resolved.arg = Reading::Unknown(reason.clone());
        }
    }
    resolved
}

impl Resolved {
    fn note(&mut self, subject: impl Into<String>, text: impl Into<String>) {
        self.notes.push(Note { kind: NAME, subject: subject.into(), text: text.into() });
    }

    fn unknown(&mut self, subject: impl Into<String>, reason: String) {
        self.unknowns.push(Unknown { kind: NAME, subject: subject.into(), reason });
    }
}

fn on_tree(profile: &section::Acs, facts: &Facts, tree: &PciTree, resolved: &mut Resolved) {
    let topology = Topology::new(tree);
    let pairs = topology.pairs();
    let targets = match profile.policy {
        AcsPolicy::Clear => all_ports(tree),
        AcsPolicy::DirectP2p => paths(&pairs, profile.root_port),
        AcsPolicy::Keep => paths(&pairs, false),
    };
    let readable = readings(tree, &topology, targets, resolved);
    if profile.policy == AcsPolicy::Keep {
        report_redirects(&readable, resolved);
        return;
    }
    if profile.policy == AcsPolicy::DirectP2p {
        remark_on_topology(&topology, &pairs, tree, resolved);
    }
    let vfio = vfio_below(tree);
    let ports = |persistence| wanted_ports(profile, persistence, &readable, &vfio);
    let live = ports(AcsPersistence::Live);
    if profile.persistence == AcsPersist::Auto
        && resolved.unknowns.is_empty()
        && support::left_to_firmware(facts)
        && live.iter().all(|wanted| is_right(wanted, tree))
    {
        resolved.acs.ports = live;
        // One that an earlier run put there may be what keeps them so.
        resolved.arg = Reading::Unknown("without an IOMMU the ports stay as they are".to_owned());
        return;
    }
    if !resolved.unknowns.is_empty() || !live.is_empty() {
        persist(profile, &facts.os, &ports, resolved);
    }
    // An argument for some of the ports would take the others off the command line again.
    if let (Some(unknown), AcsPersistence::ConfigAcs | AcsPersistence::DisableAcsRedir) =
        (resolved.unknowns.first(), resolved.acs.persistence)
    {
        resolved.arg = Reading::Unknown(format!("{}: {}", unknown.subject, unknown.reason));
    }
}

fn is_right(wanted: &WantedAcs, tree: &PciTree) -> bool {
    let acs = tree.get(wanted.port).and_then(|port| port.acs.known());
    acs.is_some_and(|acs| acs.control.and(wanted.mask) == wanted.value.and(wanted.mask))
}

/// The ports between pairs that meet in a switch, and the root ports above.
fn paths(pairs: &[Pair], root_port: bool) -> Targets {
    let mut uses: BTreeMap<PciAddress, Vec<&Pair>> = BTreeMap::new();
    let mut roots: BTreeSet<PciAddress> = BTreeSet::new();
    for pair in pairs {
        for port in &pair.legs {
            uses.entry(*port).or_default().push(pair);
        }
        roots.extend(pair.root_port.filter(|_| root_port));
    }
    let reason = |pairs: &Vec<&Pair>| {
        let named = |pair: &&Pair| {
            let peer = if pair.peer_is_gpu { "GPU" } else { "NIC" };
            format!("GPU {} and {peer} {}", pair.gpu, pair.peer)
        };
        let text = format!(
            "on the way between {}: with redirect on, their traffic leaves the switch for the root complex",
            some_of(pairs.iter().map(named), 2, "pairs")
        );
        vec![Why::new(text, "Linux drivers/pci/p2pdma.c; handbook §3.2")]
    };
    let mut targets: Targets = uses.iter().map(|(port, pairs)| (*port, reason(pairs))).collect();
    for root in roots {
        targets.entry(root).or_insert_with(|| {
            vec![Why::new(
                "root port above a switch with open ports: Linux then puts everything below it into one IOMMU group \
                 at boot, which is how far isolation really goes",
                "Linux drivers/iommu/iommu.c pci_device_group; handbook §3.2, §3.3",
            )]
        });
    }
    targets
}

fn all_ports(tree: &PciTree) -> Targets {
    let bridges = tree.functions.values().filter(|function| function.is_bridge());
    bridges
        .map(|f| (f.address, vec![Why::because("the policy is to clear ACS on every port")]))
        .collect()
}

type Readable = Vec<(PciAddress, Acs, Vec<Why>)>;

/// Ports with ACS. Ports without it redirect nothing and drop out; that is said, and what cannot be told as well.
fn readings(
    tree: &PciTree,
    topology: &Topology,
    targets: Targets,
    resolved: &mut Resolved,
) -> Readable {
    let (mut readable, mut unreadable, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for (port, why) in targets {
        let Some(function) = tree.get(port) else {
            unreadable.push((port, "it is not among the PCI functions that can be seen"));
            continue;
        };
        match &function.acs {
            Reading::Known(_) if has_odd_layout(function) => {
                let text = "left alone: this Intel PCH port keeps its ACS control elsewhere (Linux drivers/pci/quirks.c; handbook §3.1)";
                resolved.note(format!("port {port}"), text);
            }
            Reading::Known(acs) => readable.push((port, *acs, why)),
            // Of other bridges nobody expects it (handbook §3.1).
            Reading::Absent if matches!(topology.role(port), Role::RootPort | Role::Downstream) => {
                without.push(port.to_string());
            }
            Reading::Absent => {}
            Reading::Unknown(reason) => unreadable.push((port, reason.as_str())),
        }
    }
    if !without.is_empty() {
        let text = "no ACS: it redirects nothing, and there is nothing to clear";
        resolved.note(format!("port {}", some_of(without.into_iter(), 8, "ports")), text);
    }
    if let Some((_, reason)) = unreadable.first() {
        let named = some_of(unreadable.iter().map(|(port, _)| port.to_string()), 4, "ports");
        resolved.unknown(format!("ACS of {named}"), (*reason).to_owned());
    }
    readable
}

/// Intel PCH root ports whose ACS registers are dwords, so that the control register is not at `+6`
/// (Linux drivers/pci/quirks.c, `pci_quirk_intel_spt_pch_acs_match`; handbook §3.1).
fn has_odd_layout(function: &Function) -> bool {
    function.vendor == PciId(0x8086)
        && matches!(function.device.0,
            0xa110..=0xa11f | 0xa167..=0xa16a | 0xa290..=0xa29f | 0xa2e7..=0xa2ee | 0x9d10..=0x9d1b)
}

/// Functions bound to vfio-pci, under every bridge above them.
fn vfio_below(tree: &PciTree) -> BTreeMap<PciAddress, Vec<PciAddress>> {
    let mut below: BTreeMap<PciAddress, Vec<PciAddress>> = BTreeMap::new();
    for function in tree.functions.values().filter(|f| f.driver.as_deref() == Some("vfio-pci")) {
        for bridge in tree.path_up(function.address) {
            below.entry(bridge).or_default().push(function.address);
        }
    }
    below
}

/// Bits that the policy is about.
///
/// Direct peer-to-peer needs RR, CR and EC clear. Where bedplate has the whole register to set, SV and UF go as well:
/// that is the set for bare metal with GPUs and NICs that do not use ATS (handbook §3.2). `disable_acs_redir` leaves
/// SV and UF to the kernel, which switches them on at boot; wanting them clear would never come to rest there.
fn policy_mask(policy: AcsPolicy, persistence: AcsPersistence) -> AcsBits {
    match (policy, persistence) {
        (AcsPolicy::Clear, _) => AcsBits::ALL,
        (_, AcsPersistence::DisableAcsRedir) => AcsBits::REDIRECT,
        _ => AcsBits::ISOLATION.or(AcsBits::EC),
    }
}

fn wanted_ports(
    profile: &section::Acs,
    persistence: AcsPersistence,
    readable: &Readable,
    vfio: &BTreeMap<PciAddress, Vec<PciAddress>>,
) -> Vec<WantedAcs> {
    let policy = policy_mask(profile.policy, persistence);
    let wanted = |(port, acs, why): &(PciAddress, Acs, Vec<Why>)| {
        // A bit that the port does not implement cannot be written, and reads 0 as it should.
        let mask = policy.and(acs.capable);
        (!mask.is_empty()).then(|| WantedAcs {
            port: *port,
            mask,
            value: AcsBits::default(),
            why: why.iter().chain(&profile.why).cloned().collect(),
            vfio_below: vfio.get(port).cloned().unwrap_or_default(),
        })
    };
    readable.iter().filter_map(wanted).collect()
}

/// Chooses how the bits last, and sets ports and argument accordingly.
fn persist(
    profile: &section::Acs,
    os: &Os,
    ports: &dyn Fn(AcsPersistence) -> Vec<WantedAcs>,
    resolved: &mut Resolved,
) {
    let chosen = choose(profile, os).and_then(|persistence| {
        let wanted = ports(persistence);
        match token::render(persistence, &wanted) {
            None if persistence != AcsPersistence::Live && !wanted.is_empty() => Err(format!(
                "the argument for {} ports would take more than {} bytes of the kernel command line",
                wanted.len(),
                token::TOKEN_LIMIT
            )),
            text => Ok((persistence, wanted, text)),
        }
    });
    match chosen {
        Ok((persistence, wanted, text)) => {
            resolved.acs.persistence = persistence;
            resolved.acs.ports = wanted;
            resolved.arg = text.map_or(Reading::Absent, |token| {
                Reading::Known(WantedArg { token, why: argument_why(profile), from: NAME })
            });
        }
        Err(reason) if profile.persistence == AcsPersist::Cmdline => resolved.blockers.push(Blocker {
            kind: NAME,
            subject: "acs.persistence".to_owned(),
            reason: format!("the kernel command line cannot make ACS last: {reason}"),
            remedy: "boot Linux 6.12.23, 6.13.11, 6.14.2, 6.15 or newer, or set acs.persistence = \"auto\" to have \
                     the bits written again at every boot"
                .to_owned(),
        }),
        Err(reason) => {
            resolved.acs.ports = ports(AcsPersistence::Live);
            let text = format!("written live and again at every boot, because {reason}");
            resolved.note("acs.persistence", text);
        }
    }
}

fn argument_why(profile: &section::Acs) -> Vec<Why> {
    let lasting = Why::new(
        "a register written live is lost at reset, error recovery and reboot; the kernel re-applies its own arguments",
        "Linux drivers/pci/pci.c; handbook §3.4",
    );
    std::iter::once(lasting).chain(profile.why.iter().cloned()).collect()
}

/// How the bits can last on the kernel that boots next, or why the command line cannot do it.
fn choose(profile: &section::Acs, os: &Os) -> Result<AcsPersistence, String> {
    if profile.persistence == AcsPersist::Live {
        return Ok(AcsPersistence::Live);
    }
    let (release, support) = of_next_boot(os)?;
    match support {
        Support::ConfigAcs => Ok(AcsPersistence::ConfigAcs),
        Support::DisableAcsRedir if profile.policy == AcsPolicy::DirectP2p => {
            Ok(AcsPersistence::DisableAcsRedir)
        }
        Support::DisableAcsRedir => Err(format!(
            "Linux {release} knows only pci=disable_acs_redir=, which leaves SV and UF on where all of ACS is to go"
        )),
        Support::Neither => Err(format!("Linux {release} knows no pci= argument for ACS")),
        Support::Unsure(reason) => Err(reason),
    }
}

fn report_redirects(readable: &Readable, resolved: &mut Resolved) {
    for (port, acs, why) in readable {
        let redirect = acs.control.and(AcsBits::REDIRECT);
        if !redirect.is_empty() {
            let reason = why.first().map_or("", |why| why.reason.as_str());
            resolved.note(
                format!("port {port}"),
                format!("{redirect} is on, left by policy keep; it is {reason}"),
            );
        }
    }
}

/// What an operator may expect of ACS and will not get.
fn remark_on_topology(
    topology: &Topology,
    pairs: &[Pair],
    tree: &PciTree,
    resolved: &mut Resolved,
) {
    let with_nic: BTreeSet<PciAddress> =
        pairs.iter().filter(|p| !p.peer_is_gpu).map(|p| p.gpu).collect();
    let gpus = topology.gpus();
    let hidden =
        |gpu: &PciAddress| tree.path_up(*gpu).iter().any(|bridge| tree.get(*bridge).is_none());
    let (cut_off, alone): (Vec<_>, Vec<_>) =
        gpus.iter().filter(|gpu| !with_nic.contains(gpu)).partition(|gpu| hidden(gpu));
    let named = |gpus: Vec<&PciAddress>| {
        format!("GPU {}", some_of(gpus.iter().map(|gpu| gpu.to_string()), 8, "GPUs"))
    };
    if !alone.is_empty() {
        let text = "shares no PCIe switch with a NIC: traffic between them passes the root complex, and ACS on the \
                    way changes nothing about it (Linux drivers/pci/p2pdma.c; handbook §3.2)";
        resolved.note(named(alone), text);
    }
    if !cut_off.is_empty() {
        let reason = "a bridge above it is not among the PCI functions that can be seen (a container with a \
                      filtered /sys?), so that its switch is not known";
        resolved.unknown(named(cut_off), reason.to_owned());
    }
    // ConnectX-8 Data Direct reaches GPU memory through a DMA function of its own, with ATS and other flags.
    let data_direct = |f: &&Function| (f.vendor, f.device) == (PciId(0x15b3), PciId(0x2100));
    let functions: Vec<_> =
        tree.functions.values().filter(data_direct).map(|f| f.address.to_string()).collect();
    if !functions.is_empty() {
        let text = "Data Direct DMA function of a ConnectX-8: its path wants other ACS flags (handbook §14.1), which \
                    bedplate does not set; see `rdma_topo` of rdma-core";
        resolved.note(some_of(functions.into_iter(), 8, "functions"), text);
    }
}
