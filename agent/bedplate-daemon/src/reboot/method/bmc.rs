//! The `bmc` method: an ordinary reboot whose last step is a power cycle by the BMC. The cut is abrupt, so file systems must
//! be read-only by then. A request is left under /run. The hook that systemd-shutdown runs at that point
//! (systemd/system-shutdown/bedplate) calls [`power_cycle`]. If the BMC refuses, the hook ends and the ordinary reboot
//! continues. The kernel's ipmi_poweroff is not used: it would power *down* instead (handbook §2.3).

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::ipmi::{Code, Ipmi, IpmiError};
use super::{
    Env, MethodError, Next, Row, Undo, Unusable, attribute, ipmi, is_executable, under, unusable,
};
use bedplate_base::chain;
use bedplate_host::boot_id::PATH as BOOT_ID;
use bedplate_host::published;
use bedplate_host::write::replace_own_file;

/// File of the request. /run exists until the machine is down, and never survives the boot.
const REQUEST: &str = published::POWER_CYCLE;
/// The hook that reads the request, and the program it calls.
const HOOK: &str = "/usr/lib/systemd/system-shutdown/bedplate";
const PROGRAM: &str = "/usr/bin/bedplate";

/// Time within which the BMC must cut the power before the ordinary reboot continues. systemd-shutdown gives its hooks 90 s.
pub const ACTS_WITHIN: Duration = Duration::from_secs(20);
/// Wait before a retry with a busy BMC.
const BUSY: Duration = Duration::from_secs(1);

/// The request. The hook reads it as text: one line, `boot_id` as serde_json writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    /// A request of an earlier boot is ignored.
    boot_id: String,
    plan: String,
    /// RFC 3339, for the record.
    requested_at: String,
}

/// Reason why the power was not cycled. The caller exits, and the ordinary reboot continues.
#[derive(Debug, thiserror::Error)]
pub enum PowerCycleError {
    /// No power cycle was requested in this boot.
    #[error("no power cycle was requested in this boot: {0}")]
    NotAsked(String),
    /// The BMC did not accept the command.
    #[error("the power was not cycled; the ordinary reboot continues")]
    Failed(#[source] IpmiError),
    /// The BMC accepted the command, but the power stayed on.
    #[error(
        "the BMC accepted the power cycle, but the power is still on after {0} s; the ordinary reboot continues"
    )]
    StillOn(u64),
}

/// Registry entry.
pub(super) const ROW: Row = Row {
    subject: "a power cycle by the BMC",
    next: Next::LogindReboot,
    probe,
    find_undo: |_| Ok(find_undo()),
    prepare,
    undoes,
    survives_boot: false,
};

/// Checks that the method can be used.
fn probe(env: &Env<'_>) -> Result<String, Unusable> {
    for path in [HOOK, PROGRAM] {
        if !is_executable(&under(env.root, path)) {
            let why = "is not installed or not executable; reinstall the package";
            return unusable(format!("{path} {why}"));
        }
    }
    boot_id(env.root)?;
    let status = ipmi::status(env.ipmi)?;
    if !status.power_on {
        return unusable(
            "the BMC reports that the power is off while this machine runs; it does not control this machine's power",
        );
    }
    if status.power_fault {
        return unusable(
            "the BMC reports a power fault, so the machine might not start again; see `ipmitool chassis status`",
        );
    }
    Ok("the BMC cycles the power at the end of an ordinary reboot; if it refuses, the ordinary reboot continues".into())
}

/// Returns the step that removes the request, which makes the reboot an ordinary one.
fn find_undo() -> Vec<Undo> {
    vec![Undo::Remove { path: REQUEST.into() }]
}

/// Writes the request, completely or not at all.
fn prepare(env: &Env<'_>) -> Result<(), MethodError> {
    let failed = |source| MethodError {
        what: format!("cannot write the power-cycle request {REQUEST}"),
        source: Some(source),
    };
    let boot_id = boot_id(env.root)?;
    let request =
        Request { boot_id, plan: env.plan_hash.into(), requested_at: env.now.to_string() };
    let line = serde_json::to_string(&request).map_err(|error| failed(error.into()))?;
    let path = under(env.root, REQUEST);
    replace_own_file(&path, format!("{line}\n").as_bytes(), 0o644, 0o755).map_err(failed)
}

/// Whether this step removes the request.
fn undoes(step: &Undo) -> bool {
    matches!(step, Undo::Remove { path } if path == REQUEST)
}

/// Requests a power cycle from the BMC if this boot requested one. For the shutdown hook only: nothing is shut down first.
/// Does not return if the power is cut; otherwise returns within `limit` plus the time of one answer. `limit` is
/// [`ACTS_WITHIN`] outside tests.
///
/// # Errors
/// [`PowerCycleError`], whenever it returns.
pub fn power_cycle(root: &Path, ipmi: &dyn Ipmi, limit: Duration) -> PowerCycleError {
    if let Err(why) = asked(root) {
        return PowerCycleError::NotAsked(why);
    }
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    loop {
        match ipmi::power_cycle(ipmi) {
            Ok(()) => break std::thread::sleep(left()),
            Err(IpmiError::Refused { code: Code::BUSY, .. }) if left() > BUSY => {
                std::thread::sleep(BUSY)
            }
            // The BMC may have accepted the command, and must not cut the power after the next boot has started.
            Err(silent @ IpmiError::Silent(_)) => {
                std::thread::sleep(left());
                return PowerCycleError::Failed(silent);
            }
            Err(error) => return PowerCycleError::Failed(error),
        }
    }
    PowerCycleError::StillOn(limit.as_secs())
}

fn asked(root: &Path) -> Result<(), String> {
    let words = |error: MethodError| chain(&error);
    let line = attribute::read(root, REQUEST).map_err(words)?;
    let request: Request = serde_json::from_str(&line)
        .map_err(|error| format!("invalid request {REQUEST}: {error}"))?;
    if request.boot_id == boot_id(root).map_err(words)? {
        Ok(())
    } else {
        Err("the request is from another boot".into())
    }
}

/// Returns the boot id. A malformed one is rejected, because it could match a wrong request.
fn boot_id(root: &Path) -> Result<String, MethodError> {
    let id = attribute::read(root, BOOT_ID)?;
    // The kernel prints it with %pU: 36 characters (`drivers/char/random.c`).
    if id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Ok(id);
    }
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, "not a boot id");
    Err(MethodError::read(BOOT_ID, source))
}

#[cfg(test)]
mod tests;
