//! `[iommu]` and `[cmdline]` as kernel arguments, on a machine and in an image, and the edit of the command line that follows. Pure.

use super::comparison::Comparison;
use super::{Obstacle, arch, iommu, owned_arguments};
use crate::desired::{ArgSource, Desired, DesiredCmdline, KernelArg};
use crate::image_config::{ContributeError, ImageConfig};
use crate::kind::Context;
use crate::ledger::Ledger;
use crate::profile::model::Profile;
use bedplate_base::{Arch, chain};
use bedplate_cmdline::{Edit, EditError};
use bedplate_facts::Facts;

/// What the IOMMU's mode needs on this CPU, then what the profile lists.
pub(super) fn resolve(profile: &Profile, facts: &Facts, _: &Ledger, desired: &mut Desired) {
    iommu::resolve(profile, facts, desired);
    desired.cmdline.set.extend(profile.cmdline.args.iter().cloned());
    desired.cmdline.absent.extend(profile.cmdline.absent.iter().cloned());
}

/// The whole command line, other kinds' arguments on it.
pub(crate) fn contribute(
    _: &Profile,
    _: &Facts,
    desired: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    out.arguments.extend(desired.cmdline.set.iter().cloned());
    out.absent.extend(desired.cmdline.absent.iter().cloned());
    Ok(())
}

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
