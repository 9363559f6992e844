//! Checks of an image, which read files alone, and the state of an image beside its plan. All other checks are about a running
//! machine.

use bedplate_host::HostKind;

use super::{Check, CheckInput, Outcome, Severity, Verdict};

/// Ids of the checks.
const CHECKS: [&str; 4] =
    ["profile.in-effect", "cmdline.boot-entry", "cmdline.harmful", "modules.leftovers"];

/// The outcome of a check that cannot be made of an image; `None`: it can, or the host is none.
pub(super) fn not_applicable(check: &Check, input: &CheckInput<'_>) -> Option<Outcome> {
    let is_image = input.facts.host == HostKind::Image;
    (is_image && !CHECKS.contains(&check.id)).then(|| {
        Outcome::not_applicable("not applicable to an image: judged on the machine that runs it")
    })
}

/// The level of a check. An image with a fault is wrong, also where a host with it would run until its next boot.
pub(super) fn severity(check: &Check, input: &CheckInput<'_>, verdict: Verdict) -> Severity {
    match (input.facts.host, verdict) {
        (HostKind::Image, Verdict::Fail | Verdict::Unknown) => Severity::Fail,
        _ => check.severity,
    }
}
