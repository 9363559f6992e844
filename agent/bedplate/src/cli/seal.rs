//! `bedplate seal`: prepares a host or an image to be cloned.

use std::path::{Path, PathBuf};

use clap::Args;
use nix::unistd::geteuid;
use serde::Serialize;

use super::apply::{confirm, retry_locked};
use super::error::AS_ROOT;
use super::{CliError, Exit, host, output, running};
use crate::report::seal as text;
use bedplate_core::engine::{self, Target};
use bedplate_core::revert::Refused;
use bedplate_core::seal::Machine;

/// The running machine.
const HOST: &str = "/";

/// `bedplate seal`.
#[derive(Debug, Args)]
#[command(
    after_help = "Keeps the profile and every file that bedplate wrote, with the record that `revert` needs. /etc/machine-id, ssh host \
    keys and cloud-init's state belong to other tools.\n\nExit status: 0 sealed, or nothing to remove; 2 --dry-run --exit-code found \
    something to remove; 4 refused: the daemon or a system in DIR is running, a change is unfinished, tools are pending, a reboot is \
    scheduled, or a link leads to unmanaged files; 1 some removals failed; 64 usage."
)]
pub(crate) struct SealArgs {
    /// Seal a root directory that is not running (an image, a mounted disk) instead of this machine.
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    root: Option<PathBuf>,
    /// Show what would be removed, and exit.
    #[arg(long)]
    dry_run: bool,
    /// With `--dry-run`: exit with 2 if there is anything to remove.
    #[arg(long, requires = "dry_run")]
    exit_code: bool,
    /// Do not ask for confirmation. Without a terminal, seal never asks.
    #[arg(long, short)]
    yes: bool,
    /// List every entry.
    #[arg(long, short)]
    verbose: bool,
    /// Print removed and retained entries, with reasons, as JSON.
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Document<'a, T: Serialize> {
    /// Version of this format, 2.
    bedplate_seal: u32,
    #[serde(flatten)]
    content: &'a T,
}

/// Plans, asks for confirmation, locks, plans again under the lock, and removes.
pub(crate) fn run(args: &SealArgs) -> Result<Exit, CliError> {
    let target = target(args.root.as_deref())?;
    if matches!(target, Target::Live) && !geteuid().is_root() {
        return Err(
            CliError::new("permission denied: sealing this host requires root").hinting(AS_ROOT)
        );
    }
    // Warns of mounts in an image, which are not read.
    host::of_target(&target);
    let mut machine = OfTarget(&target);
    let shown = engine::plan_seal(&target, &mut machine)?;
    let is_refused = !shown.refused.is_empty();
    if args.dry_run || is_refused || shown.is_empty() {
        output::either(args.json, &document(&shown), || text::plan(&shown, args.verbose))?;
        return Ok(match (is_refused, shown.is_empty()) {
            (true, _) => Exit::Blocked,
            (false, false) if args.exit_code => Exit::Changes,
            (false, _) => Exit::Done,
        });
    }
    engine::may_change(&target)?;
    if !args.json {
        output::status(text::plan(&shown, args.verbose).trim_end());
    }
    if !args.yes && !confirm("remove this")? {
        return Err(CliError::new("nothing removed"));
    }
    let done = retry_locked(|| engine::seal(&target, &mut machine))?;
    output::either(args.json, &document(&done), || text::sealed(&done))?;
    Ok(match (done.plan.refused.is_empty(), done.failed.is_empty()) {
        (false, _) => Exit::Blocked,
        (true, false) => Exit::Failed,
        (true, true) => Exit::Done,
    })
}

fn document<T: Serialize>(content: &T) -> Document<'_, T> {
    Document { bedplate_seal: 2, content }
}

/// Returns the host to seal. The root directory of this machine is not an image.
fn target(root: Option<&Path>) -> Result<Target, CliError> {
    let Some(root) = root else { return Ok(Target::Live) };
    let image = Target::image(root, false)?;
    if !image.is_running_machine() {
        return Ok(image);
    }
    output::status(&format!(
        "{} is the root directory of this machine: sealing the running machine",
        root.display()
    ));
    Ok(Target::Live)
}

/// Machine that a target is, or that it is on.
struct OfTarget<'a>(&'a Target);

impl Machine for OfTarget<'_> {
    fn in_use(&mut self) -> Option<Refused> {
        if self.0.has_running_system() {
            return Some(Refused {
                subject: "a running system".into(),
                reason: "a system is running in this directory: it has /run/systemd/system, or is the root directory of a container".into(),
                fix: "stop that system, or run `bedplate seal` in it. Not running? Empty DIR/run.".into(),
            });
        }
        if cfg!(not(feature = "daemon")) && self.0.is_running_machine() {
            return Some(Refused {
                subject: "this program".into(),
                reason: "built without the daemon; cannot remove the data that a daemon publishes about a running machine".into(),
                fix: "use a bedplate built with the daemon, or seal the image with `--root DIR`".into(),
            });
        }
        (self.0.is_running_machine() && running::daemon_runs()).then(|| Refused {
            subject: "bedplate.service".into(),
            reason: "the daemon is running and would write its state again".into(),
            fix: "run `systemctl stop bedplate`, seal, shut down; the unit stays enabled for the clones".into(),
        })
    }

    fn remove_published_files(&mut self) -> Vec<String> {
        running::remove_published_files(Path::new(HOST))
    }
}
