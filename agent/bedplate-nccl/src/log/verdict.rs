//! Verdict on a log: whether GPU memory crosses the network directly, and the evidence against it, with line numbers.
//! Pure.

use crate::switches::{Off, switches_off};
use std::collections::BTreeSet;

use serde::Serialize;

use super::completeness;
use super::warning_meanings::{WarningSeverity, meaning, status};
use super::{Carrier, Cause, Log, Tally, Worker};

/// Verdict on a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every connection between nodes uses GPUDirect RDMA.
    Direct,
    /// One node: the network was not used.
    OneNode,
    /// Connections between nodes use host memory or sockets.
    NotDirect,
    /// Faults are reported, and no connection is known to be indirect.
    Faults,
    /// The log does not show it.
    CannotTell,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Severity.
    pub weight: WarningSeverity,
    /// Whether it may explain other findings.
    pub is_cause: bool,
    /// Finding text, one sentence.
    pub text: String,
    /// First line that reports it, and the number of occurrences.
    pub seen: Option<Tally>,
    /// Fix.
    pub fix: Option<String>,
}

/// Verdict on a log, with its reason and findings.
#[derive(Debug)]
pub struct LogVerdict {
    /// Verdict.
    pub verdict: Verdict,
    /// Reason, one sentence.
    pub reason: String,
    /// Further findings, worst first.
    pub findings: Vec<Finding>,
}

/// Evaluates a log.
pub fn judge(log: &Log) -> LogVerdict {
    let mut findings = Vec::new();
    transports(log, &mut findings);
    causes(log, &mut findings);
    warnings(log, &mut findings);
    failures(log, &mut findings);
    plugins(log, &mut findings);
    unfinished(log, &mut findings);
    versions(log, &mut findings);
    environment(log, &mut findings);
    if let Some(lost) = log.lost {
        findings.push(note("unreadable NCCL lines", Some(lost)));
    }
    if log.cut {
        findings.push(note("too many distinct messages: only the first ones are counted", None));
    }
    let (verdict, reason) = word(log, &findings);
    findings.sort_by_key(|finding| {
        let first = finding.seen.map(|seen| seen.first);
        (std::cmp::Reverse(finding.weight), !finding.is_cause, first)
    });
    LogVerdict { verdict, reason, findings }
}

fn word(log: &Log, findings: &[Finding]) -> (Verdict, String) {
    let (verdict, reason) = of_what_is_shown(log, findings);
    // A positive verdict requires the whole job.
    let doubt = match verdict {
        Verdict::Direct | Verdict::OneNode => completeness::missing(log),
        Verdict::NotDirect | Verdict::Faults | Verdict::CannotTell => None,
    };
    match doubt {
        Some(doubt) => (Verdict::CannotTell, format!("{doubt}; in the part shown, {reason}")),
        None => (verdict, reason),
    }
}

fn of_what_is_shown(log: &Log, findings: &[Finding]) -> (Verdict, String) {
    let total = |carrier: Carrier| total(log, carrier);
    let [direct, staged, sockets, fabric, peer, shm, _] = Carrier::ALL.map(total);
    let failed = findings.iter().any(|finding| finding.weight == WarningSeverity::Fault);
    let wanted = "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH";
    match () {
        () if log.said == 0 && !failed => {
            (Verdict::CannotTell, format!("the log has no line from NCCL: {wanted}"))
        }
        () if sockets + staged > 0 => {
            let words = match (staged, sockets, direct) {
                (0, _, 0) => "all connections between nodes use TCP sockets".to_owned(),
                (_, 0, 0) => "all connections between nodes go through host memory".to_owned(),
                _ => format!(
                    "connections between nodes: {direct} direct, {staged} through host memory, {sockets} TCP sockets"
                ),
            };
            (Verdict::NotDirect, words)
        }
        () if failed && direct > 0 => {
            let all = connections(direct, "between nodes");
            (Verdict::Faults, format!("{all} GPUDirect RDMA, but faults are reported"))
        }
        () if failed => (Verdict::Faults, "see the faults below".to_owned()),
        () if direct > 0 => {
            (Verdict::Direct, connections(direct, "between nodes") + " GPUDirect RDMA")
        }
        () if log.hosts.len() > 1 && fabric > 0 => (
            Verdict::Direct,
            "all connections use NVLink, including those between nodes (MNNVL)".to_owned(),
        ),
        () if log.hosts.len() == 1 && fabric + peer + shm > 0 => {
            (Verdict::OneNode, "one node; all connections are within it".to_owned())
        }
        () => (
            Verdict::CannotTell,
            format!("the log does not show how the ranks are connected: {wanted}"),
        ),
    }
}

fn connections(count: u64, which: &str) -> String {
    match count {
        1 => format!("the only connection {which} uses"),
        _ => format!("all {count} connections {which} use"),
    }
}

fn total(log: &Log, carrier: Carrier) -> u64 {
    let of = |worker: &Worker| worker.carriers[carrier as usize].map_or(0, |seen| seen.count);
    log.workers.iter().map(of).sum()
}

/// Returns the human-readable ranks: `ranks 0-3 7`; GPUs with an unknown rank are counted.
pub fn ranks<'w>(workers: impl Iterator<Item = &'w Worker>) -> String {
    let (mut known, mut unknown) = (BTreeSet::new(), 0);
    for worker in workers {
        match worker.rank {
            Some((rank, _)) => _ = known.insert(rank),
            None => unknown += 1,
        }
    }
    let single = known.len() == 1;
    let spans = bedplate_base::ranges(known);
    match spans.len() {
        0 => format!("{} with unknown ranks", bedplate_base::counted(unknown, "GPU")),
        1 if single => format!("rank {}", spans[0]),
        1..=16 => format!("ranks {}", spans.join(" ")),
        _ => format!("ranks {} …", spans[..16].join(" ")),
    }
}

/// Adds ranks with indirect connections, by node.
fn transports(log: &Log, findings: &mut Vec<Finding>) {
    let mut by_host: Vec<Vec<&Worker>> = vec![Vec::new(); log.hosts.len()];
    log.workers.iter().for_each(|one| by_host[one.host].push(one));
    for (name, workers) in log.hosts.iter().zip(by_host) {
        for (carrier, how) in [
            (Carrier::Sockets, "TCP sockets"),
            (Carrier::Staged, "host memory: no /GDRDMA on their connections"),
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
            let text = format!("{which} on {name} {verb} other nodes through {how}{by}");
            findings.push(Finding {
                weight: WarningSeverity::Fault,
                is_cause: false,
                text,
                seen: Some(Tally { count, first }),
                fix: None,
            });
        }
    }
}

/// Adds the reasons that NCCL reports. If all connections are direct in the end, they are not faults.
fn causes(log: &Log, findings: &mut Vec<Finding>) {
    let slow = [Carrier::Sockets, Carrier::Staged];
    let is_slow = |one: &&Worker| slow.iter().any(|at| one.carriers[*at as usize].is_some());
    let slow_hosts: BTreeSet<usize> =
        log.workers.iter().filter(is_slow).map(|one| one.host).collect();
    let any = log.workers.iter().any(|one| one.carriers.iter().any(Option::is_some));
    let harmed = |host: usize| !any || slow_hosts.contains(&host);
    for ((cause, host), seen) in &log.causes {
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
                format!("{node}: a NIC is beyond the GDR level of its GPU"),
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
        findings.push(Finding { weight, is_cause: true, text, seen: Some(*seen), fix });
    }
}

fn warnings(log: &Log, findings: &mut Vec<Finding>) {
    for warning in &log.warnings {
        let known = meaning(&warning.text).filter(|_| !warning.is_trace);
        let node = &log.hosts[warning.host];
        let status = status(&warning.text);
        // A failed call before a setup that succeeds in the end was not needed.
        let is_repaired = !warning.is_after_setup && log.workers[warning.worker].complete;
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
        let seen = Some(warning.seen);
        findings.push(Finding { weight, is_cause: true, text, seen, fix });
    }
}

/// Adds lines of launchers and programs that prove that the job failed or was ended.
fn failures(log: &Log, findings: &mut Vec<Finding>) {
    findings.extend(log.failures.iter().map(|line| Finding {
        weight: WarningSeverity::Fault,
        is_cause: true,
        text: format!("{}: {}", line.failure.means, line.text),
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
        let fix = "if the job hangs, find the first error on the other nodes";
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
            let Some(off) = switches_off(name, value) else { continue };
            let is_cause = instead(off).is_some_and(|instead| total(log, instead) > 0);
            let what = off.description();
            let weight = if is_cause { WarningSeverity::Fault } else { WarningSeverity::Note };
            let text = format!("{name}={value} disables {what}");
            let fix = Some("remove it from the job's environment, unless intended".to_owned());
            findings.push(Finding { weight, is_cause, text, seen: Some(*seen), fix });
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
        text: text.to_owned(),
        seen,
        fix: None,
    }
}
