//! Kernel parameters of sysctl(8): a file in sysctl.d for later boots, and /proc/sys for the running kernel.
//! Sources: sysctl.d(5); systemd src/sysctl/sysctl.c; handbook §14.6.

mod conf;
mod file;
pub(crate) mod key;
mod paths;
mod running;
pub mod section;
#[cfg(test)]
mod tests;

use super::{Context, Kind, OwnFile, Privacy, no_labels, nothing_to_resolve};
use crate::desired::Desired;
use crate::image_config::{ConfigFile, ContributeError, ImageConfig, Setting};
use crate::plan::{KindId, KindPlan};
use crate::profile::model::Profile;
use bedplate_facts::Facts;
use bedplate_host::HostKind;

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "kernel parameters in sysctl.d and /proc/sys",
    resolve: nothing_to_resolve,
    plan,
    contribute,
    watch: paths::watch,
    recorded: paths::RECORDED,
    owns: paths::OWNS,
    files: &[OwnFile::whole(conf::PATH)],
    privacy: Privacy { bare_values: true, quotes_files: false },
    labels: no_labels,
};

/// Name of this resource type.
pub const NAME: KindId = KindId::Sysctl;

/// Whether the profile sets the parameter at this /proc/sys path to this value.
pub(crate) fn sets(profile: &Profile, path: &str, value: &str) -> bool {
    let mut set = profile.sysctl.set.iter();
    set.any(|setting| setting.key.path() == path && setting.value == value)
}

fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    let wanted = &context.profile.sysctl.set;
    file::plan(context, wanted, &mut section);
    // On a host that is not running the file is enough: systemd-sysctl applies it at every boot.
    if context.facts.host != HostKind::Image {
        running::plan(context, wanted, &mut section);
    }
    section
}

/// Contributes only the file: systemd-sysctl applies it at every boot.
fn contribute(
    profile: &Profile,
    _: &Facts,
    _: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let wanted = &profile.sysctl.set;
    if let Some(text) = conf::text(wanted, &profile.name) {
        let setting = |one: &section::Setting| Setting::Sysctl {
            key: one.key.to_string(),
            value: one.value.clone(),
        };
        let settings = wanted.iter().map(setting).collect();
        out.files.push(ConfigFile { path: conf::PATH, text, settings });
    }
    Ok(())
}
