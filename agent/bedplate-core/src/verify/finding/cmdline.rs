//! The kernel command line.

use std::borrow::Cow;

use serde::Serialize;

use super::FindingText;
use crate::kind::some_of;
use crate::verify::IneffectiveArgument;

/// Arguments that a finding names before it counts.
const FEW: usize = 6;

/// A finding about the kernel command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "CommandLineCode"))]
pub enum CommandLineFinding {
    /// The running kernel, the default boot entry and the boot configuration have different arguments.
    CommandLinesDiffer {
        /// Arguments of the boot configuration that the entry does not have.
        not_in_entry: Vec<String>,
        /// Arguments that the running kernel does not have, and the next boot has.
        added: Vec<String>,
        /// Arguments that the running kernel has, and the next boot does not.
        removed: Vec<String>,
        /// Whether nothing is known that keeps the entry from booting, and nothing about it is unknown.
        entry_is_sound: bool,
    },
    /// The default boot entry is known not to boot, or not as it should.
    BootEntryUnsound {
        /// How many reasons there are.
        faults: usize,
        /// The first of them.
        #[serde(skip)]
        reason: String,
        /// The remedy for that.
        #[serde(skip)]
        remedy: String,
    },
    /// Arguments do nothing, or harm.
    HarmfulArgument {
        /// The arguments; one at least.
        arguments: Vec<IneffectiveArgument>,
    },
    /// The kernel did not take an argument.
    ArgumentRefused {
        /// The argument.
        argument: String,
        /// Whether the kernel passed it on to user space, where nothing reads it either.
        passed_on: bool,
    },
}

impl FindingText for CommandLineFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            CommandLineFinding::CommandLinesDiffer { not_in_entry, added, .. } => {
                match (not_in_entry.is_empty(), added.is_empty()) {
                    (false, _) => "configured and not in the boot entry: {}",
                    (true, false) => "only from the next boot on: {}",
                    (true, true) => "gone after the next boot: {}",
                }
            }
            CommandLineFinding::HarmfulArgument { arguments } if arguments.len() > 1 => {
                "{} do nothing good"
            }
            CommandLineFinding::BootEntryUnsound { .. }
            | CommandLineFinding::HarmfulArgument { .. } => "",
            CommandLineFinding::ArgumentRefused { passed_on: false, .. } => {
                "the kernel did not take {}"
            }
            CommandLineFinding::ArgumentRefused { .. } => "nothing in this kernel reads {}",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            CommandLineFinding::CommandLinesDiffer { not_in_entry, added, removed, .. } => {
                let lists = [not_in_entry, added, removed];
                lists
                    .into_iter()
                    .find(|list| !list.is_empty())
                    .map_or(String::new(), |all| named(all))
            }
            CommandLineFinding::BootEntryUnsound { reason, .. } => reason.clone(),
            CommandLineFinding::HarmfulArgument { arguments } => match arguments.as_slice() {
                [one] => one.message.clone(),
                several => quoted(several),
            },
            CommandLineFinding::ArgumentRefused { argument, .. } => format!("`{argument}`"),
        }
    }

    fn noun(&self) -> &'static str {
        "arguments"
    }

    fn few(&self) -> usize {
        FEW
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            CommandLineFinding::CommandLinesDiffer { not_in_entry, entry_is_sound, .. } => {
                states_remedy(*entry_is_sound, not_in_entry.is_empty()).into()
            }
            CommandLineFinding::BootEntryUnsound { remedy, .. } => remedy.clone().into(),
            CommandLineFinding::HarmfulArgument { arguments } => {
                let first = arguments.first();
                let remedy = first.map(|one| format!("`{}`: {}", one.argument, one.remedy));
                remedy.unwrap_or_default().into()
            }
            CommandLineFinding::ArgumentRefused { .. } => {
                "correct it or take it out: `bedplate inspect` shows which file it comes from, `bedplate profile check` whether \
                 the profile asks for it"
                    .into()
            }
        }
    }
}

/// Arguments by name, and how many more: `a, b and 3 more arguments`.
pub(crate) fn named(arguments: &[String]) -> String {
    some_of(arguments.iter().cloned(), FEW, "arguments")
}

fn quoted(arguments: &[IneffectiveArgument]) -> String {
    some_of(arguments.iter().map(|one| format!("`{}`", one.argument)), FEW, "arguments")
}

/// A reboot is advised only into an entry that is known to boot.
fn states_remedy(entry_is_sound: bool, is_configured: bool) -> &'static str {
    match (entry_is_sound, is_configured) {
        (false, _) => {
            "do not reboot before cmdline.boot-entry passes: follow its remedy, then `bedplate inspect` shows each argument's \
             states"
        }
        (true, true) => {
            "reboot, or find out who changed the boot configuration since: `bedplate inspect` shows each argument's states"
        }
        (true, false) => {
            "regenerate the boot configuration (`update-grub`, `grub2-mkconfig`, `grubby`): `bedplate inspect` shows each \
             argument's states"
        }
    }
}
