//! The `bmc` method: an ordinary reboot whose very last step is a power cycle by the BMC. The cut is abrupt, so it may
//! only come when file systems are read-only: a request is left under /run, and the hook that systemd-shutdown runs
//! at that point (systemd/system-shutdown/bedplate) calls [`power_cycle`]. When the BMC refuses, the hook ends and the
//! ordinary reboot goes on; the kernel's ipmi_poweroff would power *down* instead (handbook §2.3), hence not that.

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

/// Where the request is left. /run is there until the machine is, and never outlives the boot.
const REQUEST: &str = published::POWER_CYCLE;
/// What reads it, and what that calls.
const HOOK: &str = "/usr/lib/systemd/system-shutdown/bedplate";
const PROGRAM: &str = "/usr/bin/bedplate";

/// How long the BMC may take to cut the power before the ordinary reboot goes on. systemd-shutdown gives its hooks
/// 90 s.
pub const ACTS_WITHIN: Duration = Duration::from_secs(20);
/// How long to wait before a busy BMC is asked again.
const BUSY: Duration = Duration::from_secs(1);

/// The request. The hook reads it as text: one line, `boot_id` as serde_json writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    /// A request of an earlier boot counts for nothing.
    boot_id: String,
    plan: String,
    /// RFC 3339, for the record.
    requested_at: String,
}

/// Why the power was not cycled. The caller ends, and the ordinary reboot goes on.
#[derive(Debug, thiserror::Error)]
pub enum PowerCycleError {
    /// Nobody asked for it in this boot.
    #[error("no power cycle was asked for in this boot: {0}")]
    NotAsked(String),
    /// The BMC did not take the command.
    #[error("the power was not cycled, so the ordinary reboot goes on")]
    Failed(#[source] IpmiError),
    /// The BMC took the command and did nothing.
    #[error(
        "the BMC accepted the power cycle, but the power is still on after {0} s; the ordinary reboot goes on"
    )]
    StillOn(u64),
}

/// Its entry in the table.
pub(super) const ROW: Row = Row {
    subject: "a power cycle by the BMC",
    next: Next::LogindReboot,
    probe,
    find_undo: |_| Ok(find_undo()),
    prepare,
    undoes,
    survives_boot: false,
};

/// Whether it can be promised.
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
            "the BMC says that the power is off while this machine runs: it does not control this machine's power",
        );
    }
    if status.power_fault {
        return unusable(
            "the BMC reports a power fault, so the machine might not come back; see `ipmitool chassis status`",
        );
    }
    Ok("the BMC cycles the power at the end of an ordinary reboot; if it refuses, the ordinary reboot goes on".into())
}

/// Without the request the reboot is an ordinary one.
fn find_undo() -> Vec<Undo> {
    vec![Undo::Remove { path: REQUEST.into() }]
}

/// Leave the request, whole or not at all.
fn prepare(env: &Env<'_>) -> Result<(), MethodError> {
    let failed = |source| MethodError {
        what: format!("cannot leave the request for a power cycle in {REQUEST}"),
        source: Some(source),
    };
    let boot_id = boot_id(env.root)?;
    let request =
        Request { boot_id, plan: env.plan_hash.into(), requested_at: env.now.to_string() };
    let line = serde_json::to_string(&request).map_err(|error| failed(error.into()))?;
    let path = under(env.root, REQUEST);
    replace_own_file(&path, format!("{line}\n").as_bytes(), 0o644, 0o755).map_err(failed)
}

/// Whether this takes the request back.
fn undoes(step: &Undo) -> bool {
    matches!(step, Undo::Remove { path } if path == REQUEST)
}

/// Have the BMC cycle the power, if that was asked for in this boot. For the shutdown hook only: nothing is shut down
/// first. Does not return while the BMC does its work; returns within `limit` and the time of one answer.
/// [`ACTS_WITHIN`] is the limit outside tests.
///
/// # Errors
/// [`PowerCycleError`]: always, if it returns at all.
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
            // It may have understood all the same, and must not cut the power when the next boot has begun.
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
    let request: Request =
        serde_json::from_str(&line).map_err(|error| format!("{REQUEST} is no request: {error}"))?;
    if request.boot_id == boot_id(root).map_err(words)? {
        Ok(())
    } else {
        Err("the request is of another boot".into())
    }
}

/// The boot's identity. What does not look like one would match what it should not.
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
