//! Seals a host or an image for cloning: removes state that identifies or holds the host, and preserves the state that
//! clones need.
//!
//! [`plan`] only reads. [`run`] writes the reduced ledger before it removes a file, and removes holds last. A run that
//! fails half-way loses nothing that clones need, and lets no daemon enforce the profile on a paused host. Other
//! bedplate commands wait for the lock; the daemon does not, so [`run`] checks for it again before the holds and at the
//! end.

mod obstacle;
mod parts;
mod records;
mod refusal;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::apply::Store;
use crate::kind::some_of;
use crate::ledger::Ledger;
use crate::revert::Refused;
use bedplate_base::chain;
use bedplate_host::{HostKind, Reader, Writer};

pub(crate) use parts::Part;
use parts::Source;
pub use parts::{DEVICES, PARTS, SealDisposition, markdown};

/// Note about the state of other tools.
pub(crate) const NOT_TOUCHED: &str = "not touched: /etc/machine-id, ssh host keys, cloud-init's state, the journal, the network \
    configuration (`systemd-firstboot --reset`, `cloud-init clean` and their like reset these)";

/// Parts that a seal removes and preserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SealPlan {
    /// Every part of bedplate's state, removed ones in the order of their removal.
    pub parts: Vec<PartPlan>,
    /// Reasons for which nothing is removed.
    pub refused: Vec<Refused>,
    /// Notes.
    pub notes: Vec<String>,
}

/// A part of bedplate's state on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PartPlan {
    /// Path, or path and part of the file.
    pub part: &'static str,
    /// Content of the part.
    pub content: &'static str,
    /// Whether a seal removes it.
    pub fate: SealDisposition,
    /// Reason.
    pub why: &'static str,
    /// Whether this host has it.
    #[serde(rename = "present")]
    pub is_present: bool,
    /// Files or entries to remove; empty for a part that stays, and for one that is absent.
    pub items: Vec<String>,
}

impl SealPlan {
    /// Whether the host has neither a profile nor state of bedplate.
    pub fn is_without_bedplate(&self) -> bool {
        self.parts.iter().all(|part| !part.is_present)
    }

    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.items.is_empty())
    }
}

/// Result of a seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SealReport {
    /// The executed plan; if it contains a refusal, nothing was removed.
    #[serde(flatten)]
    pub plan: SealPlan,
    /// Errors; all other parts were removed.
    pub failed: Vec<String>,
}

/// Plans a seal. Reads only. `in_use`: as [`Machine::in_use`].
pub fn plan(ledger: &Ledger, reader: &dyn Reader, in_use: Option<&Refused>) -> SealPlan {
    let mut ledger = ledger.clone();
    let mut refused: Vec<Refused> = in_use.cloned().into_iter().collect();
    refused.extend(refusal::refusals(&ledger, reader));
    let mut failed = Vec::new();
    let mut part_plan = |part: &Part| {
        let mut fail = |error| failed.push(refusal::unreadable(part.name, &error));
        let items = part.source.items(&mut ledger, reader).unwrap_or_else(|error| {
            fail(error);
            Vec::new()
        });
        let is_kept = part.source.is_kept(reader).unwrap_or_else(|error| {
            fail(error);
            false
        });
        PartPlan {
            part: part.name,
            content: part.content,
            fate: part.fate(),
            why: part.why,
            is_present: is_kept || !items.is_empty(),
            items,
        }
    };
    let parts: Vec<PartPlan> = PARTS.iter().map(&mut part_plan).collect();
    refused.extend(failed);
    refused.extend(obstacle::obstacles(&parts, reader));
    let notes = refusal::slot(reader).into_iter().chain([NOT_TOUCHED.to_owned()]).collect();
    SealPlan { parts, refused, notes }
}

/// Access of a seal to the machine, apart from its files.
pub trait Machine {
    /// Returns the refusal for a running program that would write removed state again.
    fn in_use(&mut self) -> Option<Refused>;

    /// Removes the files that the daemon publishes on a running host. Returns its errors.
    fn remove_published_files(&mut self) -> Vec<String>;
}

/// Executes `plan` under the host's lock.
pub fn run(
    plan: SealPlan,
    ledger: &mut Ledger,
    (reader, writer): (&dyn Reader, &mut dyn Writer),
    machine: &mut dyn Machine,
) -> SealReport {
    if !plan.refused.is_empty() || plan.is_empty() {
        return SealReport { plan, failed: Vec::new() };
    }
    let mut failed = remove(&plan, ledger, (reader, &mut *writer), machine);
    // The holds must stay as long as any other part is left, or a daemon has been started.
    if failed.is_empty() {
        failed.extend(machine.in_use().as_ref().map(started));
    }
    if failed.is_empty() {
        failed = remove_files(&plan, writer, Source::is_hold);
    }
    if failed.is_empty() {
        failed = leftovers(ledger, reader, machine);
    }
    SealReport { plan, failed }
}

/// Removes all but the holds. Returns errors.
fn remove(
    plan: &SealPlan,
    ledger: &mut Ledger,
    (reader, writer): (&dyn Reader, &mut dyn Writer),
    machine: &mut dyn Machine,
) -> Vec<String> {
    let mut store = Store::new(reader, writer, ledger);
    let reduced = store.update_ledger(|ledger| {
        for part in PARTS {
            if let Source::Entries(take) = part.source {
                drop(take(ledger));
            }
        }
    });
    if let Err(error) = reduced {
        return vec![chain(&error)];
    }
    let mut failed = store.remove_stale_temporary_files(std::iter::empty());
    failed.extend(store.remove_surplus_contents());
    let is_live = reader.kind() == HostKind::Live;
    if is_live && has_published(plan) {
        failed.extend(machine.remove_published_files());
    }
    if failed.is_empty() {
        let is_chosen = |source: Source| !(source.is_hold() || is_live && source.is_published());
        failed = remove_files(plan, writer, is_chosen);
    }
    failed
}

/// Removes the files of the parts that `is_chosen` selects, up to the first failure. Returns errors.
fn remove_files(
    plan: &SealPlan,
    writer: &mut dyn Writer,
    is_chosen: impl Fn(Source) -> bool,
) -> Vec<String> {
    for (part, planned) in PARTS.iter().zip(&plan.parts) {
        if part.source.is_file() && is_chosen(part.source) {
            let errors = planned.items.iter().filter_map(|path| writer.remove_file(path).err());
            let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
            if !errors.is_empty() {
                return errors;
            }
        }
    }
    Vec::new()
}

/// Returns the state that was written during the seal, and the programs that wrote it.
fn leftovers(ledger: &Ledger, reader: &dyn Reader, machine: &mut dyn Machine) -> Vec<String> {
    let found = plan(ledger, reader, machine.in_use().as_ref());
    let parts = found.parts.iter().filter(|part| !part.items.is_empty());
    let parts = parts.map(|part| {
        let items = some_of(part.items.iter().cloned(), refusal::FEW, "files");
        format!("{}: written again during the seal: {items}", part.part)
    });
    found.refused.iter().map(started).chain(parts).collect()
}

/// Formats a refusal that arose during the seal.
fn started(refused: &Refused) -> String {
    let Refused { subject, reason, fix } = refused;
    format!("{subject}: {reason}; {fix}")
}

fn has_published(plan: &SealPlan) -> bool {
    let mut parts = PARTS.iter().zip(&plan.parts);
    parts.any(|(part, planned)| part.source.is_published() && !planned.items.is_empty())
}
