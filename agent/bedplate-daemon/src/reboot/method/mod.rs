//! How a machine is made to go through its firmware: each method has a small file with its entry of [`METHODS`]. A method is
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
pub(super) mod tests;
pub mod unusable;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bedplate_base::chain;
use bedplate_core::reboot_record::preparation::{Next, Preparation, Undo};

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
    /// The method.
    pub method: Method,
    /// The reboot that it makes, for a sentence: `an ordinary reboot`.
    pub subject: &'static str,
    /// What to do once it is prepared.
    pub next: Next,
    /// Whether it can be promised, and how it goes. Reads only.
    probe: fn(&Env<'_>) -> Result<String, unusable::Unusable>,
    /// The steps that undo `prepare`, the last change first. Reads only.
    find_undo: fn(&Env<'_>) -> Result<Vec<Undo>, MethodError>,
    /// Makes it ready.
    prepare: fn(&Env<'_>) -> Result<(), MethodError>,
    /// Whether the method leaves this step.
    undoes: fn(&Undo) -> bool,
    /// Whether a boot leaves its preparation in place.
    survives_boot: bool,
}

impl Row {
    /// Whether a boot leaves its preparation in place.
    pub(crate) fn survives_boot(&self) -> bool {
        self.survives_boot
    }
}

/// Every method.
pub(crate) const METHODS: [Row; 5] =
    [ordinary::ROW, firmware::ROW, bmc::ROW, rtc::ROW, command::ROW];

/// The entry of a method.
pub(crate) fn row(method: Method) -> &'static Row {
    const TABLE: &[Row; 5] = &METHODS;
    let [ordinary, firmware, bmc, rtc, command] = TABLE;
    match method {
        Method::Ordinary => ordinary,
        Method::Firmware => firmware,
        Method::Bmc => bmc,
        Method::Rtc => rtc,
        Method::Command => command,
    }
}

/// Whether a method can be promised. Both texts are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Probe {
    /// How it will go.
    Works(String),
    /// Why not, and what would help.
    Cannot(String),
}

/// Why a method could not be prepared, run or undone.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// The probe's answer has changed since it was promised.
    #[error("the reboot method `{method}` cannot be used: {why}")]
    Cannot {
        /// The method.
        method: Method,
        /// The probe's reason.
        why: String,
    },
    /// A file or attribute cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The path, without the root directory.
        path: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A file or attribute cannot be written.
    #[error("cannot write `{value}` to {path}")]
    Write {
        /// The path, without the root directory.
        path: String,
        /// The value.
        value: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// An attribute took a value and then showed another.
    #[error("{path} reads `{found}` after `{value}` was written to it")]
    Ignored {
        /// The path, without the root directory.
        path: String,
        /// Written content.
        value: String,
        /// What is there.
        found: String,
    },
    /// The request for a power cycle cannot be handed to the shutdown hook.
    #[error("cannot leave the request for a power cycle in {path}")]
    Request {
        /// The path, without the root directory.
        path: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The request for a power cycle cannot be removed: the next reboot, whatever asks for it, is a power cycle.
    #[error("cannot remove {path}: until it is gone, any reboot is a power cycle")]
    Remove {
        /// The path, without the root directory.
        path: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A step back that no method leaves: what stores or sends the steps may have been taken over.
    #[error("{path} is not put back: no reboot method changes it so")]
    Foreign {
        /// The path, without the root directory.
        path: String,
    },
    /// The operator's command did not succeed.
    #[error("the reboot command `{program}` did not succeed ({end}){}", last_words(.said))]
    Command {
        /// Its first word.
        program: String,
        /// How it ended.
        end: bedplate_host::ToolEnd,
        /// The last line that it wrote.
        said: String,
    },
    /// A preparation failed half-way, and so did taking it back.
    #[error("{}; undoing it failed too: {}", chain(.failed), chain(.stuck))]
    HalfDone {
        /// Why the preparation failed.
        failed: Box<MethodError>,
        /// Why it could not be taken back.
        stuck: Box<MethodError>,
    },
}

fn last_words(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// Whether `method` can be promised now. Reads only.
pub(crate) fn probe(method: Method, env: &Env<'_>) -> Probe {
    let answer = (row(method).probe)(env);
    answer.map_or_else(|error| Probe::Cannot(chain(&error)), Probe::Works)
}

/// How `method` goes, with the way back from what [`prepare`] is about to change: all of it, before any of it is changed, so that
/// it can be kept first. Reads only.
///
/// # Errors
/// [`MethodError`]: `Cannot` when a fresh probe says no, else what cannot be read.
pub(crate) fn find_undo(method: Method, env: &Env<'_>) -> Result<Preparation, MethodError> {
    // What was promised may be hours old.
    if let Probe::Cannot(why) = probe(method, env) {
        return Err(MethodError::Cannot { method, why });
    }
    let undo = (row(method).find_undo)(env)?;
    Ok(Preparation { method, next: row(method).next, undo })
}

/// Make `method` ready. The shutdown must be asked for right after: what this writes changes the next reboot of the
/// machine, whatever asks for it. A failure leaves nothing behind, or says what.
///
/// # Errors
/// [`MethodError`]: `Cannot` when a fresh probe says no, else the step that failed.
pub(crate) fn prepare(method: Method, env: &Env<'_>) -> Result<Preparation, MethodError> {
    let prepared = find_undo(method, env)?;
    let Err(failed) = (row(method).prepare)(env) else { return Ok(prepared) };
    match undo(&prepared, env.root) {
        Ok(()) => Err(failed),
        Err(stuck) => {
            Err(MethodError::HalfDone { failed: Box::new(failed), stuck: Box::new(stuck) })
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
    METHODS.iter().any(|row| (row.undoes)(step))
}

/// Take a preparation back: the shutdown was cancelled, or failed. Every step is tried; one that was never taken, or is undone
/// already, is none.
///
/// # Errors
/// The first step that failed.
pub(crate) fn undo(prepared: &Preparation, root: &Path) -> Result<(), MethodError> {
    let step = |step: &Undo| match step {
        Undo::Write { path, .. } | Undo::Remove { path } if !is_known(step) => {
            Err(MethodError::Foreign { path: path.clone() })
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
            Err(source) => Err(MethodError::Remove { path: path.clone(), source }),
        },
    };
    // Collected first: a failure must not keep the steps after it from being tried.
    let results: Vec<_> = prepared.undo.iter().map(step).collect();
    results.into_iter().collect()
}

/// A path of the machine under its root directory.
pub(super) fn under(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
