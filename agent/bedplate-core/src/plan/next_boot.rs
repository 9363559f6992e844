//! Soundness of the boot entry that the machine starts next. Rebooting is safe only into a sound entry.

use serde::{Deserialize, Serialize};

/// State of the default boot entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum NextBoot {
    /// The entry was read, and no file that it boots is missing.
    #[default]
    Sound,
    /// The entry, or a file that it boots, could not be read: it may or may not boot.
    Unknown {
        /// Unreadable items, with reasons; never empty.
        reasons: Vec<String>,
    },
    /// The entry was read, and booting it is known to fail.
    Unsound {
        /// Faults; never empty.
        reasons: Vec<String>,
    },
}

/// Properties of the default boot entry that a change must preserve.
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
    /// Whether the machine is expected to return from a reboot.
    pub fn is_sound(&self) -> bool {
        *self == NextBoot::Sound
    }

    /// Returns why a reboot is not safe; empty if the entry is sound.
    pub fn reasons(&self) -> &[String] {
        match self {
            NextBoot::Sound => &[],
            NextBoot::Unknown { reasons } | NextBoot::Unsound { reasons } => reasons,
        }
    }

    /// Returns the same reasons, mutable.
    pub fn reasons_mut(&mut self) -> &mut [String] {
        match self {
            NextBoot::Sound => &mut [],
            NextBoot::Unknown { reasons } | NextBoot::Unsound { reasons } => reasons,
        }
    }
}
