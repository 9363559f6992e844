//! Reboot methods: ways to restart a machine through its firmware, each in a file with its entry for [`row`]. A method is
//! probed before it is used, armed just before the shutdown is requested, and undone if the shutdown does not happen. The
//! calls to logind and the decision to reboot are elsewhere.

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

/// Environment of the methods.
pub(crate) struct Env<'a> {
    /// The machine's root directory: `/`, or a temporary tree in tests.
    pub root: &'a Path,
    /// Connection to the BMC: [`ipmi::Device`] outside tests.
    pub ipmi: &'a dyn ipmi::Ipmi,
    /// Whether the operator states that the firmware turns on a machine that is off when the clock's alarm
    /// rings. Linux cannot read this.
    pub rtc_wakes: bool,
    /// Seconds from [`prepare`] to the alarm; [`rtc::AFTER_S`] are allowed.
    pub rtc_after_s: u32,
    /// The operator's command, if there is one.
    pub command: Option<&'a command::Command>,
    /// Hash of the plan that the reboot is for.
    pub plan_hash: &'a str,
    /// The wall clock, for the record only.
    pub now: jiff::Timestamp,
}

/// Registry entry of a reboot method.
pub(crate) struct Row {
    /// The reboot that it causes, for a sentence: `an ordinary reboot`.
    pub subject: &'static str,
    /// Action after it is armed.
    pub next: Next,
    /// Checks that it can be used, and describes it. Reads only.
    probe: fn(&Env<'_>) -> Result<String, Unusable>,
    /// Returns the steps that undo `prepare`, the last change first. Reads only.
    find_undo: fn(&Env<'_>) -> Result<Vec<Undo>, MethodError>,
    /// Arms the method.
    prepare: fn(&Env<'_>) -> Result<(), MethodError>,
    /// Whether the method produces this undo step.
    undoes: fn(&Undo) -> bool,
    /// Whether its armed state survives a boot.
    pub survives_boot: bool,
}

/// Returns the registry entry of a method.
pub(crate) fn row(method: Method) -> &'static Row {
    match method {
        Method::Ordinary => &ordinary::ROW,
        Method::Firmware => &firmware::ROW,
        Method::Bmc => &bmc::ROW,
        Method::Rtc => &rtc::ROW,
        Method::Command => &command::ROW,
    }
}

/// Reason why a method cannot be used, with all causes and a fix.
#[derive(Debug)]
pub(crate) struct Unusable(String);

impl<E: std::error::Error + 'static> From<E> for Unusable {
    fn from(error: E) -> Self {
        Unusable(chain(&error))
    }
}

/// Returns the error with this reason.
fn unusable<T>(why: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable(why.into()))
}

/// Error of arming, running or undoing a method.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct MethodError {
    what: String,
    source: Option<std::io::Error>,
}

impl MethodError {
    /// Creates an error without a system error.
    pub(crate) fn new(what: String) -> Self {
        MethodError { what, source: None }
    }

    /// Creates the error for a probe whose result has changed since the method was chosen.
    pub(crate) fn unusable(method: Method, why: &str) -> Self {
        MethodError::new(format!("the reboot method `{method}` cannot be used: {why}"))
    }

    /// Creates the error for an unreadable file or attribute. `path` is without the root directory.
    fn read(path: &str, source: std::io::Error) -> Self {
        MethodError { what: format!("cannot read {path}"), source: Some(source) }
    }
}

/// Checks that `method` can be used now, and describes it. Reads only.
///
/// # Errors
/// The reason, if it cannot be used.
pub(crate) fn probe(method: Method, env: &Env<'_>) -> Result<String, Unusable> {
    (row(method).probe)(env)
}

/// Returns the next action of `method` and all undo steps for the changes of [`prepare`], so that they can be stored before
/// the first change. Reads only.
///
/// # Errors
/// If a fresh probe fails, or a value cannot be read.
pub(crate) fn find_undo(method: Method, env: &Env<'_>) -> Result<Preparation, MethodError> {
    // The earlier probe may be hours old.
    probe(method, env).map_err(|Unusable(why)| MethodError::unusable(method, &why))?;
    let undo = (row(method).find_undo)(env)?;
    Ok(Preparation { method, next: row(method).next, undo })
}

/// Arms `method`. The shutdown must be requested right after: the written values change the next reboot of the machine by any
/// program. A failure leaves no state behind, or the error describes it.
///
/// # Errors
/// If a fresh probe or a step fails.
pub(crate) fn prepare(method: Method, env: &Env<'_>) -> Result<Preparation, MethodError> {
    let prepared = find_undo(method, env)?;
    let Err(failed) = (row(method).prepare)(env) else { return Ok(prepared) };
    match undo(&prepared, env.root) {
        Ok(()) => Err(failed),
        Err(stuck) => {
            let (failed, stuck) = (chain(&failed), chain(&stuck));
            Err(MethodError::new(format!("{failed}; undo also failed: {stuck}")))
        }
    }
}

/// Returns the part of an armed method that survives a boot, if any.
pub(crate) fn surviving(prepared: &Preparation) -> Option<Preparation> {
    (row(prepared.method).survives_boot && !prepared.undo.is_empty()).then(|| prepared.clone())
}

/// Whether a method produces this undo step. Stored steps are returned by the daemon, and are performed with rights that
/// neither daemon nor store has.
fn is_known(step: &Undo) -> bool {
    Method::ALL.into_iter().any(|method| (row(method).undoes)(step))
}

/// Undoes an armed method after a shutdown was cancelled or failed. Every step is tried. A step that is already undone, or
/// was never performed, succeeds.
///
/// # Errors
/// The first step that failed.
pub(crate) fn undo(prepared: &Preparation, root: &Path) -> Result<(), MethodError> {
    let step = |step: &Undo| match step {
        Undo::Write { path, .. } | Undo::Remove { path } if !is_known(step) => {
            // The store or the sender of the steps may be compromised.
            let why = "is not restored: no reboot method makes this change";
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
            // The file does not exist, or its directory does not.
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
    // Collected first, so that a failure does not prevent later steps.
    let results: Vec<_> = prepared.undo.iter().map(step).collect();
    results.into_iter().collect()
}

/// Whether a path leads to a regular file with an execute bit.
fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
