//! The only interpreter of [`Action`]: executes a plan, change by change, and makes no decisions. An action reads,
//! compares, returns early when equal, writes, and reads back. A failed change is rolled back. Every change is recorded
//! in the ledger before its first write.

pub mod action;
mod change;
mod cmdline_renewal;
mod error;
mod image_tool;
mod report;
mod store;

use crate::ledger::{Entry, EntryResult, FileRecord, Ledger};
use crate::plan::{Action, Change, Check, KindId, Plan, SettledTool};
use bedplate_base::chain;
use bedplate_base::terminal::brief;
use bedplate_host::{Reader, Writer};

pub(crate) use error::StepError;
pub use report::{ApplyReport, ChangeReport, Left, Outcome, Restored};
pub(crate) use store::{Store, find_file, saved_content};

/// Result of a [`Check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The checked condition holds.
    Holds,
    /// The condition does not hold; the current state.
    Not(String),
    /// The condition could not be read, and why. Never treated as [`Answer::Holds`].
    Unknown(String),
}

/// Evaluates checks: boot configuration needs parsers that the executor does not have. Must not change anything.
pub(crate) type Checker<'a> = &'a dyn Fn(&Check, &dyn Reader) -> Answer;

/// Progress event for the caller to display.
#[derive(Debug)]
pub enum Event<'a> {
    /// Work on a change begins.
    Change(&'a Change),
    /// An action of the change begins.
    Action(&'a Change, &'a Action),
    /// The change has ended.
    Ended(&'a ChangeReport),
}

/// Host access and callbacks of [`apply`].
pub struct Executor<'a> {
    /// Read access to the host.
    pub reader: &'a dyn Reader,
    /// Write access to the same host.
    pub writer: &'a mut dyn Writer,
    /// Evaluates checks.
    pub checker: Checker<'a>,
    /// Receives progress events.
    pub watch: &'a mut dyn FnMut(Event<'_>),
}

/// Applies `plan`. `ledger` is the host's, loaded under the host's lock; `now` is written into the history.
pub fn apply(
    plan: &Plan,
    ledger: &mut Ledger,
    executor: Executor<'_>,
    now: jiff::Timestamp,
) -> ApplyReport {
    let Executor { reader, writer, checker, watch } = executor;
    let mut store = Store::new(reader, writer, ledger);
    let found = store.ledger.clone();
    let mut report = ApplyReport { changes: Vec::new(), warnings: Vec::new() };
    report.warnings.extend(store.remove_stale_temporary_files(replaced_paths(plan)));
    report.warnings.extend(store.finish_renewal());
    // Must precede all changes: a failed change is rolled back to the state that these tools ran on.
    let has_run = |tool: &SettledTool| tool.after.is_none();
    let has_paid = |kind: KindId| {
        plan.body.settled_tools.iter().any(|tool| tool.kind == kind && has_run(tool))
    };
    let paid = record_paid_tools(&mut store, plan, has_run)
        .and_then(|()| finish(&mut store, |record, _| has_paid(record.kind)));
    if let Err(error) = paid {
        report.warnings.push(not_noted(&error));
    }
    if let Err(error) = adopt(&mut store, plan) {
        report.warnings.push(not_noted(&error));
    }
    for change in &plan.body.changes {
        watch(Event::Change(change));
        let ended = match waits_for(change, &report.changes) {
            Some(outcome) => ChangeReport::new(change, outcome),
            None => {
                let unseen: Vec<_> = plan
                    .body
                    .pending_until_boot
                    .iter()
                    .filter(|unseen| unseen.change == change.id)
                    .cloned()
                    .collect();
                change::run(&mut store, checker, watch, change, &unseen)
            }
        };
        watch(Event::Ended(&ended));
        let is_replaced = |tool: &SettledTool| tool.after.as_ref() == Some(&ended.id);
        if matches!(ended.outcome, Outcome::Done | Outcome::AlreadyDone)
            && let Err(error) = record_paid_tools(&mut store, plan, is_replaced)
        {
            report.warnings.push(not_noted(&error));
        }
        report.changes.push(ended);
    }
    // Changes in the plan have settled their own files.
    let is_planned = |change: &str| plan.body.changes.iter().any(|planned| planned.id == change);
    if let Err(error) = finish(&mut store, |_, change| !is_planned(change)) {
        report.warnings.push(not_noted(&error));
    }
    report.warnings.extend(newly_edited(&found, store.ledger));
    // A run that did and tried nothing is not recorded.
    let tried =
        |change: &ChangeReport| matches!(change.outcome, Outcome::Done | Outcome::Failed { .. });
    if (report.changes.iter().any(tried) || *store.ledger != found)
        && let Err(error) =
            store.update_ledger(|ledger| ledger.remember(history(plan, &report, now)))
    {
        report.warnings.push(format!("cannot write the history: {}", chain(&error)));
    }
    report.warnings.extend(store.remove_surplus_contents());
    report
}

/// Returns a warning per file of a finished change that another program has edited since.
fn newly_edited(before: &Ledger, after: &Ledger) -> Vec<String> {
    let is_edited = |ledger: &Ledger, path: &str| {
        ledger.files.get(path).is_some_and(|record| record.edited && record.unfinished.is_none())
    };
    let new = after.files.keys().filter(|path| is_edited(after, path) && !is_edited(before, path));
    new.map(|path| {
        format!("{path} was changed by another program: `bedplate revert` skips it, unless forced")
    })
    .collect()
}

fn not_noted(error: &StepError) -> String {
    format!("cannot update the ledger: {}", chain(error))
}

/// Records in the ledger of an image that pending tools have run.
///
/// # Errors
/// If the ledger cannot be written.
pub(crate) fn note_paid(
    paid: &[SettledTool],
    ledger: &mut Ledger,
    reader: &dyn Reader,
    writer: &mut dyn Writer,
) -> Result<(), StepError> {
    let mut store = Store::new(reader, writer, ledger);
    store.update_ledger(|ledger| {
        paid.iter().for_each(|tool| ledger.remove_pending_tool(tool.kind, &tool.argv));
    })?;
    finish(&mut store, |record, _| paid.iter().any(|tool| record.kind == tool.kind))
}

/// Records bedplate's files that the ledger has lost, as planned.
fn adopt(store: &mut Store, plan: &Plan) -> Result<(), StepError> {
    store.update_ledger(|ledger| plan.body.orphans.iter().for_each(|orphan| orphan.adopt(ledger)))
}

/// Records that pending tools no longer have to run.
fn record_paid_tools(
    store: &mut Store,
    plan: &Plan,
    is_paid: impl Fn(&SettledTool) -> bool,
) -> Result<(), StepError> {
    store.update_ledger(|ledger| {
        for tool in plan.body.settled_tools.iter().filter(|tool| is_paid(tool)) {
            ledger.remove_pending_tool(tool.kind, &tool.argv);
        }
    })
}

/// Settles files of changes that were interrupted after the last write but before the bookkeeping. Skips resource types
/// with a pending tool. `is_over` gets a file's record and the id of the change that began it.
fn finish(store: &mut Store, is_over: impl Fn(&FileRecord, &str) -> bool) -> Result<(), StepError> {
    let mut done = Vec::new();
    for (path, record) in &store.ledger.files {
        let Some(unfinished) = &record.unfinished else { continue };
        let owed = store.ledger.owed.iter().any(|tool| tool.kind == record.kind);
        if !owed && is_over(record, &unfinished.change) {
            done.push((path.clone(), store.file(path)?.state));
        }
    }
    store.update_ledger(|ledger| {
        for (path, state) in &done {
            ledger.settle_file(path, state);
        }
    })
}

fn replaced_paths(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.body.changes.iter().flat_map(|change| &change.actions).filter_map(|action| match action {
        Action::ReplaceFile { path, .. } => Some(path.as_str()),
        _ => None,
    })
}

/// Returns the outcome of a change that must not be tried: it is deferred, or a change that it needs failed.
fn waits_for(change: &Change, earlier: &[ChangeReport]) -> Option<Outcome> {
    if let Some(deferred) = &change.deferred {
        return Some(Outcome::Deferred { until: deferred.until.clone() });
    }
    let needed: Vec<&ChangeReport> =
        earlier.iter().filter(|report| change.needs.contains(&report.id)).collect();
    let failed = |report: &&&ChangeReport| {
        matches!(report.outcome, Outcome::Failed { .. } | Outcome::Blocked { .. })
    };
    let by: Vec<String> = needed.iter().filter(failed).map(|report| report.id.clone()).collect();
    if !by.is_empty() {
        return Some(Outcome::Blocked { by });
    }
    needed.iter().find_map(|report| match &report.outcome {
        Outcome::Deferred { until } => Some(Outcome::Deferred { until: until.clone() }),
        _ => None,
    })
}

/// Returns the last lines of a tool's output, joined into one line: they usually contain the reason for a failure.
pub fn last_lines(output: &str) -> String {
    const LINES: usize = 5;
    const LONGEST: usize = 160;
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES)..].iter();
    last.map(|line| format!(" | {}", brief(line, LONGEST))).collect()
}

fn history(plan: &Plan, report: &ApplyReport, now: jiff::Timestamp) -> Entry {
    let allowed = plan.body.allowed.iter().map(|lint| EntryResult {
        subject: format!("lint {}", lint.id),
        result: "allowed".into(),
        why: Some(lint.reason.clone()),
    });
    let results = report.changes.iter().map(|change| {
        let (result, why) = match &change.outcome {
            Outcome::Done => ("done", None),
            Outcome::AlreadyDone => ("already-done", None),
            Outcome::ToolsPending { commands, why } => {
                let commands: Vec<String> = commands.iter().map(|argv| argv.join(" ")).collect();
                let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                (
                    "tools-pending",
                    Some(format!("to run in the image: {}{why}", commands.join("; "))),
                )
            }
            Outcome::Deferred { until } => ("deferred", Some(until.clone())),
            Outcome::Failed { action, why, output, .. } => {
                let said = output.as_deref().map(last_lines).unwrap_or_default();
                ("failed", Some(format!("{action}: {why}{said}")))
            }
            Outcome::Blocked { by } => ("blocked", Some(format!("by {}", by.join(", ")))),
        };
        EntryResult { subject: change.id.clone(), result: result.into(), why }
    });
    Entry {
        at: format!("{now:.0}"),
        command: "apply".into(),
        profile: Some(plan.profile.clone()),
        results: allowed.chain(results).collect(),
    }
}

/// Describes an action for operators.
pub fn describe(action: &Action) -> String {
    action::operation_for(action).describe()
}

/// Whether an action may take seconds to minutes.
pub fn may_take_long(action: &Action) -> bool {
    action::operation_for(action).may_take_long()
}

/// Returns the effect of an action as lines of a patch.
pub fn diff(action: &Action) -> String {
    action::operation_for(action).diff()
}

/// Returns the line of an action in a plan, shown next to the items of the change called `subject`.
pub fn plan_line(action: &Action, subject: &str) -> Option<String> {
    action::operation_for(action).plan_line(subject)
}
