//! The plan: differences, the actions to remove them, and obstacles. Pure data: only `apply` interprets [`Action`].

mod action;
pub mod allowed_lints;
mod content;
mod deferred;
mod json_form;
mod ledger_corrections;
mod next_boot;
mod pending;
mod reboot_need;
mod subject;

use serde::{Deserialize, Serialize};

pub use crate::kind_id::KindId;
pub use action::{Action, Check, ToolUndo};
pub use content::FileContent;
pub use deferred::Deferred;
pub(crate) use deferred::FIRST_BOOT;
pub(crate) use ledger_corrections::{Orphan, SettledTool};
pub(crate) use next_boot::EntryBefore;
pub use next_boot::NextBoot;
pub use pending::Pending;
pub(crate) use pending::PendingUntilBoot;
pub use reboot_need::pending_need;
pub use subject::{BOOT_ENTRY, Device, DeviceRole, NEXT_COMMAND_LINE, Subject};

bedplate_base::named! {
    /// Time when a change takes effect, from the least to the most disruptive.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Effect {
        /// Immediately and persistently.
        Now = "now",
        /// At the first boot of the image.
        FirstBoot = "first-boot",
        /// Immediately, but only until the next reboot: it must be repeated at every boot.
        EveryBoot = "every-boot",
        /// At the next start of the kernel.
        NextBoot = "next-boot",
        /// At the next boot through firmware (never by kexec or soft-reboot).
        ColdBoot = "cold-boot",
    }
}

/// A verifiable reason: the claim and its source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Rationale {
    /// One sentence.
    pub reason: String,
    /// Source of the fact: a kernel file, a vendor page, or the profile file and line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Whether the source is only the line of the profile with the request. Rendered files omit it: the profile's
    /// location and its other contents do not concern them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_place: bool,
}

impl Rationale {
    /// Builds a reason with its source.
    pub fn new(reason: impl Into<String>, source: impl Into<String>) -> Self {
        Rationale { reason: reason.into(), source: Some(source.into()), is_place: false }
    }

    /// Builds a reason with the profile line that gives it.
    pub fn at(reason: impl Into<String>, place: impl Into<String>) -> Self {
        Rationale { is_place: true, ..Rationale::new(reason, place) }
    }

    /// Builds a reason without a separate source (an observation).
    pub fn because(reason: impl Into<String>) -> Self {
        Rationale { reason: reason.into(), source: None, is_place: false }
    }
}

/// One line of a change for display: a kernel parameter, a module, a port's bits, a VF count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Item {
    /// Name of the differing item.
    pub subject: String,
    /// Observed value for display; `None` = absent.
    pub before: Option<String>,
    /// Desired value for display; `None` = absent.
    pub after: Option<String>,
    /// Reasons of the profile for it.
    pub why: Vec<Rationale>,
}

impl Item {
    /// Builds an item; `None` = absent.
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

/// One unit of work: applied completely or rolled back completely. Its items list the differences with reasons; its
/// actions remove all of them together (one file, one `update-grub`, regardless of the number of parameters).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Change {
    /// Stable name within the plan, `kind/subject`.
    pub id: String,
    /// Resource type (`cmdline`, `modules`, `sysctl`, `cpu`, `hugepages`, `limits`, `acs`, `pcie`, `sriov`,
    /// `nccl`, `cufile`).
    pub kind: KindId,
    /// File, setting, or device that is changed.
    #[serde(flatten)]
    pub subject: Subject,
    /// Differences; never empty.
    pub items: Vec<Item>,
    /// Time when it takes effect.
    pub effect: Effect,
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// Disruptions while it is applied or once it takes effect; empty = no disruption.
    pub disrupts: Vec<String>,
    /// Ids of changes that must have succeeded first.
    pub needs: Vec<String>,
    /// bedplate's own kernel arguments after the change, which replace the resource type's list in the ledger. `None` =
    /// the list stays unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owns: Option<Vec<String>>,
    /// Set if this host cannot apply it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Deferred>,
}

impl Change {
    /// Whether the change loads or unloads a kernel module.
    pub fn uses_modules(&self) -> bool {
        let module = |action: &Action| {
            matches!(action, Action::LoadModule { .. } | Action::UnloadModule { .. })
        };
        self.actions.iter().any(module)
    }

    /// Whether it affects the running machine only, without any persistent part.
    pub fn is_live(&self) -> bool {
        !self.actions.is_empty() && self.actions.iter().all(Action::is_live)
    }
}

/// An obstacle that requires operator action, with a fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Blocker {
    /// Resource type.
    pub kind: KindId,
    /// Subject of the obstacle.
    #[serde(flatten)]
    pub subject: Subject,
    /// Reason why the change cannot be planned.
    pub reason: String,
    /// Fix, as a command if possible.
    pub fix: String,
}

/// A subject that could not be read, so the plan makes no claim about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Unknown {
    /// Resource type that needs it.
    pub kind: KindId,
    /// File, setting, or device that could not be read.
    #[serde(flatten)]
    pub subject: Subject,
    /// Reason, and what would help (`run as root`).
    pub reason: String,
}

/// An item that already matches the profile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct UpToDate {
    /// Resource type.
    pub kind: KindId,
    /// Name of the item.
    pub subject: String,
    /// Value, and how it is satisfied.
    pub state: String,
}

/// A note without consequences (`PF 0000:18:00.0 is managed by the SR-IOV operator: left alone`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Note {
    /// Resource type.
    pub kind: KindId,
    /// Subject of the note.
    pub subject: String,
    /// Text of the note.
    pub text: String,
}

/// Constructors of a resource type's plan items.
impl KindId {
    /// Builds a change that disrupts nothing, needs no other change, and leaves the list of bedplate's arguments
    /// unchanged. `name` is the part of its id after the resource type.
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

    /// Builds a change of the machine that an image cannot make, and that bedplate makes at every boot.
    pub(crate) fn deferred_change(
        self,
        name: &str,
        subject: impl Into<Subject>,
        items: Vec<Item>,
    ) -> Change {
        let change = self.change(name, subject, items, Effect::EveryBoot, Vec::new());
        Change { deferred: Some(Deferred::to_first_boot()), ..change }
    }

    /// Builds an obstacle that requires operator action.
    pub fn blocker(
        self,
        subject: impl Into<Subject>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Blocker {
        let (reason, fix) = (reason.into(), fix.into());
        Blocker { kind: self, subject: subject.into(), reason, fix }
    }

    /// Builds an item that could not be read.
    pub fn unknown(self, subject: impl Into<Subject>, reason: impl Into<String>) -> Unknown {
        Unknown { kind: self, subject: subject.into(), reason: reason.into() }
    }

    /// Builds an item that matches the profile.
    pub fn up_to_date(self, subject: impl Into<String>, state: impl Into<String>) -> UpToDate {
        UpToDate { kind: self, subject: subject.into(), state: state.into() }
    }

    /// Builds a note.
    pub fn note(self, subject: impl Into<String>, text: impl Into<String>) -> Note {
        Note { kind: self, subject: subject.into(), text: text.into() }
    }
}

bedplate_base::named! {
    /// Reboot required by a plan.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum RebootNeed {
        /// No change waits for a boot.
        None = "none",
        /// The kernel has to start again.
        Reboot = "reboot",
        /// The machine has to boot through firmware.
        Cold = "cold",
    }
}

/// A setting in a file of bedplate's to which a later file assigns another value at boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overridden {
    /// Resource type.
    pub kind: KindId,
    /// Name of the setting.
    pub setting: String,
    /// Path of the later file.
    pub path: String,
}

/// Effect of a plan on the IOMMU, as data: decisions must not depend on the plan's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IommuPlan {
    /// The changes include a kernel argument of the IOMMU.
    pub changes: bool,
    /// A kernel argument of the IOMMU is pending until a boot.
    pub pending: bool,
    /// A kernel argument that enables passthrough is pending until a boot.
    pub passthrough_pending: bool,
    /// The kernel was booted with passthrough and still translates, which is one of the blockers.
    pub passthrough_refused: bool,
}

impl std::ops::BitOrAssign for IommuPlan {
    /// Sets each flag that is set in either value.
    fn bitor_assign(&mut self, other: Self) {
        self.changes |= other.changes;
        self.pending |= other.pending;
        self.passthrough_pending |= other.passthrough_pending;
        self.passthrough_refused |= other.passthrough_refused;
    }
}

/// Plan of one resource type; [`Plan`] combines all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct KindPlan {
    /// Differences, in order.
    pub changes: Vec<Change>,
    /// Obstacles.
    pub blockers: Vec<Blocker>,
    /// Subjects that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Items that already match the profile.
    pub unchanged: Vec<UpToDate>,
    /// Notes.
    pub notes: Vec<Note>,
    /// Files already written that take effect at a boot (configured and next boot are converged, the running system is
    /// not).
    pub pending: Vec<Pending>,
    /// Effect on the IOMMU; only resource type `cmdline` sets it.
    #[serde(skip)]
    pub iommu: IommuPlan,
    /// Error-level lints that the profile allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<allowed_lints::AllowedLint>,
    /// Parts of the changes that take effect at the next boot and are unobservable until then.
    #[serde(skip)]
    pub pending_until_boot: Vec<PendingUntilBoot>,
    /// Tools that the ledger lists as pending and that need not run any more.
    #[serde(skip)]
    pub settled_tools: Vec<SettledTool>,
    /// Commands that an image build still has to run and no change of the plan runs.
    #[serde(skip)]
    pub pending_commands: Vec<String>,
    /// Settings that files of other tools override.
    #[serde(skip)]
    pub overridden: Vec<Overridden>,
    /// Files of bedplate's that are missing in the ledger.
    #[serde(skip)]
    pub orphans: Vec<Orphan>,
}

/// Result of a whole dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Plan {
    /// Name of the profile.
    pub profile: String,
    /// All resource types, in registry order.
    #[serde(flatten)]
    pub body: KindPlan,
    /// Reboot required by the changes and pending items together.
    pub reboot: RebootNeed,
    /// Whether the machine is expected to return from a reboot. Omitted from JSON if it is.
    #[serde(default, skip_serializing_if = "NextBoot::is_sound")]
    pub next_boot: NextBoot,
}

impl Plan {
    /// Whether this host can apply none of the changes.
    pub fn is_empty(&self) -> bool {
        self.body.changes.iter().all(|change| change.deferred.is_some())
    }

    /// Whether all that this host could do is to run tools. An image leaves them to its build.
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
