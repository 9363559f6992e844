//! PCIe ACS: peer-to-peer redirect on ports, and disabling it where GPUs and NICs share a switch. [`resolve()`] yields the
//! desired bits; the plan here compares registers with them. Only `apply` writes.

mod fabric;
mod guests;
mod image;
mod isolation;
mod kernel_parse_bug;
mod lockdown;
mod merged_groups;
mod missing_device;
mod persist;
mod planned_guests;
mod previous_argument;
mod refusal;
mod register_reads;
mod resolve;
mod resolved;
pub mod section;
mod shape;
mod shared_group;
mod support;
#[cfg(test)]
mod tests;
mod token;
mod topo_override;

use std::collections::BTreeSet;

use crate::desired::{AcsPersistence, AcsPolicy, ArgSource, WantedAcs};
use crate::plan::{
    Action, Change, Deferred, Device, DeviceRole, Effect, Item, KindId, KindPlan, Note, Rationale,
    Subject,
};
use crate::profile::model::Profile;
use crate::setting::SetConfigBits;
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress, RegisterBits};
use bedplate_cmdline::{CommandLine, pci_suboption};
use bedplate_facts::Facts;
use bedplate_facts::pci::Acs;
use bedplate_facts::topology::{Role, Topology};
use bedplate_host::HostKind;

use super::{
    Context, Kind, Privacy, RegisterScope, Watch, WriteScope, cmdline, no_labels, some_of,
};

pub(crate) use guests::guests_exposed;
pub(crate) use isolation::isolation_gone;
pub use resolve::resolve;
pub(crate) use resolved::{Ats, ResolvedAcs};
pub use section::for_direct_traffic;
pub(crate) use shared_group::{SharedGroup, pasids_in_shared_group};
pub(crate) use topo_override::pairs_in_different_groups;

/// Name of this resource type.
pub const NAME: KindId = KindId::Acs;
/// Name of the register that this resource type writes.
const CONTROL: &str = "ACS control";
/// Arguments of earlier runs that stay if no new one can be computed.
const KEPT: [&str; 2] = ["pci=config_acs", "pci=disable_acs_redir"];

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "PCIe ACS on the ports between GPUs and NICs (peer-to-peer redirect)",
    resolve: resolve::resolve_into,
    plan,
    contribute: image::contribute,
    watch,
    recorded: &[],
    owns: WriteScope {
        // Any bit of extended config space (PCI Express Base Specification, 7.2.2).
        registers: Some(RegisterScope {
            name: CONTROL,
            offsets: (0x100, 0x1000),
            bits: u16::MAX,
            is_own: None,
            format: |bits| format_bits(AcsBits(bits.value)),
        }),
        ..WriteScope::NONE
    },
    files: &[],
    privacy: Privacy::OPEN,
    labels: no_labels,
};

/// Watches config space of the ports, which `setpci` and drivers write, and resets, which restore the bits.
fn watch(_: &Profile, facts: &Facts) -> Watch {
    let tree = facts.pci.known().into_iter();
    let ports = tree
        .flat_map(|tree| tree.functions.values())
        .filter(|function| function.acs.known().is_some());
    let paths = ports.flat_map(|port| ["config", "reset"].map(|name| port.attribute(name)));
    Watch { attributes: paths.collect(), ..Watch::default() }
}

fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    if context.desired.acs.policy == AcsPolicy::Keep {
        return section;
    }
    let Some(tree) = context.facts.pci.known() else {
        section
            .changes
            .extend((context.facts.host == HostKind::Image).then(|| at_first_boot(context)));
        return section;
    };
    let topology = Topology::new(tree);
    let arguments = arguments_at_boot(context);
    let next = arguments_of_next_boot(context, &arguments);
    for wanted in &context.desired.acs.ports {
        // An unreadable port is in the desired state's unknowns, not among its ports.
        if let Some(Reading::Known(acs)) = tree.get(wanted.port).map(|function| &function.acs) {
            let wanted = &kernel_parse_bug::cleared_too(wanted, acs, &arguments, context.facts);
            let (running, next) = (&arguments, &next);
            let port = Port { context, topology: &topology, wanted, acs, running, next };
            port.plan(&mut section);
        }
    }
    section
}

/// Returns the one change for an image, which has no PCI devices, so its ports are unknown.
fn at_first_boot(context: &Context) -> Change {
    let after = match context.desired.acs.policy {
        AcsPolicy::Clear => "cleared on every port",
        AcsPolicy::DirectP2p | AcsPolicy::Keep => {
            "redirect cleared on the ports between GPUs and NICs"
        }
    };
    let why = Rationale::because("an image has no PCI devices; the machine determines the ports");
    let item = Item::new(CONTROL, None, Some(after), &[why]);
    let subject = "PCIe ports of the machine";
    NAME.deferred_change("ports", subject, vec![item])
}

/// The two `pci=` ACS arguments of a kernel command line.
#[derive(Debug, Clone, Default)]
struct BootArguments {
    config_acs: Option<String>,
    disable_redir: Option<String>,
}

fn arguments_at_boot(context: &Context) -> BootArguments {
    // An unreadable command line only suppresses a note here; resource type `cmdline` reports it.
    let line = cmdline::running_line(context.reader);
    line.map_or_else(|_| BootArguments::default(), |line| BootArguments::of_line(&line))
}

impl BootArguments {
    fn parse(line: &str) -> Self {
        Self::of_line(&CommandLine::parse(line))
    }

    fn of_line(line: &CommandLine) -> Self {
        BootArguments {
            config_acs: pci_suboption(line, "config_acs"),
            disable_redir: pci_suboption(line, "disable_acs_redir"),
        }
    }

    /// Returns the bits that they set on one port.
    fn of_port(&self, port: PciAddress) -> Option<RegisterBits> {
        token::of_port(self.config_acs.as_deref(), self.disable_redir.as_deref(), port)
    }
}

/// Returns the ACS arguments of the next boot: the planned one, or the boot entry's if the command line is blocked. If no
/// argument can be computed, the running kernel's stays. With runtime persistence there is no argument.
fn arguments_of_next_boot(context: &Context, running: &BootArguments) -> BootArguments {
    let desired = context.desired;
    let planned = desired.cmdline.set.iter().find(|arg| arg.from == ArgSource::Acs);
    match planned {
        _ if desired.acs.persistence == AcsPersistence::Live => BootArguments::default(),
        Some(_) if cmdline::is_refused(context.so_far) => {
            let line = cmdline::next_boot(context.reader, context.facts);
            line.known().map(BootArguments::of_line).unwrap_or_default()
        }
        Some(arg) => BootArguments::parse(arg.token.as_str()),
        None if desired.cmdline.keep.iter().any(|kept| KEPT.contains(&kept.as_str())) => {
            running.clone()
        }
        None => BootArguments::default(),
    }
}

/// One port in the desired state, and its observed state.
struct Port<'a> {
    context: &'a Context<'a>,
    topology: &'a Topology<'a>,
    wanted: &'a WantedAcs,
    acs: &'a Acs,
    /// Arguments of the running kernel.
    running: &'a BootArguments,
    /// Arguments of the next boot.
    next: &'a BootArguments,
}

impl Port<'_> {
    fn plan(&self, section: &mut KindPlan) {
        let right = self.bits().are_in(self.acs.control.0);
        if let Some(blocker) = self.guest_blocker(right) {
            section.blockers.push(blocker);
            return;
        }
        if right {
            section
                .unchanged
                .push(NAME.up_to_date(self.subject().to_string(), format_bits(self.acs.control)));
            return;
        }
        let lockdown = self.lockdown();
        if lockdown.is_none() || !self.is_disobeyed() {
            section.notes.extend(self.differs_from_boot_arguments());
        }
        if self.context.facts.host == HostKind::Image {
            section.changes.push(self.change(Some(Deferred::to_first_boot())));
            return;
        }
        match lockdown {
            None => section.changes.push(self.change(None)),
            Some(lockdown) => self.plan_locked(lockdown, section),
        }
    }

    /// Notes a register that differs from the running kernel's arguments.
    fn differs_from_boot_arguments(&self) -> Option<Note> {
        let said = self.running.of_port(self.wanted.port)?;
        if token::is_applied(self.acs, said) {
            return None;
        }
        Some(self.note(format!(
            "reads {} although the kernel was booted with {} for it: this kernel misreads the argument (fixed by Linux \
             commit 9cf8a952d57b; handbook §1.4), or another tool has written the register",
            format_bits(self.acs.control),
            said.flags()
        )))
    }

    /// Whether the command line should set its bits.
    fn by_argument(&self) -> bool {
        self.context.desired.acs.persistence.carries(self.wanted)
    }

    fn subject(&self) -> Subject {
        Device::new(DeviceRole::Port, self.wanted.port).into()
    }

    fn note(&self, text: String) -> Note {
        NAME.note(self.subject().to_string(), text)
    }

    /// Returns the desired bits, limited to those that the port implements.
    fn bits(&self) -> RegisterBits {
        self.wanted.bits.limited_to(self.acs.capable.0)
    }

    /// Returns the register value after the change.
    fn after(&self) -> AcsBits {
        AcsBits(self.bits().applied_to(self.acs.control.0))
    }

    /// Whether the next kernel sets the bits. Only the bits that its argument names are compared.
    fn is_persistent(&self) -> bool {
        self.next.of_port(self.wanted.port).is_some_and(|next| {
            let both = next.limited_to(self.bits().mask);
            both.mask != 0 && both.are_in(self.wanted.bits.value)
        })
    }

    fn change(&self, deferred: Option<Deferred>) -> Change {
        let before = self.acs.control;
        let (from, to) = (format_bits(before), format_bits(self.after()));
        let item = Item::new(CONTROL, Some(&from), Some(&to), &self.wanted.why);
        let effect = if self.is_persistent() { Effect::Now } else { Effect::EveryBoot };
        let action = Action::SetConfigBits(SetConfigBits {
            address: self.wanted.port,
            offset: self.acs.control_offset(),
            bits: self.bits(),
            before: before.0,
            register: CONTROL.to_owned(),
        });
        let name = self.wanted.port.to_string();
        let change = NAME.change(&name, self.subject(), vec![item], effect, vec![action]);
        Change { disrupts: self.isolation_lost(), deferred, ..change }
    }

    /// Describes which functions can reach each other past the IOMMU after redirect is disabled. Without an IOMMU they were
    /// never isolated.
    fn isolation_lost(&self) -> Vec<String> {
        let no_iommu = self.context.facts.iommu.active.known().is_some_and(Vec::is_empty);
        let lost = self.acs.control.and(self.bits().off());
        let lost = lost.and(AcsBits::ISOLATION.or(AcsBits::EC));
        if no_iommu || lost.is_empty() {
            return Vec::new();
        }
        let port = self.wanted.port;
        let here = self.topology.below(port);
        if here.is_empty() {
            return Vec::new();
        }
        let named = |functions: &[PciAddress]| {
            some_of(functions.iter().map(PciAddress::to_string), 6, "functions")
        };
        let reach = match self.siblings(&here) {
            _ if lost == AcsBits::SV => format!(
                "the port no longer verifies the source addresses of requests from {}",
                named(&here)
            ),
            _ if self.topology.role(port) == Role::RootPort => format!(
                "{} below this root port can reach devices below other root ports without IOMMU checks, if the root \
                 complex forwards peer requests",
                named(&here)
            ),
            Some((switch, there)) if !there.is_empty() => format!(
                "{} below this port can reach {} below other ports of switch {switch} without IOMMU checks",
                named(&here),
                named(&there)
            ),
            _ => return Vec::new(),
        };
        vec![
            reach,
            "IOMMU groups overstate isolation until the next reboot; do not assign these devices to guests before then"
                .to_owned(),
        ]
    }

    /// Returns the port's switch, and the functions downstream of the other ports of that switch.
    fn siblings(&self, here: &[PciAddress]) -> Option<(PciAddress, Vec<PciAddress>)> {
        let tree = self.context.facts.pci.known()?;
        let switch = tree.get(self.wanted.port)?.parent?;
        let here: BTreeSet<&PciAddress> = here.iter().collect();
        let mut there = self.topology.below(switch);
        there.retain(|function| !here.contains(function));
        Some((switch, there))
    }
}

/// Formats as `SV RR CR UF (001d)`.
fn format_bits(bits: AcsBits) -> String {
    format!("{bits} ({:04x})", bits.0)
}
