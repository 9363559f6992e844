//! The kernel command line in its four states: configured, next boot, running, effective (design §6).
//! [`bedplate_cmdline`] defines the semantics of tokens, [`bedplate_cmdline::boot`] the formats of boot loader files.
//! This module applies both to the host. Each back end has one file and one arm in `backend`.

mod bls;
mod boot_entry;
mod boot_files;
mod carried_arguments;
mod change;
mod check_line;
mod comparison;
mod default_entry;
pub mod diagnosis;
mod effective;
mod entry_before;
mod entry_fault;
mod entry_files;
mod entry_kernel;
mod generated_menu;
mod grub;
mod grub_directory;
mod hugepages;
mod iommu;
mod iommu_after;
mod iommu_off;
mod kernel_context;
mod kernel_image;
mod kernel_install;
mod length;
mod loader_path;
mod menu;
mod mounts;
mod next_drivers;
mod next_kernel;
mod no_iommu;
mod nvidia_grace;
mod one_shot;
mod only_in_entry;
mod ostree;
mod other_arch;
mod owned_arguments;
mod page_size;
mod paths;
mod pending_tools;
mod rebuild_check;
mod repair;
mod resolve;
mod reverted_entry;
mod root_device;
mod sdbootutil;
pub mod section;
pub mod show;
mod soundness;
mod tuned;

pub(crate) use boot_files::{ENTRY_PLUGIN, KERNEL_CMDLINE, VENDOR_CMDLINE};
pub(crate) use carried_arguments::{carried, content_line, file_line};
pub(crate) use check_line::check_texts;
pub use entry_before::check as check_entry;
pub(crate) use entry_fault::{Soundness, report as report_soundness};
pub(crate) use entry_files::{entry_contents, entry_initrds};
pub(crate) use entry_kernel::{entry_kernel, entry_with_initrds, is_entry_file};
pub(crate) use hugepages::asked as huge_pages;
pub(crate) use iommu_after::{iommu_after, iommu_now};
pub(crate) use iommu_off::{iommu_off, iommu_off_by_others};
pub(crate) use kernel_image::paths as kernel_images;
pub(crate) use kernel_install::{
    BOOT_MOUNTS, entries, entry_generator, installed_release, is_kernel_gone, release_of_entry,
    written_entries,
};
pub(crate) use mounts::{FSTAB, MOUNTINFO, recorded_fstab, recorded_mount};
pub(crate) use next_kernel::{next_kernel, other_kernel};
pub(crate) use one_shot::lasting_kernel;
pub(crate) use only_in_entry::named;
pub use ostree::KARGS_FILE as BOOTC_KARGS;
pub(crate) use owned_arguments::owned;
pub(crate) use page_size::fixed_default_size as fixed_huge_page;
pub use paths::NEXT_KERNEL;
pub(crate) use rebuild_check::{check_initramfs_rebuild, check_initramfs_revert};
pub(crate) use repair::unknown as unknown_entry_fix;
pub(crate) use reverted_entry::{EntryFaults, RevertedEntry};
pub(crate) use sdbootutil::{SED_SPECIAL, TOOL as SDBOOTUTIL_PATH, makes_all_entries};
pub(crate) use soundness::initrds as default_initrds;
pub(crate) use soundness::{BOOT_PARAMS, recorded_boot_params, soundness, soundness_of_image};

use super::{Context, Kind, Privacy};
use crate::plan::{Action, Effect, KindId, KindPlan};
use bedplate_base::{Arch, ReadError, Reading};
use bedplate_cmdline::{CommandLine, Edit, KernelDefaults, Token, fold_name};
use bedplate_facts::kernel_defaults::kernel_defaults;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;
use diagnosis::{BootObservation, Cause};
use pending_tools::PendingTools;
use resolve::edit;
use tuned::Tuned;

/// Registry entry of this resource type.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "kernel command line: configured, next boot, running, effective",
    resolve: resolve::resolve,
    plan,
    contribute: resolve::contribute,
    watch: paths::watch,
    recorded: paths::RECORDED,
    owns: paths::OWNS,
    files: paths::FILES,
    privacy: Privacy::OPEN,
    labels: paths::labels,
};

/// Name of this resource type, also in the ledger.
pub const NAME: KindId = KindId::Cmdline;

/// Command lines that a back end reads: the one that new boot entries would get, and the one of the default entry.
pub(crate) struct ObservedLines {
    /// Line of the configuration (`/etc/default/grub` and drop-ins, `/etc/kernel/cmdline`).
    pub configured: Reading<CommandLine>,
    /// Line of the default boot entry, as the kernel will see it.
    pub next: Reading<CommandLine>,
    /// Notes on files that could not be understood.
    pub remarks: Vec<String>,
}

impl ObservedLines {
    /// Treats the configured line as empty where both lines are absent, so that all requested arguments are missing.
    fn or_nothing(self) -> Self {
        match (&self.configured, &self.next) {
            (Reading::Absent, Reading::Absent) => {
                ObservedLines { configured: Reading::Known(CommandLine::default()), ..self }
            }
            _ => self,
        }
    }
}

/// Planned steps of a back end.
pub(crate) struct Steps {
    /// Title of the change.
    pub subject: String,
    /// Actions in order. A check of the next boot is last.
    pub actions: Vec<Action>,
    /// Disruptions.
    pub disrupts: Vec<String>,
}

/// Reason why a back end cannot plan the change, with its fix.
pub(crate) struct Obstacle {
    /// Why the change cannot be planned.
    pub reason: String,
    /// Fix.
    pub fix: String,
}

/// Access to the command line of one boot loader family.
pub(crate) struct Backend {
    /// Reads both states.
    pub observe: fn(&dyn Reader, &Facts) -> ObservedLines,
    /// Plans the actions that make both states satisfy the edit.
    pub steps: fn(&Context, &Edit) -> Result<Steps, Obstacle>,
}

/// Returns the back end of a boot loader, or why its command line cannot be managed.
fn backend(boot: &BootLoader) -> Result<Backend, Obstacle> {
    match boot {
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse => {
            Ok(Backend { observe: grub::observe, steps: grub::steps })
        }
        BootLoader::GrubBls => Ok(Backend { observe: bls::observe, steps: bls::steps }),
        BootLoader::SystemdBoot { .. } => {
            Ok(Backend { observe: kernel_install::observe, steps: kernel_install::steps })
        }
        BootLoader::Sdbootutil { .. } => {
            Ok(Backend { observe: sdbootutil::observe, steps: sdbootutil::steps })
        }
        BootLoader::RpmOstree | BootLoader::Bootc => {
            Ok(Backend { observe: ostree::observe, steps: ostree::steps })
        }
        BootLoader::Unmanaged { reason, fix } | BootLoader::Unknown { reason, fix } => {
            Err(Obstacle { reason: reason.clone(), fix: fix.clone() })
        }
    }
}

fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    kernel_context::report(context, &mut section);
    // Requested arguments with a side effect or without effect are reported as blockers and must not be applied.
    let refused = !section.blockers.is_empty();
    report(context, &mut section);
    let edit = match edit(context) {
        Ok(edit) => edit,
        Err(obstacle) => {
            block(&mut section, obstacle);
            return section;
        }
    };
    if edit.wanted().is_empty() && edit.unwanted().is_empty() {
        pending_tools::plan_alone(context, &mut section);
        return section;
    }
    let backend = match backend(&context.facts.boot) {
        Ok(backend) => backend,
        Err(obstacle) => {
            block(&mut section, obstacle);
            comparison::running_only(context, &edit, &mut section);
            return section;
        }
    };
    let observed = (backend.observe)(context.reader, context.facts).or_nothing();
    let mut comparison = comparison::compare(context, &edit, &observed);
    let tuned = tuned::read(context);
    if let Some(tuned) = &tuned {
        comparison.credit(tuned, &edit, context);
    }
    comparison::report(context, &edit, &comparison, &mut section);
    effective::report(context, &mut section);
    let owed = PendingTools::read(context, &comparison);
    section.settled_tools = owed.settled(None);
    note_hand_edits(context, &edit, &mut section);
    let menu = || generated_menu::state(context, &observed, owed.is_due()).lost();
    let lost = match hugepages::check(context, &mut section).and_then(|()| menu()) {
        Ok(lost) => lost,
        Err(obstacle) => {
            block(&mut section, obstacle);
            return section;
        }
    };
    if lost.is_none() && !owed.is_due() && !comparison.needs_change() {
        if let Err(obstacle) = length::check_unchanged(context, &edit, &observed) {
            block(&mut section, obstacle);
        }
        note_conflict(tuned.as_ref(), &edit, context, &mut section);
    } else if !refused {
        let due = change::ChangeReasons {
            comparison: &comparison,
            observed: &observed,
            tuned: tuned.as_ref(),
            lost: lost.as_ref(),
            owed: &owed,
            edit: &edit,
        };
        change::plan(context, &due, &backend, &mut section);
    }
    section
}

/// Adds the notes that depend only on the host and the desired arguments.
fn report(context: &Context, section: &mut KindPlan) {
    iommu_off::report(context, section);
    other_arch::report(context, section);
}

/// Adds a note on conflicting arguments of TuneD, which bedplate's arguments override on the line.
fn note_conflict(tuned: Option<&Tuned>, edit: &Edit, context: &Context, section: &mut KindPlan) {
    if let Some(Err(Obstacle { reason, fix })) = tuned.map(|tuned| tuned.check(edit, context)) {
        let text = format!("{reason}: {fix}");
        section.notes.push(NAME.note("TuneD", text));
    }
}

fn note_hand_edits(context: &Context, edit: &Edit, section: &mut KindPlan) {
    if context.facts.boot == BootLoader::GrubDebian
        && let Some((subject, text)) = grub::edited_by_hand(context, edit)
    {
        section.notes.push(NAME.note(subject, text));
    }
}

/// Whether a plan has a blocker of the command line and no change of it.
pub(crate) fn is_refused(plan: &KindPlan) -> bool {
    plan.blockers.iter().any(|blocker| blocker.kind == NAME)
        && plan.changes.iter().all(|change| change.kind != NAME)
}

/// Whether IOMMU passthrough is requested.
fn passthrough_wanted(context: &Context) -> bool {
    let wanted = &context.desired.cmdline.set;
    wanted.iter().any(|arg| matches!(arg.token.as_str(), "iommu=pt" | "iommu.passthrough=1"))
}

/// Whether any IOMMU argument is requested.
fn iommu_wanted(context: &Context) -> bool {
    let wanted = context.desired.cmdline.set.iter();
    wanted.map(|arg| arg.token.as_str()).any(|token| {
        ["iommu=", "iommu.", "intel_iommu=", "amd_iommu="]
            .iter()
            .any(|name| token.starts_with(name))
    })
}

fn block(section: &mut KindPlan, obstacle: Obstacle) {
    section.blockers.push(NAME.blocker("kernel command line", obstacle.reason, obstacle.fix));
}

/// Returns the architecture whose code reads the parameters. An unknown one counts as x86-64, which has every parameter
/// of the handbook.
pub(crate) fn arch(facts: &Facts) -> Arch {
    facts.arch.known().copied().unwrap_or(Arch::X86_64)
}

/// Returns the class of boot after which arguments take effect. After a kexec the next kernel inherits the running
/// IOMMU with its translation tables, and also bridge windows, ACS bits and VFs (handbook §2.4). IOMMU and PCI
/// arguments therefore take effect for certain only after a boot through firmware. All other arguments need only a
/// kernel start. An empty list counts as the worst case.
pub(crate) fn effect_of<'a>(tokens: impl Iterator<Item = &'a str>) -> Effect {
    let iommu = |token: &str| {
        let token = fold_name(token);
        ["iommu", "intel_iommu", "amd_iommu", "pci"].iter().any(|name| {
            token
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', '.']))
        })
    };
    let mut tokens = tokens.peekable();
    if tokens.peek().is_none() || tokens.any(iommu) { Effect::ColdBoot } else { Effect::NextBoot }
}

/// Returns the line that the running kernel was booted with.
pub(crate) fn running_line(reader: &dyn Reader) -> Result<CommandLine, ReadError> {
    reader.text("/proc/cmdline").map(|text| CommandLine::parse(text.trim_end()))
}

/// Returns the command line of the default boot entry, which [`crate::plan::Check::NextBoot`] checks.
pub(crate) fn next_boot(reader: &dyn Reader, facts: &Facts) -> Reading<CommandLine> {
    match backend(&facts.boot) {
        Ok(backend) => (backend.observe)(reader, facts).next,
        Err(obstacle) => Reading::unknown(obstacle.reason),
    }
}

/// Whether bedplate supports this host's boot loader but cannot determine the line of the default entry. A line that a
/// snapshot lacks is not lost: its host has it.
pub(crate) fn is_line_lost(reader: &dyn Reader, facts: &Facts) -> bool {
    let Ok(backend) = backend(&facts.boot) else { return false };
    match (backend.observe)(reader, facts).next {
        Reading::Known(_) => false,
        Reading::Absent => true,
        Reading::Unknown(why) => why.cause != bedplate_base::Cause::NotRecorded,
    }
}

/// Returns the likely cause why the desired arguments are not in effect after a boot that should have applied them.
/// `log` is the kernel log of this boot. `None`: contradictory arguments or an unsupported boot loader.
pub fn why_not_in_effect(context: &Context, log: Option<&str>) -> Option<Cause> {
    let edit = edit(context).ok()?;
    let backend = backend(&context.facts.boot).ok()?;
    let observed = (backend.observe)(context.reader, context.facts);
    let running = running_line(context.reader).ok();
    let os = &context.facts.os;
    let kernels =
        os.next_kernel.known().map(String::as_str).zip(os.kernel.known().map(String::as_str));
    let seen = BootObservation {
        configured: observed.configured.known(),
        next: observed.next.known(),
        running: running.as_ref(),
        kernels,
        log,
    };
    Some(diagnosis::cause(&seen, &edit, &kernel_defaults(context.reader, context.facts)))
}

/// Returns those of `tokens` that the running line has and the next boot's line lacks, and so stay in effect until that
/// boot. Empty if a line cannot be read.
pub(crate) fn gone_at_next_boot(
    reader: &dyn Reader,
    facts: &Facts,
    tokens: &[Token],
) -> Vec<String> {
    let (Ok(running), Reading::Known(next)) = (running_line(reader), next_boot(reader, facts))
    else {
        return Vec::new();
    };
    let Ok(edit) = Edit::new(arch(facts), tokens) else { return Vec::new() };
    let on = |line: &CommandLine| edit.satisfied_by(line, &KernelDefaults::default());
    let both = on(&running).into_iter().zip(on(&next));
    both.filter(|(running, next)| running.status.is_satisfied() && !next.status.is_satisfied())
        .map(|(running, _)| running.entries.join(" "))
        .collect()
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod tests;
