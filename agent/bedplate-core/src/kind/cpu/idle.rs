//! Idle states of each CPU, by their exit latency.

use std::collections::{BTreeMap, BTreeSet};

use super::{CPUS, NAME, requested};
use crate::kind::attribute::number;
use crate::kind::{Context, WRITE_LIMIT_S};
use crate::plan::{Action, Effect, Item, KindPlan};
use crate::setting::WriteAttribute;
use bedplate_base::{OptionalRead as _, ReadError};
use bedplate_facts::topology::cpulist;
use bedplate_host::Reader;

/// A state of one CPU.
struct IdleState {
    /// Path of `disable`.
    path: String,
    /// Name and exit latency, for display.
    name: String,
    /// Exit latency in microseconds.
    latency_us: u64,
    /// Whether it is disabled now.
    is_disabled: bool,
    /// Whether its driver disables it at first.
    is_off_by_default: bool,
}

/// Compares the states of all online CPUs.
pub(super) fn plan(context: &Context, max_latency_us: u32, section: &mut KindPlan) {
    let subject = "idle states";
    let unknown = |reason: String| NAME.unknown(subject, reason);
    let online = context.facts.cpu.online.known().and_then(|list| cpulist::of_list(list));
    let Some(online) = online else {
        return section.unknowns.push(unknown("the online CPUs are unknown".to_owned()));
    };
    let mut states = Vec::new();
    for cpu in online {
        match of_cpu(context.reader, cpu) {
            Ok(found) => states.extend(found.into_iter().map(|state| (cpu, state))),
            Err(error) => return section.unknowns.push(unknown(error.to_string())),
        }
    }
    if states.is_empty() {
        let text = "skipped: the kernel has no idle driver, so CPUs have no deep idle states";
        return section.notes.push(NAME.note(subject, text));
    }
    let (mut groups, mut actions) = (BTreeMap::new(), Vec::new());
    for (cpu, state) in &states {
        let disable = state.latency_us > max_latency_us.into();
        if disable == state.is_disabled || !disable && state.is_off_by_default {
            continue;
        }
        let cpus: &mut BTreeSet<u32> =
            groups.entry((state.latency_us, state.name.clone(), disable)).or_default();
        cpus.insert(*cpu);
        let word = |disabled: bool| if disabled { "1" } else { "0" }.to_owned();
        actions.push(Action::WriteAttribute(WriteAttribute {
            path: state.path.clone(),
            before: word(state.is_disabled),
            after: word(disable),
            limit_s: WRITE_LIMIT_S,
        }));
    }
    if actions.is_empty() {
        let state = format!("none above {max_latency_us} µs is enabled");
        return section.unchanged.push(NAME.up_to_date(subject, state));
    }
    let why = [requested("cpu.max_idle_latency_us")];
    let word = |disabled: bool| if disabled { "disabled" } else { "enabled" };
    let items = groups.iter().map(|((_, name, disable), cpus)| {
        let name = format!("{name} of {CPUS} {}", cpulist::list(cpus));
        Item::new(name, Some(word(!disable)), Some(word(*disable)), &why)
    });
    let items = items.collect();
    section.changes.push(NAME.change("idle", subject, items, Effect::EveryBoot, actions));
}

/// Reads the states of a CPU; none without an idle driver.
fn of_cpu(reader: &dyn Reader, cpu: u32) -> Result<Vec<IdleState>, ReadError> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let names = reader.list(&directory).optional()?.unwrap_or_default();
    let states = names.iter().filter(|name| name.starts_with("state"));
    states
        .map(|state| {
            let directory = format!("{directory}/{state}");
            let latency_us = number(reader, &format!("{directory}/latency"))?;
            let path = format!("{directory}/disable");
            // Since Linux 5.6 (Documentation/ABI/testing/sysfs-devices-system-cpu).
            let default = reader.attribute(&format!("{directory}/default_status")).optional()?;
            let name = reader.attribute(&format!("{directory}/name"))?;
            Ok(IdleState {
                is_disabled: number(reader, &path)? != 0,
                path,
                name: format!("{name} ({latency_us} µs)"),
                latency_us,
                is_off_by_default: default.as_deref() == Some("disabled"),
            })
        })
        .collect()
}
