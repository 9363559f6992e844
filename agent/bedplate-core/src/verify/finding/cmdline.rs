//! The kernel command line.

use serde::Serialize;

use super::{FindingText, text};
use crate::kind::some_of;
use crate::verify::IneffectiveArgument;

/// Maximum number of arguments that a finding lists by name.
const FEW: usize = 6;

/// A finding about the kernel command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemars",
    derive(schemars::JsonSchema),
    schemars(rename = "CommandLineCode")
)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum CommandLineFinding {
    /// The running kernel, the default boot entry and the boot configuration have different arguments.
    CommandLinesDiffer {
        /// Arguments in the boot configuration that the entry lacks.
        not_in_entry: Vec<String>,
        /// Arguments of the next boot that the running kernel lacks.
        added: Vec<String>,
        /// Arguments of the running kernel that the next boot lacks.
        removed: Vec<String>,
        /// Whether the entry has no known fault, and nothing about it is unknown.
        entry_is_sound: bool,
    },
    /// The default boot entry is known not to boot, or not as it should.
    BootEntryUnsound {
        /// Number of reasons.
        faults: usize,
        /// The first reason.
        #[serde(skip)]
        reason: String,
        /// Fix for the first reason.
        #[serde(skip)]
        fix: String,
    },
    /// Arguments do nothing, or do harm.
    HarmfulArgument {
        /// The arguments; at least one.
        arguments: Vec<IneffectiveArgument>,
    },
    /// The kernel rejected an argument.
    ArgumentRefused {
        /// The argument.
        argument: String,
        /// Whether the kernel passed it on to user space, where nothing reads it either.
        passed_on: bool,
    },
}

impl CommandLineFinding {
    pub(super) fn text(&self) -> FindingText {
        let text = match self {
            Self::CommandLinesDiffer { not_in_entry, added, removed, entry_is_sound } => {
                let (description, list) = match (not_in_entry.is_empty(), added.is_empty()) {
                    (false, _) => ("configured, but not in the boot entry: {}", not_in_entry),
                    (true, false) => ("added at the next boot: {}", added),
                    (true, true) => ("removed at the next boot: {}", removed),
                };
                let fix = states_fix(*entry_is_sound, not_in_entry.is_empty());
                text(description, named(list), fix)
            }
            Self::BootEntryUnsound { reason, fix, .. } => text("", reason, fix.clone()),
            Self::HarmfulArgument { arguments } => {
                let (description, subject) = match arguments.as_slice() {
                    [one] => ("", one.message.clone()),
                    several => ("{} are ineffective or harmful", quoted(several)),
                };
                let first = arguments.first();
                let fix = first.map(|one| format!("`{}`: {}", one.argument, one.fix));
                text(description, subject, fix.unwrap_or_default())
            }
            Self::ArgumentRefused { argument, passed_on } => text(
                match passed_on {
                    false => "the kernel rejected {}",
                    true => "nothing in this kernel reads {}",
                },
                format!("`{argument}`"),
                "correct or remove it: `bedplate inspect` shows its file, `bedplate profile check` whether the profile sets \
                 it",
            ),
        };
        text.listed(FEW, "arguments")
    }
}

/// Lists arguments and counts the rest: `a, b and 3 more arguments`.
pub(crate) fn named(arguments: &[String]) -> String {
    some_of(arguments.iter().cloned(), FEW, "arguments")
}

fn quoted(arguments: &[IneffectiveArgument]) -> String {
    some_of(arguments.iter().map(|one| format!("`{}`", one.argument)), FEW, "arguments")
}

/// Returns the fix. Advises a reboot only into an entry that is known to boot.
fn states_fix(entry_is_sound: bool, is_configured: bool) -> &'static str {
    match (entry_is_sound, is_configured) {
        (false, _) => {
            "do not reboot before cmdline.boot-entry passes: follow its fix, then run `bedplate inspect` for each \
             argument's states"
        }
        (true, true) => {
            "reboot, or find out who changed the boot configuration: `bedplate inspect` shows each argument's states"
        }
        (true, false) => {
            "regenerate the boot configuration (`update-grub`, `grub2-mkconfig`, `grubby`), then run `bedplate inspect` for \
             each argument's states"
        }
    }
}
