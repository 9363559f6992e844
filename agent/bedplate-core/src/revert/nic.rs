//! The way back for what was set on NICs: attributes of VFs, modes of eswitches.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::{FORCE, GONE, RevertPlan, Step};
use crate::kind::sriov;
use crate::ledger::{EswitchRecord, Ledger, VfKey, VfRecord};
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::VfAttributes;
use bedplate_facts::{Depth, observe, uplink};
use bedplate_host::{Reader, symlink};

/// What helps where a PF has no interface.
const NO_INTERFACE: &str = "load its network driver, or move the interface back from its network namespace, then run again";
/// Seconds for taking VFs away or making them again, however many (handbook §5.1).
const VFS_LIMIT_S: u32 = 600;

/// Attributes of VFs. Those that go with their VFs need no step.
pub(super) fn plan_vfs(
    plan: &mut RevertPlan,
    reader: &dyn Reader,
    ledger: &Ledger,
    boot: Option<&str>,
    force: bool,
) {
    let facts = OnceCell::new();
    let use_of = |key: &VfKey| {
        let facts = facts.get_or_init(|| observe(reader, Depth::Plan));
        sriov::use_of_vf(facts, reader, key.pf, key.vf)
    };
    for (subject, record) in &ledger.vfs {
        if boot != Some(record.boot.as_str()) {
            plan.notes.push(format!("attributes of {subject}: {GONE}"));
        } else if vf_count_changes(reader, ledger, record.key.pf) {
            plan.notes.push(format!("attributes of {subject} go with the VF"));
        } else {
            plan_vf(plan, reader, (subject, record), force, &use_of);
        }
    }
}

/// VFs that a run which was cut short left without a driver. They come last: the kernel may have to be allowed to look for
/// drivers again first.
pub(super) fn plan_starts(
    plan: &mut RevertPlan,
    reader: &dyn Reader,
    ledger: &Ledger,
    boot: Option<&str>,
) {
    for record in ledger.starts.values().filter(|record| boot == Some(record.boot.as_str())) {
        if !vf_count_changes(reader, ledger, record.key.pf) && has_no_driver(reader, &record.key) {
            plan.steps.push(Step::Vf {
                key: record.key.clone(),
                before: VfAttributes::default(),
                after: VfAttributes::default(),
                start: true,
                limit_s: record.limit_s,
            });
        }
    }
}

/// Whether the VF is there, without a driver.
fn has_no_driver(reader: &dyn Reader, key: &VfKey) -> bool {
    let vf = symlink::virtual_function(reader, key.pf, key.vf);
    vf.and_then(|vf| symlink::driver(reader, &vf)).is_ok_and(|driver| driver.is_none())
}

/// Whether the PF's VFs are taken away, or made again.
fn vf_count_changes(reader: &dyn Reader, ledger: &Ledger, pf: PciAddress) -> bool {
    let path = format!("/sys/bus/pci/devices/{pf}/sriov_numvfs");
    let now = reader.attribute(&path);
    ledger.attributes.get(&path).is_some_and(|record| now.is_ok_and(|now| now != record.original))
}

fn plan_vf(
    plan: &mut RevertPlan,
    reader: &dyn Reader,
    (subject, record): (&str, &VfRecord),
    force: bool,
    use_of: &dyn Fn(&VfKey) -> Option<String>,
) {
    // By its present name: interfaces are renamed, and a ledger's word is not enough to set something anywhere.
    let interface = match uplink::now(reader, record.key.pf) {
        Ok(Some(interface)) => interface,
        Ok(None) => {
            let pf = record.key.pf;
            if reader.exists(&format!("/sys/bus/pci/devices/{pf}")) == Ok(false) {
                return plan.notes.push(format!("{subject} is gone, and what was set on it"));
            }
            let reason = format!("{pf} has no network interface here");
            return plan.refuse(subject, reason, NO_INTERFACE);
        }
        Err(error) => return plan.refuse(subject, error.to_string(), "run as root"),
    };
    let table = match reader.vfs(record.key.pf, &interface) {
        Ok(table) => table,
        Err(error) => return plan.refuse(subject, error.to_string(), "run again, as root"),
    };
    let Some(found) = table.vfs.get(&record.key.vf) else {
        return plan.notes.push(format!("{subject} is gone, and what was set on it"));
    };
    let after = record.original.without(found);
    if after.is_empty() {
        return;
    }
    let before = found.intersect(&after);
    if !force && !before.without(&record.ours).is_empty() {
        return plan.refuse(
            subject,
            format!("it was set to {before} since, not by bedplate"),
            FORCE,
        );
    }
    let start = record.start && after.need_restart() && !has_no_driver(reader, &record.key);
    if let Some(user) = Some(&record.key).filter(|_| start && !force).and_then(use_of) {
        let reason =
            format!("it is in use ({user}), and putting this back restarts its driver: {after}");
        return plan.refuse(subject, reason, FORCE);
    }
    plan.steps.push(Step::Vf {
        key: VfKey { interface, ..record.key.clone() },
        before,
        after,
        start,
        limit_s: record.limit_s,
    });
}

/// Steps for eswitches, by PF. They are for a moment without VFs.
pub(super) fn eswitch_steps(
    plan: &mut RevertPlan,
    reader: &dyn Reader,
    ledger: &Ledger,
    boot: Option<&str>,
    force: bool,
) -> BTreeMap<PciAddress, Step> {
    let mut steps = BTreeMap::new();
    for (name, record) in &ledger.eswitches {
        let subject = format!("eswitch of {name}");
        if boot != Some(record.boot.as_str()) {
            plan.notes.push(format!("{subject} {GONE}"));
        } else if let Some((pf, step)) = eswitch_step(plan, reader, (name, &subject), record, force)
        {
            steps.insert(pf, step);
        }
    }
    steps
}

fn eswitch_step(
    plan: &mut RevertPlan,
    reader: &dyn Reader,
    (name, subject): (&str, &str),
    record: &EswitchRecord,
    force: bool,
) -> Option<(PciAddress, Step)> {
    let pf: PciAddress = name.parse().ok()?;
    let now = match reader.eswitch(pf) {
        Ok(Some(now)) => now,
        Ok(None) => {
            plan.notes.push(format!("{subject} is gone with its driver"));
            return None;
        }
        Err(error) => {
            plan.refuse(subject, error.to_string(), "run as root");
            return None;
        }
    };
    if now == record.original {
        return None;
    }
    if !force && now != record.ours {
        plan.refuse(subject, format!("it was set to {now} since, not by bedplate"), FORCE);
        return None;
    }
    let step = Step::Eswitch { pf, before: now, after: record.original, limit_s: record.limit_s };
    Some((pf, step))
}

/// Eswitches whose PF has as many VFs as it had: they go for a moment, and come back as new ones.
pub(super) fn plan_left(
    plan: &mut RevertPlan,
    reader: &dyn Reader,
    steps: BTreeMap<PciAddress, Step>,
    force: bool,
) {
    for (pf, step) in steps {
        let path = format!("/sys/bus/pci/devices/{pf}/sriov_numvfs");
        let count = match reader.attribute(&path) {
            Ok(count) => count,
            Err(error) => {
                plan.refuse(step.subject(), error.to_string(), "run as root");
                continue;
            }
        };
        if count == "0" {
            plan.steps.push(step);
            continue;
        }
        let users = sriov::users_of_vfs(reader, pf);
        if !force && !users.is_empty() {
            let reason = format!(
                "its mode changes only without VFs, and they are in use: {}",
                users.join(", ")
            );
            plan.refuse(step.subject(), reason, FORCE);
            continue;
        }
        let write = |before: &str, after: &str| Step::Attribute {
            path: path.clone(),
            before: before.to_owned(),
            after: after.to_owned(),
            limit_s: VFS_LIMIT_S,
        };
        plan.steps.extend([write(&count, "0"), step, write("0", &count)]);
    }
}
