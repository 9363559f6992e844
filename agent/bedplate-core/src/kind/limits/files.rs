//! Compares the files with limits.

use super::conf::{self, Settings};
use super::target::{LimitTarget, PAM_LIMITS, SESSIONS};
use super::{NAME, reload};
use crate::kind::{Context, TargetFile, owed_change, owed_item, removed};
use crate::plan::{Action, Effect, Item, KindPlan, Overridden};
use bedplate_base::{ReadError, ResourceLimit};
use bedplate_facts::{limits, service_processes, systemd_units};
use bedplate_host::HostKind;

/// Limits of a target.
pub(super) struct TargetLimits {
    pub target: LimitTarget,
    pub settings: Settings,
}

/// Plans all files. Returns the targets that have or get limits.
pub(super) fn plan(context: &Context, section: &mut KindPlan) -> Vec<TargetLimits> {
    let limits = &context.profile.limits;
    let (mut wanted, mut items, mut actions) = (Vec::new(), Vec::new(), Vec::new());
    for target in LimitTarget::ALL {
        let is_wanted = limits.limits_jobs() && limits.apply_to.contains(&target);
        let Some(file) = TargetFile::read(context, NAME, target.path(), is_wanted, section) else {
            continue;
        };
        let has_it = match is_wanted && file.before.is_none() {
            true => match is_there(context, target) {
                Ok(there) => there,
                Err(error) => {
                    section.unknowns.push(NAME.unknown(target.name(), error.to_string()));
                    continue;
                }
            },
            false => is_wanted,
        };
        let settings = if has_it { conf::settings(limits, target) } else { Settings::new() };
        if !settings.is_empty() {
            overridden(context, target, &settings, section);
        }
        let differences = differences(target, &file, &settings);
        let after = conf::text(target, &settings, &context.profile.name);
        if differences.is_empty() {
            if !settings.is_empty() {
                section.unchanged.push(NAME.up_to_date(target.name(), state(&settings, target)));
                wanted.push(TargetLimits { target, settings });
            }
            continue;
        }
        match target.service() {
            Some(name) => {
                if let Some(tasks) = too_many_tasks(context, name, &settings) {
                    section.blockers.push(NAME.blocker(
                        name,
                        format!(
                            "it has {tasks} tasks, more than `tasks_max`: jobs could start no more processes. Its other \
                             limits are not set either"
                        ),
                        "set a larger `tasks_max` in [limits]",
                    ));
                    continue;
                }
                items.extend(differences);
                actions.push(file.action(after));
            }
            None => section.changes.push(file.change(after, differences)),
        }
        wanted.extend((!settings.is_empty()).then_some(TargetLimits { target, settings }));
    }
    if limits.limits_jobs() && wanted.is_empty() && section.blockers.is_empty() {
        let text = "skipped: nothing in `apply_to` takes these limits here, or is installed";
        section.notes.push(NAME.note("services and sessions", text));
    }
    plan_units(context, items, actions, section);
    wanted
}

/// Adds the change of all drop-ins, after which systemd reads them once; or the reload that an interrupted run left.
fn plan_units(
    context: &Context,
    items: Vec<Item>,
    mut actions: Vec<Action>,
    section: &mut KindPlan,
) {
    let mut owed = context.ledger.owed.iter().filter(|tool| tool.kind == NAME).peekable();
    if items.is_empty() && owed.peek().is_none() {
        return;
    }
    let hindrance = reload::hindrance(context.reader);
    if items.is_empty() {
        let owed = owed.filter(|_| hindrance.is_none());
        section.changes.extend(
            owed.map(|tool| owed_change(NAME, tool, "systemd", owed_item(tool), Vec::new())),
        );
        return;
    }
    match hindrance {
        None => actions.push(reload::action()),
        Some(why) if context.facts.host != HostKind::Image => section.notes.push(NAME.note(
            "systemd units",
            format!("systemd reads the changed files at the next boot: {why}"),
        )),
        Some(_) => {}
    }
    section.changes.push(NAME.change("units", "systemd units", items, Effect::Now, actions));
}

/// Returns the number of tasks that a running service has, if it is more than the new limit.
fn too_many_tasks(context: &Context, name: &str, settings: &Settings) -> Option<u64> {
    let ResourceLimit::AtMost(limit) = settings.get(conf::TASKS_MAX)?.limit else { return None };
    let running = service_processes::of_service(context.reader, name).ok()??;
    running.tasks.filter(|tasks| *tasks > limit)
}

/// Whether the service is installed, or sessions have limits here.
fn is_there(context: &Context, target: LimitTarget) -> Result<bool, ReadError> {
    match target.service() {
        Some(name) => Ok(systemd_units::service(context.reader, name)?.is_some()),
        None => context.reader.exists(PAM_LIMITS),
    }
}

/// Compares by values: a reworded comment is not a difference.
fn differences(target: LimitTarget, file: &TargetFile, settings: &Settings) -> Vec<Item> {
    let text = String::from_utf8_lossy(file.before.as_deref().unwrap_or_default()).into_owned();
    let ours = conf::values(target, &text);
    let subject = |name: &str| format!("{target} {name}");
    let set = settings.iter().filter(|(name, setting)| ours.get(*name) != Some(&&*setting.value));
    let set = set.map(|(name, setting)| {
        let why = std::slice::from_ref(&setting.why);
        let before = ours.get(name).map(|value| shown(target, name, value));
        let after = shown(target, name, &setting.value);
        Item::new(subject(name), before.as_deref(), Some(&after), why)
    });
    let dropped = ours.iter().filter(|(name, _)| !settings.contains_key(*name));
    let mut items: Vec<Item> = set
        .chain(dropped.map(|(name, value)| removed(subject(name), shown(target, name, value))))
        .collect();
    // Other lines may undo the limits, and a file without any is still bedplate's.
    let expected = conf::text(target, settings, "").unwrap_or_default();
    if items.is_empty() && conf::lines(&text) != conf::lines(&expected)
        || items.is_empty() && settings.is_empty() && file.before.is_some()
    {
        items.push(removed(subject("other lines"), "in the file"));
    }
    items
}

/// Formats a value of a file as the profile does: `64M`, `unlimited`.
fn shown(target: LimitTarget, name: &str, value: &str) -> String {
    let limit = match target.service() {
        Some(_) if name == conf::TASKS_MAX => return value.replace("infinity", "unlimited"),
        Some(_) => ResourceLimit::parse_systemd_bytes(value),
        None => ResourceLimit::parse_kib(value),
    };
    limit.map_or_else(|| value.to_owned(), ResourceLimit::format_bytes)
}

fn state(settings: &Settings, target: LimitTarget) -> String {
    let shown = |name: &str, value: &str| format!("{name} {}", shown(target, name, value));
    let values = settings.iter().map(|(name, setting)| shown(name, &setting.value));
    format!("{}, in {}", values.collect::<Vec<_>>().join(", "), target.path())
}

/// Notes files that override bedplate's values: a file that sorts later wins.
fn overridden(context: &Context, target: LimitTarget, settings: &Settings, section: &mut KindPlan) {
    for (name, wanted) in settings {
        let found = match effective(context, target, name) {
            Ok(found) => found,
            Err(error) => {
                let subject = format!("{target} {name}");
                section.unknowns.push(NAME.unknown(subject, error.to_string()));
                continue;
            }
        };
        let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let Some((path, limit)) = found else { continue };
        if file_name(&path) <= file_name(SESSIONS) || limit == Some(wanted.limit) {
            continue;
        }
        let setting = format!("{target} {name}");
        let text = format!("overridden by {path}, which sorts after {}", target.path());
        section.notes.push(NAME.note(setting.clone(), text));
        section.overridden.push(Overridden { kind: NAME, setting, path });
    }
}

/// Returns the value that takes effect and its file.
fn effective(
    context: &Context,
    target: LimitTarget,
    name: &str,
) -> Result<Option<(String, Option<ResourceLimit>)>, ReadError> {
    let reader = context.reader;
    let Some(service) = target.service() else {
        let found = limits::session_limit(reader, name)?;
        return Ok(found.map(|found| (found.path, ResourceLimit::parse_kib(&found.value))));
    };
    let Some(unit) = systemd_units::service(reader, service)? else { return Ok(None) };
    let found = systemd_units::of_service(reader, service, &unit, name)?;
    Ok(found.map(|found| (found.path, ResourceLimit::parse_systemd_bytes(&found.value))))
}
