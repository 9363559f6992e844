//! The SR-IOV network operator; bedplate sets no VFs on its nodes.

use super::NAME;
use crate::kind::{Context, some_of};
use crate::plan::KindPlan;
use bedplate_base::ReadError;

/// Directory of the Kubernetes SR-IOV network operator on every node with its config daemon (pkg/consts/constants.go,
/// `SriovConfBasePath`).
const OPERATOR: &str = "/etc/sriov-operator";

/// Whether the operator manages this node's VFs. Two masters of one VF count would undo each other's work forever, so the
/// operator takes precedence.
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
                    "skipped: the SR-IOV network operator manages this node ({OPERATOR} exists); remove that directory \
                     if the operator is gone"
                ),
            ));
            true
        }
        Err(error) => {
            // Plans for snapshots may continue: bedplate never writes to a recorded host.
            let go_on = matches!(error, ReadError::NotRecorded { .. });
            section.unknowns.push(NAME.unknown(
                "SR-IOV network operator",
                format!("cannot tell whether it manages this node: {error}"),
            ));
            !go_on
        }
    }
}
