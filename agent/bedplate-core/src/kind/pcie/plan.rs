//! Compares device control of functions with the profile.

use std::collections::BTreeMap;

use super::targets::{Target, Targets, role, targets};
use super::{CONTROL, NAME, READ_REQUEST, RELAXED_ORDERING, payload_policy};
use crate::kind::{Context, register_lockdown, registers_still_set, some_of};
use crate::plan::{Action, Change, Device, Effect, Item, KindPlan, Rationale, Subject};
use crate::setting::SetConfigBits;
use bedplate_base::value::{PciAddress, RegisterBits};
use bedplate_base::{Cause, ReadError, Reading};
use bedplate_facts::caps::DeviceControlRegister;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_host::{HostKind, Reader};

pub(super) fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    let wanted = &context.profile.pcie;
    if context.facts.host == HostKind::Image && !context.facts.sees_devices() {
        section.changes.extend((!wanted.is_empty()).then(at_first_boot));
        return section;
    }
    let targets = match context.facts.pci.optional() {
        _ if wanted.is_empty() => Targets::new(),
        Ok(_) => targets(wanted, context.facts, |one| numa_node(context.reader, one), &mut section),
        Err(why) => {
            section.unknowns.push(NAME.unknown("PCI functions", why.to_string()));
            return section;
        }
    };
    // A part that the profile dropped stays, too, while it sets the other one.
    let is_target = |action: &SetConfigBits| {
        let target = targets.get(&action.address);
        target.is_some_and(|target| action.bits.mask & !target.bits().mask == 0)
    };
    section.notes.extend(registers_still_set(context, NAME, is_target));
    plan_targets(context, targets, &mut section);
    section
}

/// Reads the NUMA node of a function, which the facts of a plan have only for some.
fn numa_node(reader: &dyn Reader, function: &Function) -> Reading<i32> {
    match &function.numa_node {
        Reading::Unknown(why) if why.cause == Cause::NotAsked => {
            let path = function.attribute("numa_node");
            let read = Reading::from_result(reader.attribute(&path));
            read.and_then(|text| match text.trim().parse() {
                Ok(node) => Reading::Known(node),
                Err(_) => Reading::unknown(format!("{path}: unexpected content {text:?}")),
            })
        }
        known => known.clone(),
    }
}

fn plan_targets(context: &Context, targets: Targets, section: &mut KindPlan) {
    let Some(tree) = context.facts.pci.known() else { return };
    let limit = payload_policy::limiting(context);
    let (mut unread, mut refused, mut skipped) = (Groups::new(), Groups::new(), Groups::new());
    for (address, target) in targets {
        let Some(function) = tree.get(address) else { continue };
        let endpoint = Endpoint { context, tree, function, target, limit: &limit };
        for obstacle in endpoint.plan(section) {
            let (groups, reason, fix) = match obstacle {
                Obstacle::Unknown(reason) => (&mut unread, reason, ""),
                Obstacle::Refused(reason, fix) => (&mut refused, reason, fix),
                Obstacle::Skipped(reason) => (&mut skipped, reason, ""),
            };
            groups.entry((reason, fix)).or_default().push(function);
        }
    }
    for ((reason, _), some) in unread {
        section.unknowns.push(NAME.unknown(subject(&some), reason));
    }
    for ((reason, fix), some) in refused {
        section.blockers.push(NAME.blocker(subject(&some), reason, fix));
    }
    for ((reason, _), some) in skipped {
        section.notes.push(NAME.note(subject(&some).to_string(), reason));
    }
}

/// Functions by reason and fix: a plan names each reason once.
type Groups<'a> = BTreeMap<(String, &'static str), Vec<&'a Function>>;

/// Reason why a register is not set.
enum Obstacle {
    /// It cannot be read, or whether it may be written is unknown.
    Unknown(String),
    /// It must not be written; with a fix.
    Refused(String, &'static str),
    /// It is left alone, because the profile does not name the function.
    Skipped(String),
}

/// Returns the subject for functions.
fn subject(functions: &[&Function]) -> Subject {
    if let [one] = functions {
        return Device::new(role(one), one.address).into();
    }
    let named = functions.iter().map(|one| Device::new(role(one), one.address));
    let named = named.map(|device| Subject::from(device).to_string());
    Subject::from(some_of(named, 6, "functions"))
}

/// Returns the one change for an image, which has no PCI devices.
fn at_first_boot() -> Change {
    let why = Rationale::because("an image has no PCI devices; the machine determines them");
    let item = Item::new(CONTROL, None, Some("as in [pcie]"), &[why]);
    let subject = "PCIe functions of the machine";
    NAME.deferred_change("functions", subject, vec![item])
}

/// One function in the desired state.
struct Endpoint<'a> {
    context: &'a Context<'a>,
    tree: &'a PciTree,
    function: &'a Function,
    target: Target,
    /// Argument or build option of the running kernel that limits read requests.
    limit: &'a Result<Option<&'static str>, ReadError>,
}

impl Endpoint<'_> {
    /// Plans each part of the register that differs, and returns why other parts stay.
    fn plan(&self, section: &mut KindPlan) -> Vec<Obstacle> {
        let name = || subject(&[self.function]).to_string();
        let found = match super::read(self.context.reader, self.function.address) {
            Ok(Some(found)) => found,
            Ok(None) => {
                let text = "skipped: not a PCI Express function";
                section.notes.push(NAME.note(name(), text));
                return Vec::new();
            }
            Err(reason) => return vec![Obstacle::Unknown(reason)],
        };
        let bits = self.target.bits();
        if bits.are_in(found.value) {
            let state = format(RegisterBits { value: found.value, ..bits });
            section.unchanged.push(NAME.up_to_date(name(), state));
            return Vec::new();
        }
        if let Err(obstacle) = self.check_owner() {
            return vec![obstacle];
        }
        let mut obstacles = Vec::new();
        for mask in [READ_REQUEST, RELAXED_ORDERING] {
            let bits = bits.limited_to(mask);
            if bits.mask != 0 && !bits.are_in(found.value) {
                match self.check(mask) {
                    Ok(()) => section.changes.push(self.change(found, bits)),
                    Err(obstacle) => obstacles.push(obstacle),
                }
            }
        }
        obstacles
    }

    /// Fails if the register is not the host's to write, or nothing uses the function.
    fn check_owner(&self) -> Result<(), Obstacle> {
        let (reason, fix) = if self.tree.may_be_a_guests(self.function) {
            let fix = "remove the rule under [[pcie.devices]], or stop the VM";
            ("assigned to a VM, or possibly: its guest owns the register", fix)
        } else if self.function.driver.is_none() {
            let fix = "load its driver, or remove the rule under [[pcie.devices]]";
            ("no driver uses it, and one that starts may set the register itself", fix)
        } else if let Some(lockdown) = register_lockdown(self.context.facts) {
            let fix = "set it in the firmware setup, or disable lockdown (Secure Boot)";
            return Err(Obstacle::Refused(lockdown, fix));
        } else {
            return Ok(());
        };
        Err(match self.target.is_named {
            true => Obstacle::Refused(reason.to_owned(), fix),
            false => Obstacle::Skipped(format!("skipped: {reason}")),
        })
    }

    /// Fails if the bits of this mask must not be written.
    fn check(&self, mask: u16) -> Result<(), Obstacle> {
        let refused = |reason: String, fix| Err(Obstacle::Refused(reason, fix));
        if mask == RELAXED_ORDERING {
            let root_port = match self.target.relaxed_ordering {
                Some(true) => self.unordered_root_port().map_err(Obstacle::Unknown)?,
                _ => None,
            };
            let Some(port) = root_port else { return Ok(()) };
            let reason = format!(
                "below root port {port}, for which Linux disables relaxed ordering: slow or wrong there (Linux \
                 drivers/pci/quirks.c quirk_relaxedordering_disable)"
            );
            return refused(
                reason,
                "set relaxed_ordering = \"auto\" in [pcie], or in a rule for it",
            );
        }
        // The smallest payload cannot be exceeded by the smallest request.
        match self.limit {
            _ if self.target.max_read_request == Some(128) => Ok(()),
            Ok(None) => Ok(()),
            Err(error) => Err(Obstacle::Unknown(format!(
                "cannot tell whether the kernel limits read requests: {error}"
            ))),
            Ok(Some(word)) => {
                let reason = format!(
                    "the kernel runs with `{word}`, which limits read requests to the payload size: larger ones end in \
                     malformed packets (Linux drivers/pci/probe.c pcie_write_mrrs)"
                );
                refused(reason, "remove it from the command line, or max_read_request from [pcie]")
            }
        }
    }

    /// Returns the root port above, if Linux disables relaxed ordering below it.
    ///
    /// # Errors
    /// The port is not visible.
    fn unordered_root_port(&self) -> Result<Option<PciAddress>, String> {
        let Some(top) = self.tree.path_up(self.function.address).into_iter().last() else {
            return Ok(None);
        };
        let Some(port) = self.tree.get(top) else {
            return Err(format!(
                "bridge {top} above is not visible: Linux disables relaxed ordering below some"
            ));
        };
        let known = match port.vendor.0 {
            0x8086 => matches!(port.device.0, 0x2f01..=0x2f0e | 0x6f01..=0x6f0e),
            0x1022 => matches!(port.device.0, 0x1a00..=0x1a02),
            _ => false,
        };
        Ok(known.then_some(top))
    }

    /// Returns the change of one part of the register. A device may implement one part and not the other.
    fn change(&self, found: DeviceControlRegister, bits: RegisterBits) -> Change {
        let (name, before) = describe(bits.mask, found.value);
        let (_, after) = describe(bits.mask, bits.value);
        let item = Item::new(name, Some(&before), Some(&after), &self.target.why);
        let action = Action::SetConfigBits(SetConfigBits {
            address: self.function.address,
            offset: found.offset,
            bits,
            before: found.value,
            register: CONTROL.to_owned(),
        });
        let id = format!("{}/{}", self.function.address, name.replace(' ', "-"));
        NAME.change(&id, subject(&[self.function]), vec![item], Effect::EveryBoot, vec![action])
    }
}

/// Returns the name and the value of a part of the register.
fn describe(mask: u16, value: u16) -> (&'static str, String) {
    match mask {
        RELAXED_ORDERING => {
            let granted = value & RELAXED_ORDERING != 0;
            ("relaxed ordering", if granted { "on" } else { "off" }.to_owned())
        }
        _ => ("max read request", format!("{} bytes", super::bytes(value))),
    }
}

/// Formats the bits of the mask.
pub(super) fn format(bits: RegisterBits) -> String {
    let parts = [READ_REQUEST, RELAXED_ORDERING].into_iter();
    let parts = parts.filter(|mask| bits.mask & mask != 0).map(|mask| {
        let (name, value) = describe(mask, bits.value);
        format!("{name} {value}")
    });
    parts.collect::<Vec<_>>().join(", ")
}
