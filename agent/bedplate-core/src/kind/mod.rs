//! Registry of resource types, `kind` in code. A resource type resolves its profile sections for a machine, then turns the
//! result and its observations into a [`KindPlan`], or into its part of an image. Resource types read the host; they never
//! write.

pub mod acs;
mod attribute;
pub mod cmdline;
pub mod cpu;
pub mod cufile;
mod drop_in;
pub mod hugepages;
pub mod limits;
mod lockdown;
pub mod modules;
pub mod nccl;
mod own_file;
pub mod pcie;
mod pending_tools;
pub mod selector;
pub mod sriov;
mod still_set;
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
pub(crate) use lockdown::register_lockdown;
pub(crate) use own_file::{FileTool, OwnFile, OwnMark};
pub(crate) use pending_tools::{LIMIT_S as OWED_LIMIT_S, change as owed_change, item as owed_item};
use serde::{Deserialize, Serialize};
pub(crate) use still_set::{registers_still_set, still_set};
pub(crate) use target_file::{TargetFile, removed};
pub(crate) use write_scope::{
    RegisterScope, WriteScope, kind_of_command, kind_of_tool, owns_register,
};
pub use write_scope::{format_register, is_own_word, outside_write_scope};

/// Input to a resource type's planner.
pub struct Context<'a> {
    /// The operator's profile: its name for the heading of files that bedplate writes, and the machine-independent
    /// sections.
    pub profile: &'a Profile,
    /// Desired state, as far as it depends on the machine.
    pub desired: &'a Desired,
    /// Facts about the host.
    pub facts: &'a Facts,
    /// Reader of the host.
    pub reader: &'a dyn Reader,
    /// Record of bedplate's earlier changes here.
    pub ledger: &'a Ledger,
    /// Accumulated plans of the earlier resource types in [`KINDS`].
    pub so_far: &'a KindPlan,
}

/// One class of managed settings.
pub struct Kind {
    /// Name, as in plans and reports.
    pub id: KindId,
    /// One line of help.
    pub about: &'static str,
    /// Resolves the machine-dependent part of its profile sections. Uses the ledger for values that cannot be read now.
    /// Pure.
    pub resolve: fn(&Profile, &Facts, &Ledger, &mut Desired),
    /// Observes the host and compares it with the desired state.
    pub plan: fn(&Context) -> KindPlan,
    /// Adds its part to an image that is built elsewhere. Pure.
    pub contribute: fn(&Profile, &Facts, &Desired, &mut ImageConfig) -> Result<(), ContributeError>,
    /// Returns the paths where a change may be drift.
    pub watch: fn(&Profile, &Facts) -> Watch,
    /// Paths that a snapshot records in addition to the sources of the facts.
    pub recorded: &'static [(&'static str, RecordMode)],
    /// Paths it writes and tools it runs; a ledger cannot authorize anything else.
    pub owns: WriteScope,
    /// Files that identify its work after the ledger was lost.
    pub files: &'static [OwnFile],
    /// Parts of its plans that only root may see.
    pub privacy: Privacy,
    /// Returns node labels for schedulers: name and value.
    pub labels: fn(&Facts, &dyn Reader) -> Vec<(&'static str, String)>,
}

/// Masking of a resource type's plans for users other than root.
#[derive(Debug, Clone, Copy)]
pub struct Privacy {
    /// Values appear alone, without a name that tells whether they are secret.
    pub bare_values: bool,
    /// States and notes quote files that may be readable by root only.
    pub quotes_files: bool,
}

impl Privacy {
    /// No masking.
    const OPEN: Privacy = Privacy { bare_values: false, quotes_files: false };
}

/// Scope of a snapshot's record of a path; `*` in the path matches any part of one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordMode {
    /// The whole file (or the link itself and its target).
    Whole,
    /// The names in a directory.
    Names,
    /// Whether the path exists.
    Presence,
    /// The whole file, if a profile in /etc/bedplate contains this key: for files of which a host has thousands.
    IfSet(&'static str),
}

/// Paths whose change may be drift.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Directories in which files are created, removed or written.
    pub directories: Vec<String>,
    /// Kernel files that other tools may write: `config` of ports with ACS, `sriov_numvfs`, `reset`, keys of /proc/sys.
    pub attributes: Vec<String>,
    /// Network interfaces of PFs with netlink settings.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Network interfaces watched only for their up and link state.
    #[serde(default)]
    pub links: Vec<String>,
}

impl Watch {
    /// Watches only these directories.
    pub fn directories(paths: &[&str]) -> Self {
        Watch {
            directories: paths.iter().map(|&path| path.to_owned()).collect(),
            ..Watch::default()
        }
    }
}

/// Time limit in seconds for writes to /sys and /proc/sys that return at once, as most do. vm.nr_hugepages searches for its
/// pages during the write.
pub(crate) const WRITE_LIMIT_S: u32 = 60;

/// Returns the resolver for a resource type with machine-independent sections.
fn nothing_to_resolve(_: &Profile, _: &Facts, _: &Ledger, _: &mut Desired) {}

/// Returns the label source for a resource type without labels.
fn no_labels(_: &Facts, _: &dyn Reader) -> Vec<(&'static str, String)> {
    Vec::new()
}

/// All resource types, in the order in which plans show and apply them. ACS ports depend on the planned command line.
/// Huge pages are last: the kernel may search for them for minutes, and the network must not wait for that.
pub const KINDS: &[Kind] = &[
    cmdline::KIND,
    modules::KIND,
    sysctl::KIND,
    cpu::KIND,
    acs::KIND,
    pcie::KIND,
    sriov::KIND,
    nccl::KIND,
    cufile::KIND,
    limits::KIND,
    hugepages::KIND,
];

/// Returns the privacy of a resource type; `Privacy::OPEN` for an id without an entry, because its plans quote nothing.
pub fn privacy(id: KindId) -> Privacy {
    KINDS.iter().find(|kind| kind.id == id).map_or(Privacy::OPEN, |kind| kind.privacy)
}

/// Returns the resource type with this name in plans, or `None` if there is no such resource type.
pub fn named(name: &str) -> Option<KindId> {
    KINDS.iter().map(|kind| kind.id).find(|known| known.name() == name)
}

/// Resolves a profile against a machine's facts and ledger. Pure.
pub fn resolve(profile: &Profile, facts: &Facts, ledger: &Ledger) -> Desired {
    let mut desired = Desired::default();
    for kind in KINDS {
        (kind.resolve)(profile, facts, ledger, &mut desired);
    }
    desired
}

/// Returns the profile's part of an image for such a machine. Pure.
///
/// # Errors
/// [`ContributeError`] if a target file cannot represent a value.
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

/// Plans one resource type alone.
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

/// Returns the reason for removing a line that bedplate wrote.
pub(crate) fn dropped() -> Rationale {
    Rationale::because("written by bedplate, no longer in the profile")
}
