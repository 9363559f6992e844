//! Soundness of the boot entry that the machine starts next. Rebooting is safe only into a sound entry.

use serde::{Deserialize, Serialize};

/// What is known of the default boot entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum NextBoot {
    /// The entry was read, and nothing that it boots is missing.
    #[default]
    Sound,
    /// The entry, or a file that it boots, could not be read: it may or may not boot.
    Unknown {
        /// What could not be read, and why; never empty.
        reasons: Vec<String>,
    },
    /// The entry was read, and booting it is known to fail.
    Unsound {
        /// What is wrong; never empty.
        reasons: Vec<String>,
    },
}

/// The default boot entry before a change, as far as the change must not lose it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct EntryBefore {
    /// Arguments that stay.
    pub arguments: Vec<String>,
    /// `root=`.
    pub root: Option<String>,
    /// Whether an initrd is loaded.
    pub initrd: bool,
}

impl NextBoot {
    /// Whether the machine can be expected to come back from a reboot.
    pub fn is_sound(&self) -> bool {
        *self == NextBoot::Sound
    }

    /// Why a reboot is not safe; empty when the entry is sound.
    pub fn reasons(&self) -> &[String] {
        match self {
            NextBoot::Sound => &[],
            NextBoot::Unknown { reasons } | NextBoot::Unsound { reasons } => reasons,
        }
    }

    /// The same reasons, to be edited.
    pub fn reasons_mut(&mut self) -> &mut [String] {
        match self {
            NextBoot::Sound => &mut [],
            NextBoot::Unknown { reasons } | NextBoot::Unsound { reasons } => reasons,
        }
    }
}
