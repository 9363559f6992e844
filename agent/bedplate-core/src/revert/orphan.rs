//! bedplate files missing in the ledger: removed only when forced, since they may be part of an image.

use super::{RevertPlan, Step};
use crate::kind::nccl;
use crate::ledger::FileState;
use crate::orphans::{UNKNOWN, ways};
use crate::plan::{FileContent, Orphan};
use bedplate_host::Reader;

/// Plans the removal of an orphan, or refuses it.
pub(super) fn plan(plan: &mut RevertPlan, reader: &dyn Reader, orphan: &Orphan, force: bool) {
    let path = orphan.path.as_str();
    if !force {
        return plan.refuse(path, UNKNOWN, ways(orphan));
    }
    match reader.read(path) {
        // The file also contains unmanaged lines.
        Ok(bytes) if orphan.content.is_none() && !nccl::is_only_ours(&bytes) => {
            plan.refuse(path, UNKNOWN, ways(orphan));
        }
        Ok(bytes) => plan.steps.push(Step::File {
            path: path.to_owned(),
            before: Some(FileContent::new(bytes)),
            after: None,
            to: FileState::Absent,
        }),
        Err(error) => {
            plan.refuse(path, error.to_string(), "fix this, then run bedplate revert again");
        }
    }
}
