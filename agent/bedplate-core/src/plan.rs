//! The plan: what differs, what would be done about it, and what stands in the way. Pure data: only `apply` interprets [`Action`].

mod action;
pub mod allowed_lints;
mod content;
mod json_form;
mod ledger_corrections;
mod next_boot;
mod pending;
mod subject;

use serde::{Deserialize, Serialize};

pub use crate::kind_id::KindId;
pub use action::{Action, Check, WayBack};
pub use content::FileContent;
pub(crate) use ledger_corrections::{Orphan, SettledTool};
pub(crate) use next_boot::EntryBefore;
pub use next_boot::NextBoot;
pub use pending::Pending;
pub(crate) use pending::PendingUntilBoot;
pub use subject::{BOOT_ENTRY, Device, DeviceRole, NEXT_COMMAND_LINE, Subject};

bedplate_base::named! {
    /// When a change counts (ordered from the least to the most disruptive to wait for).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Effect {
        /// As soon as it is done, and it lasts.
        Now = "now",
        /// As soon as it is done, but a reboot undoes it: it has to be done again at every boot.
        EveryBoot = "every-boot",
        /// When the kernel starts again.
        NextBoot = "next-boot",
        /// Only when the machine has gone through its firmware (never by kexec or soft-reboot).
        ColdBoot = "cold-boot",
    }
}

/// A reason that can be checked: the claim, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(rename = "Why"))]
pub struct Rationale {
    /// One sentence.
    pub reason: String,
    /// Where the fact stands: a kernel file, a vendor page, or the profile file and line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The source is no more than the line of the profile that asks for it. Files leave it out: where a profile lies, and what
    /// else is in it, is nothing to them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_place: bool,
}

impl Rationale {
    /// A reason with its source.
    pub fn new(reason: impl Into<String>, source: impl Into<String>) -> Self {
        Rationale { reason: reason.into(), source: Some(source.into()), is_place: false }
    }

    /// A reason with the line of the profile that gives it.
    pub fn at(reason: impl Into<String>, place: impl Into<String>) -> Self {
        Rationale { is_place: true, ..Rationale::new(reason, place) }
    }

    /// A reason whose source is the sentence itself (an observation).
    pub fn because(reason: impl Into<String>) -> Self {
        Rationale { reason: reason.into(), source: None, is_place: false }
    }
}

/// Why a change is shown but cannot be made on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Deferred {
    /// Who has to do it, and when: `the first boot of the image, when bedplate apply does it`.
    pub until: String,
}

impl Deferred {
    /// A change of the machine that an image cannot have.
    pub(crate) fn to_first_boot() -> Self {
        let until = "the first boot of the image, when `bedplate apply` on the machine does it";
        Deferred { until: until.to_owned() }
    }
}

/// One line of a change for people: a kernel parameter, a module, a port's bits, a VF count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Item {
    /// Differences.
    pub subject: String,
    /// Observed, for people; `None` = absent.
    pub before: Option<String>,
    /// Desired, for people; `None` = absent.
    pub after: Option<String>,
    /// Why the profile wants it.
    pub why: Vec<Rationale>,
}

impl Item {
    /// A line about `subject`; `None` = absent.
    pub(crate) fn new(
        subject: impl Into<String>,
        before: Option<&str>,
        after: Option<&str>,
        why: &[Rationale],
    ) -> Self {
        let (before, after) = (before.map(str::to_owned), after.map(str::to_owned));
        Item { subject: subject.into(), before, after, why: why.to_vec() }
    }
}

/// One unit of work: it is done whole or taken back whole. Its items say what differs and why;
/// its actions say what is done about all of them together (one file, one `update-grub`, however many parameters).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Change {
    /// Stable name within the plan, `kind/subject`.
    pub id: String,
    /// The kind it belongs to (`cmdline`, `modules`, `sysctl`, `acs`, `sriov`, `nccl`, `cufile`).
    pub kind: KindId,
    /// The file, setting or device that it changes.
    #[serde(flatten)]
    pub subject: Subject,
    /// What differs; never empty.
    pub items: Vec<Item>,
    /// When it counts.
    pub effect: Effect,
    /// What is done, in order.
    pub actions: Vec<Action>,
    /// What it disturbs while it is done or once it counts; empty = nothing.
    pub disrupts: Vec<String>,
    /// Ids of changes that must have succeeded first.
    pub needs: Vec<String>,
    /// What is bedplate's own on this host once it is done (kernel tokens): the ledger replaces the kind's list by it.
    /// `None` = the list stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owns: Option<Vec<String>>,
    /// Set when this host cannot take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Deferred>,
}

impl Change {
    /// Whether a kernel module is loaded or unloaded for it.
    pub fn uses_modules(&self) -> bool {
        let module = |action: &Action| {
            matches!(action, Action::LoadModule { .. } | Action::UnloadModule { .. })
        };
        self.actions.iter().any(module)
    }

    /// Whether it acts on the running machine only: nothing of it is written to a disk.
    pub fn is_live(&self) -> bool {
        !self.actions.is_empty() && self.actions.iter().all(Action::is_live)
    }
}

/// Something the operator has to deal with: bedplate will not, and says what would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Blocker {
    /// The kind it belongs to.
    pub kind: KindId,
    /// Subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// Why it cannot be planned.
    pub reason: String,
    /// What to do, as a command where there is one.
    pub remedy: String,
}

/// Something that could not be read, so that nothing is claimed about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Unknown {
    /// The kind it matters to.
    pub kind: KindId,
    /// The file, setting or device that could not be read.
    #[serde(flatten)]
    pub subject: Subject,
    /// Why, and what would help (`run as root`).
    pub reason: String,
}

/// Something already as the profile wants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(rename = "Settled"))]
pub struct UpToDate {
    /// The kind it belongs to.
    pub kind: KindId,
    /// What.
    pub subject: String,
    /// Its value and how it is satisfied.
    pub state: String,
}

/// A remark that changes nothing (`PF 0000:18:00.0 is managed by the SR-IOV operator: left alone`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Note {
    /// The kind it belongs to.
    pub kind: KindId,
    /// Subject.
    pub subject: String,
    /// The remark.
    pub text: String,
}

/// What a kind has to say, with its name on it.
impl KindId {
    /// A change that disrupts nothing, needs no other, and leaves the list of what is bedplate's as it is. `name` is the part of
    /// its id behind the kind's name.
    pub fn change(
        self,
        name: &str,
        subject: impl Into<Subject>,
        items: Vec<Item>,
        effect: Effect,
        actions: Vec<Action>,
    ) -> Change {
        Change {
            id: format!("{self}/{}", name.trim_start_matches('/')),
            kind: self,
            subject: subject.into(),
            items,
            effect,
            actions,
            disrupts: Vec::new(),
            needs: Vec::new(),
            owns: None,
            deferred: None,
        }
    }

    /// Something that the operator has to deal with.
    pub fn blocker(
        self,
        subject: impl Into<Subject>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Blocker {
        let (reason, remedy) = (reason.into(), remedy.into());
        Blocker { kind: self, subject: subject.into(), reason, remedy }
    }

    /// Something that could not be read.
    pub fn unknown(self, subject: impl Into<Subject>, reason: impl Into<String>) -> Unknown {
        Unknown { kind: self, subject: subject.into(), reason: reason.into() }
    }

    /// Something that is as the profile wants it.
    pub fn up_to_date(self, subject: impl Into<String>, state: impl Into<String>) -> UpToDate {
        UpToDate { kind: self, subject: subject.into(), state: state.into() }
    }

    /// A remark.
    pub fn note(self, subject: impl Into<String>, text: impl Into<String>) -> Note {
        Note { kind: self, subject: subject.into(), text: text.into() }
    }
}

bedplate_base::named! {
    /// What the plan asks of the machine's power state.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum RebootNeed {
        /// Nothing waits for a boot.
        None = "none",
        /// The kernel has to start again.
        Reboot = "reboot",
        /// The machine has to go through its firmware.
        Cold = "cold",
    }
}

/// A setting in a file of bedplate's that a later file sets to another value at boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overruled {
    /// Kind.
    pub kind: KindId,
    /// Setting.
    pub setting: String,
    /// The later file.
    pub path: String,
}

/// Effect of a plan on the IOMMU, as data: decisions do not read the plan's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IommuPlan {
    /// A kernel argument about it is among the changes.
    pub changes: bool,
    /// One is among what waits for a boot.
    pub pending: bool,
    /// One that turns passthrough on is among what waits for a boot.
    pub passthrough_pending: bool,
    /// The kernel was booted with passthrough and still translates, which is one of the blockers.
    pub passthrough_refused: bool,
}

impl std::ops::BitOrAssign for IommuPlan {
    /// Sets each flag that either of the two has.
    fn bitor_assign(&mut self, other: Self) {
        self.changes |= other.changes;
        self.pending |= other.pending;
        self.passthrough_pending |= other.passthrough_pending;
        self.passthrough_refused |= other.passthrough_refused;
    }
}

/// What one kind has to say; [`Plan`] is the sections put together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct KindPlan {
    /// Ordered differences.
    pub changes: Vec<Change>,
    /// The obstacle.
    pub blockers: Vec<Blocker>,
    /// Subject that could not be read.
    pub unknowns: Vec<Unknown>,
    /// What is already right.
    pub settled: Vec<UpToDate>,
    /// Remarks.
    pub notes: Vec<Note>,
    /// Files already written whose effect waits for a boot (configured and next boot right, running not).
    pub pending: Vec<Pending>,
    /// Effect on the IOMMU; only the kind `cmdline` fills it.
    #[serde(skip)]
    pub iommu: IommuPlan,
    /// Lints of level error in the profile that are let pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<allowed_lints::AllowedLint>,
    /// What the changes bring only with the next boot and nothing on the running host shows until then.
    #[serde(skip)]
    pub pending_until_boot: Vec<PendingUntilBoot>,
    /// Tools that the ledger has as owed and that need not run any more.
    #[serde(skip)]
    pub settled_tools: Vec<SettledTool>,
    /// Commands that an image build still has to run, and that no change of the plan runs.
    #[serde(skip)]
    pub pending_commands: Vec<String>,
    /// Settings that files of others overrule.
    #[serde(skip)]
    pub overruled: Vec<Overruled>,
    /// Files of bedplate's that the ledger does not know.
    #[serde(skip)]
    pub orphans: Vec<Orphan>,
}

/// The whole dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The profile's name.
    pub profile: String,
    /// Everything, kinds in table order.
    #[serde(flatten)]
    pub body: KindPlan,
    /// What the changes and pending items ask for together.
    pub reboot: RebootNeed,
    /// Whether the machine can be expected to come back from a reboot. Left out of JSON when it can.
    #[serde(default, skip_serializing_if = "NextBoot::is_sound")]
    pub next_boot: NextBoot,
}

impl Plan {
    /// No change that this host could take.
    pub fn is_empty(&self) -> bool {
        self.body.changes.iter().all(|change| change.deferred.is_some())
    }

    /// Whether the only thing that this host could do is to run tools. In an image those are left to its build.
    pub fn waits_for_tools(&self) -> bool {
        let is_tool = |action: &Action| matches!(action, Action::RunTool { .. });
        let is_waiting = |change: &Change| {
            let is_check = |action: &Action| matches!(action, Action::Verify(_));
            change.actions.iter().all(|action| is_tool(action) || is_check(action))
                && change.actions.iter().any(is_tool)
        };
        let mut doable = self.body.changes.iter().filter(|change| change.deferred.is_none());
        !self.is_empty() && doable.all(is_waiting)
    }
}
