//! PCIe links: present width and speed, compared with the best that both ends support.

use super::super::unread::some;
use super::super::{
    Check, CheckInput, Evidence, Group, Judgement, Outcome, PcieLinkFinding, Severity,
};
use super::named;
use super::pcie::{endpoints, links};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, counted};
use bedplate_facts::pci::Function;
use bedplate_facts::topology::pcie_link::{self, Property};

pub(crate) const WIDTH: Check = Check {
    id: "pcie.link-width",
    group: Group::Pcie,
    verifies: "links of GPUs, RDMA NICs and the switches above them use all lanes that both ends have",
    severity: Severity::Fail,
    needs_root: false,
    what: "Each link from a GPU or RDMA NIC up to the root complex has as many lanes as its narrower end supports.",
    why: "A link that came up narrower has lost bandwidth permanently: a card not seated, a bad riser, a slot that shares \
          its lanes. Unlike the speed, the width never changes when a device is idle.",
    source: "handbook §6.1, §7, §11",
    how: "link capability and link status in config space; for ordinary users current_link_width and max_link_width",
    judge: width,
};

pub(crate) const SPEED: Check = Check {
    id: "pcie.link-speed",
    group: Group::Pcie,
    verifies: "links of RDMA NICs and switches run at the speed that both ends support",
    severity: Severity::Fail,
    needs_root: false,
    what: "Each link from a GPU or RDMA NIC up to the root complex, except the GPU's own, runs at the highest speed that \
           both ends support.",
    why: "A link that has trained down to 8 GT/s carries a quarter of what 32 GT/s carries.",
    source: "handbook §6.1, §7, §11",
    how: "link capability and link status in config space; for ordinary users current_link_speed and max_link_speed",
    judge: speed,
};

pub(crate) const GPU_SPEED: Check = Check {
    id: "pcie.gpu-link-speed",
    group: Group::Pcie,
    verifies: "the links of GPUs run at the speed that both ends support",
    severity: Severity::Warn,
    needs_root: false,
    what: "A GPU's own link runs at the highest speed that both ends support, and the slot is as fast as the GPU. For a \
           slower link the result is unknown: GPUs lower the speed of an idle link, and raise it under load.",
    why: "A link that has trained down to 8 GT/s carries a quarter of what 32 GT/s carries.",
    source: "handbook §6.1, §7, §11",
    how: "link capability and link status in config space; for ordinary users current_link_speed and max_link_speed",
    judge: gpu_speed,
};

const AT: &str = "link status and link capability of both ends";

/// A link: the lower function, the port above, and a property.
struct JudgedLink<'a> {
    below: &'a Function,
    above: &'a Function,
    property: Property,
}

/// Returns all links with one of their properties.
///
/// # Errors
/// The outcome to report if there is no link, or a bridge is unreadable and no known link is degraded.
fn judged<'a>(
    input: &'a CheckInput<'_>,
    property: fn(&Function, &Function) -> Property,
) -> Result<Vec<JudgedLink<'a>>, Outcome> {
    let links = links(input.topology()?, &endpoints(input));
    let row = |(below, above): (&'a Function, &'a Function)| JudgedLink {
        below,
        above,
        property: property(below, above),
    };
    let all: Vec<JudgedLink<'_>> = links.into_iter().map(row).collect();
    match (input.gap_above(), all.is_empty()) {
        // A degraded link takes precedence over a gap.
        (Some(gap), _) if !all.iter().any(|link| link.property.is_degraded()) => Err(gap),
        (_, true) => Err(Outcome::not_applicable("no GPU and no RDMA NIC below a port")),
        (_, false) => Ok(all),
    }
}

fn unread(links: &[JudgedLink<'_>]) -> Option<Outcome> {
    let unknown: Vec<&Function> =
        links.iter().filter(|link| !link.property.is_known()).map(|link| link.below).collect();
    let first = unknown.first()?;
    let text = format!("the link of {} is unknown", named(&unknown, "functions"));
    if let Some(Reading::Unknown(why)) = first.detail.as_ref().map(|detail| &detail.control) {
        return Some(super::super::unread::unread(&text, why));
    }
    Some(
        Outcome::unknown(text)
            .evidence("unreadable, or zero", first.attribute("current_link_width")),
    )
}

/// Returns links below the best that both ends support.
fn degraded<'l, 'a>(links: &'l [JudgedLink<'a>]) -> Vec<&'l JudgedLink<'a>> {
    links.iter().filter(|link| link.property.is_degraded()).collect()
}

fn passed(links: &[JudgedLink<'_>], how: &str) -> Outcome {
    Outcome::pass(format!("{} as {how} as both ends support", counted(links.len(), "link")))
}

fn width(input: &CheckInput<'_>) -> Judgement {
    let links = judged(input, pcie_link::width)?;
    let degraded = degraded(&links);
    if degraded.is_empty() {
        let outcome = unread(&links).or_else(|| narrow_slots(&links));
        return Ok(outcome.unwrap_or_else(|| passed(&links, "wide")));
    }
    let code = |link: &&JudgedLink<'_>| PcieLinkFinding::LinkNarrow {
        device: input.device(link.below),
        lanes: link.property.now,
        best: link.property.best,
    };
    Ok(Outcome::fail(degraded.iter().map(code))
        .all_evidence(degraded.iter().map(|link| seen(link, |lanes| format!("x{lanes}")))))
}

/// Reports cards with more lanes than the slot.
fn narrow_slots(links: &[JudgedLink<'_>]) -> Option<Outcome> {
    let lanes = |function: &Function| function.detail.as_ref()?.link.max_width;
    let code = |functions| PcieLinkFinding::SlotNarrow { functions };
    lesser_slots(links, lanes, |lanes| format!("x{lanes}"), code)
}

/// Reports cards that are faster than the slot.
fn slow_slots(links: &[JudgedLink<'_>]) -> Option<Outcome> {
    let best = |function: &Function| pcie_link::tenths(&function.detail.as_ref()?.link.max_speed);
    let code = |functions| PcieLinkFinding::SlotSlow { functions };
    lesser_slots(links, best, pcie_link::in_words, code)
}

/// Reports cards that are better than the slot. `best`: best value of a card or slot.
fn lesser_slots<T: PartialOrd>(
    links: &[JudgedLink<'_>],
    best: impl Fn(&Function) -> Option<T>,
    text: impl Fn(T) -> String,
    code: impl Fn(Vec<PciAddress>) -> PcieLinkFinding,
) -> Option<Outcome> {
    let is_lesser = |link: &&JudgedLink<'_>| {
        !link.below.is_bridge()
            && matches!((best(link.below), best(link.above)), (Some(card), Some(slot)) if slot < card)
    };
    let lesser: Vec<&JudgedLink<'_>> = links.iter().filter(is_lesser).collect();
    let functions: Vec<PciAddress> = lesser.iter().map(|link| link.below.address).collect();
    let shown = |function: &Function| best(function).map_or("?".to_owned(), &text);
    (!lesser.is_empty()).then(|| {
        Outcome::warn([code(functions)])
            .all_evidence(lesser.iter().map(|link| of_both(link, shown)))
    })
}

/// Returns the best values of card and slot as evidence.
fn of_both(link: &JudgedLink<'_>, shown: impl Fn(&Function) -> String) -> Evidence {
    let (below, above) = (link.below, link.above);
    Evidence::new(
        format!("{}: {}; port {}: {}", below.address, shown(below), above.address, shown(above)),
        AT,
    )
}

/// Returns the links of GPUs, or all other links, by speed.
fn speeds<'a>(input: &'a CheckInput<'_>, of_gpus: bool) -> Result<Vec<JudgedLink<'a>>, Outcome> {
    let mut links = judged(input, pcie_link::speed)?;
    links.retain(|link| link.below.is_gpu() == of_gpus);
    some(links, "no such link")
}

fn speed(input: &CheckInput<'_>) -> Judgement {
    let links = speeds(input, false)?;
    let slow = degraded(&links);
    if !slow.is_empty() {
        let code = |link: &&JudgedLink<'_>| PcieLinkFinding::LinkSlow {
            device: input.device(link.below),
            speed: link.property.now,
            best: link.property.best,
        };
        return Ok(Outcome::fail(slow.iter().map(code))
            .all_evidence(slow.iter().map(|link| seen(link, pcie_link::in_words))));
    }
    Ok(unread(&links).unwrap_or_else(|| passed(&links, "fast")))
}

fn gpu_speed(input: &CheckInput<'_>) -> Judgement {
    let links = speeds(input, true)?;
    if let Some(outcome) = unread(&links) {
        return Ok(outcome);
    }
    let idle = degraded(&links);
    if idle.is_empty() {
        return Ok(slow_slots(&links).unwrap_or_else(|| passed(&links, "fast")));
    }
    let functions: Vec<&Function> = idle.iter().map(|link| link.below).collect();
    let text = format!(
        "GPU {}: the link runs below its maximum speed, as on an idle GPU",
        named(&functions, "GPUs")
    );
    Ok(Outcome::unknown(text)
        .all_evidence(idle.iter().map(|link| seen(link, pcie_link::in_words)))
        .hint("run `bedplate verify --check pcie.gpu-link-speed` while the GPUs are under load"))
}

/// Formats a link: `0000:18:00.0 below port 0000:17:00.0: x8 of x16`.
fn seen(link: &JudgedLink<'_>, words: impl Fn(u32) -> String) -> Evidence {
    let shown = |number: Option<u32>| number.map_or("?".to_owned(), &words);
    Evidence::new(
        format!(
            "{} below port {}: {} of {}",
            link.below.address,
            link.above.address,
            shown(link.property.now),
            shown(link.property.best)
        ),
        AT,
    )
}
