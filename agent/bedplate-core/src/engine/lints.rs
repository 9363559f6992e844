//! Lints of level error: a profile that says what can never be right is not applied and not rendered, unless there is a
//! reason to let it pass.

use super::EngineError;
use crate::plan::allowed_lints::AllowedLint;
use crate::plan::{Blocker, KindId, KindPlan};
use crate::profile::{Diagnostic, LoadedProfile, Severity};

/// The lints of level error in a profile, by whether there is a reason to let them pass.
#[derive(Debug, Default)]
pub struct LintVerdict<'a> {
    /// There is none: they stop it.
    stopping: Vec<&'a Diagnostic>,
    /// There is one.
    allowed: Vec<AllowedLint>,
}

impl<'a> LintVerdict<'a> {
    /// By what the caller lets pass, and the profile itself.
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

    /// Those that stop it, each with its place.
    pub fn stopping(&self) -> Vec<String> {
        self.stopping.iter().map(|lint| format!("{} at {}", lint.id, place(lint))).collect()
    }

    /// Whether anything may come of the profile at all.
    ///
    /// # Errors
    /// [`EngineError::Lints`].
    pub fn check(&self) -> Result<(), EngineError> {
        stop_for(&self.stopping())
    }

    /// Says it in a plan.
    pub(super) fn report(self, body: &mut KindPlan) {
        // First: nothing else counts before this is dealt with.
        body.blockers.splice(0..0, self.stopping.iter().map(|lint| blocker(lint)));
        body.notes.extend(self.allowed.iter().map(|lint| {
            KindId::Profile.note(format!("lint {}", lint.id), format!("let pass: {}", lint.reason))
        }));
        body.allowed = self.allowed;
    }
}

/// An error if there are any that stop the profile.
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
    // The first line says what to do, the second where the fact stands.
    let remedy = lint.help.first().map_or("correct the profile", String::as_str);
    KindId::Profile.blocker(
        format!("lint {}", lint.id),
        format!("{} ({})", lint.message, place(lint)),
        format!(
            "{remedy}; until then nothing of the profile is applied. To let it pass all the same, give a reason: \
             `--allow-lint '{id}=REASON'`, for the daemon `allow = {{ {id} = \"REASON\" }}` in [lints] of the profile",
            id = lint.id
        ),
    )
}
