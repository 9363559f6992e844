//! Error-level lints: a profile with one is neither applied nor rendered, unless a reason allows it.

use super::EngineError;
use crate::plan::allowed_lints::AllowedLint;
use crate::plan::{Blocker, KindId, KindPlan};
use crate::profile::{Diagnostic, LoadedProfile, Severity};

/// Error-level lints of a profile, by whether a reason allows them.
#[derive(Debug, Default)]
pub struct LintVerdict<'a> {
    /// Lints without a reason: they block the profile.
    stopping: Vec<&'a Diagnostic>,
    /// Lints allowed with a reason.
    allowed: Vec<AllowedLint>,
}

impl<'a> LintVerdict<'a> {
    /// Sorts the lints of a profile by the reasons of the caller (`allowed`) and of the profile itself.
    pub fn new(loaded: &'a LoadedProfile, allowed: &[AllowedLint]) -> Self {
        let mut judged = LintVerdict::default();
        for lint in loaded.lints.iter().filter(|lint| lint.severity == Severity::Error) {
            let mut reasons = allowed.iter().chain(&loaded.profile.lints.allow);
            match reasons.find(|allowed| allowed.id == lint.id) {
                Some(one) if judged.allowed.contains(one) => {}
                Some(one) => judged.allowed.push(one.clone()),
                None => judged.stopping.push(lint),
            }
        }
        judged
    }

    /// Returns the blocking lints, each with its location.
    pub fn stopping(&self) -> Vec<String> {
        self.stopping.iter().map(|lint| format!("{} at {}", lint.id, place(lint))).collect()
    }

    /// Checks that no lint blocks the profile.
    ///
    /// # Errors
    /// [`EngineError::Lints`].
    pub fn check(&self) -> Result<(), EngineError> {
        stop_for(&self.stopping())
    }

    /// Adds blockers and notes to a plan.
    pub(super) fn report(self, body: &mut KindPlan) {
        // First, because no other item matters until these are resolved.
        body.blockers.splice(0..0, self.stopping.iter().map(|lint| blocker(lint)));
        body.notes.extend(self.allowed.iter().map(|lint| {
            KindId::Profile.note(format!("lint {}", lint.id), format!("allowed: {}", lint.reason))
        }));
        body.allowed = self.allowed;
    }
}

/// Returns an error if `lints` is not empty.
pub(super) fn stop_for(lints: &[String]) -> Result<(), EngineError> {
    match lints {
        [] => Ok(()),
        lints => Err(EngineError::Lints { lints: lints.to_vec() }),
    }
}

fn place(lint: &Diagnostic) -> String {
    let (line, column) = lint.line_column();
    format!("{}:{line}:{column}", lint.file())
}

fn blocker(lint: &Diagnostic) -> Blocker {
    // The first help line is the fix, the second the source of the fact.
    let fix = lint.help.first().map_or("correct the profile", String::as_str);
    KindId::Profile.blocker(
        format!("lint {}", lint.id),
        format!("{} ({})", lint.message, place(lint)),
        format!(
            "{fix}. Until then, nothing of the profile is applied. To allow it, give a reason: `--allow-lint \
             '{id}=REASON'`, or for the daemon set [lints] allow = {{ {id} = \"REASON\" }} in the profile",
            id = lint.id
        ),
    )
}
