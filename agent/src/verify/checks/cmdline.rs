//! The kernel command line: whether its states agree, and what on it does nothing or harm.

use super::super::evidence::unread;
use super::super::{Check, Evidence, Explain, Group, Judgement, Outcome, Seen, Severity};
use crate::host::Reading;
use crate::kind::cmdline::show::Argument;
use crate::kind::some_of;

const RUNNING: &str = "/proc/cmdline";
const NEXT: &str = "default boot entry";
/// Arguments that a finding names before it counts.
const FEW: usize = 6;

/// `cmdline.states`.
pub const STATES: Check = Check {
    id: "cmdline.states",
    group: Group::CommandLine,
    proves: "the next boot has the kernel arguments that the running kernel has",
    severity: Severity::Warn,
    needs_root: true,
    explain: Explain {
        what: "What the boot configuration says is in the default boot entry, and the entry has the arguments that the kernel was \
               booted with, no more and no fewer. The fourth state, what came of them, is `iommu.mode`.",
        why: "A node that is right now and wrong after the next boot is found at the worst time. A file that was edited without \
              update-grub, or a boot entry of its own, looks right and does nothing.",
        source: "handbook §10.1, §10.3, §13.2",
        how: "/proc/cmdline; the boot loader's configuration and entries, of which /boot often belongs to root",
    },
    judge: states,
};

/// `cmdline.harmful`.
pub const HARMFUL: Check = Check {
    id: "cmdline.harmful",
    group: Group::CommandLine,
    proves: "no kernel argument is invented, misspelled, or known to do harm",
    severity: Severity::Warn,
    needs_root: false,
    explain: Explain {
        what: "Arguments of the running kernel and of the next boot, by the lints that profiles are checked with: \
               `amd_iommu=on`, `pcie_acs_override`, misspelled NVreg names and others.",
        why: "How-tos pass on arguments that no kernel reads. What looks configured is not, and some do harm.",
        source: "handbook §1.4, §1.5, §12; `bedplate profile check`",
        how: "/proc/cmdline and the default boot entry",
    },
    judge: harmful,
};

/// Boot loaders put these there, each its own.
fn is_the_loaders(argument: &Argument) -> bool {
    ["BOOT_IMAGE=", "initrd="].iter().any(|name| argument.argument.starts_with(name))
}

fn states(evidence: &Evidence<'_>) -> Judgement {
    let line = &evidence.observed.command_line;
    match &line.running {
        Reading::Unknown(why) => return Ok(unread("the command line of the running kernel", why)),
        Reading::Absent => {
            return Ok(Outcome::unknown("there is no command line").seen("not there", RUNNING));
        }
        Reading::Known(_) => {}
    }
    match &line.next_boot {
        Reading::Unknown(why) => return Ok(unread("what the next boot's command line is", why)),
        Reading::Absent => {
            return Ok(Outcome::unknown("no boot entry is known").seen("not there", NEXT));
        }
        Reading::Known(_) => {}
    }
    let arguments = || line.arguments.iter().filter(|argument| !is_the_loaders(argument));
    let of = |wanted: fn(&Argument) -> bool| -> Vec<String> {
        let found = arguments().filter(|argument| wanted(argument));
        found.map(|argument| argument.argument.clone()).collect()
    };
    let comes = of(|one| one.next_boot == Some(true) && one.running == Some(false));
    let goes = of(|one| one.next_boot == Some(false) && one.running == Some(true));
    let stuck = of(|one| one.configured == Some(true) && one.next_boot == Some(false));
    let named = |list: &[String]| some_of(list.iter().cloned(), FEW, "arguments");
    let parts = [
        (&stuck, "configured and not in the boot entry"),
        (&comes, "only from the next boot on"),
        (&goes, "gone after the next boot"),
    ];
    let parts: Vec<Seen> = parts
        .iter()
        .filter(|(list, _)| !list.is_empty())
        .map(|(list, what)| Seen {
            what: format!("{what}: {}", named(list)),
            at: format!("{RUNNING}, {NEXT}"),
        })
        .collect();
    let Some(first) = parts.first() else {
        return Ok(match &line.configured {
            Reading::Unknown(why) => unread("what the boot configuration says", why),
            _ => Outcome::pass(format!(
                "{} arguments, the same now and at the next boot",
                arguments().count()
            ))
            .seen("the same", format!("{RUNNING}, {NEXT}")),
        });
    };
    let remedy = match stuck.is_empty() {
        true => {
            "reboot, or find out who changed the boot configuration since: `bedplate inspect` shows each argument's states"
        }
        false => {
            "regenerate the boot configuration (`update-grub`, `grub2-mkconfig`, `grubby`): `bedplate inspect` shows each \
                  argument's states"
        }
    };
    Ok(Outcome::warn(first.what.clone()).all_seen(parts).remedy(remedy))
}

fn harmful(evidence: &Evidence<'_>) -> Judgement {
    let observed = &evidence.observed;
    if let Some(first) = observed.suspect.first() {
        let named = observed.suspect.iter().map(|one| format!("`{}`", one.argument));
        let text = match observed.suspect.len() {
            1 => first.message.clone(),
            _ => format!("{} do nothing good", some_of(named, FEW, "arguments")),
        };
        let seen = observed.suspect.iter().map(|one| Seen {
            what: format!("{} ({})", one.message, one.lint),
            at: format!("{RUNNING}, {NEXT}"),
        });
        return Ok(Outcome::warn(text)
            .all_seen(seen)
            .remedy(format!("`{}`: {}", first.argument, first.remedy)));
    }
    let line = &observed.command_line;
    Ok(match (&line.running, &line.next_boot) {
        (Reading::Known(_), _) => {
            Outcome::pass(format!("{} arguments, none of them suspect", line.arguments.len()))
                .seen("no lint finds anything", RUNNING)
        }
        (Reading::Unknown(why), _) => unread("the command line of the running kernel", why),
        (Reading::Absent, _) => {
            Outcome::unknown("there is no command line").seen("not there", RUNNING)
        }
    })
}
