//! `bedplate round`, hidden: what the daemon has its child do. One look at the host, or one change of it, as JSON. The
//! same road as `apply`, for exactly the changes that the daemon names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;

use super::host::{self, Opened};
use super::profile_source::{self, Own};
use super::{CliError, Exit, output};
use crate::apply::{self, Event, Executor, Outcome};
use crate::checker;
use crate::daemon::round::{self, Device, Difference, Done, End, Obstacle, Round, Waiting, Watch};
use crate::desired::Desired;
use crate::enforce_hold::EnforceHold;
use crate::engine;
use crate::facts::pci::Function;
use crate::facts::{Depth, Facts};
use crate::host::Reader;
use crate::host::child::{self, Keep};
use crate::host::write::DirWriter;
use crate::kind::{Context, cmdline};
use crate::ledger::Ledger;
use crate::plan::{Action, Check, Plan};
use crate::profile::Loaded;
use crate::reboot::stuck::Cause;
use crate::report::json;
use crate::topology::Topology;
use crate::value::PciAddress;

/// `bedplate round`.
#[derive(Debug, Args)]
pub struct RoundArgs {
    /// Apply this change of the plan, by its id; without any: only look.
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Apply only if the profile is read from this file, among others.
    #[arg(long, value_name = "FILE", requires = "only")]
    profile_file: Vec<String>,
    /// Only what the profile says to the daemon ([agent]), without asking anything that a driver answers.
    #[arg(long, conflicts_with = "only")]
    settings: bool,
}

struct Looked {
    host: Opened,
    facts: Facts,
    loaded: Loaded,
    profile_files: Vec<String>,
    ledger: Ledger,
    plan: Plan,
    devices: Option<Vec<Device>>,
    cause: Option<Cause>,
}

/// `None`: the operator has put no profile there.
fn look() -> Result<Option<Looked>, CliError> {
    let host = host::open_one(&super::HostArgs { root: None, snapshot: Vec::new(), demo: None })?;
    let mut facts = host.facts(Depth::Plan);
    let Some(Own { loaded, files }) = profile_source::load_own(host.reader.as_ref(), &facts)?
    else {
        return Ok(None);
    };
    engine::assume_cpu(&mut facts, None, &loaded.profile);
    let (ledger, unknown) = host.ledger_if_readable()?;
    let outcome = engine::plan(&loaded.profile, &facts, host.reader.as_ref(), &ledger);
    let mut plan = outcome.plan;
    plan.body.unknowns.extend(unknown);
    let waits = plan.body.pending.iter().any(|pending| pending.kind == cmdline::NAME)
        || plan.body.changes.iter().any(|change| change.kind == cmdline::NAME)
        || plan.body.blockers.iter().any(|blocker| blocker.subject == cmdline::effective::SUBJECT);
    let cause = waits.then(|| {
        let reader = host.reader.as_ref();
        let desired = &outcome.desired;
        let context = Context {
            profile: &loaded.profile.name,
            desired,
            facts: &facts,
            reader,
            ledger: &ledger,
        };
        match cmdline::why_not_in_effect(&context, None) {
            // Only then is there something to look for.
            Some(Cause::Rejected { .. }) => {
                cmdline::why_not_in_effect(&context, kernel_log().as_deref())
            }
            cause => cause,
        }
    });
    let devices = devices(&facts, &outcome.desired);
    let cause = cause.flatten();
    Ok(Some(Looked { host, facts, loaded, profile_files: files, ledger, plan, devices, cause }))
}

/// Does one round and prints it.
pub fn run(args: &RoundArgs) -> Result<Exit, CliError> {
    if args.settings {
        return settings();
    }
    let (mut done, mut warnings) = (Vec::new(), Vec::new());
    if !args.only.is_empty() {
        let mut writer = DirWriter::live();
        let _lock = writer.lock().map_err(|error| CliError::while_doing("cannot start", error))?;
        // Planned under the lock: what was seen before may be done by now.
        let Some(Looked { host, facts, mut ledger, mut plan, profile_files, .. }) = look()? else {
            return no_profile();
        };
        // A hold is in force before a revert takes the lock: the one that has the lock afterwards sees it.
        let held = EnforceHold::load(Path::new("/")).is_some();
        // The changes were named by a profile that may be gone by now, and another one in its place.
        let replaced = !args.profile_file.iter().all(|file| profile_files.contains(file));
        plan.body.changes.retain(|change| !held && !replaced && args.only.contains(&change.id));
        let check = |check: &Check, reader: &dyn Reader| checker::check(reader, &facts, check);
        let mut watch = |event: Event<'_>| say_at(&event);
        let executor = Executor {
            reader: host.reader.as_ref(),
            writer: &mut writer,
            checker: &check,
            watch: &mut watch,
        };
        let report = apply::apply(&plan, &mut ledger, executor, jiff::Timestamp::now());
        let ended = plan.body.changes.iter().zip(&report.changes);
        done.extend(ended.map(|(change, report)| Done {
            change: Difference::of(change),
            end: end(&report.outcome),
        }));
        warnings = report.warnings;
    }
    let Some(looked) = look()? else { return no_profile() };
    let round = Round { done, warnings, ..told(&looked)? };
    output::data(&(serde_json::to_string(&round).map_err(bad_json)? + "\n"))?;
    Ok(Exit::Done)
}

fn settings() -> Result<Exit, CliError> {
    let host = host::open_one(&super::HostArgs { root: None, snapshot: Vec::new(), demo: None })?;
    let facts = host.facts(Depth::Identity);
    let Some(own) = profile_source::load_own(host.reader.as_ref(), &facts)? else {
        return no_profile();
    };
    output::data(&(serde_json::to_string(&own.loaded.profile.agent).map_err(bad_json)? + "\n"))?;
    Ok(Exit::Done)
}

/// A look where there is no daemon to ask; `None`: the operator has put no profile there.
pub fn look_only() -> Result<Option<Round>, CliError> {
    look()?.as_ref().map(told).transpose()
}

fn no_profile() -> Result<Exit, CliError> {
    output::status(&profile_source::no_own_profile());
    Ok(Exit::NoProfile)
}

/// What is being done, before it is done: a tool or a driver takes its time.
fn say_at(event: &Event<'_>) {
    let what = match event {
        Event::Action(_, Action::RunTool { argv, .. }) => argv.join(" "),
        Event::Action(_, action) if !matches!(action, Action::Verify(_)) => apply::describe(action),
        _ => return,
    };
    // The daemon reads it; if it has gone, nobody does.
    let _ = output::data(&format!("{}{}\n", round::AT, what.replace('\n', " ")));
}

/// GPUs and NICs; `None`: the PCI devices cannot be read, which is not the same as none there. The profile is about every GPU, about PFs that a rule gives VFs, and about NICs next to a GPU.
fn devices(facts: &Facts, desired: &Desired) -> Option<Vec<Device>> {
    let tree = facts.pci.known()?;
    let near: BTreeSet<PciAddress> = Topology::new(tree)
        .pairs()
        .iter()
        .filter(|pair| !pair.peer_is_gpu)
        .map(|pair| pair.peer)
        .collect();
    let selected = |function: &Function| {
        function.is_gpu()
            || near.contains(&function.address)
            || desired.sriov.iter().any(|wanted| wanted.pf == function.address)
    };
    let functions = tree.functions.values().filter(|function| !function.is_vf());
    let devices =
        functions.filter(|function| function.is_gpu() || function.is_nic()).map(|function| {
            Device {
                address: function.address.to_string(),
                what: format!(
                    "{} {}:{}",
                    if function.is_gpu() { "GPU" } else { "NIC" },
                    function.vendor,
                    function.device
                ),
                selected: selected(function),
            }
        });
    Some(devices.collect())
}

fn end(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Done | Outcome::AlreadyDone | Outcome::Owed { .. } => End::Done,
        Outcome::Deferred { until } => End::Failed { why: format!("waits until {until}") },
        Outcome::Failed { action, why, output, restored } => {
            let last = output.as_deref().and_then(|text| text.trim().lines().last());
            let said = last.map(|line| format!(" ({})", line.trim())).unwrap_or_default();
            let left: Vec<String> = restored
                .left
                .iter()
                .map(|left| format!("; {} stays: {}", left.subject, left.why))
                .collect();
            End::Failed { why: format!("failed to {action}: {why}{said}{}", left.concat()) }
        }
        Outcome::Blocked { by } => {
            End::Failed { why: format!("not tried: {} failed", by.join(", ")) }
        }
    }
}

fn told(looked: &Looked) -> Result<Round, CliError> {
    let Looked { host, facts, loaded, plan, devices, cause, .. } = looked;
    let blocker = |blocker: &crate::plan::Blocker| Obstacle {
        kind: blocker.kind.to_owned(),
        subject: blocker.subject.clone(),
        reason: blocker.reason.clone(),
        remedy: blocker.remedy.clone(),
    };
    let unknown = |unknown: &crate::plan::Unknown| Obstacle {
        kind: unknown.kind.to_owned(),
        subject: unknown.subject.clone(),
        reason: unknown.reason.clone(),
        remedy: String::new(),
    };
    let waiting = |pending: &crate::plan::Pending| Waiting {
        kind: pending.kind.to_owned(),
        subject: pending.subject.clone(),
        running: pending.running.clone(),
        next: pending.next.clone(),
        effect: pending.effect,
    };
    let takes = |change: &&crate::plan::Change| change.deferred.is_none();
    Ok(Round {
        profile: loaded.profile.name.clone(),
        profile_files: looked.profile_files.clone(),
        agent: loaded.profile.agent.clone(),
        reboot: loaded.profile.reboot.clone(),
        done: Vec::new(),
        warnings: Vec::new(),
        changes: plan.body.changes.iter().filter(takes).map(Difference::of).collect(),
        blockers: plan.body.blockers.iter().map(blocker).collect(),
        unknowns: plan.body.unknowns.iter().map(unknown).collect(),
        pending: plan.body.pending.iter().map(waiting).collect(),
        need: engine::waits_for(plan),
        hash: round::hash(plan),
        cause: cause.clone(),
        watch: watch(facts, host.reader.as_ref()),
        devices: devices.clone(),
        facts: labels(facts, host.reader.as_ref()),
        plan_json: json::plan(plan, &host::label(facts)).map_err(bad_json)?,
    })
}

fn bad_json(error: serde_json::Error) -> CliError {
    CliError::while_doing("cannot write JSON", error)
}

/// Where drift can be seen coming. Writes to sysfs by programs show in inotify like writes to files (fsnotify hooks in
/// vfs_write); what the kernel does by itself comes as a uevent instead.
fn watch(facts: &Facts, reader: &dyn Reader) -> Watch {
    const DIRECTORIES: [&str; 13] = [
        "/etc/bedplate",
        "/etc/bedplate/profile.d",
        "/etc/bedplate/profiles",
        "/etc/default",
        "/etc/default/grub.d",
        "/etc/grub.d",
        "/etc/kernel",
        "/etc/modprobe.d",
        "/etc/modules-load.d",
        "/boot/grub",
        "/boot/grub2",
        "/boot/loader/entries",
        "/boot/efi/loader/entries",
    ];
    let directories = DIRECTORIES.iter().filter(|path| reader.exists(path) == Ok(true));
    let mut attributes = Vec::new();
    for function in facts.pci.known().into_iter().flat_map(|tree| tree.functions.values()) {
        let directory = format!("/sys/bus/pci/devices/{}", function.address);
        if function.acs.known().is_some() {
            attributes.push(format!("{directory}/config"));
        }
        if function.sriov.known().is_some() {
            attributes.push(format!("{directory}/sriov_numvfs"));
        }
        if function.acs.known().is_some() || function.sriov.known().is_some() {
            attributes.push(format!("{directory}/reset"));
        }
    }
    Watch { directories: directories.map(|path| (*path).to_owned()).collect(), attributes }
}

/// What schedulers select nodes by.
fn labels(facts: &Facts, reader: &dyn Reader) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Some(tree) = facts.pci.known() else { return labels };
    let groups = cmdline::effective::groups(reader, facts);
    let mode = match (groups.unread, groups.types.keys().collect::<Vec<_>>().as_slice()) {
        (0, []) => "none",
        (0, [one]) if *one == cmdline::effective::NO_GROUP => "none",
        (0, [one]) => one,
        (_, []) => "unknown",
        _ => "mixed",
    };
    labels.insert("iommu".into(), mode.to_owned());
    let vfs = tree.functions.values().filter(|function| function.physfn.is_some()).count();
    labels.insert("vfs".into(), vfs.to_string());
    labels
}

/// This boot's kernel log, as much as is kept. The unit has no /dev/kmsg (ProtectKernelLogs=), but the journal's copy.
fn kernel_log() -> Option<String> {
    kmsg().or_else(journal)
}

/// The oldest lines first, which are those of the start; a log full of later troubles is not read to its end.
fn journal() -> Option<String> {
    const MOST: Keep = Keep::Head(4 << 20);
    const LIMIT: Duration = Duration::from_secs(30);
    let arguments = ["--dmesg", "--boot", "--output=cat", "--quiet", "--no-pager"];
    let ran = child::run(&child::find("journalctl").ok()?, arguments, LIMIT, MOST).ok()?;
    Some(String::from_utf8_lossy(&ran.output).into_owned())
}

/// /dev/kmsg gives one record a read; without rights there is none.
fn kmsg() -> Option<String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut kmsg =
        std::fs::OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg").ok()?;
    let mut log = String::new();
    // The largest record (kernel/printk/printk.c, PRINTKRB_RECORD_MAX).
    let mut record = [0; 8192];
    loop {
        match kmsg.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                let text = String::from_utf8_lossy(&record[..length]);
                // `priority,number,time,flags;text`, then lines of metadata.
                let text = text.split_once(';').map_or("", |(_, text)| text);
                log.push_str(text.lines().next().unwrap_or_default());
                log.push('\n');
            }
            // EPIPE: records were overwritten meanwhile; the next read goes on behind them.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            // Nothing more for now.
            Err(_) => break,
        }
    }
    Some(log)
}
