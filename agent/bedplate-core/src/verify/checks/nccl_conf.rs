//! Whether the configuration file of jobs' collective library disables what the host has.

use super::super::unread::OrUnread as _;
use super::super::{
    Check, CheckInput, Evidence, Group, Judgement, NcclFinding, Outcome, Severity, Verdict,
};
use super::rdma::own_ports;
use super::topology::Candidates;
use bedplate_base::{Reading, counted};
use bedplate_facts::nccl_conf::Variable;
use bedplate_facts::pci::Function;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::topology::Distance;
use bedplate_nccl::switches::{Off, switches_off, takes};

pub(crate) const NCCL_CONF: Check = Check {
    id: "rdma.nccl-conf",
    group: Group::Rdma,
    verifies: "nccl.conf or rccl.conf disables nothing that GPUDirect RDMA needs",
    severity: Severity::Fail,
    needs_root: false,
    what: "The file for all jobs does not disable RDMA (NCCL_IB_DISABLE, NCCL_NET=Socket), GPUDirect RDMA \
           (NCCL_NET_GDR_LEVEL nearer than the GPUs' NICs), or DMA-BUF if nothing else registers GPU memory; and NCCL_IB_HCA \
           matches an active port of the GPUs' NICs. Disabled transfers between GPUs, disabled shared memory, and a missing \
           topology file are warnings. Settings of a job, or of a user's own .nccl.conf, are not visible.",
    why: "The file applies to every job that does not override it, and no job reports that it was read.",
    source: "handbook §8.4, §8.5, §8.6",
    how: "/etc/nccl.conf, with AMD GPUs /etc/rccl.conf; ports in /sys/class/infiniband; /sys/module/nvidia_peermem",
    judge: nccl_conf,
};

/// Parses a GDR level as the maximum distance of a NIC.
fn parse_level(level: &str) -> Option<Distance> {
    Some(match level {
        "PIX" | "1" => Distance::Pix,
        "PXB" | "2" => Distance::Pxb,
        _ => return None,
    })
}

/// Returns the feature that a variable disables on this host, with the verdict.
fn disabled_feature(input: &CheckInput<'_>, variable: &Variable) -> Option<(Verdict, String)> {
    let Variable { name, value, .. } = variable;
    match (switches_off(name, value), name.as_str()) {
        (Some(Off::DmaBuf), _) if input.observed.peermem == Reading::Known(true) => None,
        (Some(off @ (Off::Rdma | Off::GpuDirect | Off::DmaBuf)), _) => {
            Some((Verdict::Fail, off.description().to_owned()))
        }
        (Some(off), _) => Some((Verdict::Warn, off.description().to_owned())),
        (None, "NCCL_IB_HCA") => {
            let is_taken = |port: &&RdmaPort| {
                let (device, number) = port.name.split_once('/').unwrap_or((&port.name, "1"));
                port.is_active() && takes(value, device, number)
            };
            let has_one = own_ports(input).is_ok_and(|ports| ports.iter().any(is_taken));
            (!has_one).then(|| (Verdict::Fail, "any active port of the GPUs' NICs".to_owned()))
        }
        (None, "NCCL_NET_GDR_LEVEL" | "NCCL_IB_GDR_LEVEL") => {
            let reach = parse_level(value)?;
            let topology = input.topology().ok()?;
            let candidates = Candidates::new(topology, &input.rails);
            let is_beyond = |gpu: &&&Function| {
                candidates
                    .nearest(gpu)
                    .is_some_and(|(distance, _)| distance > reach && distance <= Distance::Pxb)
            };
            let beyond = input.gpus.iter().filter(is_beyond).count();
            (beyond > 0)
                .then(|| (Verdict::Fail, format!("GPUDirect RDMA of {}", counted(beyond, "GPU"))))
        }
        (None, "NCCL_TOPO_FILE") => (input.observed.nccl_conf.topology_file
            == Reading::Known(false))
        .then(|| (Verdict::Warn, "the topology file that it names, which is missing".to_owned())),
        _ => None,
    }
}

fn nccl_conf(input: &CheckInput<'_>) -> Judgement {
    input.some_gpus()?;
    let conf = &input.observed.nccl_conf;
    let Some(variables) = conf.variables.or_unread(conf.path)? else {
        return Ok(Outcome::pass("no file for all jobs").evidence("not there", conf.path));
    };
    let mut found: Vec<(Verdict, Evidence, String)> = Vec::new();
    for variable in variables {
        let Some((verdict, what)) = disabled_feature(input, variable) else { continue };
        let setting = format!("{}={}", variable.name, variable.value);
        let at = format!("{}:{}", conf.path, variable.line);
        found.push((verdict, Evidence { value: setting, source: at }, what));
    }
    let is_fault = |(verdict, ..): &(Verdict, Evidence, String)| *verdict == Verdict::Fail;
    found.sort_by_key(|one| !is_fault(one));
    let Some((verdict, ..)) = found.first() else {
        return Ok(Outcome::pass(format!(
            "{}, none disables anything",
            counted(variables.len(), "variable")
        ))
        .evidence("read", conf.path));
    };
    let same = |at: &str| -> Vec<String> {
        let same = found.iter().filter(|(one, seen, _)| one == verdict && seen.source != at);
        same.map(|(_, seen, _)| seen.source.clone()).collect()
    };
    let code = |(_, seen, what): &(Verdict, Evidence, String)| NcclFinding::SwitchedOff {
        setting: seen.value.clone(),
        at: seen.source.clone(),
        what: what.clone(),
        others: same(&seen.source),
    };
    Ok(Outcome::with_findings(*verdict, found.iter().map(code))
        .all_evidence(found.iter().map(|(_, seen, _)| seen.clone())))
}
