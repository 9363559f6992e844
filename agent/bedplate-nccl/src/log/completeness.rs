//! Missing parts of a job's log. A positive verdict requires every rank, node and direction, every communicator with a
//! complete setup, and no line or warning of unknown meaning.

use std::collections::{BTreeMap, BTreeSet};

use super::{Carrier, Job, Log, Worker};
use crate::Version;
use bedplate_base::counted;

/// Network carriers.
const NETWORK: [Carrier; 3] = [Carrier::Direct, Carrier::Staged, Carrier::Sockets];

/// Returns the missing parts of a job's log.
pub(super) fn missing(log: &Log, job: &Job) -> Vec<String> {
    let parts = [
        unreadable(log),
        unfinished(job),
        ranks(job),
        silent(job),
        partial(log, job),
        nodes(log, job),
        directions(job),
        communicators(log, job),
        unknown_warnings(log),
    ];
    let mut missing: Vec<String> = parts.into_iter().flatten().collect();
    if log.is_cut_off && !missing.is_empty() {
        let text = "the last line has no end: the log is cut off, or still being written";
        missing.push(text.to_owned());
    }
    missing
}

fn unreadable(log: &Log) -> Option<String> {
    if let Some(lost) = log.lost {
        let count = lost.count;
        return Some(format!("{count} NCCL lines are unreadable or from too many processes"));
    }
    let anonymous = log.anonymous?;
    let count = anonymous.count;
    Some(format!("NCCL lines without the form `NODE:PID:TID [GPU]`: {count}"))
}

/// A job may hang in the setup of a communicator.
fn unfinished(job: &Job) -> Option<String> {
    let count = job.workers.iter().filter(|one| one.setups > one.completed).count();
    (count > 0).then(|| {
        format!(
            "the setup of a communicator does not finish in the log, for {}",
            counted(count, "GPU")
        )
    })
}

fn ranks(job: &Job) -> Option<String> {
    let Some(all) = job.ranks() else {
        return Some(
            "the number of ranks is not in the log (no line ends with Init COMPLETE)".to_owned(),
        );
    };
    // A single rank has no connections.
    let is_shown = |one: &&&Worker| all == 1 || one.carriers.iter().any(Option::is_some);
    let ranks = job.workers.iter().filter(is_shown).filter_map(|one| one.rank);
    let ranks: BTreeSet<u32> = ranks.filter(|(_, of)| *of == all).map(|(rank, _)| rank).collect();
    let shown = ranks.len();
    usize::try_from(all).is_ok_and(|all| shown < all).then(|| {
        format!("the log shows connections of {shown} of {all} ranks: add the logs of the other ranks, all with \
                 NCCL_DEBUG=INFO")
    })
}

/// Versions up to 2.17 report only the end of the setup, after its connections.
fn silent(job: &Job) -> Option<String> {
    let is_open = |one: &&&Worker| {
        one.started.is_none() && !one.complete && one.carriers.iter().any(Option::is_some)
    };
    let count = job.workers.iter().filter(is_open).count();
    (count > 0).then(|| {
        format!("the log shows connections, but no complete setup, of {}", counted(count, "GPU"))
    })
}

/// Every rank of a communicator prints its id.
fn partial(log: &Log, job: &Job) -> Option<String> {
    if log.is_cut_in_communicators() {
        return Some("the log has too many communicators".to_owned());
    }
    let (id, seen, announced) = job.partial.first()?;
    Some(format!("the log shows {seen} of {announced} ranks of communicator {id:#x}"))
}

/// Returns a node of a job on several nodes that shows no connection to others.
fn nodes(log: &Log, job: &Job) -> Option<String> {
    let has = |one: &Worker, carriers: &[Carrier]| {
        carriers.iter().any(|carrier| one.carriers[*carrier as usize].is_some())
    };
    // Launchers print the version only, and have no rank.
    let mut reaches_others: BTreeMap<usize, bool> = BTreeMap::new();
    for one in job.workers.iter().filter(|one| one.rank.is_some()) {
        let reaches = has(one, &NETWORK) || has(one, &[Carrier::Fabric]);
        *reaches_others.entry(one.host).or_default() |= reaches;
    }
    let alone = reaches_others.iter().find(|(_, reaches)| !**reaches);
    let (host, _) = alone.filter(|_| reaches_others.len() > 1)?;
    Some(format!("the log shows no connection of {} to another node", log.hosts[*host]))
}

/// Every connection over a network is in the log twice, once by each end.
fn directions(job: &Job) -> Option<String> {
    let count = |end: fn(&Worker) -> u64| job.workers.iter().map(|one| end(one)).sum::<u64>();
    let (sends, receives) = (count(|one| one.sends), count(|one| one.receives));
    (sends != receives).then(|| {
        format!("network connections in the log: {sends} [send], {receives} [receive]; these numbers are equal in a whole log")
    })
}

fn communicators(log: &Log, job: &Job) -> Option<String> {
    // From 2.22 on, a communicator that is not used has no connections.
    let connects_at_use = !log.versions.is_empty()
        && log.versions.keys().all(|(version, _)| {
            Version::of_release(version).is_some_and(|version| version >= Version(2, 22))
        });
    let is_unused = |one: &Worker| connects_at_use && one.destroyed >= one.setups;
    let lacks = job
        .workers
        .iter()
        .filter(|one| one.communicators > one.connected_communicators() && !is_unused(one));
    let lacks = lacks.count();
    (lacks > 0).then(|| {
        format!(
            "the log lacks the connections of one of several communicators, for {}: it was not used, or lines \
             are missing",
            counted(lacks, "GPU")
        )
    })
}

fn unknown_warnings(log: &Log) -> Option<String> {
    if log.dropped_warnings {
        return Some("the log has too many different warnings".to_owned());
    }
    let unknown =
        log.warnings.iter().find(|warning| warning.is_unknown && warning.is_after_setup)?;
    Some(format!("a warning after the setup is unknown to bedplate: {}", unknown.text))
}
