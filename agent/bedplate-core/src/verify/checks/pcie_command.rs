//! The command register of PCIe functions: whether a device answers at all, and whether it may do DMA.

use std::collections::BTreeSet;

use super::super::unread::unread;
use super::super::{
    Check, CheckInput, DeviceFinding, Evidence, Group, Judgement, Outcome, Severity,
};
use bedplate_base::{Cause, Reason, counted};
use bedplate_facts::pci::Function;

const HOW: &str = "command register, in the first 64 bytes of the config space of GPUs, RDMA NICs, Data Direct functions and the \
                   bridges above them";

pub(crate) const ANSWER: Check = Check {
    id: "pcie.answer",
    group: Group::Pcie,
    verifies: "GPUs, RDMA NICs, Data Direct functions and the ports above them answer",
    severity: Severity::Fail,
    needs_root: false,
    what: "No GPU, RDMA NIC, Data Direct function or port above one returns all ones for every read of its config space. \
           Other checks ignore unresponsive devices.",
    why: "A device that fell off the bus, lost power or hangs stays listed until the kernel notices, and some drivers keep \
          its nodes: jobs hang on it. Unanswered reads return ones.",
    source: "handbook §7; Linux drivers/pci/access.c, include/linux/pci.h PCI_POSSIBLE_ERROR",
    how: HOW,
    judge: answer,
};

pub(crate) const BUS_MASTER: Check = Check {
    id: "pcie.bus-master",
    group: Group::Pcie,
    verifies: "GPUs, RDMA NICs and Data Direct functions may do DMA, and the ports above them forward it",
    severity: Severity::Fail,
    needs_root: false,
    what: "Bus Master Enable is on in each GPU, RDMA NIC and Data Direct function that has a driver, and in each bridge above one.",
    why: "A function without it sends no memory requests, and a bridge without it forwards none upstream. Drivers enable it; \
          setpci, or a reset without a restore, leaves it off.",
    source: "handbook §7; PCI Express base specification, command register, bit 2; Linux drivers/pci/pci.c pci_set_master, \
             pci_enable_bridge",
    how: HOW,
    judge: bus_master,
};

/// Returns functions that the host itself uses, including unresponsive ones, and the bridges above them, each once.
fn all<'a>(input: &CheckInput<'a>, is_wanted: impl Fn(&Function) -> bool) -> Vec<&'a Function> {
    let Ok(topology) = input.topology() else { return Vec::new() };
    let tree = topology.tree();
    let carriers = [&input.dead[..], &input.gpus, &input.rdma_nics, &input.data_direct].concat();
    let carriers = carriers.into_iter().filter(|function| is_wanted(function));
    let mut seen = BTreeSet::new();
    let with_path = carriers.flat_map(|function| {
        let bridges = tree.path_up(function.address).into_iter().filter_map(|at| tree.get(at));
        [function].into_iter().chain(bridges)
    });
    with_path.filter(|function| seen.insert(function.address)).collect()
}

fn command(function: &Function) -> Result<Option<bool>, &Reason> {
    let Some(detail) = &function.detail else { return Ok(None) };
    Ok(detail.bus_master.optional()?.copied())
}

fn seen(function: &Function, what: &str) -> Evidence {
    Evidence {
        value: format!("{}: {what}", function.address),
        source: function.attribute("config"),
    }
}

/// Returns the outcome for the first unreadable register, ignoring unresponsive functions.
fn first_unread(functions: &[&Function]) -> Option<Outcome> {
    functions.iter().find_map(|function| match command(function) {
        Err(why) if why.cause != Cause::NoAnswer => {
            Some(unread(format_args!("the command register of {}", function.address), why))
        }
        _ => None,
    })
}

fn answer(input: &CheckInput<'_>) -> Judgement {
    input.topology()?;
    let all = all(input, |_| true);
    let dead: Vec<&Function> = all.iter().filter(|function| function.is_dead()).copied().collect();
    if !dead.is_empty() {
        let codes = dead.iter().map(|f| DeviceFinding::NoAnswer { device: input.device(f) });
        return Ok(
            Outcome::fail(codes).all_evidence(dead.iter().map(|function| seen(function, "ones")))
        );
    }
    if all.is_empty() {
        return Ok(Outcome::not_applicable("no GPU and no RDMA NIC used by the host itself"));
    }
    let answering = || match all.len() {
        1 => Outcome::pass("1 function answers"),
        count => Outcome::pass(format!("{count} functions answer")),
    };
    Ok(first_unread(&all).unwrap_or_else(answering))
}

fn bus_master(input: &CheckInput<'_>) -> Judgement {
    input.topology()?;
    let all = all(input, |function| function.driver.is_some() && !function.is_dead());
    let off: Vec<&Function> =
        all.iter().filter(|function| command(function) == Ok(Some(false))).copied().collect();
    if !off.is_empty() {
        let codes = off.iter().map(|f| DeviceFinding::BusMasterOff { device: input.device(f) });
        let seen = |function: &&Function| seen(function, "bit 2 of the command register is 0");
        return Ok(Outcome::fail(codes).all_evidence(off.iter().map(seen)));
    }
    if all.is_empty() {
        return Ok(Outcome::not_applicable("no GPU and no RDMA NIC with a driver"));
    }
    Ok(first_unread(&all).unwrap_or_else(|| {
        Outcome::pass(format!("{} may do DMA or forward it", counted(all.len(), "function")))
    }))
}
