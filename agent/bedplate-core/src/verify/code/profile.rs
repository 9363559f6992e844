//! The profile.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{CodeText, counted};
use crate::plan::{KindName, Subject};
use crate::verify::NoPlan;

/// A finding about the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ProfileCode {
    /// The profile is broken, is not trusted, or none of several is for this host.
    ProfileUnusable,
    /// A setting of the profile cannot be put into effect.
    ProfileBlocked {
        /// Name of the profile.
        profile: String,
        /// The setting's kind: `acs`, `cmdline`, `modules`, `sriov` …
        setting: KindName,
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
        setting: KindName,
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

impl CodeText for ProfileCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            ProfileCode::ProfileUnusable => NoPlan::Unusable.description().into(),
            ProfileCode::ProfileBlocked { .. } => "".into(),
            ProfileCode::NotInEffect { profile, changes: None, .. }
            | ProfileCode::ProfileWaitsForReboot { profile } => {
                format!("profile {profile} waits for a reboot").into()
            }
            ProfileCode::NotInEffect { profile, changes: Some(changes), .. } => {
                format!("profile {profile} is not in effect: {}", counted(*changes, "change"))
                    .into()
            }
            ProfileCode::ChangeInterrupted { files } => {
                format!("a change was interrupted: {}", files.join(", ")).into()
            }
            ProfileCode::ProfileNotInImage => {
                "the profile leaves settings to the machine, and /etc/bedplate of the image has not this profile".into()
            }
            ProfileCode::Overruled { settings } => {
                format!("overruled at boot: {}", settings.join("; ")).into()
            }
            ProfileCode::AgentObserves => {
                "the profile leaves settings to the machine, and `mode` in [agent] keeps bedplate from making them".into()
            }
            ProfileCode::ToolsOwed { commands } => {
                format!("the image build still has to run: {}", commands.join("; ")).into()
            }
            ProfileCode::UnitsDisabled { units } => format!(
                "the profile leaves settings to the machine, and no boot starts {}",
                units.join(", ")
            )
            .into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            ProfileCode::ProfileBlocked { profile, subject, reason, .. } => {
                format!("profile {profile} cannot be put into effect: {subject}: {reason}")
            }
            _ => String::new(),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            ProfileCode::ProfileUnusable => NoPlan::Unusable.command().into(),
            ProfileCode::ProfileBlocked { remedy, .. } => remedy.clone().into(),
            ProfileCode::NotInEffect { changes: None, .. }
            | ProfileCode::ProfileWaitsForReboot { .. } => {
                "reboot, through firmware (`bedplate reboot status` says how)".into()
            }
            ProfileCode::ChangeInterrupted { .. } => {
                "`bedplate apply --root DIR` finishes it, `bedplate revert --root DIR` undoes it".into()
            }
            ProfileCode::ProfileNotInImage => {
                "put the profile into /etc/bedplate/profile.toml of the image".into()
            }
            ProfileCode::Overruled { .. } => {
                "take the setting out of that file, which sorts after bedplate's".into()
            }
            ProfileCode::AgentObserves => "set `mode = \"enforce\"` in [agent]".into(),
            ProfileCode::ToolsOwed { .. } => {
                "`bedplate apply --root DIR --chroot-tools` runs them; where they have run already, `--ran TOOL` says so".into()
            }
            ProfileCode::UnitsDisabled { .. } => {
                "install bedplate in the image, then `systemctl --root=DIR enable bedplate-boot bedplate`"
                    .into()
            }
            ProfileCode::NotInEffect { .. } => {
                "`bedplate plan` shows them, `bedplate apply` makes them".into()
            }
        }
    }
}
