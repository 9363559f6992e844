//! Frequency governor and idle states of CPUs. Both last until the next boot, so the daemon sets them at every boot.
//! Sources: Linux Documentation/admin-guide/pm/cpufreq.rst, cpuidle.rst; handbook §11.1.

mod governor;
mod idle;
pub mod section;
#[cfg(test)]
mod tests;

use super::{
    Context, Kind, Privacy, RecordMode, Watch, WriteScope, no_labels, nothing_to_resolve, still_set,
};
use crate::desired::{ArgSource, Desired, KernelArg};
use crate::image_config::{ContributeError, ImageConfig, LiveOnly};
use crate::plan::{Change, Item, KindId, KindPlan, Rationale};
use crate::profile::model::Profile;
use bedplate_cmdline::Token;
use bedplate_facts::Facts;
use bedplate_facts::topology::cpulist;
use bedplate_host::HostKind;
use section::CpuPower;

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "frequency governor and idle states of CPUs",
    resolve: nothing_to_resolve,
    plan,
    contribute,
    watch,
    recorded: &[
        ("/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", RecordMode::Whole),
        (governor::AVAILABLE, RecordMode::Whole),
        ("/sys/devices/system/cpu/cpu*/cpuidle/state*/name", IDLE),
        ("/sys/devices/system/cpu/cpu*/cpuidle/state*/latency", IDLE),
        ("/sys/devices/system/cpu/cpu*/cpuidle/state*/disable", IDLE),
        ("/sys/devices/system/cpu/cpu*/cpuidle/state*/default_status", IDLE),
    ],
    owns: WriteScope {
        attributes: &[
            "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
            "/sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
        ],
        ..WriteScope::NONE
    },
    files: &[],
    privacy: Privacy::OPEN,
    labels: no_labels,
};

const NAME: KindId = KindId::Cpu;
/// Idle states are recorded only for profiles that set them: a host has thousands of these files.
const IDLE: RecordMode = RecordMode::IfSet("max_idle_latency_us");
/// Word before a list of CPUs.
const CPUS: &str = "CPUs";

/// Returns the reason for a value of a key.
fn requested(key: &'static str) -> Rationale {
    Rationale::new("requested by the profile", key)
}

fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    let wanted = &context.profile.cpu;
    if context.facts.host == HostKind::Image {
        section.changes.extend(at_first_boot(wanted));
        return section;
    }
    if let Some(name) = &wanted.governor {
        governor::plan(context, name, &mut section);
    }
    if let Some(latency) = wanted.max_idle_latency_us {
        idle::plan(context, latency, &mut section);
    }
    let is_wanted = |path: &str| match path.ends_with("/scaling_governor") {
        true => wanted.governor.is_some(),
        false => wanted.max_idle_latency_us.is_some(),
    };
    let left = still_set::left_behind(context, NAME).filter(|(path, _)| !is_wanted(path));
    section.notes.extend((left.count() > 0).then(|| NAME.note("CPUs", still_set::text(None))));
    section
}

/// Returns the one change for an image, which has no CPUs.
fn at_first_boot(wanted: &CpuPower) -> Option<Change> {
    let governor = wanted.governor.as_ref().map(|name| {
        Item::new("frequency governor", None, Some(name), &[requested("cpu.governor")])
    });
    let idle = wanted.max_idle_latency_us.map(|latency| {
        let after = format!("up to {latency} µs");
        Item::new("idle states", None, Some(&after), &[requested("cpu.max_idle_latency_us")])
    });
    let items: Vec<Item> = governor.into_iter().chain(idle).collect();
    (!items.is_empty()).then(|| NAME.deferred_change("cpus", "CPUs", items))
}

/// Watches the governors of all online CPUs: programs write to them. Policies without a CPU of their own number do not
/// exist, and are not watched. Idle states are too many: the re-check covers them.
fn watch(profile: &Profile, facts: &Facts) -> Watch {
    let online = facts.cpu.online.known().and_then(|list| cpulist::of_list(list));
    let wanted = online.filter(|_| profile.cpu.governor.is_some());
    let attributes = wanted.into_iter().flatten().map(governor::path);
    Watch { attributes: attributes.collect(), ..Watch::default() }
}

/// Contributes the governor as a kernel argument, and idle states as a setting of a running host: their latencies depend
/// on its idle driver.
fn contribute(
    profile: &Profile,
    _: &Facts,
    _: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let wanted = &profile.cpu;
    if let Some(name) = &wanted.governor {
        let text = format!("cpufreq.default_governor={name}");
        let token = Token::new(&text).map_err(|error| ContributeError::new("governor", error))?;
        let why = vec![requested("cpu.governor")];
        out.arguments.push(KernelArg { token, why, from: ArgSource::Cpu });
    }
    out.live_only.extend(wanted.max_idle_latency_us.map(|latency| LiveOnly {
        id: format!("{NAME}/idle"),
        what: format!("CPU idle states with an exit latency of at most {latency} µs"),
        why: "sysfs loses them at every boot, and the latencies depend on the idle driver of the machine (Linux \
              Documentation/admin-guide/pm/cpuidle.rst)"
            .to_owned(),
        with_agent: "run bedplate on the host at every boot".to_owned(),
        without_agent: "set the deepest C-state in the firmware setup of the machine".to_owned(),
    }));
    Ok(())
}
