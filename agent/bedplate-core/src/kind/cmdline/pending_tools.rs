//! Tools that an earlier run owes the boot configuration: whether they show to have run, or still have to. A tool that is
//! owed is a change of its own: the entry that it was to make may be an older one, or half of one.

use super::comparison::Comparison;
use super::{Context, NAME, Steps};
use crate::kind::owed_change;
use crate::ledger::{PendingTool, Sha};
use crate::plan::{Action, Item, KindPlan, Rationale, SettledTool};
use bedplate_host::HostKind;

/// Tools that the ledger has as owed for this kind.
pub(super) struct PendingTools<'a> {
    tools: Vec<&'a PendingTool>,
    /// Whether the default boot entry proves that they have run, by whomever.
    has_run: bool,
}

impl<'a> PendingTools<'a> {
    /// Reads them from the ledger.
    pub(super) fn read(context: &'a Context, comparison: &Comparison) -> Self {
        let tools: Vec<&PendingTool> =
            context.ledger.owed.iter().filter(|tool| tool.kind == NAME).collect();
        // A tool of bedplate's own that was cut short may have left the first entry right and the rest half done. Files that
        // wait for a tool name it as their reader; others were begun by the tool itself.
        let was_cut_short = context.ledger.files.values().any(|record| {
            let is_begun = record.generator.is_some() || record.readers.is_empty();
            record.kind == NAME && record.unfinished.is_some() && is_begun
        });
        // The arguments that are asked for now do not tell whether those of before a revert are gone.
        let is_made = |tool: &&PendingTool| tool.outputs.is_empty() || is_made_again(context, tool);
        let has_run = !was_cut_short && comparison.is_regenerated() && tools.iter().all(is_made);
        PendingTools { tools, has_run }
    }

    /// Whether a change has to run them.
    pub(super) fn is_due(&self) -> bool {
        !self.tools.is_empty() && !self.has_run
    }

    /// Tools that have run, and those that are paid once the change called `id` is done, because its steps replace them.
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

    /// The lines of the change that say why they run.
    pub(super) fn items(&self) -> Vec<Item> {
        if !self.is_due() {
            return Vec::new();
        }
        self.tools.iter().map(|tool| item(tool)).collect()
    }
}

fn item(tool: &PendingTool) -> Item {
    let before = "has not succeeded since the configuration was changed";
    let why = Rationale::because("an earlier run left it to be run, or was cut short in it");
    Item::new(tool.argv.join(" "), Some(before), Some("has run"), &[why])
}

/// Plans the tools that an image owes where the profile asks for no arguments: the boot entry may have those of an earlier one.
pub(crate) fn plan_alone(context: &Context, section: &mut KindPlan) {
    if context.reader.kind() != HostKind::Image {
        return;
    }
    for tool in context.ledger.owed.iter().filter(|tool| tool.kind == NAME) {
        if is_made_again(context, tool) {
            let (argv, after) = (tool.argv.clone(), None);
            section.settled_tools.push(SettledTool { kind: NAME, argv, after });
        } else {
            section.changes.push(owed_change(NAME, tool, "boot entries", item(tool)));
        }
    }
}

/// Whether a boot entry has another content than when the tool became owed.
fn is_made_again(context: &Context, tool: &PendingTool) -> bool {
    let differs = |(path, before): (&String, &Sha)| {
        context.reader.digest(path).is_ok_and(|now| Sha::from(now) != *before)
    };
    tool.outputs.iter().any(differs)
}
