//! Findings of a log: indirect connections, the reasons that NCCL reports, warnings, failures, variables. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, JobPath, ranks, total};
use super::warning_meanings::{WarningSeverity, meaning, status};
use super::{Carrier, Cause, FailureLine, Job, Log, Place, Tally, Worker};
use crate::Version;
use crate::switches::{Off, forces, switches_off};

/// Completion status of work requests after an earlier error.
const FLUSHED: u32 = 5;
/// Parts of lines about processes that a launcher has ended after the failure of another one.
const ENDED: [&str; 4] = ["exit code 143", "exitcode  : -15", "signal 15", "signal: 15"];

/// Returns the findings of a log.
pub(super) fn find(log: &Log, jobs: &[Job]) -> Vec<Finding> {
    let mut findings = Vec::new();
    transports(log, jobs, &mut findings);
    findings.extend(same_gpu_everywhere(log));
    causes(log, jobs, &mut findings);
    warnings(log, &mut findings);
    let is_explained = findings.iter().any(|finding| finding.is_failure && finding.is_cause);
    failures(log, is_explained, &mut findings);
    plugins(log, &mut findings);
    findings.extend(mixed_link_layers(log));
    unfinished(log, &mut findings);
    versions(log, &mut findings);
    environment(log, &mut findings);
    if let Some(lost) = log.lost {
        findings.push(note("unreadable NCCL lines", Some(lost)));
    }
    if log.cut {
        findings.push(note("too many distinct messages: only the first ones are counted", None));
    }
    findings
}

/// Returns the finding that processes did not find each other: each is the only rank of its job. Runs one after another
/// do not seek each other.
pub(super) fn singletons(jobs: &[JobPath], log: &Log) -> Option<Finding> {
    let is_alone = |one: &&Worker| one.rank.is_some_and(|(_, ranks)| ranks == 1);
    let mut spans: Vec<(Place, Place)> =
        log.workers.iter().filter(is_alone).filter_map(|one| one.span).collect();
    spans.sort_unstable();
    let processes: BTreeSet<(usize, u32)> =
        log.workers.iter().filter(is_alone).map(|one| (one.host, one.pid)).collect();
    let is_whole = jobs.iter().all(|job| job.ranks.is_none_or(|ranks| ranks == 1));
    let nodes: BTreeSet<usize> = processes.iter().map(|(host, _)| *host).collect();
    // Files of several ranks have no common order.
    let overlap =
        |pair: &[(Place, Place)]| pair[1].0.file != pair[0].0.file || pair[1].0 < pair[0].1;
    let overlaps = nodes.len() > 1 || spans.windows(2).any(overlap);
    (is_whole && overlaps && processes.len() > 1).then(|| Finding {
        weight: WarningSeverity::Fault,
        is_cause: true,
        is_failure: true,
        text: format!(
            "{} jobs of one rank each: the processes of the job did not find each other",
            processes.len()
        ),
        node: None,
        seen: spans.first().map(|(first, _)| Tally { count: 1, first: *first }),
        fix: Some(
            "launch with `srun --mpi=pmix` (`srun --mpi=list` shows the types) or with mpirun, and build the program \
             with MPI (nccl-tests: `make MPI=1`)"
                .to_owned(),
        ),
    })
}

/// Notes jobs that are each on one node, of several.
pub(super) fn local_jobs(jobs: &[JobPath]) -> Option<Finding> {
    let nodes: BTreeSet<usize> = jobs.iter().flat_map(|job| job.nodes.iter().copied()).collect();
    let is_local =
        jobs.iter().all(|job| job.nodes.len() == 1 && job.ranks.is_some_and(|all| all > 1));
    (is_local && jobs.len() > 1 && nodes.len() > 1).then(|| {
        let text = format!(
            "{} jobs, each on one node: if they should be one job, its nodes did not find each other",
            jobs.len()
        );
        note(&text, None)
    })
}

/// Finds GPUs that go through host memory on every node, which one node cannot explain.
fn same_gpu_everywhere(log: &Log) -> Option<Finding> {
    let mut staged: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let mut direct: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for one in &log.workers {
        for (carrier, of) in [(Carrier::Staged, &mut staged), (Carrier::Direct, &mut direct)] {
            if one.carriers[carrier as usize].is_some() {
                of.entry(one.host).or_default().insert(one.device);
            }
        }
    }
    let first = staged.values().next()?;
    let is_shared = staged.len() > 1
        && staged.values().all(|devices| devices == first)
        && direct.keys().eq(staged.keys())
        && direct.values().all(|devices| devices.is_disjoint(first));
    let numbers: Vec<String> = first.iter().map(u32::to_string).collect();
    let nodes = staged.len();
    is_shared.then(|| {
        let text = format!(
            "GPU {} goes through host memory on all {nodes} nodes: the reason is a setting or the topology that they \
             share, not one node",
            numbers.join(" ")
        );
        let suspect = log.causes.iter().find(|((cause, _), _)| *cause == Cause::TooFar);
        let fix = suspect.map(|(_, reason)| format!("first suspect: {}", reason.text));
        Finding { fix, ..note(&text, None) }
    })
}

/// Finds processes that use InfiniBand and RoCE ports together. NCCL connects only ports of one link layer
/// (src/transport/net_ib/connect.cc, "Attempted to connect incompatible devices").
fn mixed_link_layers(log: &Log) -> Option<Finding> {
    let has = |hcas: &[String], layer: &str| hcas.iter().any(|hca| hca.ends_with(layer));
    let mixed: BTreeSet<usize> = log
        .processes
        .iter()
        .filter(|(_, process)| has(&process.hcas, "/IB") && has(&process.hcas, "/RoCE"))
        .map(|((host, _), _)| *host)
        .collect();
    let node = &log.hosts[*mixed.first()?];
    let text = match mixed.len() {
        1 => format!(
            "{node} lists InfiniBand and RoCE ports together, which cannot connect to each other"
        ),
        nodes => format!(
            "{nodes} nodes, first {node}, list InfiniBand and RoCE ports together, which cannot connect to each other"
        ),
    };
    let fix =
        "name the ports of one link layer in NCCL_IB_HCA: run `bedplate nccl env` on that node";
    Some(Finding { fix: Some(fix.to_owned()), ..note(&text, None) })
}

/// Adds ranks with indirect connections, by node.
fn transports(log: &Log, jobs: &[Job], findings: &mut Vec<Finding>) {
    let others = if jobs.iter().all(Job::is_local) { "other ranks" } else { "other nodes" };
    let mut by_host: Vec<Vec<&Worker>> = vec![Vec::new(); log.hosts.len()];
    log.workers.iter().for_each(|one| by_host[one.host].push(one));
    for (node, (name, workers)) in log.hosts.iter().zip(by_host).enumerate() {
        for (carrier, how, symptom) in [
            (Carrier::Sockets, "TCP sockets", "socket-fallback"),
            (Carrier::Staged, "host memory: no /GDRDMA on their connections", "gdr-disabled"),
        ] {
            let at = carrier as usize;
            let those = || workers.iter().copied().filter(|one| one.carriers[at].is_some());
            let Some(first) =
                those().filter_map(|one| one.carriers[at]).map(|seen| seen.first).min()
            else {
                continue;
            };
            let count = those().filter_map(|one| one.carriers[at]).map(|seen| seen.count).sum();
            let nics: BTreeSet<String> = those()
                .flat_map(|one| {
                    let numbers = one.nics.keys().filter(|(direct, _)| !direct);
                    numbers.filter_map(|(_, number)| log.nic(one, *number).map(str::to_owned))
                })
                .collect();
            let by = match nics.is_empty() || carrier == Carrier::Sockets {
                true => String::new(),
                false => {
                    format!(" (over {})", nics.into_iter().take(8).collect::<Vec<_>>().join(" "))
                }
            };
            let which = ranks(those());
            let verb = if which.starts_with("rank ") { "reaches" } else { "reach" };
            let text = format!("{which} on {name} {verb} {others} through {how}{by}");
            findings.push(Finding {
                weight: WarningSeverity::Fault,
                is_cause: false,
                is_failure: false,
                text,
                node: Some(node),
                seen: Some(Tally { count, first }),
                fix: Some(format!("run `bedplate doctor {symptom}` on {name}")),
            });
        }
    }
}

/// Adds the reasons that NCCL reports. If all connections are direct in the end, they are not faults.
fn causes(log: &Log, jobs: &[Job], findings: &mut Vec<Finding>) {
    let slow = [Carrier::Sockets, Carrier::Staged];
    let is_slow = |one: &&Worker| slow.iter().any(|at| one.carriers[*at as usize].is_some());
    let slow_hosts: BTreeSet<usize> =
        log.workers.iter().filter(is_slow).map(|one| one.host).collect();
    let any = log.workers.iter().any(|one| one.carriers.iter().any(Option::is_some));
    let is_local = jobs.iter().all(Job::is_local);
    let harmed = |host: usize| !any && !is_local || slow_hosts.contains(&host);
    for ((cause, host), reason) in &log.causes {
        let node = &log.hosts[*host];
        let (text, fix) = match cause {
            Cause::NoDevice => (
                format!("{node} has no RDMA device with an ACTIVE port that NCCL may use"),
                "run `bedplate doctor socket-fallback` on that node; in a container, check /dev/infiniband and \
                 NCCL_IB_HCA",
            ),
            Cause::NoModule => (
                format!("{node}: neither DMA-BUF nor a peer memory module for a NIC"),
                "run `bedplate doctor gdr-disabled` on that node",
            ),
            Cause::TooFar => (
                format!("{node}: a NIC is beyond the GDR level of its GPU: {}", reason.text),
                "run `bedplate topology` on that node for the distance; a VM may need a topology file \
                 (NCCL_TOPO_FILE)",
            ),
        };
        // A NIC may be too far from one GPU if another NIC is nearer.
        let weight = match harmed(*host) {
            true => WarningSeverity::Fault,
            false => WarningSeverity::Note,
        };
        let fix = (weight == WarningSeverity::Fault).then(|| fix.to_owned());
        let node = Some(*host);
        let seen = Some(reason.seen);
        findings.push(Finding { weight, is_cause: true, is_failure: false, text, node, seen, fix });
    }
}

fn warnings(log: &Log, findings: &mut Vec<Finding>) {
    for warning in &log.warnings {
        let known = meaning(&warning.text).filter(|_| !warning.is_trace);
        let node = &log.hosts[warning.host];
        let status = status(&warning.text);
        // A failed call before a setup that succeeds in the end was not needed.
        let worker = &log.workers[warning.worker];
        let process = log.processes.get(&(worker.host, worker.pid));
        let is_repaired =
            !warning.is_after_setup && process.is_some_and(|process| process.complete);
        let (weight, fix) = match (known, status) {
            _ if warning.is_trace && !is_repaired => (WarningSeverity::Fault, None),
            (Some(row), None) => (row.weight, row.fix.map(str::to_owned)),
            (Some(row), Some(_)) => {
                let fix =
                    "run `bedplate doctor rdma-connect` on that node and on the peer".to_owned();
                (row.weight, Some(fix))
            }
            (None, _) => (WarningSeverity::Note, None),
        };
        let means = match (known, status) {
            (_, Some((number, name, means))) => format!(": status {number}, {name}: {means}"),
            (Some(row), None) => format!(": {}", row.means),
            (None, None) => String::new(),
        };
        let more: String = warning.more.iter().map(|text| format!("; also: {text}")).collect();
        let verb = if warning.is_trace { "reports a failed call" } else { "warns" };
        let text = format!("{node} {verb}{means}: {}{more}", warning.text);
        let is_failure = weight == WarningSeverity::Fault;
        let is_effect = warning.is_trace
            || known.is_some_and(|row| row.is_effect)
            || status.is_some_and(|(number, ..)| *number == FLUSHED);
        let node = match known {
            // The reason is on the peer, if the text names it.
            Some(row) if row.is_effect => {
                log.node_in(&warning.text).filter(|peer| *peer != warning.host)
            }
            _ => Some(warning.host),
        };
        let (is_cause, seen) = (!is_effect, Some(warning.seen));
        findings.push(Finding { weight, is_cause, is_failure, text, node, seen, fix });
    }
}

/// Adds lines of launchers and programs that prove that the job failed or was ended. `is_explained`: a warning of NCCL
/// has the cause.
fn failures(log: &Log, is_explained: bool, findings: &mut Vec<Finding>) {
    let is_victim = |line: &FailureLine| ENDED.iter().any(|end| line.text.contains(end));
    let has_cause = log.failures.iter().any(|line| !is_victim(line));
    findings.extend(log.failures.iter().map(|line| Finding {
        weight: WarningSeverity::Fault,
        is_cause: !(is_explained || has_cause && is_victim(line)),
        is_failure: true,
        text: format!("{}: {}", line.failure.means, line.text),
        node: line.node,
        seen: Some(line.seen),
        fix: None,
    }));
}

/// Adds network plugins that failed to start. NCCL tries its own plugin too and continues with the next one.
fn plugins(log: &Log, findings: &mut Vec<Finding>) {
    for ((name, _), seen) in log.plugins.iter().filter(|((_, failed), _)| *failed) {
        findings.push(note(&format!("network plugin {name} failed to start"), Some(*seen)));
    }
}

/// Adds ranks that start setup without finishing: the job hangs there, or the log ends earlier.
fn unfinished(log: &Log, findings: &mut Vec<Finding>) {
    let those = || log.workers.iter().filter(|one| one.started.is_some() && !one.complete);
    if let Some(first) = those().filter_map(|one| one.started).min() {
        let text = format!("{}: setup starts but does not finish in the log", ranks(those()));
        let fix = "add the rest of the log; if it is whole, the job hung there: find the first error on the other nodes";
        let seen = Some(Tally { count: 1, first });
        findings.push(Finding { fix: Some(fix.to_owned()), ..note(&text, seen) });
    }
}

fn versions(log: &Log, findings: &mut Vec<Finding>) {
    if log.versions.len() > 1 {
        let names: Vec<&str> = log.versions.keys().map(|(version, _)| version.as_str()).collect();
        let text = format!("several versions in one log: {}", names.join(", "));
        let fix = "run the same version on all nodes of a job".to_owned();
        findings.push(Finding { fix: Some(fix), ..note(&text, last(log.versions.values())) });
    }
    let newest = Version::NEWEST;
    let newer = log.versions.iter().find(|((name, rccl), _)| {
        !rccl && Version::of_release(name).is_some_and(|version| version > newest)
    });
    if let Some(((name, _), seen)) = newer {
        let text =
            format!("NCCL {name} is newer than {newest}; its log is read as that of {newest}");
        findings.push(note(&text, Some(*seen)));
    }
}

/// Adds variables that differ between ranks, and those that disable required features.
fn environment(log: &Log, findings: &mut Vec<Finding>) {
    // Carrier used instead.
    let instead = |off: Off| match off {
        Off::Rdma => Some(Carrier::Sockets),
        Off::DmaBuf | Off::GpuDirect => Some(Carrier::Staged),
        Off::PeerToPeer | Off::SharedMemory => None,
    };
    for (name, values) in &log.environment {
        for (value, seen) in values {
            if let Some(forced) = forces(name) {
                findings.push(note(&format!("{name}={value} sets {forced}"), Some(*seen)));
            }
            let Some(off) = switches_off(name, value) else { continue };
            let is_cause =
                instead(off).is_some_and(|instead| total(log.workers.iter(), instead) > 0);
            let what = off.description();
            let weight = if is_cause { WarningSeverity::Fault } else { WarningSeverity::Note };
            let text = format!("{name}={value} disables {what}");
            let fix = Some("remove it from the job's environment, unless intended".to_owned());
            let (is_failure, node, seen) = (false, None, Some(*seen));
            findings.push(Finding { weight, is_cause, is_failure, text, node, seen, fix });
        }
        if values.len() > 1 {
            let all: Vec<&str> = values.keys().map(String::as_str).take(4).collect();
            let text = format!("{name} differs between ranks: {}", all.join(", "));
            findings.push(note(&text, last(values.values())));
        }
    }
}

/// Returns the latest first position.
fn last<'t>(all: impl Iterator<Item = &'t Tally>) -> Option<Tally> {
    all.map(|seen| seen.first).max().map(|first| Tally { count: 1, first })
}

fn note(text: &str, seen: Option<Tally>) -> Finding {
    Finding {
        weight: WarningSeverity::Note,
        is_cause: false,
        is_failure: false,
        text: text.to_owned(),
        node: None,
        seen,
        fix: None,
    }
}
