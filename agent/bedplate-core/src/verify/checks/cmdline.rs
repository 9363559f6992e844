//! The kernel command line: whether its states agree, and which arguments do nothing or do harm.

use super::super::finding::named_arguments;
use super::super::unread::{OrUnread as _, fix, unread};
use super::super::{
    Check, CheckInput, CommandLineFinding, Evidence, Group, Judgement, Outcome, Severity,
};
use super::kernel_log;
use crate::kind::cmdline::show::Argument;
use crate::kind::cmdline::{Soundness, unknown_entry_fix};
use bedplate_base::{Reading, Reason};
use bedplate_cmdline::{CommandLine, rejected_argument};
use bedplate_host::HostKind;

const RUNNING: &str = "/proc/cmdline";
const NEXT: &str = "default boot entry";

pub(crate) const STATES: Check = Check {
    id: "cmdline.states",
    group: Group::CommandLine,
    verifies: "the next boot has the same kernel arguments as the running kernel",
    severity: Severity::Warn,
    needs_root: true,
    what: "The default boot entry has the arguments of the boot configuration, and exactly those that the kernel was booted \
           with. Their effect is checked by `iommu.mode`.",
    why: "A node that is correct now but wrong after the next boot fails at the worst time. A file edited without \
          update-grub, or a boot entry of its own, looks right and does nothing.",
    source: "handbook §10.1, §10.3, §13.2",
    how: "/proc/cmdline; the boot loader's configuration and entries (/boot is often root-only)",
    judge: states,
};

pub(crate) const BOOT_ENTRY: Check = Check {
    id: "cmdline.boot-entry",
    group: Group::CommandLine,
    verifies: "the default boot entry loads existing files, and starts from the running root",
    severity: Severity::Warn,
    needs_root: true,
    what: "Kernel image, initrd and modules of the default boot entry exist and are not empty, its root= is that of the \
           running kernel, its kernel has the drivers of GPUs and NICs, and GRUB's menu waits neither for a key nor for a \
           password.",
    why: "A node with a broken boot entry works until it is rebooted, and then does not come back.",
    source: "handbook §10.5",
    how: "the boot loader's entries, /boot (often root-only), /lib/modules and the mounts",
    judge: boot_entry,
};

pub(crate) const HARMFUL: Check = Check {
    id: "cmdline.harmful",
    group: Group::CommandLine,
    verifies: "no kernel argument is invented, misspelled, or known to do harm",
    severity: Severity::Warn,
    needs_root: false,
    what: "No argument of the running kernel or of the next boot is reported by the lints for profiles: `amd_iommu=on`, \
           `pcie_acs_override`, misspelled NVreg names and others.",
    why: "How-tos copy arguments that no kernel reads. They only look configured, and some do harm.",
    source: "handbook §1.4, §1.5, §12; `bedplate profile check`",
    how: "/proc/cmdline and the default boot entry",
    judge: harmful,
};

pub(crate) const REJECTED: Check = Check {
    id: "cmdline.rejected",
    group: Group::CommandLine,
    verifies: "the kernel accepted every argument that it was booted with",
    severity: Severity::Warn,
    needs_root: true,
    what: "The kernel log reports no malformed argument, no unknown option of a parameter, and no ACS list that cannot be \
           parsed. User space reads every argument that the kernel passed on to it.",
    why: "An argument that the kernel rejected still appears in /proc/cmdline.",
    source: "handbook §1.1, §1.2, §1.4; Linux init/main.c, kernel/params.c, drivers/pci/pci.c",
    how: "/dev/kmsg (root-only if kernel.dmesg_restrict is 1); /proc/cmdline",
    judge: rejected,
};

/// Arguments without a dot that boot loaders, initrds, installers and boot screens of distributions read. The kernel
/// does not report names with a dot when it passes them on.
const FOR_USER_SPACE: [&str; 16] = [
    "BOOTIF",
    "BOOT_IMAGE",
    "auto",
    "biosdevname",
    "boot",
    "cloud-config-url",
    "ds",
    "ignition",
    "ip",
    "live-config",
    "nosplash",
    "ostree",
    "rhgb",
    "splash",
    "text",
    "toram",
];

/// Whether the boot loader adds this argument itself.
fn is_the_loaders(argument: &Argument) -> bool {
    ["BOOT_IMAGE=", "initrd="].iter().any(|name| argument.argument.starts_with(name))
}

/// Returns the command line of the running kernel.
///
/// # Errors
/// The outcome to report if it is absent or unreadable.
fn running<'a>(input: &'a CheckInput<'_>) -> Result<&'a str, Outcome> {
    let running = &input.observed.command_line.running;
    let line = running.or_unread("the command line of the running kernel")?;
    line.map(String::as_str)
        .ok_or_else(|| Outcome::unknown("there is no command line").evidence("not there", RUNNING))
}

fn states(input: &CheckInput<'_>) -> Judgement {
    let line = &input.observed.command_line;
    running(input)?;
    match &line.next_boot {
        Reading::Unknown(why) => {
            return Ok(unread_entry(input, "the command line of the next boot", why));
        }
        Reading::Absent => {
            return Ok(Outcome::unknown("no boot entry is known").evidence("not there", NEXT));
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
    let parts = [
        (&stuck, "configured, but not in the boot entry"),
        (&comes, "added at the next boot"),
        (&goes, "removed at the next boot"),
    ];
    let parts = parts.iter().filter(|(list, _)| !list.is_empty());
    let parts: Vec<Evidence> = parts
        .map(|(list, what)| {
            Evidence::new(
                format!("{what}: {}", named_arguments(list)),
                format!("{RUNNING}, {NEXT}"),
            )
        })
        .collect();
    if parts.is_empty() {
        line.configured.or_unread("the boot configuration")?;
        let count = arguments().count();
        return Ok(Outcome::pass(format!("{count} arguments, the same now and at the next boot"))
            .evidence("the same", format!("{RUNNING}, {NEXT}")));
    }
    let is_sound = |entry: &Soundness| entry.faults.is_empty() && entry.unknown.is_empty();
    Ok(Outcome::warn([CommandLineFinding::CommandLinesDiffer {
        not_in_entry: stuck,
        added: comes,
        removed: goes,
        entry_is_sound: input.observed.boot_entry.as_ref().is_some_and(is_sound),
    }])
    .all_evidence(parts))
}

/// Returns the unknown outcome for the default boot entry. If more privileges do not help, it has the command that
/// shows or creates the entry.
fn unread_entry(input: &CheckInput<'_>, what: &str, why: &Reason) -> Outcome {
    let outcome = unread(what, why);
    match fix(why.cause) {
        Some(_) => outcome,
        None => outcome.hint(unknown_entry_fix(input.facts)),
    }
}

fn boot_entry(input: &CheckInput<'_>) -> Judgement {
    let Some(found) = &input.observed.boot_entry else {
        return Ok(Outcome::not_applicable(
            "the image has no boot entry; the build of its disk creates it",
        ));
    };
    if let Some(first) = found.faults.first() {
        let seen = found
            .faults
            .iter()
            .map(|fault| Evidence { value: fault.reason.clone(), source: NEXT.into() });
        return Ok(Outcome::fail([CommandLineFinding::BootEntryUnsound {
            faults: found.faults.len(),
            reason: first.reason.clone(),
            fix: first.fix.clone(),
        }])
        .all_evidence(seen));
    }
    Ok(match found.unknown.first() {
        Some(why) => unread_entry(input, "whether the default boot entry boots", why),
        None => Outcome::pass(match input.facts.host {
            HostKind::Image => "the files of the boot entry exist",
            _ => "the files of the boot entry exist, and its root is the running one",
        })
        .evidence("sound", NEXT),
    })
}

fn harmful(input: &CheckInput<'_>) -> Judgement {
    let observed = &input.observed;
    if !observed.suspect.is_empty() {
        let seen = observed.suspect.iter().map(|one| {
            Evidence::new(format!("{} ({})", one.message, one.lint), format!("{RUNNING}, {NEXT}"))
        });
        return Ok(Outcome::warn([CommandLineFinding::HarmfulArgument {
            arguments: observed.suspect.clone(),
        }])
        .all_evidence(seen));
    }
    let line = &observed.command_line;
    let at = match (&line.running, &line.next_boot) {
        // An image has no running kernel.
        (Reading::Absent, Reading::Known(_)) => NEXT,
        (Reading::Absent, _) if input.facts.host == HostKind::Image => {
            return Ok(Outcome::not_applicable("the image has no boot entry"));
        }
        _ => running(input).map(|_| RUNNING)?,
    };
    Ok(Outcome::pass(format!("{} arguments, none suspect", line.arguments.len()))
        .evidence("no lint applies", at))
}

fn rejected(input: &CheckInput<'_>) -> Judgement {
    let log = kernel_log::log(input)?;
    let running = CommandLine::parse(running(input)?);
    let (mut refused, mut passed_on, mut evident) = (Vec::new(), Vec::new(), Vec::new());
    for line in &log.lines {
        let before = refused.len() + passed_on.len();
        match rejected_argument::passed_on(&line.text) {
            Some(words) => {
                passed_on.extend(words.filter(|word| !is_for_user_space(word)).map(str::to_owned))
            }
            None => {
                let such =
                    running.tokens().filter(|token| rejected_argument::rejects(&line.text, token));
                refused.extend(such.map(|token| token.as_str().to_owned()));
            }
        }
        if refused.len() + passed_on.len() > before {
            evident.push(kernel_log::seen(line));
        }
    }
    if evident.is_empty() {
        return Ok(kernel_log::clean(log, "no argument was rejected"));
    }
    let codes = |arguments: Vec<String>, passed_on| {
        let code = move |argument| CommandLineFinding::ArgumentRefused { argument, passed_on };
        arguments.into_iter().map(code)
    };
    let outcome = match refused.is_empty() {
        true => Outcome::warn(codes(passed_on, true)),
        false => Outcome::warn(codes(refused, false)).also(codes(passed_on, true)),
    };
    Ok(outcome.all_evidence(evident))
}

/// Whether user space reads this argument, including init's own switches: `-b`, `single`, a run level.
fn is_for_user_space(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    FOR_USER_SPACE.contains(&name)
        || word.starts_with('-')
        || name.chars().all(|c| c.is_ascii_digit())
}
