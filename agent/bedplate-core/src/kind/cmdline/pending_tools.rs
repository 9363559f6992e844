//! Tools that an earlier run left pending for the boot configuration, and whether they have run since. A pending tool
//! is a change of its own: the entry that it should have made may be an older or incomplete one.

use super::comparison::Comparison;
use super::{Context, NAME, Steps};
use crate::kind::{owed_change, owed_item};
use crate::ledger::{PendingTool, Sha};
use crate::plan::{Action, Item, KindPlan, SettledTool};
use bedplate_host::HostKind;

/// Pending tools of this resource type in the ledger.
pub(super) struct PendingTools<'a> {
    tools: Vec<&'a PendingTool>,
    /// Whether the default boot entry proves that they have run, no matter who ran them.
    has_run: bool,
}

impl<'a> PendingTools<'a> {
    /// Reads them from the ledger.
    pub(super) fn read(context: &'a Context, comparison: &Comparison) -> Self {
        let tools: Vec<&PendingTool> =
            context.ledger.owed.iter().filter(|tool| tool.kind == NAME).collect();
        // An interrupted tool of bedplate may have finished the first entry and not the rest. Files that wait for a
        // tool name it as their reader; the tool itself began to write the other files.
        let was_cut_short = context.ledger.files.values().any(|record| {
            let is_begun = record.generator.is_some() || record.readers.is_empty();
            record.kind == NAME && record.unfinished.is_some() && is_begun
        });
        // The arguments requested now do not show whether those from before a revert are gone.
        let is_made = |tool: &&PendingTool| tool.outputs.is_empty() || is_made_again(context, tool);
        let has_run = !was_cut_short && comparison.is_regenerated() && tools.iter().all(is_made);
        PendingTools { tools, has_run }
    }

    /// Whether a change has to run them.
    pub(super) fn is_due(&self) -> bool {
        !self.tools.is_empty() && !self.has_run
    }

    /// Returns the tools that have run, and those that the change called `id` settles because its steps replace them.
    pub(super) fn settled(&self, change: Option<(&str, &Steps)>) -> Vec<SettledTool> {
        let is_run = |argv: &[String], steps: &Steps| {
            let runs = |action: &Action| matches!(action, Action::RunTool { argv: one, .. } if one == argv);
            steps.actions.iter().any(runs)
        };
        let paid = |tool: &&PendingTool| {
            let after = match change {
                _ if self.has_run => None,
                Some((id, steps)) if !is_run(&tool.argv, steps) => Some(id.to_owned()),
                _ => return None,
            };
            Some(SettledTool { kind: NAME, argv: tool.argv.clone(), after })
        };
        self.tools.iter().filter_map(paid).collect()
    }

    /// Returns the items of the change that explain why the tools run.
    pub(super) fn items(&self) -> Vec<Item> {
        if !self.is_due() {
            return Vec::new();
        }
        self.tools.iter().map(|tool| owed_item(tool)).collect()
    }
}

/// Plans the pending tools of an image whose profile requests no arguments: the boot entry may have those of an earlier
/// profile.
pub(crate) fn plan_alone(context: &Context, section: &mut KindPlan) {
    if context.reader.kind() != HostKind::Image {
        return;
    }
    for tool in context.ledger.owed.iter().filter(|tool| tool.kind == NAME) {
        if is_made_again(context, tool) {
            let (argv, after) = (tool.argv.clone(), None);
            section.settled_tools.push(SettledTool { kind: NAME, argv, after });
        } else {
            let change = owed_change(NAME, tool, "boot entries", owed_item(tool), Vec::new());
            section.changes.push(change);
        }
    }
}

/// Whether the content of a boot entry has changed since the tool was recorded as pending.
fn is_made_again(context: &Context, tool: &PendingTool) -> bool {
    let differs = |(path, before): (&String, &Sha)| {
        context.reader.digest(path).is_ok_and(|now| Sha::from(now) != *before)
    };
    tool.outputs.iter().any(differs)
}
