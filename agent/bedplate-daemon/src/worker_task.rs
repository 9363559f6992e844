//! Task of the daemon's worker: observes the host, and applies the changes that the daemon names. Runs the same pipeline as
//! `plan` and `apply`, in a separate process.

mod kernel_log;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::checks;
use super::observation::{self, ChangeKey, ChangeResult, Device, Observation, PlannedChange};
use super::public::{self, OperatorWords};
use bedplate_base::mask;
use bedplate_base::value::PciAddress;
use bedplate_core::apply::{self, Event};
use bedplate_core::desired::Desired;
use bedplate_core::documents as json;
use bedplate_core::enforce_hold::EnforceHold;
use bedplate_core::engine::profile_source::Choice;
use bedplate_core::engine::{self, ApplyOutcome, EngineError, PreparedPlan, Request, Target};
use bedplate_core::kind::cmdline::diagnosis::Cause;
use bedplate_core::kind::{Context, KINDS, Watch, cmdline};
use bedplate_core::plan::{Action, Change, pending_need};
use bedplate_core::profile::model::{Agent, AgentMode, Profile};
use bedplate_core::profile::{LoadedProfile, is_reminder};
use bedplate_facts::pci::Function;
use bedplate_facts::topology::Topology;
use bedplate_facts::{Depth, Facts};
use bedplate_host::{DirReader, Reader, package_lock, symlink};

/// Only the profile that the operator installed on the host: a guessed profile is never enforced.
const REQUEST: Request<'static> = Request::dry_run(Choice::HostOnly);

/// Changes and conditions that the daemon names.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The changes to apply.
    pub changes: &'a [ChangeKey],
    /// Files that the changes were planned from; the profile must still be read from them.
    pub profile_files: &'a [String],
    /// Whether the checks are run afterwards.
    pub judged: bool,
}

/// Observes the host; if `judged`, also runs the checks once the settings of the host stage match the profile.
///
/// # Errors
/// [`ObserveError`].
pub fn observe(judged: bool) -> Result<Observation, ObserveError> {
    let reader = DirReader::live();
    // Reads the data for the checks in the same pass: most observations find the host converged.
    let depth = if judged { Depth::Thorough } else { Depth::Plan };
    let planned = engine::prepare_at(&reader, &REQUEST, depth)?;
    let mut seen = public_observation(
        &reader,
        &planned,
        &operator_words(&reader, &planned),
        Vec::new(),
        Vec::new(),
    )?;
    if judged {
        judge(&reader, &planned, &mut seen);
    }
    Ok(seen)
}

/// Applies the selected changes, unless the profile's mode is `observe`, and observes the host. Each step is passed to `at`.
///
/// # Errors
/// [`ObserveError`].
pub fn apply(
    selected: &Selection<'_>,
    at: &mut dyn FnMut(&str),
) -> Result<Observation, ObserveError> {
    let only_observes = |agent: &Agent| agent.mode == AgentMode::Observe;
    if only_observes(&settings()?) {
        return observe(selected.judged);
    }
    let mut select = |planned: &mut PreparedPlan| {
        // A pause takes effect before a revert acquires the lock, so the next holder of the lock sees it.
        let held = EnforceHold::load(Path::new("/")).is_some();
        // The changes were named for a profile that may have been replaced since.
        let replaced =
            !selected.profile_files.iter().all(|file| planned.profile_files.contains(file));
        let observes = only_observes(&planned.loaded.profile.agent);
        let takes = |change: &Change| {
            !held && !replaced && !observes && selected.changes.contains(&ChangeKey::of(&change.id))
        };
        planned.plan.body.changes.retain(takes);
        Ok(())
    };
    let mut watch = |event: Event<'_>| {
        if let Some(what) = doing(&event) {
            at(&what);
        }
    };
    let now = jiff::Timestamp::now();
    let ApplyOutcome { before, report, after, .. } =
        engine::apply(&Target::Live, &REQUEST, &mut select, &mut watch, now)?;
    let (reader, mut after) = (DirReader::live(), after?);
    let words = operator_words(&reader, &after);
    let shown = public::plan(&before.plan, &words);
    let changes = before.plan.body.changes.iter().zip(&shown.body.changes);
    let ended = changes.zip(&report.changes).map(|((change, shown), report)| ChangeResult {
        change: PlannedChange::new(change, shown),
        failure: public::failure(&report.outcome),
    });
    let warnings = report.warnings.iter().map(|text| mask::mask_message(text)).collect();
    let mut seen = public_observation(&reader, &after, &words, ended.collect(), warnings)?;
    if selected.judged && seen.has_host_stage() {
        // The plan was made from fewer facts.
        after.facts = engine::observe(&reader, Depth::Thorough);
        judge(&reader, &after, &mut seen);
    }
    Ok(seen)
}

/// Adds the results of the checks if the settings of the host stage match the profile.
fn judge(reader: &dyn Reader, planned: &PreparedPlan, seen: &mut Observation) {
    seen.checks = seen.has_host_stage().then(|| {
        let report = engine::verify_planned(reader, planned, kernel_log::of_checks());
        checks::public(&report)
    });
}

/// Returns the `[agent]` settings, without reading anything that a driver answers.
///
/// # Errors
/// [`EngineError`].
pub fn settings() -> Result<Agent, EngineError> {
    profile(&DirReader::live()).map(|profile| profile.agent)
}

/// Reads the profile of a host.
///
/// # Errors
/// [`EngineError`].
pub(crate) fn profile(reader: &dyn Reader) -> Result<Profile, EngineError> {
    let mut facts = bedplate_facts::observe(reader, Depth::Identity);
    Ok(engine::choose(reader, &mut facts, &REQUEST)?.loaded.profile)
}

/// Error of an observation or a change.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// Planning or applying failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The plan cannot be rendered as JSON.
    #[error("cannot write JSON")]
    Json(#[from] serde_json::Error),
}

/// Describes a step before it runs, because a tool or a driver may take long. Returns `None` for steps without a description.
fn doing(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Action(_, Action::RunTool { argv, .. }) => Some(mask::mask_message(&argv.join(" "))),
        Event::Action(_, Action::Verify(_)) => None,
        Event::Action(_, action) => Some(apply::describe(action)),
        _ => None,
    }
}

/// Gathers the operator's own texts of the profile.
fn operator_words(reader: &dyn Reader, planned: &PreparedPlan) -> OperatorWords {
    let files = &planned.profile_files;
    let texts: Vec<String> = files.iter().filter_map(|file| reader.text(file).ok()).collect();
    OperatorWords::gather_from(texts.iter().map(String::as_str))
}

/// Builds the public observation.
fn public_observation(
    reader: &dyn Reader,
    planned: &PreparedPlan,
    words: &OperatorWords,
    done: Vec<ChangeResult>,
    warnings: Vec<String>,
) -> Result<Observation, serde_json::Error> {
    let PreparedPlan { facts, loaded, plan, desired, .. } = planned;
    let shown = public::plan(plan, words);
    // Changes that a lint stops cannot be applied by the daemon; the blocker names the fix.
    let takes =
        |(change, _): &(&Change, &Change)| planned.stopping.is_empty() && change.deferred.is_none();
    let changes = plan.body.changes.iter().zip(&shown.body.changes).filter(takes);
    Ok(Observation {
        profile: loaded.profile.name.clone(),
        profile_files: planned.profile_files.clone(),
        agent: loaded.profile.agent.clone(),
        reboot: loaded.profile.reboot.clone(),
        stopped: !planned.stopping.is_empty(),
        reminders: reminders(loaded),
        done,
        warnings,
        changes: changes.map(|(change, shown)| PlannedChange::new(change, shown)).collect(),
        blockers: shown.body.blockers.clone(),
        unknowns: shown.body.unknowns.clone(),
        pending: shown.body.pending.clone(),
        passthrough: plan.body.iommu.passthrough_pending,
        need: pending_need(&plan.body.pending),
        next_boot: shown.next_boot.clone(),
        packages: package_lock::held(reader).map(package_lock::reason),
        hash: observation::hash(plan),
        cause: cause(reader, planned).map(public::cause),
        watch: watch(&loaded.profile, facts, reader),
        devices: devices(facts, desired),
        facts: labels(facts, reader),
        checks: None,
        plan_json: json::plan(&shown, &facts.label())?,
    })
}

/// Returns the reminders of a profile.
fn reminders(loaded: &LoadedProfile) -> Vec<String> {
    let reminders = loaded.lints.iter().filter(|lint| is_reminder(lint.id));
    reminders.map(|lint| mask::mask_message(&format!("{} ({})", lint.message, lint.id))).collect()
}

/// Returns why pending arguments of the command line are not in effect.
fn cause(reader: &dyn Reader, planned: &PreparedPlan) -> Option<Cause> {
    let body = &planned.plan.body;
    let waits = body.pending.iter().any(|pending| pending.kind == cmdline::NAME)
        || body.changes.iter().any(|change| change.kind == cmdline::NAME)
        || body.iommu.passthrough_refused;
    if !waits {
        return None;
    }
    let context = Context {
        profile: &planned.loaded.profile,
        desired: &planned.desired,
        facts: &planned.facts,
        reader,
        ledger: &planned.ledger,
        so_far: body,
    };
    match cmdline::why_not_in_effect(&context, None) {
        // The kernel log has evidence only in this case.
        Some(Cause::Rejected { .. }) => {
            cmdline::why_not_in_effect(&context, kernel_log::rejected_arguments().as_deref())
        }
        cause => cause,
    }
}

/// Returns GPUs and NICs; `None` if the PCI devices cannot be read, which differs from no devices. Selected are all GPUs, PFs
/// that a rule gives VFs, and NICs next to a GPU.
fn devices(facts: &Facts, desired: &Desired) -> Option<Vec<Device>> {
    let tree = facts.pci.known()?;
    let topology = Topology::new(tree);
    let near: BTreeSet<PciAddress> =
        topology.pairs().iter().flat_map(|pair| topology.nics_in(pair)).collect();
    let selected = |function: &Function| {
        function.is_gpu()
            || near.contains(&function.address)
            || desired.sriov.iter().any(|wanted| wanted.pf == function.address)
    };
    let functions = tree.functions.values().filter(|function| !function.is_vf());
    let devices =
        functions.filter(|function| function.is_gpu() || function.is_nic()).map(|function| {
            let what = if function.is_gpu() { "GPU" } else { "NIC" };
            Device {
                address: function.address.to_string(),
                what: format!("{what} {}:{}", function.vendor, function.device),
                selected: selected(function),
            }
        });
    Some(devices.collect())
}

/// Returns the paths and interfaces where drift is visible: the profile's own directories, and those of each resource type.
/// Writes to sysfs by programs appear in inotify like writes to files (fsnotify hooks in vfs_write). Changes by the kernel
/// itself cause a uevent instead.
fn watch(profile: &Profile, facts: &Facts, reader: &dyn Reader) -> Watch {
    let own = ["/etc/bedplate", "/etc/bedplate/profile.d", "/etc/bedplate/profiles"];
    let kinds = KINDS.iter().map(|kind| (kind.watch)(profile, facts));
    let (mut directories, mut attributes, mut interfaces) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut links: BTreeSet<String> = links(facts, reader).into_iter().collect();
    for watch in std::iter::once(Watch::directories(&own)).chain(kinds) {
        directories.extend(watch.directories);
        attributes.extend(watch.attributes);
        interfaces.extend(watch.interfaces);
        links.extend(watch.links);
    }
    let directories = directories.into_iter().filter(|path| reader.exists(path) == Ok(true));
    Watch {
        directories: directories.collect(),
        attributes: attributes.into_iter().collect(),
        interfaces: interfaces.into_iter().collect(),
        links: links.into_iter().collect(),
    }
}

/// Returns interfaces that go down with an RDMA port: its own, and the bond that contains it.
fn links(facts: &Facts, reader: &dyn Reader) -> Vec<String> {
    let Some(tree) = facts.pci.known() else { return Vec::new() };
    let carries = |function: &&Function| {
        function.is_nic() && !function.is_vf() && !function.vfio && !function.infiniband.is_empty()
    };
    let own = tree.functions.values().filter(carries).flat_map(|nic| &nic.net);
    let with_bond = own.flat_map(|name| {
        let bond = reader.link(&format!("/sys/class/net/{name}/master")).ok();
        let bond = bond.as_deref().and_then(symlink::last_part).map(str::to_owned);
        [Some(name.clone()), bond].into_iter().flatten()
    });
    with_bond.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns labels for node selection by schedulers.
pub fn labels(facts: &Facts, reader: &dyn Reader) -> BTreeMap<String, String> {
    let labels = KINDS.iter().flat_map(|kind| (kind.labels)(facts, reader));
    labels.map(|(name, value)| (name.to_owned(), value)).collect()
}
