//! The edit of the command line that the profile asks for, in one piece. Pure.

use super::comparison::Comparison;
use super::{Obstacle, owned_arguments};
use crate::desired::{ArgSource, DesiredCmdline};
use crate::kind::Context;
use bedplate_base::{Arch, chain};
use bedplate_cmdline::Edit;

/// What the profile wants, and what bedplate once put there and nobody wants any more.
pub(super) fn edit(
    wanted: &DesiredCmdline,
    arch: Arch,
    context: &Context,
) -> Result<Edit, Obstacle> {
    let set: Vec<&str> = wanted.set.iter().map(|arg| arg.token.as_str()).collect();
    edit_of(&set, wanted, arch, context)
}

/// The same without what every state has by kernel default, or the next boot from TuneD.
pub(super) fn needed(
    wanted: &DesiredCmdline,
    arch: Arch,
    context: &Context,
    comparison: &Comparison,
) -> Result<Edit, Obstacle> {
    let mut by_default = comparison.by_default();
    by_default.extend(comparison.by_tuned());
    let set: Vec<&str> = wanted
        .set
        .iter()
        .map(|arg| arg.token.as_str())
        .filter(|token| !by_default.contains(*token))
        .collect();
    edit_of(&set, wanted, arch, context)
}

fn edit_of(
    set: &[&str],
    wanted: &DesiredCmdline,
    arch: Arch,
    context: &Context,
) -> Result<Edit, Obstacle> {
    let absent: Vec<&str> = wanted.absent.iter().map(|arg| arg.token.as_str()).collect();
    let bad = |error: &dyn std::error::Error| Obstacle {
        reason: chain(error),
        remedy: remedy(wanted, arch),
    };
    let edit = Edit::new(arch, set, &absent).map_err(|error| bad(&error))?;
    let disowned = owned_arguments::disowned(&edit, context, &wanted.keep);
    if disowned.is_empty() {
        return Ok(edit);
    }
    let mut absent: Vec<String> = absent.into_iter().map(str::to_owned).collect();
    // What is to go for a reason of its own is named already.
    let unnamed: Vec<String> = disowned.into_iter().filter(|own| !absent.contains(own)).collect();
    absent.extend(unnamed);
    Edit::new(arch, set, &absent).map_err(|error| bad(&error))
}

/// Where to correct what the profile asks for. `profile check` knows no machine, and what `[acs]` comes to on one only its plan.
fn remedy(wanted: &DesiredCmdline, arch: Arch) -> String {
    let listed = wanted
        .set
        .iter()
        .filter(|arg| arg.from == ArgSource::Cmdline)
        .map(|arg| arg.token.as_str());
    let absent: Vec<&str> = wanted.absent.iter().map(|arg| arg.token.as_str()).collect();
    match Edit::new(arch, &listed.collect::<Vec<_>>(), &absent) {
        Err(_) => "correct the profile: `bedplate profile check` shows the place",
        Ok(_) => {
            "drop the one in [cmdline] of the profile, or set `policy` in [acs] or `mode` in [iommu], which asks for the other, \
             to \"keep\""
        }
    }
    .to_owned()
}
