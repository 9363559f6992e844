//! Checks of an image: they read only its files and its state in addition to the plan. All other checks need a running
//! machine.

use bedplate_host::HostKind;

use super::{Check, CheckInput, Outcome, Severity, Verdict};

/// Ids of the checks that apply to images.
const CHECKS: [&str; 4] =
    ["profile.in-effect", "cmdline.boot-entry", "cmdline.harmful", "modules.leftovers"];

/// Returns the outcome of a check that does not apply to an image. `None`: it applies, or the host is not an image.
pub(super) fn not_applicable(check: &Check, input: &CheckInput<'_>) -> Option<Outcome> {
    let is_image = input.facts.host == HostKind::Image;
    (is_image && !CHECKS.contains(&check.id)).then(|| {
        Outcome::not_applicable("not applicable to images; checked on the machine that runs it")
    })
}

/// Returns the severity of a check. A fault in an image counts in full, even if a host with it would run until its next
/// boot.
pub(super) fn severity(check: &Check, input: &CheckInput<'_>, verdict: Verdict) -> Severity {
    match (input.facts.host, verdict) {
        (HostKind::Image, Verdict::Fail | Verdict::Unknown) => Severity::Fail,
        _ => check.severity,
    }
}
