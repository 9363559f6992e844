//! Text of the files with limits: drop-ins of units (systemd.unit(5)), and a file of pam_limits (limits.conf(5)). Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::requested;
use super::section::Limits;
use super::target::LimitTarget;
use crate::file_heading::{header, reasons};
use crate::plan::Rationale;
use bedplate_base::ResourceLimit;

/// A limit in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LimitSetting {
    /// Key of the profile.
    pub why: Rationale,
    /// Limit.
    pub limit: ResourceLimit,
    /// Value in the syntax of the file.
    pub value: String,
}

/// Limits of a file, by the file's own name for each.
pub(super) type Settings = BTreeMap<&'static str, LimitSetting>;

/// Names of the limits in drop-ins.
pub(super) const MEMLOCK: &str = "LimitMEMLOCK";
pub(super) const STACK: &str = "LimitSTACK";
pub(super) const TASKS_MAX: &str = "TasksMax";
/// Names of the limits in limits.conf(5).
pub(super) const SESSION_MEMLOCK: &str = "memlock";
pub(super) const SESSION_STACK: &str = "stack";

/// Returns the limits of a target's file.
pub(super) fn settings(limits: &Limits, target: LimitTarget) -> Settings {
    let memlock = limits.memlock.map(|limit| (MEMLOCK, SESSION_MEMLOCK, "limits.memlock", limit));
    let stack = limits.stack.map(|limit| (STACK, SESSION_STACK, "limits.stack", limit));
    let tasks = limits.tasks_max.filter(|_| target.service().is_some());
    let tasks = tasks.map(|tasks| (TASKS_MAX, TASKS_MAX, "limits.tasks_max", tasks.into()));
    let all = memlock.into_iter().chain(stack).chain(tasks);
    let setting = |(of_unit, of_session, key, limit): (_, _, _, ResourceLimit)| {
        let (name, value) = match target.service() {
            Some(_) => (of_unit, limit.format_systemd()),
            None => (of_session, limit.format_kib()),
        };
        (name, LimitSetting { why: requested(key), limit, value })
    };
    all.map(setting).collect()
}

/// Returns the text of a target's file; `None` without limits.
pub(super) fn text(target: LimitTarget, settings: &Settings, profile: &str) -> Option<String> {
    if settings.is_empty() {
        return None;
    }
    let is_service = target.service().is_some();
    let mut text = header("#", profile);
    text += if is_service { "\n[Service]\n" } else { "\n" };
    for (name, LimitSetting { why, value, .. }) in settings {
        text += &reasons("#", std::slice::from_ref(why));
        let _ = match is_service {
            true => writeln!(text, "{name}={value}"),
            false => writeln!(text, "* - {name} {value}"),
        };
    }
    Some(text)
}

/// Returns the limits in the text of a target's file, by name.
pub(super) fn values(target: LimitTarget, text: &str) -> BTreeMap<&str, &str> {
    let value = |line| match target.service() {
        Some(_) => str::split_once(line, '='),
        None => line.strip_prefix("* - ").and_then(|rest| rest.split_once(' ')),
    };
    lines(text).into_iter().filter_map(value).collect()
}

/// Returns the lines of a file that are not comments.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).collect()
}

/// Whether a ledger must not restore a line of these files: it may do more than limit memory, stacks and tasks. systemd runs
/// the programs that a unit names, and pam_limits has items like `chroot`.
pub(crate) fn restore_fault(line: &str) -> bool {
    let line = line.trim();
    let is_plain = |value: &str| {
        !value.is_empty()
            && value.bytes().all(|c| c.is_ascii_alphanumeric() || b":%.-".contains(&c))
    };
    if line.is_empty() || line.starts_with(['#', ';']) || line == "[Service]" {
        return false;
    }
    if let Some((name, value)) = line.split_once('=') {
        return ![MEMLOCK, STACK, TASKS_MAX].contains(&name.trim()) || !is_plain(value.trim());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "soft" | "hard" | "-", item, value] = words.as_slice() else { return true };
    ![SESSION_MEMLOCK, SESSION_STACK].contains(item) || !is_plain(value)
}
