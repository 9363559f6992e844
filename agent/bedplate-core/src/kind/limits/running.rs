//! Limits of running processes: they keep those with which they started.

use std::collections::BTreeSet;

use super::NAME;
use super::conf::{self, Settings};
use super::files::TargetLimits;
use super::target::LimitTarget;
use crate::kind::Context;
use crate::plan::KindPlan;
use bedplate_base::{ResourceLimit, counted_as, some_of};
use bedplate_facts::service_processes::{self, RunningService, STARTERS, ServiceProcess};
use bedplate_host::Reader;

/// Notes processes with other limits than the profile's: of services in the profile, and of services that start jobs
/// and have no file.
pub(super) fn plan(context: &Context, wanted: &[TargetLimits], section: &mut KindPlan) {
    let reader = context.reader;
    for TargetLimits { target, settings } in wanted {
        let Some(name) = target.service() else { continue };
        match service_processes::of_service(reader, name) {
            Ok(Some(service)) => {
                if let Some(found) = deviations(&service, settings) {
                    let main = only_starters(&service);
                    let end = match deviations(&main, settings) {
                        None if !main.processes.is_empty() => {
                            "they keep these until they end; new jobs get the new ones".to_owned()
                        }
                        _ => format!(
                            "until it starts again: at a reboot, or by `systemctl daemon-reload && systemctl restart \
                             {name}` while no job and no container with GPUs runs"
                        ),
                    };
                    let text = format!("running with other limits: {found}; {end}");
                    section.notes.push(NAME.note(name, text));
                }
            }
            Ok(None) => {}
            Err(error) => {
                let text = format!("limits of its running processes are unknown: {error}");
                section.notes.push(NAME.note(name, text));
            }
        }
    }
    let limits = &context.profile.limits;
    if limits.limits_jobs() {
        elsewhere(reader, &conf::settings(limits, LimitTarget::Slurmd), &limits.apply_to, section);
    }
}

/// Notes programs that start jobs in a unit without bedplate's limits, for example the dockerd of a snap.
fn elsewhere(
    reader: &dyn Reader,
    settings: &Settings,
    covered: &[LimitTarget],
    section: &mut KindPlan,
) {
    let units = match service_processes::with_program(reader, &STARTERS) {
        Ok(units) => units,
        Err(error) => {
            let text =
                format!("whether others start jobs without these limits is unknown: {error}");
            return section.notes.push(NAME.note("services", text));
        }
    };
    for (unit, service) in units {
        let target = LimitTarget::ALL.into_iter().find(|target| target.name() == unit);
        if target.is_some_and(|target| covered.contains(&target)) {
            continue;
        }
        if let Some(found) = deviations(&only_starters(&service), settings) {
            let fix = match target {
                Some(target) => format!("add `{target}` to `apply_to`"),
                None => format!("set the limits with `systemctl edit {unit}`"),
            };
            let text = format!("starts jobs without the limits of the profile: {found}; {fix}");
            section.notes.push(NAME.note(format!("{unit}.service"), text));
        }
    }
}

/// Returns the service with only the processes that start jobs.
fn only_starters(service: &RunningService) -> RunningService {
    RunningService { processes: service.starters().cloned().collect(), ..*service }
}

/// Describes the processes with other limits; `None`: all have those of the profile.
fn deviations(service: &RunningService, settings: &Settings) -> Option<String> {
    let limit = |name: &str| settings.get(name).map(|setting| setting.limit);
    let mut found: Vec<String> = Vec::new();
    let mut report = |resource: &str,
                      wanted: Option<ResourceLimit>,
                      of: fn(&ServiceProcess) -> ResourceLimit| {
        let Some(wanted) = wanted else { return };
        let others: Vec<&ServiceProcess> =
            service.processes.iter().filter(|process| of(process) != wanted).collect();
        let Some(first) = others.first() else { return };
        let mut names: Vec<&str> = others.iter().map(|process| process.program.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let count = counted_as(others.len(), "process", "processes");
        let names = some_of(names.into_iter().map(str::to_owned), 3, "programs");
        found.push(format!("{resource} {} ({count}: {names})", of(first)));
    };
    report("locked memory", limit(conf::MEMLOCK), |process| process.memlock);
    report("stack", limit(conf::STACK), |process| process.stack);
    if let (Some(wanted), Some(now)) = (limit(conf::TASKS_MAX), service.tasks_max)
        && wanted != now
    {
        found.push(format!("at most {} tasks", now.format_systemd()));
    }
    (!found.is_empty()).then(|| found.join("; "))
}

/// Returns the services that [`plan`] reads the processes of, without `.service`.
pub(crate) fn services(reader: &dyn Reader) -> BTreeSet<String> {
    let others = service_processes::with_program(reader, &STARTERS).unwrap_or_default();
    others.into_keys().chain(LimitTarget::services().map(str::to_owned)).collect()
}
