//! The profile's reboot methods as the daemon uses them: their environment and the choice among them.

use std::path::Path;

use jiff::Timestamp;

use crate::reboot::method::choose::choose;
use crate::reboot::method::command::Command;
use crate::reboot::method::ipmi::Device;
use crate::reboot::method::{self, Env, MethodError, prepare, probe};
use bedplate_core::plan::RebootNeed;
use bedplate_core::profile::model::{Reboot, RebootMethod};
use bedplate_core::reboot_record::preparation::Preparation;

/// Seconds that an orderly shutdown may take before a wake-up alarm rings. An alarm that rings too early is lost, and the
/// machine stays off. systemd gives each unit 90.
const SHUTDOWN_S: u32 = 15 * 60;
/// Seconds that the operator's command may take, then seconds until the machine must have been power-cycled.
const COMMAND_S: u32 = 120;
const GRACE_S: u32 = 10 * 60;

fn with<T>(
    root: &Path,
    settings: &Reboot,
    plan: &str,
    at: Timestamp,
    act: impl FnOnce(&Env<'_>) -> T,
) -> T {
    let command = command(settings);
    let now = Timestamp::now();
    let until = u32::try_from(at.duration_since(now).as_secs().max(0)).unwrap_or(u32::MAX);
    act(&Env {
        root,
        ipmi: &Device::first(),
        rtc_wakes: settings.rtc_wakes,
        rtc_after_s: until.saturating_add(SHUTDOWN_S),
        command: command.as_ref(),
        plan_hash: plan,
        now,
    })
}

/// Returns the operator's command, if the profile has one.
pub(crate) fn command(settings: &Reboot) -> Option<Command> {
    let argv = settings.command.clone();
    (!argv.is_empty()).then_some(Command { argv, timeout_s: COMMAND_S, grace_s: GRACE_S })
}

/// Chooses the first method that works here, and returns it with a message about each method tried. Only a cold reboot uses
/// the profile's methods; any other reboot need not go through firmware.
pub(crate) fn choose_method(
    root: &Path,
    settings: &Reboot,
    need: RebootNeed,
) -> (Option<RebootMethod>, Vec<String>) {
    let order = match need {
        RebootNeed::Reboot => &[RebootMethod::Ordinary][..],
        RebootNeed::None | RebootNeed::Cold => settings.methods.as_slice(),
    };
    let soon = Timestamp::now();
    with(root, settings, "", soon, |env| choose(order, |method| probe(method, env)))
}

/// Rejects a method that the profile does not name.
fn check_configured(method: RebootMethod, settings: &Reboot) -> Result<(), MethodError> {
    if method == RebootMethod::Ordinary || settings.methods.contains(&method) {
        return Ok(());
    }
    Err(MethodError::unusable(method, "the profile does not list it"))
}

/// Returns the undo steps of a method that is about to be armed with [`ready`] for a reboot at `at`. Changes nothing.
///
/// # Errors
/// [`MethodError`].
pub(crate) fn find_undo(
    root: &Path,
    method: RebootMethod,
    settings: &Reboot,
    at: Timestamp,
) -> Result<Preparation, MethodError> {
    check_configured(method, settings)?;
    with(root, settings, "", at, |env| method::find_undo(method, env))
}

/// Arms a method for a reboot at `at`.
///
/// # Errors
/// [`MethodError`]; no state is left behind, or the error describes it.
pub(crate) fn ready(
    root: &Path,
    method: RebootMethod,
    settings: &Reboot,
    plan: &str,
    at: Timestamp,
) -> Result<Preparation, MethodError> {
    check_configured(method, settings)?;
    with(root, settings, plan, at, |env| prepare(method, env))
}
