//! Diagnoses why arguments are not in effect after a boot, by the states of the command line and the kernel log. Pure.

use serde::{Deserialize, Serialize};

use bedplate_cmdline::{CommandLine, Edit, KernelDefaults, rejected_argument};

/// State observed after the boot. `None`: could not be read.
#[derive(Debug, Clone, Default)]
pub struct BootObservation<'a> {
    /// Line that the configuration gives new entries.
    pub configured: Option<&'a CommandLine>,
    /// Line that the default entry has now.
    pub next: Option<&'a CommandLine>,
    /// Line that the kernel was booted with.
    pub running: Option<&'a CommandLine>,
    /// Releases of the default entry's kernel and of the running kernel.
    pub kernels: Option<(&'a str, &'a str)>,
    /// Kernel log of this boot.
    pub log: Option<&'a str>,
}

/// Likely cause why arguments are not in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum Cause {
    /// The configuration no longer has them: it was edited since, or another file overrides it.
    Overridden,
    /// The configuration has them, the default entry does not.
    NotRegenerated,
    /// Another kernel was booted.
    OtherKernel {
        /// Release of the running kernel.
        running: String,
    },
    /// The default entry has them, but the kernel was booted without: by another entry, or the loader passes other
    /// arguments.
    OtherEntry,
    /// The kernel was booted with them, but they are not in effect.
    Rejected {
        /// Line of the kernel log that rejects an argument, if there is one.
        said: Option<String>,
    },
    /// No cause found.
    Unknown,
}

impl Cause {
    /// Returns a human-readable description with the next step.
    pub fn describe(&self) -> String {
        match self {
            Cause::Overridden => "the boot configuration no longer has it: another file overrides it, or it was removed; see \
                 `bedplate plan -v`"
                .into(),
            Cause::NotRegenerated => "the configuration is converged, the default boot entry is not: not regenerated, written \
                 by hand, or a variable adds to it; see `bedplate plan -v`"
                .into(),
            Cause::OtherKernel { running } => format!(
                "the booted kernel ({running}) is not that of the default entry; check the boot menu's choice \
                 (`grub-editenv list`, `bootctl list`)"
            ),
            Cause::OtherEntry => "the default entry has it, but the kernel was booted without it: another entry was chosen at \
                 the menu or by the firmware, or the loader reads another configuration (a second disk?)"
                .into(),
            Cause::Rejected { said: Some(line) } => {
                format!("the kernel was booted with it and rejected it: {line}")
            }
            Cause::Rejected { said: None } => "the kernel was booted with it, but it is not in effect; search \
                 `journalctl -k -b` for the argument, and check the firmware settings (VT-d, AMD-Vi, SR-IOV)"
                .into(),
            Cause::Unknown => "cause unknown; see `bedplate plan -v`".into(),
        }
    }
}

/// Returns the cause by the first state that lacks the requested arguments. `defaults` are those of the kernels that
/// may boot: arguments that all of them imply need not be on a line.
pub fn cause(seen: &BootObservation<'_>, edit: &Edit, defaults: &[KernelDefaults]) -> Cause {
    let none = [KernelDefaults::default()];
    let defaults = if defaults.is_empty() { &none } else { defaults };
    let satisfied = |line: &CommandLine, defaults| {
        edit.satisfied_by(line, defaults).iter().all(|finding| finding.status.is_satisfied())
    };
    let has = |line: Option<&CommandLine>| {
        let line = line?;
        Some(defaults.iter().all(|defaults| satisfied(line, defaults)))
    };
    match (has(seen.configured), has(seen.next), has(seen.running)) {
        (Some(false), ..) => Cause::Overridden,
        (_, Some(false), _) => Cause::NotRegenerated,
        (_, _, Some(false)) => match seen.kernels {
            Some((newest, running)) if newest != running => {
                Cause::OtherKernel { running: running.to_owned() }
            }
            _ => Cause::OtherEntry,
        },
        (_, _, Some(true)) => {
            Cause::Rejected { said: seen.log.and_then(|text| rejected_argument::find(text, edit)) }
        }
        (_, _, None) => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::Arch;

    fn line(text: &str) -> CommandLine {
        CommandLine::parse(text)
    }

    fn edit(set: &str) -> Edit {
        Edit::new(Arch::X86_64, line(set).tokens()).unwrap()
    }

    #[test]
    fn first_state_without_argument_is_the_cause() {
        let edit = edit("iommu=pt");
        let (with, without) = (line("ro iommu=pt"), line("ro"));
        let seen = |configured, next, running| BootObservation {
            configured: Some(configured),
            next: Some(next),
            running: Some(running),
            ..BootObservation::default()
        };
        assert_eq!(cause(&seen(&without, &with, &without), &edit, &[]), Cause::Overridden);
        assert_eq!(cause(&seen(&with, &without, &without), &edit, &[]), Cause::NotRegenerated);
        assert_eq!(cause(&seen(&with, &with, &without), &edit, &[]), Cause::OtherEntry);
        let kernels = Some(("6.1.0-2", "6.1.0-1"));
        let other = Cause::OtherKernel { running: "6.1.0-1".into() };
        assert_eq!(
            cause(&BootObservation { kernels, ..seen(&with, &with, &without) }, &edit, &[]),
            other
        );
        assert_eq!(cause(&seen(&with, &with, &with), &edit, &[]), Cause::Rejected { said: None });
        assert_eq!(cause(&BootObservation::default(), &edit, &[]), Cause::Unknown);
        // An argument that the kernel implies by default is on no line and no cause.
        let edit = self::edit("iommu=pt intel_iommu=on");
        let on = [KernelDefaults::parse("CONFIG_INTEL_IOMMU_DEFAULT_ON=y\n")];
        assert_eq!(cause(&seen(&with, &with, &without), &edit, &on), Cause::OtherEntry);
        assert_eq!(cause(&seen(&with, &with, &without), &edit, &[]), Cause::Overridden);
    }

    #[test]
    fn kernel_rejection_is_found() {
        let edit = edit("pci=config_acs=0@1");
        let booted = line("ro pci=config_acs=0@1");
        let log = "Kernel command line: ro pci=config_acs=0@1 unknown\n\
                   PCI: Can't parse ACS command line parameter pci=config_acs\n";
        let seen = BootObservation {
            running: Some(&booted),
            log: Some(log),
            ..BootObservation::default()
        };
        let said = Some("PCI: Can't parse ACS command line parameter pci=config_acs".to_owned());
        assert_eq!(cause(&seen, &edit, &[]), Cause::Rejected { said });
    }
}
