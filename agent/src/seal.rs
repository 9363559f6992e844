//! Sealing a host or an image for cloning: removes state that identifies the host or holds it, and preserves the state that
//! clones need.
//!
//! [`plan`] only reads. [`run`] writes the reduced ledger before it removes a file, and removes holds last: a run that fails
//! half-way loses nothing that clones need, and lets no daemon enforce the profile on a host that was held.

mod parts;
mod records;
mod refusal;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::apply::Store;
use crate::error_chain::chain;
use crate::host::{HostKind, Reader, Writer};
use crate::ledger::Ledger;
use crate::revert::Refused;

use parts::Source;
pub use parts::{Fate, PARTS, Part, markdown};

/// State that belongs to other tools.
pub const NOT_TOUCHED: &str = "not touched: /etc/machine-id, ssh host keys, cloud-init's state, the journal, the network \
    configuration (`systemd-firstboot --reset`, `cloud-init clean` and their like reset these)";

/// Parts that a seal removes and preserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SealPlan {
    /// Every part of bedplate's state, removed ones in the order of their removal.
    pub parts: Vec<PartPlan>,
    /// Reasons for which nothing is removed.
    pub refused: Vec<Refused>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A part of bedplate's state on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PartPlan {
    /// Path, or path and part of the file.
    pub part: &'static str,
    /// Content of the part.
    pub content: &'static str,
    /// Whether a seal removes it.
    pub fate: Fate,
    /// Reason.
    pub why: &'static str,
    /// Files or entries to remove; empty for a part that stays, and for one that is absent.
    pub items: Vec<String>,
}

impl SealPlan {
    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.items.is_empty())
    }
}

/// Result of a seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SealReport {
    /// The plan that was carried out; with a refusal in it, nothing was removed.
    #[serde(flatten)]
    pub plan: SealPlan,
    /// Errors; the other parts were removed.
    pub failed: Vec<String>,
}

/// Plans a seal. Reads only. `daemon`: the refusal for a daemon that runs on the host.
pub fn plan(ledger: &Ledger, reader: &dyn Reader, daemon: Option<&Refused>) -> SealPlan {
    let mut ledger = ledger.clone();
    let mut refused: Vec<Refused> = daemon.cloned().into_iter().collect();
    refused.extend(refusal::refusals(&ledger, reader));
    let mut failed = Vec::new();
    let parts = PARTS
        .iter()
        .map(|part| PartPlan {
            part: part.name,
            content: part.content,
            fate: part.fate(),
            why: part.why,
            items: part.source.items(&mut ledger, reader).unwrap_or_else(|error| {
                failed.push(refusal::unreadable(part.name, &error));
                Vec::new()
            }),
        })
        .collect();
    refused.extend(failed);
    let notes = refusal::slot(reader).into_iter().chain([NOT_TOUCHED.to_owned()]).collect();
    SealPlan { parts, refused, notes }
}

/// Carries out `plan` under the host's lock. `published` removes the files that the daemon publishes on a running host,
/// and returns its errors.
pub fn run(
    plan: SealPlan,
    ledger: &mut Ledger,
    (reader, writer): (&dyn Reader, &mut dyn Writer),
    published: &mut dyn FnMut() -> Vec<String>,
) -> SealReport {
    if !plan.refused.is_empty() || plan.is_empty() {
        return SealReport { plan, failed: Vec::new() };
    }
    let mut store = Store::new(reader, writer, ledger);
    let reduced = store.update_ledger(|ledger| {
        for part in PARTS {
            if let Source::Entries(take) = part.source {
                drop(take(ledger));
            }
        }
    });
    if let Err(error) = reduced {
        return SealReport { plan, failed: vec![chain(&error)] };
    }
    let mut failed = store.sweep(std::iter::empty());
    failed.extend(store.remove_surplus_contents());
    let is_live = reader.kind() == HostKind::Live;
    if is_live && has_published(&plan) {
        failed.extend(published());
    }
    for (part, planned) in PARTS.iter().zip(&plan.parts) {
        if part.source.is_file() && !(is_live && part.source.is_published()) {
            let errors = planned.items.iter().filter_map(|path| writer.remove_file(path).err());
            failed.extend(errors.map(|error| error.to_string()));
        }
        // A host stays held as long as anything of it is left.
        if !failed.is_empty() {
            break;
        }
    }
    SealReport { plan, failed }
}

fn has_published(plan: &SealPlan) -> bool {
    let mut parts = PARTS.iter().zip(&plan.parts);
    parts.any(|(part, planned)| part.source.is_published() && !planned.items.is_empty())
}
