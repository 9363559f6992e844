//! The table of kinds. A kind says what its sections of the profile come to on a machine, and turns that and what it observes
//! into a [`KindPlan`] of the plan, or into its part of an image. Kinds read the host; they never write.

pub mod acs;
pub mod cmdline;
pub mod cufile;
mod drop_in;
pub mod modules;
pub mod nccl;
mod own_file;
mod pending_tools;
pub mod sriov;
pub mod sysctl;
mod target_file;
mod write_scope;

use crate::desired::Desired;
use crate::image_config::{ContributeError, ImageConfig};
use crate::ledger::Ledger;
use crate::plan::{KindId, KindPlan, Rationale};
use crate::profile::model::Profile;
pub(crate) use bedplate_base::some_of;
use bedplate_facts::Facts;
use bedplate_host::Reader;
pub(crate) use own_file::{FileTool, OwnFile, OwnMark};
pub(crate) use pending_tools::{LIMIT_S as OWED_LIMIT_S, change as owed_change};
use serde::{Deserialize, Serialize};
pub(crate) use target_file::{TargetFile, removed};
pub(crate) use write_scope::{WriteScope, kind_of_command, kind_of_tool};
pub use write_scope::{is_own_word, outside_write_scope};

/// What a kind gets to look at.
pub struct Context<'a> {
    /// What the operator declared: its name for the heading of the files that bedplate writes, and the sections that mean the
    /// same on every machine.
    pub profile: &'a Profile,
    /// What is wanted, where that depends on the machine.
    pub desired: &'a Desired,
    /// Facts about the host.
    pub facts: &'a Facts,
    /// The host.
    pub reader: &'a dyn Reader,
    /// What bedplate did here before.
    pub ledger: &'a Ledger,
    /// What the kinds before this one in [`KINDS`] have planned.
    pub so_far: &'a KindPlan,
}

/// One kind of managed thing.
pub struct Kind {
    /// Name, as in plans and reports.
    pub id: KindId,
    /// One line of help.
    pub about: &'static str,
    /// What its sections of the profile come to on a machine, where that depends on the machine; the ledger counts where
    /// something cannot be read now. Pure.
    pub resolve: fn(&Profile, &Facts, &Ledger, &mut Desired),
    /// Observe and compare.
    pub plan: fn(&Context) -> KindPlan,
    /// What it has to say in an image that is built elsewhere. Pure.
    pub contribute: fn(&Profile, &Facts, &Desired, &mut ImageConfig) -> Result<(), ContributeError>,
    /// Where a change of what it manages shows.
    pub watch: fn(&Profile, &Facts) -> Watch,
    /// What a snapshot records beside what facts are made of.
    pub recorded: &'static [(&'static str, RecordMode)],
    /// What its changes write and run: nothing else is done at a ledger's word.
    pub owns: WriteScope,
    /// Files by which its work is known where the ledger was lost.
    pub files: &'static [OwnFile],
    /// What of its plans is not for everybody.
    pub privacy: Privacy,
    /// What schedulers may select nodes by: name and value.
    pub labels: fn(&Facts, &dyn Reader) -> Vec<(&'static str, String)>,
}

/// What of a kind's plans is masked for others than root.
#[derive(Debug, Clone, Copy)]
pub struct Privacy {
    /// Values stand alone, not behind a name that tells whether they are secret.
    pub bare_values: bool,
    /// States and remarks quote files that not everybody may be able to read.
    pub quotes_files: bool,
}

impl Privacy {
    /// Neither.
    const OPEN: Privacy = Privacy { bare_values: false, quotes_files: false };
}

/// What a snapshot records of a path; `*` in it stands for any part of one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordMode {
    /// The whole file (or the link itself and the file behind it).
    Whole,
    /// A directory's names.
    Names,
    /// That it is there, or not.
    Presence,
}

/// Paths whose change may be drift.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Directories in which files come, go and are written.
    pub directories: Vec<String>,
    /// Files of the kernel that others may write to: `config` of ports with ACS, `sriov_numvfs`, `reset`, keys of /proc/sys.
    pub attributes: Vec<String>,
    /// Network interfaces of PFs on which something is set by netlink.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Network interfaces of which only whether they are up and have a link counts.
    #[serde(default)]
    pub links: Vec<String>,
}

impl Watch {
    /// These directories.
    pub fn directories(paths: &[&str]) -> Self {
        Watch {
            directories: paths.iter().map(|&path| path.to_owned()).collect(),
            ..Watch::default()
        }
    }
}

/// A kind that means the same on every machine.
fn nothing_to_resolve(_: &Profile, _: &Facts, _: &Ledger, _: &mut Desired) {}

/// A kind without labels.
fn no_labels(_: &Facts, _: &dyn Reader) -> Vec<(&'static str, String)> {
    Vec::new()
}

/// Every kind, in the order in which plans show and apply them: ports of ACS go by what becomes of the command line.
pub const KINDS: &[Kind] =
    &[cmdline::KIND, modules::KIND, sysctl::KIND, acs::KIND, sriov::KIND, nccl::KIND, cufile::KIND];

/// What a kind's row says of privacy; of what no kind manages nothing is quoted.
pub fn privacy(id: KindId) -> Privacy {
    KINDS.iter().find(|kind| kind.id == id).map_or(Privacy::OPEN, |kind| kind.privacy)
}

/// The name of a kind as plans have it; `None` where there is no kind of that name.
pub fn named(name: &str) -> Option<KindId> {
    KINDS.iter().map(|kind| kind.id).find(|known| known.name() == name)
}

/// What the profile comes to on a machine with these facts and this ledger. Pure: here a profile's intent meets a machine's
/// nature.
pub fn resolve(profile: &Profile, facts: &Facts, ledger: &Ledger) -> Desired {
    let mut desired = Desired::default();
    for kind in KINDS {
        (kind.resolve)(profile, facts, ledger, &mut desired);
    }
    desired
}

/// What the profile puts into an image of such a machine. Pure.
///
/// # Errors
/// [`ContributeError`]: a value that the file it belongs into cannot carry.
pub fn contributions(
    profile: &Profile,
    facts: &Facts,
    desired: &Desired,
) -> Result<ImageConfig, ContributeError> {
    let mut all = ImageConfig { profile: profile.name.clone(), ..ImageConfig::default() };
    for kind in KINDS {
        (kind.contribute)(profile, facts, desired, &mut all)?;
    }
    Ok(all)
}

/// The plan of one kind by itself.
#[cfg(test)]
pub(crate) fn plan_alone(
    kind: &Kind,
    (profile, desired): (&Profile, &Desired),
    facts: &Facts,
    reader: &dyn Reader,
    ledger: &Ledger,
) -> KindPlan {
    let so_far = &KindPlan::default();
    (kind.plan)(&Context { profile, desired, facts, reader, ledger, so_far })
}

/// Why a line of bedplate's goes.
pub(crate) fn dropped() -> Rationale {
    Rationale::because("bedplate put it there and the profile no longer asks for it")
}
