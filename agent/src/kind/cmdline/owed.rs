//! Tools that an earlier run owes the boot configuration: whether they show to have run, or still have to. A tool that is
//! owed is a change of its own: the entry that it was to make may be an older one, or half of one.

use super::states::Comparison;
use super::{Context, NAME, Steps};
use crate::ledger::OwedTool;
use crate::plan::{Action, Item, PaidTool, Why};

/// Tools that the ledger has as owed for this kind.
pub struct Owed<'a> {
    tools: Vec<&'a OwedTool>,
    /// Whether the default boot entry proves that they have run, by whomever.
    has_run: bool,
}

impl<'a> Owed<'a> {
    /// Reads them from the ledger.
    pub fn read(context: &'a Context, comparison: &Comparison) -> Self {
        let tools: Vec<&OwedTool> =
            context.ledger.owed.iter().filter(|tool| tool.kind == NAME).collect();
        // A tool of bedplate's own that was cut short may have left the first entry right and the rest half done. Files that
        // wait for a tool name it as their reader; others were begun by the tool itself.
        let was_cut_short = context.ledger.files.values().any(|record| {
            let is_begun = record.generator.is_some() || record.readers.is_empty();
            record.kind == NAME && record.unfinished.is_some() && is_begun
        });
        Owed { tools, has_run: !was_cut_short && comparison.is_regenerated() }
    }

    /// Whether a change has to run them.
    pub fn is_due(&self) -> bool {
        !self.tools.is_empty() && !self.has_run
    }

    /// Tools that have run, and those that are paid once the change called `id` is done, because its steps replace them.
    pub fn paid(&self, change: Option<(&str, &Steps)>) -> Vec<PaidTool> {
        let is_run = |argv: &[String], steps: &Steps| {
            let runs = |action: &Action| matches!(action, Action::RunTool { argv: one, .. } if one == argv);
            steps.actions.iter().any(runs)
        };
        let paid = |tool: &&OwedTool| {
            let after = match change {
                _ if self.has_run => None,
                Some((id, steps)) if !is_run(&tool.argv, steps) => Some(id.to_owned()),
                _ => return None,
            };
            Some(PaidTool { kind: NAME, argv: tool.argv.clone(), after })
        };
        self.tools.iter().filter_map(paid).collect()
    }

    /// The lines of the change that say why they run.
    pub fn items(&self) -> Vec<Item> {
        if !self.is_due() {
            return Vec::new();
        }
        let item = |tool: &&OwedTool| Item {
            subject: tool.argv.join(" "),
            before: Some("has not succeeded since the configuration was changed".into()),
            after: Some("has run".into()),
            why: vec![Why::because("an earlier apply left it to be run, or was cut short in it")],
        };
        self.tools.iter().map(item).collect()
    }
}
