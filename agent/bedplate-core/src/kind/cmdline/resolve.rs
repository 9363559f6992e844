//! Resolves `[iommu]` and `[cmdline]` to kernel arguments, for hosts and images, and to an edit of the command line.
//! Pure.

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

/// Adds the arguments that the IOMMU mode needs on this CPU, then those that the profile lists.
pub(super) fn resolve(profile: &Profile, facts: &Facts, _: &Ledger, desired: &mut Desired) {
    iommu::resolve(profile, facts, desired);
    desired.cmdline.set.extend(profile.cmdline.args.iter().cloned());
    desired.cmdline.absent.extend(profile.cmdline.absent.iter().cloned());
}

/// Contributes all kernel arguments to an image, including those of other resource types.
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

/// Returns the edit that adds the desired arguments and removes those that bedplate owns and no longer needs.
pub(super) fn edit(context: &Context) -> Result<Edit, Obstacle> {
    edit_of(&context.desired.cmdline.set, context)
}

/// Returns the same edit without arguments that every state has by kernel default or that TuneD adds to the next boot.
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
        // Arguments of `absent` are already part of the edit.
        disowned.retain(|own| !wanted.absent.iter().any(|arg| arg.token == *own));
        edit.without(disowned)
    };
    edit().map_err(|error| Obstacle { reason: chain(&error), fix: fix(wanted, arch) })
}

/// Returns where to correct contradictory arguments. `profile check` knows no host, so it cannot report arguments
/// derived from `[acs]` or `[iommu]`.
fn fix(wanted: &DesiredCmdline, arch: Arch) -> String {
    let listed = wanted.set.iter().filter(|arg| arg.from == ArgSource::Cmdline);
    match Edit::new(arch, listed).and_then(|edit| edit.without(&wanted.absent)) {
        Err(_) => "correct the profile: `bedplate profile check` shows the place",
        Ok(_) => {
            "remove the argument from [cmdline] of the profile, or set `policy` in [acs] or `mode` in [iommu] to \"keep\""
        }
    }
    .to_owned()
}
