//! Resource limits of jobs: drop-ins of the services that start them, a file of pam_limits for sessions, and the size of
//! /dev/shm. Services are never restarted: a job would end with them. Processes that run with other limits are noted.
//! Sources: systemd.exec(5), limits.conf(5); Linux mm/shmem.c; handbook §5.6.

mod conf;
mod files;
mod reload;
mod running;
pub mod section;
mod shm;
pub mod target;
#[cfg(test)]
mod tests;

use super::{
    Context, Kind, OwnFile, Privacy, RecordMode, Watch, WriteScope, no_labels, nothing_to_resolve,
};
use crate::desired::Desired;
use crate::image_config::{ConfigFile, ContributeError, ImageConfig};
use crate::plan::{KindId, KindPlan, Rationale};
use crate::profile::model::Profile;
use bedplate_facts::Facts;
use bedplate_facts::limits::SHM;
use bedplate_host::HostKind;
use target::LimitTarget;

pub(crate) use conf::restore_fault;
pub(crate) use reload::{
    hindrance as reload_hindrance, is_reload, is_unit_file, tool as reload_tool,
};
pub(crate) use running::services;

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "limits of services that start jobs, and of sessions; size of /dev/shm",
    resolve: nothing_to_resolve,
    plan,
    contribute,
    watch,
    recorded: &[
        ("/etc/security/limits.d/*", RecordMode::Whole),
        (target::PAM_LIMITS, RecordMode::Presence),
        (reload::SYSTEMD, RecordMode::Presence),
    ],
    owns: WriteScope {
        files: target::FILES,
        attributes: &[SHM],
        tools: &[reload::ARGV],
        ..WriteScope::NONE
    },
    files: &OWN_FILES,
    privacy: Privacy::OPEN,
    labels: no_labels,
};

const NAME: KindId = KindId::Limits;

/// Files that identify this resource type's work.
const OWN_FILES: [OwnFile; target::FILES.len()] = {
    let mut all = [OwnFile::whole(target::SESSIONS); target::FILES.len()];
    let mut at = 0;
    while at < target::FILES.len() {
        all[at].path = target::FILES[at];
        at += 1;
    }
    all
};

/// Returns the reason for a value of a key.
fn requested(key: &'static str) -> Rationale {
    Rationale::new("requested by the profile", key)
}

fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    let wanted = files::plan(context, &mut section);
    if context.facts.host != HostKind::Image {
        running::plan(context, &wanted, &mut section);
    }
    shm::plan(context, &mut section);
    section
}

/// Watches the directories of the files. The size of /dev/shm shows no events: the re-check covers it.
fn watch(profile: &Profile, _: &Facts) -> Watch {
    let limits = &profile.limits;
    let targets = limits.apply_to.iter().filter(|_| limits.limits_jobs());
    let directories: Vec<&str> = targets.map(|target| target.directory()).collect();
    Watch::directories(&directories)
}

/// Contributes the files of all targets: which services the image has is unknown, and systemd ignores drop-ins without a unit.
fn contribute(
    profile: &Profile,
    _: &Facts,
    _: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let limits = &profile.limits;
    for target in LimitTarget::ALL.into_iter().filter(|target| limits.apply_to.contains(target)) {
        let settings = conf::settings(limits, target);
        if let Some(text) = conf::text(target, &settings, &profile.name) {
            out.files.push(ConfigFile { path: target.path(), text, settings: Vec::new() });
        }
    }
    out.live_only.extend(limits.shm_size.map(shm::live_only));
    Ok(())
}
