//! kernel-install on the way back: the tool of each kernel makes the entries of that kernel, and a kernel that is gone needs
//! neither.

use std::collections::{BTreeMap, BTreeSet};

use super::RevertPlan;
use crate::host::Reader;
use crate::kind::cmdline::{installed_release, is_kernel_gone, release_of_entry};
use crate::ledger::Generator;

/// Tools, each with the files that it makes.
pub(super) type Tools = BTreeMap<Generator, BTreeSet<String>>;

/// Gives each tool of kernel-install the entries of its kernel (the ledger has all of them as made by the one that ran last),
/// and drops those of kernels that are gone.
pub(super) fn assign(plan: &mut RevertPlan, reader: &dyn Reader, tools: Tools) -> Tools {
    let release = |tool: &Generator| installed_release(&tool.argv).map(str::to_owned);
    let releases: Vec<String> = tools.keys().filter_map(release).collect();
    let entries: BTreeSet<String> = tools
        .iter()
        .filter(|(tool, _)| release(tool).is_some())
        .flat_map(|(_, makes)| makes.iter().cloned())
        .collect();
    let mut assigned = Tools::new();
    for (tool, makes) in tools {
        let Some(release) = release(&tool) else {
            assigned.insert(tool, makes);
            continue;
        };
        if is_kernel_gone(reader, &release) {
            plan.notes.push(format!(
                "Linux {release} is gone with its boot entry: nothing is made for it"
            ));
            continue;
        }
        let is_own = |path: &&String| release_of_entry(path, &releases) == Some(release.as_str());
        assigned.insert(tool, entries.iter().filter(is_own).cloned().collect());
    }
    assigned
}
