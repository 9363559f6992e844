//! Runs a program on the host.

use super::{StepError, Store};
use bedplate_host::{ToolEnd, ToolOutput};

/// Runs a tool. Fails on any exit status but 0.
pub(super) fn run(store: &mut Store, argv: &[String], limit_s: u32) -> Result<(), StepError> {
    let ToolOutput { end, output } = store.writer.run_tool(argv, limit_s);
    if !matches!(end, ToolEnd::NotStarted(_)) {
        store.started.insert(argv.to_vec());
    }
    match end {
        ToolEnd::Exited(0) => Ok(()),
        end => Err(StepError::Tool { argv: argv.to_vec(), end, output }),
    }
}
