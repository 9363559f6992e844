//! `[iommu]` and `[cmdline]` as kernel arguments: on a machine, and in an image. Pure.

use super::iommu;
use crate::desired::Desired;
use crate::image_config::{ContributeError, ImageConfig};
use crate::ledger::Ledger;
use crate::profile::model::Profile;
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
