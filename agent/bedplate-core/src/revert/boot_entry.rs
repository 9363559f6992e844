//! Check of the default boot entry around a revert: read before, checked afterwards like in `apply`. If the revert has
//! broken the entry, its boot files are put back.

use super::report::{FileStates, StepOutcome, StepReport};
use super::{RevertPlan, Step};
use crate::apply::action::expect;
use crate::apply::{StepError, Store, saved_content};
use crate::kind::cmdline::{self, EntryFaults, RevertedEntry};
use crate::ledger::{FileRecord, FileState, Ledger, REVERT, Sha};
use bedplate_base::{Reading, chain};
use bedplate_cmdline::Token;
use bedplate_facts::{Depth, Facts, observe};
use bedplate_host::Reader;

/// Name of the entry in reports.
const SUBJECT: &str = "default boot entry";
/// Outcome of steps that are rolled back.
const TAKEN_BACK: &str = "rolled back: the default boot entry failed its check";

/// Returns the kernel image of an absent entry file, from its content in the ledger.
pub(super) fn kernel(reader: &dyn Reader, path: &str, record: &FileRecord) -> Reading<String> {
    let Some(sha) = record.original.sha() else { return Reading::Absent };
    match saved_content(reader, sha) {
        Ok(content) => cmdline::entry_kernel(reader, path, &content),
        Err(error) => Reading::unknown(chain(&error)),
    }
}

/// The entry before the revert.
pub(super) struct Guard {
    facts: Facts,
    entry: RevertedEntry,
    owned: Vec<Token>,
}

impl Guard {
    /// Reads the entry; `None` if no step affects it.
    pub(super) fn new(reader: &dyn Reader, ledger: &Ledger, plan: &RevertPlan) -> Option<Self> {
        plan.steps.iter().any(|step| concerns_boot(step, ledger)).then(|| {
            let facts = observe(reader, Depth::Plan);
            let owned = cmdline::owned(ledger);
            Guard { entry: RevertedEntry::read(reader, &facts), facts, owned }
        })
    }

    /// Checks the entry. If the revert has broken it, restores the boot configuration to `found` and marks its steps as
    /// failed. Returns the report of the entry, if it has faults.
    pub(super) fn settle(
        self,
        store: &mut Store,
        plan: &RevertPlan,
        found: &FileStates,
        steps: &mut [StepReport],
    ) -> Option<StepReport> {
        let EntryFaults { new, old } = self.entry.compare(store.reader, &self.facts, &self.owned);
        let why = match (new.is_empty(), old.is_empty()) {
            (true, true) => return None,
            (true, false) => format!("already faulty before the revert: {}", old.join("; ")),
            (false, _) => {
                roll_back(store, plan, found, steps);
                format!("failed its check: {}", new.join("; "))
            }
        };
        Some(StepReport { subject: SUBJECT.into(), outcome: StepOutcome::failed(why) })
    }
}

/// Whether a step affects booting: a tool, a file that a tool reads, or a file of the boot configuration.
pub(super) fn concerns_boot(step: &Step, ledger: &Ledger) -> bool {
    let is_read = |path| ledger.files.get(path).is_some_and(|record| !record.readers.is_empty());
    match step {
        Step::Tool { .. } => true,
        Step::File { path, .. } => is_boot_file(path, ledger) || is_read(path),
        _ => false,
    }
}

/// Whether a file belongs to the boot configuration; one that is not in the ledger may.
fn is_boot_file(path: &str, ledger: &Ledger) -> bool {
    ledger.files.get(path).is_none_or(|record| record.kind == cmdline::NAME)
}

/// Restores files that steps have changed, and marks these steps as failed.
fn roll_back(store: &mut Store, plan: &RevertPlan, found: &FileStates, steps: &mut [StepReport]) {
    let done =
        plan.steps.iter().zip(steps).filter(|(_, report)| report.outcome == StepOutcome::Done);
    for (step, report) in done {
        let back = match step {
            Step::File { path, to, .. } if is_boot_file(path, store.ledger) => {
                let Some(before) = found.get(path) else { continue };
                put_back(store, path, &[to.sha().cloned()], before)
            }
            Step::Tool { argv, makes, .. } => {
                let new = store.ledger.unfinished_products(REVERT, argv);
                let made: Vec<&String> = makes.iter().chain(&new).collect();
                if made.is_empty() {
                    continue;
                }
                // All of them, even if one fails.
                let back: Vec<_> = made.iter().map(|path| put_back_made(store, path)).collect();
                back.into_iter().collect()
            }
            _ => continue,
        };
        let why = back.map_or_else(|error| chain(&error), |()| TAKEN_BACK.to_owned());
        report.outcome = StepOutcome::failed(why);
    }
}

/// Restores a file that a tool has generated.
fn put_back_made(store: &mut Store, path: &str) -> Result<(), StepError> {
    let record = store.ledger.files.get(path);
    match record.and_then(|record| record.unfinished.clone()) {
        Some(unfinished) => put_back(store, path, &unfinished.wrote, &unfinished.before),
        None => Ok(()),
    }
}

/// Restores a file to `before` if it holds a content that the revert `left`.
fn put_back(
    store: &mut Store,
    path: &str,
    left: &[Option<Sha>],
    before: &FileState,
) -> Result<(), StepError> {
    let now = store.file(path)?;
    if now.state == *before {
        return Ok(());
    }
    expect(left.contains(&now.state.sha().cloned()), path, "other content")?;
    store.restore_file(path, &now, before)
}
