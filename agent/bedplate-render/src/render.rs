//! Renders a profile as files for one target.

use bedplate_core::desired::Desired;
use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind;
use bedplate_core::profile::model::Profile;
use bedplate_facts::Facts;

use crate::output::{Options, RenderError, RenderResult, stamp};
use crate::{TARGETS, Target, common, second_boot};

/// Returns the target of this name.
///
/// # Errors
/// [`RenderError`] lists the known names.
pub fn target(name: &str) -> Result<&'static Target, RenderError> {
    TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
        let known = TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
        RenderError::Refused(format!("unknown render target `{name}`; known targets: {known}"))
    })
}

/// Renders the contributions of all resource types. Adds the unresolved parts of the desired state, which no target may
/// lose.
///
/// # Errors
/// [`RenderError`] if a target cannot write its files.
pub fn render(
    target: &Target,
    profile: &Profile,
    facts: &Facts,
    desired: &Desired,
    options: &Options,
) -> Result<RenderResult, RenderError> {
    let mut rendered = written(target, kind::contributions(profile, facts, desired)?, options)?;
    rendered.inexpressible.extend(common::unresolved(desired));
    rendered.notes.extend(common::remarks(desired, facts.sees_devices()));
    let second_boot = second_boot::note(profile, &rendered);
    rendered.notes.extend(second_boot);
    Ok(rendered)
}

fn written(
    target: &Target,
    mut build: ImageConfig,
    options: &Options,
) -> Result<RenderResult, RenderError> {
    build.stamp = options.profile_text.as_deref().map(stamp);
    (target.render)(&build, options)
}

#[cfg(test)]
mod tests;
