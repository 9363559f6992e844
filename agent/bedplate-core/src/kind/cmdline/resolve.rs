//! `[iommu]` and `[cmdline]` as kernel arguments: on a machine, and in an image. Pure.

use super::iommu;
use super::section::CmdlineArg;
use crate::desired::{ArgSource, Desired, UnwantedArg, WantedArg};
use crate::image_config::{ContributeError, ImageConfig};
use crate::ledger::Ledger;
use crate::profile::model::Profile;
use bedplate_facts::Facts;

/// What the IOMMU's mode needs on this CPU, then what the profile lists.
pub(super) fn resolve(profile: &Profile, facts: &Facts, _: &Ledger, desired: &mut Desired) {
    iommu::resolve(profile, facts, desired);
    desired.cmdline.set.extend(profile.cmdline.args.iter().map(wanted));
    desired.cmdline.absent.extend(profile.cmdline.absent.iter().map(unwanted));
}

fn wanted(arg: &CmdlineArg) -> WantedArg {
    WantedArg { token: arg.arg.clone(), why: arg.why.clone(), from: ArgSource::Cmdline }
}

fn unwanted(arg: &CmdlineArg) -> UnwantedArg {
    UnwantedArg { token: arg.arg.clone(), why: arg.why.clone() }
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
