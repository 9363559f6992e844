//! The edit of the command line that the profile asks for, in one piece. Pure.

use super::comparison::Comparison;
use super::{Obstacle, arch, owned_arguments};
use crate::desired::{ArgSource, DesiredCmdline, KernelArg};
use crate::kind::Context;
use bedplate_base::{Arch, chain};
use bedplate_cmdline::{Edit, EditError};

/// What the profile wants, and what bedplate once put there and nobody wants any more.
pub(super) fn edit(context: &Context) -> Result<Edit, Obstacle> {
    edit_of(&context.desired.cmdline.set, context)
}

/// The same without what every state has by kernel default, or the next boot from TuneD.
pub(super) fn needed(context: &Context, comparison: &Comparison) -> Result<Edit, Obstacle> {
    let mut by_default = comparison.by_default();
    by_default.extend(comparison.by_tuned());
    let set = context.desired.cmdline.set.iter();
    edit_of(set.filter(|arg| !by_default.contains(&arg.token)), context)
}

fn edit_of<'a>(
    set: impl IntoIterator<Item = &'a KernelArg>,
    context: &Context,
) -> Result<Edit, Obstacle> {
    let (wanted, arch) = (&context.desired.cmdline, arch(context.facts));
    let edit = || -> Result<Edit, EditError> {
        let edit = Edit::new(arch, set)?.without(&wanted.absent)?;
        let mut disowned = owned_arguments::disowned(&edit, context);
        // What is to go for a reason of its own is named already.
        disowned.retain(|own| !wanted.absent.iter().any(|arg| arg.token == *own));
        edit.without(disowned)
    };
    edit().map_err(|error| Obstacle { reason: chain(&error), remedy: remedy(wanted, arch) })
}

/// Where to correct what the profile asks for. `profile check` knows no machine, and what `[acs]` comes to on one only its plan.
fn remedy(wanted: &DesiredCmdline, arch: Arch) -> String {
    let listed = wanted.set.iter().filter(|arg| arg.from == ArgSource::Cmdline);
    match Edit::new(arch, listed).and_then(|edit| edit.without(&wanted.absent)) {
        Err(_) => "correct the profile: `bedplate profile check` shows the place",
        Ok(_) => {
            "drop the one in [cmdline] of the profile, or set `policy` in [acs] or `mode` in [iommu], which asks for the other, \
             to \"keep\""
        }
    }
    .to_owned()
}
