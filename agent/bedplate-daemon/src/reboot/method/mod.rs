//! How a machine is made to go through its firmware: each method has a small file with its entry of the table [`row`]. A method is
//! probed before it is promised, prepared just before the shutdown is asked for, and undone when the shutdown does not come.
//! Asking logind, and deciding whether to reboot at all, is not done here.

pub mod attribute;
pub mod bmc;
pub mod choose;
pub mod command;
pub mod firmware;
pub mod ipmi;
pub mod ordinary;
pub mod rtc;
#[cfg(test)]
pub(crate) mod tests;

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bedplate_base::chain;
use bedplate_core::reboot_record::preparation::{Next, Preparation, Undo};
pub(crate) use bedplate_host::file::under;

pub use bedplate_core::profile::model::RebootMethod as Method;

/// What the methods work with.
pub(crate) struct Env<'a> {
    /// The machine's root directory: `/`, or a temporary tree in tests.
    pub root: &'a Path,
    /// The way to the BMC: [`ipmi::Device`] outside tests.
    pub ipmi: &'a dyn ipmi::Ipmi,
    /// The operator states that the firmware wakes a machine that is off when the clock's alarm rings. Nothing that
    /// Linux can read tells.
    pub rtc_wakes: bool,
    /// Seconds from [`prepare`] to the alarm; [`rtc::AFTER_S`] are allowed.
    pub rtc_after_s: u32,
    /// The operator's command, if there is one.
    pub command: Option<&'a command::Command>,
    /// The plan that the reboot is for.
    pub plan_hash: &'a str,
    /// The wall clock, for the record only.
    pub now: jiff::Timestamp,
}

/// A reboot method.
pub(crate) struct Row {
    /// The reboot that it makes, for a sentence: `an ordinary reboot`.
    pub subject: &'static str,
    /// What to do once it is prepared.
    pub next: Next,
    /// Whether it can be promised, and how it goes. Reads only.
    probe: fn(&Env<'_>) -> Result<String, Unusable>,
    /// The steps that undo `prepare`, the last change first. Reads only.
    find_undo: fn(&Env<'_>) -> Result<Vec<Undo>, MethodError>,
    /// Makes it ready.
    prepare: fn(&Env<'_>) -> Result<(), MethodError>,
    /// Whether the method leaves this step.
    undoes: fn(&Undo) -> bool,
    /// Whether a boot leaves its preparation in place.
    pub survives_boot: bool,
}

/// The table of methods.
pub(crate) fn row(method: Method) -> &'static Row {
    match method {
        Method::Ordinary => &ordinary::ROW,
        Method::Firmware => &firmware::ROW,
        Method::Bmc => &bmc::ROW,
        Method::Rtc => &rtc::ROW,
        Method::Command => &command::ROW,
    }
}

/// Why a method cannot be promised and what would help, with all causes.
#[derive(Debug)]
pub(crate) struct Unusable(String);

impl<E: std::error::Error + 'static> From<E> for Unusable {
    fn from(error: E) -> Self {
        Unusable(chain(&error))
    }
}

/// A method that cannot be promised.
fn unusable<T>(why: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable(why.into()))
}

/// Why a method could not be prepared, run or undone.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct MethodError {
    what: String,
    source: Option<std::io::Error>,
}

impl MethodError {
    /// Without a cause of the system's.
    pub(crate) fn new(what: String) -> Self {
        MethodError { what, source: None }
    }

    /// The probe's answer has changed since it was promised.
    pub(crate) fn unusable(method: Method, why: &str) -> Self {
        MethodError::new(format!("the reboot method `{method}` cannot be used: {why}"))
    }

    /// A file or attribute cannot be read. `path` is without the root directory.
    fn read(path: &str, source: std::io::Error) -> Self {
        MethodError { what: format!("cannot read {path}"), source: Some(source) }
    }
}

/// How `method` goes, if it can be promised now. Reads only.
///
/// # Errors
/// It cannot.
pub(crate) fn probe(method: Method, env: &Env<'_>) -> Result<String, Unusable> {
    (row(method).probe)(env)
}

/// How `method` goes, with the way back from what [`prepare`] is about to change: all of it, before any of it is changed, so that
/// it can be kept first. Reads only.
///
/// # Errors
/// A fresh probe says no, or something cannot be read.
pub(crate) fn find_undo(method: Method, env: &Env<'_>) -> Result<Preparation, MethodError> {
    // What was promised may be hours old.
    probe(method, env).map_err(|Unusable(why)| MethodError::unusable(method, &why))?;
    let undo = (row(method).find_undo)(env)?;
    Ok(Preparation { method, next: row(method).next, undo })
}

/// Make `method` ready. The shutdown must be asked for right after: what this writes changes the next reboot of the
/// machine, whatever asks for it. A failure leaves nothing behind, or says what.
///
/// # Errors
/// A fresh probe says no, or a step failed.
pub(crate) fn prepare(method: Method, env: &Env<'_>) -> Result<Preparation, MethodError> {
    let prepared = find_undo(method, env)?;
    let Err(failed) = (row(method).prepare)(env) else { return Ok(prepared) };
    match undo(&prepared, env.root) {
        Ok(()) => Err(failed),
        Err(stuck) => {
            let (failed, stuck) = (chain(&failed), chain(&stuck));
            Err(MethodError::new(format!("{failed}; undoing it failed too: {stuck}")))
        }
    }
}

/// The part of a preparation that a boot leaves in place; `None`: there is none.
pub(crate) fn surviving(prepared: &Preparation) -> Option<Preparation> {
    (row(prepared.method).survives_boot && !prepared.undo.is_empty()).then(|| prepared.clone())
}

/// Whether one of the methods leaves this step. Steps are stored and come back from the daemon, and are done with
/// rights that neither of them has.
fn is_known(step: &Undo) -> bool {
    Method::ALL.into_iter().any(|method| (row(method).undoes)(step))
}

/// Take a preparation back: the shutdown was cancelled, or failed. Every step is tried; one that was never taken, or is undone
/// already, is none.
///
/// # Errors
/// The first step that failed.
pub(crate) fn undo(prepared: &Preparation, root: &Path) -> Result<(), MethodError> {
    let step = |step: &Undo| match step {
        Undo::Write { path, .. } | Undo::Remove { path } if !is_known(step) => {
            // What stores or sends the steps may have been taken over.
            let why = "is not put back: no reboot method changes it so";
            Err(MethodError::new(format!("{path} {why}")))
        }
        Undo::Write { path, value }
            if attribute::read(root, path).is_ok_and(|found| found == *value) =>
        {
            Ok(())
        }
        Undo::Write { path, value } => attribute::write(root, path, value),
        Undo::Remove { path } => match std::fs::remove_file(under(root, path)) {
            Ok(()) => Ok(()),
            // Nothing there, or nowhere to be.
            Err(source)
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(())
            }
            Err(source) => {
                let why = "until it is gone, any reboot is a power cycle";
                let what = format!("cannot remove {path}: {why}");
                Err(MethodError { what, source: Some(source) })
            }
        },
    };
    // Collected first: a failure must not keep the steps after it from being tried.
    let results: Vec<_> = prepared.undo.iter().map(step).collect();
    results.into_iter().collect()
}

/// Whether a path leads to a file that somebody may execute.
fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
