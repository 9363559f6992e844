//! Pause of enforcement, as `bedplate revert --hold` sets it.

use std::path::Path;

use jiff::Timestamp;

use super::error::AS_ROOT;
use super::{CliError, output, running};
use bedplate_base::terminal::brief;
use bedplate_core::enforce_hold::{EnforceHold, HOLD};
use bedplate_core::reboot_hold::LONGEST_NAME;

/// The running machine.
const HOST: &str = "/";

/// Returns why the running machine cannot be reverted: a daemon that would undo the revert.
pub(crate) fn revert_refusal() -> Option<String> {
    if EnforceHold::load(Path::new(HOST)).is_some() {
        return None;
    }
    running::enforcing_daemon().map(|who| {
        format!(
            "{who} and would undo this within seconds; nothing was reverted\n  \
             either run `bedplate revert --hold` to pause enforcement until `bedplate release`\n  \
             or run `systemctl disable --now bedplate bedplate-boot` before `bedplate revert`"
        )
    })
}

/// Pause that was set for a revert. Dropping it ends the pause, unless the revert has begun.
pub(crate) struct HoldGuard {
    ours: bool,
}

impl HoldGuard {
    /// Sets a pause if requested. Leaves an existing pause in place.
    pub(super) fn set(asked: bool) -> Result<Self, CliError> {
        let root = Path::new(HOST);
        let ours = asked && EnforceHold::load(root).is_none();
        if ours {
            let hold =
                EnforceHold::starting(Timestamp::now(), "`bedplate revert --hold`", &operator());
            hold.keep(root).map_err(|error| {
                CliError::while_doing(format!("cannot write {HOLD}"), error).hinting(AS_ROOT)
            })?;
        }
        Ok(HoldGuard { ours })
    }

    /// Keeps the pause from now on, whatever the result of the revert.
    pub(super) fn keep(&mut self) {
        self.ours = false;
        if let Some(hold) = EnforceHold::load(Path::new(HOST)) {
            output::status(&hold.describe());
        }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        if self.ours && EnforceHold::release(Path::new(HOST)).is_err() {
            output::warn("enforcement stays paused; run `bedplate release` to resume");
        }
    }
}

/// Returns the name of the operator, also behind sudo.
pub(crate) fn operator() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let name = name("SUDO_USER").or_else(|| name("USER")).unwrap_or_else(|| "root".into());
    brief(&name, LONGEST_NAME)
}
