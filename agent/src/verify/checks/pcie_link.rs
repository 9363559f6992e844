//! PCIe links: what each runs at, against what both of its ends can do.

use super::super::{Check, Evidence, Explain, Group, Judgement, Outcome, Seen, Severity};
use super::pcie::{endpoints, links};
use super::{counted, named};
use crate::facts::pci::Function;
use crate::topology::link::{self, Property};

/// `pcie.link-width`.
pub const WIDTH: Check = Check {
    id: "pcie.link-width",
    group: Group::Pcie,
    proves: "links of GPUs, RDMA NICs and the switches above them use all lanes that both ends have",
    severity: Severity::Fail,
    needs_root: false,
    explain: Explain {
        what: "Each link from a GPU or RDMA NIC up to the root complex has as many lanes as the end with fewer of them can have.",
        why: "A link that came up narrower has lost bandwidth for good: a card not seated, a bad riser, a slot that shares its \
              lanes. Unlike the speed, no device changes its width when it is idle.",
        source: "handbook §6.1, §7, §11",
        how: "link capability and link status in config space; for ordinary users current_link_width and max_link_width",
    },
    judge: width,
};

/// `pcie.link-speed`.
pub const SPEED: Check = Check {
    id: "pcie.link-speed",
    group: Group::Pcie,
    proves: "links of GPUs, RDMA NICs and the switches above them run at the speed that both ends have",
    severity: Severity::Warn,
    needs_root: false,
    explain: Explain {
        what: "Each link from a GPU or RDMA NIC up to the root complex runs at the highest speed that both ends can. A GPU's own \
               link that is slower is not judged: GPUs lower the speed of an idle link.",
        why: "A link that has trained down to 8 GT/s carries a quarter of what 32 GT/s carries.",
        source: "handbook §6.1, §7, §11",
        how: "link capability and link status in config space; for ordinary users current_link_speed and max_link_speed",
    },
    judge: speed,
};

const AT: &str = "link status and link capability of both ends";

/// A link: what is below, the port above, and a property of it.
struct Judged<'a> {
    below: &'a Function,
    above: &'a Function,
    property: Property,
}

/// All links by one of their properties.
fn judged<'a>(
    evidence: &'a Evidence<'_>,
    property: fn(&Function, &Function) -> Property,
) -> Result<Vec<Judged<'a>>, Outcome> {
    let links = links(evidence.topology()?, &endpoints(evidence));
    let row = |(below, above): (&'a Function, &'a Function)| Judged {
        below,
        above,
        property: property(below, above),
    };
    let all: Vec<Judged<'_>> = links.into_iter().map(row).collect();
    match all.is_empty() {
        true => Err(Outcome::not_applicable("no GPU and no RDMA NIC below a port")),
        false => Ok(all),
    }
}

fn unread(links: &[Judged<'_>]) -> Option<Outcome> {
    let unknown: Vec<&Function> =
        links.iter().filter(|link| !link.property.is_known()).map(|link| link.below).collect();
    let first = unknown.first()?;
    let text = format!("the link of {} is not known", named(&unknown, "functions"));
    Some(
        Outcome::unknown(text)
            .seen("not to be read, or zero", first.attribute("current_link_width")),
    )
}

fn width(evidence: &Evidence<'_>) -> Judgement {
    let links = judged(evidence, link::width)?;
    let degraded: Vec<&Judged<'_>> =
        links.iter().filter(|link| link.property.is_degraded()).collect();
    if degraded.is_empty() {
        return Ok(unread(&links).unwrap_or_else(|| {
            Outcome::pass(format!(
                "{} of the widest that both ends can",
                counted(links.len(), "link")
            ))
        }));
    }
    let functions: Vec<&Function> = degraded.iter().map(|link| link.below).collect();
    Ok(Outcome::fail(format!("{}: fewer lanes than both ends have", named(&functions, "links")))
        .all_seen(degraded.iter().map(|link| seen(link, |lanes| format!("x{lanes}"))))
        .remedy("power the host off, reseat the card and its riser or cable; if it stays, the slot or the card is bad"))
}

fn speed(evidence: &Evidence<'_>) -> Judgement {
    let links = judged(evidence, link::speed)?;
    let degraded: Vec<&Judged<'_>> =
        links.iter().filter(|link| link.property.is_degraded()).collect();
    let (idle, slow): (Vec<_>, Vec<_>) = degraded.into_iter().partition(|link| link.below.is_gpu());
    if !slow.is_empty() {
        let functions: Vec<&Function> = slow.iter().map(|link| link.below).collect();
        return Ok(Outcome::warn(format!("{}: the link runs slower than both ends can", named(&functions, "links")))
            .all_seen(slow.iter().map(|link| seen(link, link::in_words)))
            .remedy(
                "`dmesg | grep -i 'limited by'`; reseat the card and its riser or cable; look for a speed limit of the slot in the \
                 firmware's setup",
            ));
    }
    if let Some(outcome) = unread(&links) {
        return Ok(outcome);
    }
    if !idle.is_empty() {
        let functions: Vec<&Function> = idle.iter().map(|link| link.below).collect();
        let text = format!(
            "GPU {}: the link runs slower than it can, which is what an idle GPU does; all others are at their best",
            named(&functions, "GPUs")
        );
        return Ok(Outcome::unknown(text)
            .all_seen(idle.iter().map(|link| seen(link, link::in_words)))
            .remedy("`bedplate verify --check pcie.link-speed` while the GPUs are at work"));
    }
    Ok(Outcome::pass(format!(
        "{} of the highest speed that both ends can",
        counted(links.len(), "link")
    )))
}

/// `0000:18:00.0 below port 0000:17:00.0: x8 of x16`.
fn seen(link: &Judged<'_>, words: impl Fn(u32) -> String) -> Seen {
    let shown = |number: Option<u32>| number.map_or("?".to_owned(), &words);
    Seen {
        what: format!(
            "{} below port {}: {} of {}",
            link.below.address,
            link.above.address,
            shown(link.property.now),
            shown(link.property.best)
        ),
        at: AT.to_owned(),
    }
}
