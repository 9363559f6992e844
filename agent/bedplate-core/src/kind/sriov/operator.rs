//! The SR-IOV network operator, beside which bedplate sets no VFs.

use super::NAME;
use crate::kind::{Context, some_of};
use crate::plan::KindPlan;
use bedplate_base::ReadError;

/// What the SR-IOV network operator for Kubernetes keeps on every node that its config daemon runs on
/// (pkg/consts/constants.go, `SriovConfBasePath`).
const OPERATOR: &str = "/etc/sriov-operator";

/// Two masters of one VF count would undo each other's work for ever: where the operator is, it is the master.
pub(super) fn left_to_operator(context: &Context, section: &mut KindPlan) -> bool {
    match context.reader.exists(OPERATOR) {
        Ok(false) => false,
        Ok(true) => {
            let pfs = context
                .desired
                .sriov
                .iter()
                .map(|wanted| wanted.pf.to_string())
                .collect::<Vec<_>>();
            section.notes.push(NAME.note(
                format!("PF {}", some_of(pfs.into_iter(), 8, "PFs")),
                format!(
                    "left alone: the SR-IOV network operator manages this node ({OPERATOR} is there); remove that \
                     directory if the operator is gone"
                ),
            ));
            true
        }
        Err(error) => {
            // Nothing is ever written to a recorded host, so that its plan may go on.
            let go_on = matches!(error, ReadError::NotRecorded { .. });
            section.unknowns.push(NAME.unknown(
                "SR-IOV network operator",
                format!("cannot tell whether it manages this node: {error}"),
            ));
            !go_on
        }
    }
}
