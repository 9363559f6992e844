//! Changes that run pending tools.

use crate::ledger::PendingTool;
use crate::plan::{Action, Change, Effect, Item, KindId, Rationale, ToolUndo};

/// Ten minutes: a rebuild of every initramfs on a slow disk with many kernels takes several.
pub(crate) const LIMIT_S: u32 = 600;

/// Returns the item that explains why a pending tool runs.
pub(crate) fn item(tool: &PendingTool) -> Item {
    let before = "has not succeeded since the configuration changed";
    let why = Rationale::because("an earlier run left it pending or was interrupted");
    Item::new(tool.argv.join(" "), Some(before), Some("has run"), &[why])
}

/// Returns the change that runs a pending tool. `subject` names the tool's output; `touches` are the files to save.
pub(crate) fn change(
    kind: KindId,
    tool: &PendingTool,
    subject: &str,
    item: Item,
    touches: Vec<String>,
) -> Change {
    let run = Action::RunTool {
        argv: tool.argv.clone(),
        purpose: tool.purpose.clone(),
        touches,
        undo: ToolUndo::Repeat,
        limit_s: LIMIT_S,
    };
    kind.change(&tool.argv.join(" "), subject, vec![item], Effect::Now, vec![run])
}
