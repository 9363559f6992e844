//! Diagnoses the nodes of a log.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cli::{CliError, HostArgs, host, output, verify};
use crate::report::nccl_log::OnNode;
use bedplate_base::terminal::brief;
use bedplate_core::doctor::{Answer, find};
use bedplate_core::verify::Selection;
use bedplate_facts::Facts;
use bedplate_host::{DirReader, Reader as HostReader};
use bedplate_nccl::log::Worker;
use bedplate_nccl::log::verdict::{Finding, LogVerdict, ranks};
use bedplate_nccl::log::warning_meanings::WarningSeverity;
use bedplate_nccl::log::{Carrier, Log};
use bedplate_nccl::ports;

/// File with the hostname, as the host's processes see it.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Returns the node of the log that is this machine.
pub(in crate::cli) fn own_node(log: &Log) -> Option<usize> {
    let own = own_name();
    log.hosts.iter().position(|host| same(host, own.trim()))
}

/// Whether this machine has a host name.
pub(in crate::cli) fn is_own_name(host: &str) -> bool {
    same(host, own_name().trim())
}

fn own_name() -> String {
    DirReader::live().text(HOSTNAME).unwrap_or_default()
}

/// Diagnoses the nodes of the log: from snapshots with a node's name, or on this machine if it is one of the nodes.
pub(in crate::cli) fn on_nodes(
    args: &HostArgs,
    log: &Log,
    judged: &LogVerdict,
) -> Result<Vec<OnNode>, CliError> {
    let is_cause = |finding: &Finding| finding.is_cause && finding.weight == WarningSeverity::Fault;
    let explained = judged.findings.iter().any(is_cause);
    let mut found = Vec::new();
    if args.is_this_host() {
        let Some(at) = own_node(log) else { return Ok(found) };
        host::each(args, |opened| diagnose_node(opened, log, at, explained, &mut found))?;
        return Ok(found);
    }
    let mut met = BTreeSet::new();
    host::each(args, |opened| {
        let stem = opened.snapshot.as_deref().map(Path::new).and_then(Path::file_stem);
        let name = stem.map(|stem| stem.to_string_lossy().into_owned());
        let at = name.and_then(|name| log.hosts.iter().position(|host| same(host, &name)));
        // A demo host stands for the first node.
        let at = at.or(args.demo.is_some().then_some(0).filter(|_| !log.hosts.is_empty()));
        let Some(at) = at else {
            let file = opened.snapshot.as_deref().unwrap_or("the host");
            output::warn(&format!(
                "{file} is not named after a node of the log; not searched for causes"
            ));
            return Ok(());
        };
        met.insert(at);
        diagnose_node(opened, log, at, explained, &mut found)
    })?;
    let slow = [Carrier::Sockets, Carrier::Staged].map(|carrier| carrier as usize);
    let is_slow = |worker: &&Worker| slow.iter().any(|at| worker.carriers[*at].is_some());
    let missing: BTreeSet<usize> = log.workers.iter().filter(is_slow).map(|one| one.host).collect();
    for at in missing.difference(&met) {
        output::warn(&format!(
            "no snapshot is named after {}; the node's own state is unknown",
            log.hosts[*at]
        ));
    }
    Ok(found)
}

/// Compares host names: `node-7` and `node-7.cluster.example` are equal.
fn same(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    !b.is_empty() && (a == b || short(a) == short(b))
}

/// Adds the causes on the node for the slow connections of its ranks.
fn diagnose_node(
    opened: &host::OpenHost,
    log: &Log,
    at: usize,
    explained: bool,
    found: &mut Vec<OnNode>,
) -> Result<(), CliError> {
    let verified = verify::verified(opened, None, &Selection::default())?;
    let uses = |carrier: Carrier| {
        log.workers
            .iter()
            .filter(move |one| one.host == at && one.carriers[carrier as usize].is_some())
    };
    for (symptom, carrier) in
        [("socket-fallback", Carrier::Sockets), ("gdr-disabled", Carrier::Staged)]
    {
        let Some(symptom) = find(symptom).filter(|_| uses(carrier).next().is_some()) else {
            continue;
        };
        let diagnosis = symptom.diagnose(&verified.report, &verified.facts);
        let ranks = ranks(uses(carrier));
        let node = log.hosts[at].clone();
        let down = match carrier {
            Carrier::Sockets => ports_down(opened.reader.as_ref(), &verified.facts),
            _ => None,
        };
        if let Some(cause) = &down {
            found.push(OnNode {
                node: node.clone(),
                ranks: ranks.clone(),
                weight: WarningSeverity::Fault,
                cause: cause.clone(),
                fix: Some("run `bedplate doctor nic-down` on the node".to_owned()),
            });
        }
        if diagnosis.answer != Answer::Found && down.is_none() && !explained {
            found.push(OnNode {
                node: node.clone(),
                ranks: ranks.clone(),
                weight: WarningSeverity::Note,
                cause: "no known cause is present on the node now".to_owned(),
                fix: None,
            });
        }
        found.extend(diagnosis.causes.into_iter().map(|asked| OnNode {
            node: node.clone(),
            ranks: ranks.clone(),
            weight: WarningSeverity::Fault,
            cause: format!("{} ({})", asked.finding, asked.check),
            fix: asked.fix,
        }));
    }
    Ok(())
}

/// Returns the RDMA ports that jobs cannot use: `mlx5_3/1 is DOWN`.
fn ports_down(reader: &dyn HostReader, facts: &Facts) -> Option<String> {
    let ports = ports::of_host(reader, facts.pci.known()?);
    let down = ports.iter().filter_map(|one| {
        let state = one.port.state.known().filter(|_| !one.port.is_active())?;
        // The state has the form `1: DOWN`.
        let word = state.split(": ").last().unwrap_or(state);
        Some(format!("{} is {}", one.port.name, brief(word, 40)))
    });
    let down: Vec<String> = down.collect();
    (!down.is_empty()).then(|| down.join(", "))
}
