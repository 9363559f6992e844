//! Frequency governor of each policy. CPUs that share a clock share a policy.

use std::collections::{BTreeMap, BTreeSet};

use super::{CPUS, NAME, requested};
use crate::kind::{Context, WRITE_LIMIT_S};
use crate::plan::{Action, Effect, Item, KindPlan};
use crate::setting::WriteAttribute;
use bedplate_facts::topology::cpulist;

/// Directory of the policies.
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
/// Governors of the driver. All policies of a host have the same driver (drivers/cpufreq/cpufreq.c).
pub(super) const AVAILABLE: &str =
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors";

/// Returns the path of a policy's governor. A policy has the number of its first CPU.
pub(super) fn path(policy: u32) -> String {
    format!("{POLICIES}/policy{policy}/scaling_governor")
}

/// Compares the governor of each policy.
pub(super) fn plan(context: &Context, wanted: &str, section: &mut KindPlan) {
    let subject = "frequency governor";
    let names = match context.reader.list(POLICIES) {
        Ok(names) => names,
        Err(error) if error.is_absent() => return without_driver(context, section),
        Err(error) => return section.unknowns.push(NAME.unknown(subject, error.to_string())),
    };
    let number = |name: &String| name.strip_prefix("policy")?.parse::<u32>().ok();
    let mut policies: Vec<u32> = names.iter().filter_map(number).collect();
    if policies.is_empty() {
        return without_driver(context, section);
    }
    policies.sort_unstable();
    let online = context.facts.cpu.online.known().and_then(|list| cpulist::of_list(list));
    let is_offline = |policy: &u32| online.as_ref().is_some_and(|online| !online.contains(policy));
    let mut differing: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for policy in &policies {
        match context.reader.attribute(&path(*policy)) {
            Ok(now) if now == wanted => {}
            Ok(now) => _ = differing.entry(now).or_default().insert(*policy),
            // A policy whose CPUs are all offline stays, and cannot be read (drivers/cpufreq/cpufreq.c show()).
            Err(_) if is_offline(policy) => {}
            Err(error) => {
                return section.unknowns.push(NAME.unknown(subject, error.to_string()));
            }
        }
    }
    if differing.is_empty() {
        let state = format!("{wanted}, {} policies", policies.len());
        return section.unchanged.push(NAME.up_to_date(subject, state));
    }
    match context.reader.attribute(AVAILABLE) {
        Ok(list) if !list.split_whitespace().any(|name| name == wanted) => {
            let reason = format!("the kernel has no governor `{wanted}` here, only: {list}");
            let fix = "name one of these in [cpu] governor, or load the module of the governor";
            return section.blockers.push(NAME.blocker(subject, reason, fix));
        }
        Ok(_) => {}
        Err(error) => return section.unknowns.push(NAME.unknown(subject, error.to_string())),
    }
    let why = [requested("cpu.governor")];
    let items = differing.iter().map(|(before, policies)| {
        let name = format!("governor of {CPUS} {}", cpulist::list(policies));
        Item::new(name, Some(before), Some(wanted), &why)
    });
    let write = |(before, policies): (&String, &BTreeSet<u32>)| {
        let write = |policy: &u32| {
            Action::WriteAttribute(WriteAttribute {
                path: path(*policy),
                before: before.clone(),
                after: wanted.to_owned(),
                limit_s: WRITE_LIMIT_S,
            })
        };
        policies.iter().map(write).collect::<Vec<_>>()
    };
    let actions = differing.iter().flat_map(write).collect();
    let items = items.collect();
    section.changes.push(NAME.change("governor", subject, items, Effect::EveryBoot, actions));
}

/// Reports a host without frequency driver. The hypervisor controls the frequency of a VM's CPUs.
fn without_driver(context: &Context, section: &mut KindPlan) {
    if context.facts.cpu.is_virtual() {
        let text = "skipped: a VM has no frequency driver";
        return section.notes.push(NAME.note("frequency governor", text));
    }
    section.blockers.push(NAME.blocker(
        "frequency governor",
        "the kernel has no frequency driver: the firmware controls the frequency, or its module is not loaded",
        "let the operating system control performance in the firmware setup, or remove `governor` from [cpu]",
    ));
}
