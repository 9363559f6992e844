//! The profile.

use std::borrow::Cow;

use serde::Serialize;

use super::{FindingText, counted};
use crate::plan::{KindId, Subject};
use crate::verify::NoPlan;

/// A finding about the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "ProfileCode"))]
pub enum ProfileFinding {
    /// The profile is broken, is not trusted, or none of several is for this host.
    ProfileUnusable,
    /// A setting of the profile cannot be put into effect.
    ProfileBlocked {
        /// Name of the profile.
        profile: String,
        /// The setting's kind: `acs`, `cmdline`, `modules`, `sriov` …
        setting: KindId,
        /// Its subject.
        #[serde(flatten)]
        subject: Subject,
        /// Why, as a plan words it.
        #[serde(skip)]
        reason: String,
        /// The remedy of a plan.
        #[serde(skip)]
        remedy: String,
    },
    /// The profile asks for something that is not in effect.
    NotInEffect {
        /// The setting's kind: `acs`, `cmdline`, `modules`, `sriov` …
        setting: KindId,
        /// Name of the profile.
        profile: String,
        /// How many changes there are, of all settings; `None`: it waits for a reboot.
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
        /// Its files.
        files: Vec<String>,
    },
    /// bedplate on the machine would have no profile, or another one.
    ProfileNotInImage,
    /// Files of others set another value at boot.
    Overruled {
        /// Settings, each with the file.
        settings: Vec<String>,
    },
    /// bedplate on the machine would only observe, and the profile leaves settings to it.
    AgentObserves,
    /// The build of the image still has to run tools.
    ToolsOwed {
        /// Commands.
        commands: Vec<String>,
    },
    /// No boot of the image starts bedplate, and the profile leaves settings to the machine.
    UnitsDisabled {
        /// Units.
        units: Vec<String>,
    },
}

impl FindingText for ProfileFinding {
    fn description(&self) -> Cow<'static, str> {
        match self {
            ProfileFinding::ProfileUnusable => NoPlan::Unusable.description().into(),
            ProfileFinding::ProfileBlocked { .. } => "".into(),
            ProfileFinding::NotInEffect { profile, changes: None, .. }
            | ProfileFinding::ProfileWaitsForReboot { profile } => {
                format!("profile {profile} waits for a reboot").into()
            }
            ProfileFinding::NotInEffect { profile, changes: Some(changes), .. } => {
                format!("profile {profile} is not in effect: {}", counted(*changes, "change"))
                    .into()
            }
            ProfileFinding::ChangeInterrupted { files } => {
                format!("a change was interrupted: {}", files.join(", ")).into()
            }
            ProfileFinding::ProfileNotInImage => {
                "the profile leaves settings to the machine, and /etc/bedplate of the image has not this profile".into()
            }
            ProfileFinding::Overruled { settings } => {
                format!("overruled at boot: {}", settings.join("; ")).into()
            }
            ProfileFinding::AgentObserves => {
                "the profile leaves settings to the machine, and `mode` in [agent] keeps bedplate from making them".into()
            }
            ProfileFinding::ToolsOwed { commands } => {
                format!("the image build still has to run: {}", commands.join("; ")).into()
            }
            ProfileFinding::UnitsDisabled { units } => format!(
                "the profile leaves settings to the machine, and no boot starts {}",
                units.join(", ")
            )
            .into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            ProfileFinding::ProfileBlocked { profile, subject, reason, .. } => {
                format!("profile {profile} cannot be put into effect: {subject}: {reason}")
            }
            _ => String::new(),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            ProfileFinding::ProfileUnusable => NoPlan::Unusable.command().into(),
            ProfileFinding::ProfileBlocked { remedy, .. } => remedy.clone().into(),
            ProfileFinding::NotInEffect { changes: None, .. }
            | ProfileFinding::ProfileWaitsForReboot { .. } => {
                "reboot, through firmware (`bedplate reboot status` says how)".into()
            }
            ProfileFinding::ChangeInterrupted { .. } => {
                "`bedplate apply --root DIR` finishes it, `bedplate revert --root DIR` undoes it".into()
            }
            ProfileFinding::ProfileNotInImage => {
                "put the profile into /etc/bedplate/profile.toml of the image".into()
            }
            ProfileFinding::Overruled { .. } => {
                "take the setting out of that file, which sorts after bedplate's".into()
            }
            ProfileFinding::AgentObserves => "set `mode = \"enforce\"` in [agent]".into(),
            ProfileFinding::ToolsOwed { .. } => {
                "`bedplate apply --root DIR --chroot-tools` runs them; where they have run already, `--ran TOOL` says so".into()
            }
            ProfileFinding::UnitsDisabled { .. } => {
                "install bedplate in the image, then `systemctl --root=DIR enable bedplate-boot bedplate`"
                    .into()
            }
            ProfileFinding::NotInEffect { .. } => {
                "`bedplate plan` shows them, `bedplate apply` makes them".into()
            }
        }
    }
}
