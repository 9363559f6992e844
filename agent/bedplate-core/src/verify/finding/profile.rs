//! The profile.

use serde::Serialize;

use super::{FindingText, text};
use crate::plan::{KindId, Subject};
use crate::verify::NoPlan;
use bedplate_base::counted;

/// A finding about the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "ProfileCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ProfileFinding {
    /// The profile is invalid or not trusted, or no profile of several fits this host.
    ProfileUnusable,
    /// A setting of the profile cannot be applied.
    ProfileBlocked {
        /// Name of the profile.
        profile: String,
        /// Resource type of the setting: `acs`, `cmdline`, `modules`, `sriov` …
        setting: KindId,
        /// Subject of the setting.
        #[serde(flatten)]
        subject: Subject,
        /// Reason from the plan.
        #[serde(skip)]
        reason: String,
        /// Fix from the plan.
        #[serde(skip)]
        fix: String,
    },
    /// A setting of the profile is not in effect.
    NotInEffect {
        /// Resource type of the setting: `acs`, `cmdline`, `modules`, `sriov` …
        setting: KindId,
        /// Name of the profile.
        profile: String,
        /// Number of changes, of all settings. `None`: the setting waits for a reboot.
        #[serde(skip_serializing_if = "Option::is_none")]
        changes: Option<usize>,
    },
    /// Settings of the profile wait for a reboot.
    ProfileWaitsForReboot {
        /// Name of the profile.
        profile: String,
    },
    /// A change of the image was interrupted.
    ChangeInterrupted {
        /// Files of the change.
        files: Vec<String>,
    },
    /// The image has no profile for bedplate on the machine, or a different one.
    ProfileNotInImage,
    /// Files of other tools set another value at boot.
    Overridden {
        /// Settings, each with the file.
        settings: Vec<String>,
    },
    /// The profile leaves settings to bedplate on the machine, but only lets it observe.
    AgentObserves,
    /// The build of the image still has to run tools.
    ToolsPending {
        /// Commands.
        commands: Vec<String>,
    },
    /// The profile leaves settings to the machine, but no boot of the image starts bedplate.
    UnitsDisabled {
        /// Units.
        units: Vec<String>,
    },
}

impl ProfileFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::ProfileUnusable => {
                text(NoPlan::Unusable.description(), "", NoPlan::Unusable.command())
            }
            Self::ProfileBlocked { profile, subject, reason, fix, .. } => {
                text("", format!("profile {profile} is blocked: {subject}: {reason}"), fix.clone())
            }
            Self::NotInEffect { profile, changes: Some(changes), .. } => text(
                format!("profile {profile} is not in effect: {}", counted(*changes, "change")),
                "",
                "run `bedplate plan` to see them, `bedplate apply` to make them",
            ),
            Self::NotInEffect { profile, changes: None, .. }
            | Self::ProfileWaitsForReboot { profile } => text(
                format!("profile {profile} waits for a reboot"),
                "",
                "reboot through firmware (`bedplate reboot status` shows how)",
            ),
            Self::ChangeInterrupted { files } => text(
                format!("a change was interrupted: {}", files.join(", ")),
                "",
                "run `bedplate apply --root DIR` to finish it, or `bedplate revert --root DIR` to undo it",
            ),
            Self::ProfileNotInImage => text(
                "the profile leaves settings to the machine, but /etc/bedplate of the image lacks this profile",
                "",
                "put the profile into /etc/bedplate/profile.toml of the image",
            ),
            Self::Overridden { settings } => text(
                format!("overridden at boot: {}", settings.join("; ")),
                "",
                "remove the setting from that file, which sorts after bedplate's",
            ),
            Self::AgentObserves => text(
                "the profile leaves settings to the machine, but `mode` in [agent] keeps bedplate from applying them",
                "",
                "set [agent] mode = \"enforce\" in the profile",
            ),
            Self::ToolsPending { commands } => text(
                format!("the image build still has to run: {}", commands.join("; ")),
                "",
                "run `bedplate apply --root DIR --chroot-tools`. Already run? Record it with `--ran TOOL`",
            ),
            Self::UnitsDisabled { units } => text(
                format!(
                    "the profile leaves settings to the machine, but no boot starts {}",
                    units.join(", ")
                ),
                "",
                "install bedplate in the image, then run `systemctl --root=DIR enable bedplate-boot bedplate`",
            ),
        }
    }
}
