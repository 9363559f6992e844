//! Checks of an image, which read files alone, and the state of an image beside its plan. All other checks are about a running
//! machine.

use bedplate_base::Reading;
use bedplate_host::HostKind;

use super::{Check, CheckInput, Outcome, Severity, Verdict};

/// Ids of the checks.
const CHECKS: [&str; 4] =
    ["profile.in-effect", "cmdline.boot-entry", "cmdline.harmful", "modules.leftovers"];

/// State of an image beside its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageState {
    /// Files of an interrupted change.
    pub unfinished: Vec<String>,
    /// Tools that the image build still has to run.
    pub owed: Vec<String>,
    /// Whether bedplate on the machine has this profile, where it needs one.
    pub has_profile: Reading<bool>,
    /// Units that the profile needs on the machine and that no boot starts.
    pub disabled: Reading<Vec<String>>,
    /// Settings that files of others overrule at boot, each with its file.
    pub overruled: Vec<String>,
    /// Whether the profile lets bedplate make changes on the machine.
    pub may_enforce: bool,
}

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
