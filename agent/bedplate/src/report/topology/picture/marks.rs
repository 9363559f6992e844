//! Abnormal and unknown states of links: slower or narrower than both ends support, or redirected by ACS. Uses the
//! rules of the checks `pcie.link-*` and `acs.path`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::TopologyView;
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_core::kind::acs;
use bedplate_facts::pci::Function;
use bedplate_facts::topology::pcie_link::{self, Property};

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// At the maximum that both ends support.
    Best,
    /// Slower, at a GPU. GPUs reduce the speed when idle.
    Idle,
    /// Slower or narrower than both ends support.
    Degraded,
    /// Unreadable.
    Unknown,
}

/// ACS redirect on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Redirect {
    /// These bits redirect traffic that should pass directly.
    On(AcsBits),
    /// The same, required because a function below is assigned to a VM.
    ForGuests(AcsBits),
    /// The register could not be read.
    Unknown,
}

/// State of the link between a box and the one above it.
pub(super) struct Mark<'a> {
    /// Port above, if there is a readable link.
    pub above: Option<&'a Function>,
    /// State of the link.
    pub state: State,
    /// Speed of the link.
    pub speed: Property,
    /// Width of the link.
    pub width: Property,
    /// ACS redirect, if any.
    pub redirect: Option<Redirect>,
}

/// ACS redirect at each port on the path between GPUs and devices that share a switch.
pub(super) struct Ports(BTreeMap<PciAddress, Redirect>);

impl Ports {
    /// Inspects every port between a GPU and devices that share a switch with it.
    pub(super) fn new(shown: &TopologyView) -> Self {
        let tree = shown.topology.tree();
        let wanted = acs::resolve(&acs::for_direct_traffic(), shown.facts).acs.ports;
        let wanted: BTreeMap<PciAddress, _> =
            wanted.iter().map(|wanted| (wanted.port, wanted)).collect();
        let pairs = shown.topology.pairs();
        let way = pairs.iter().flat_map(|pair| pair.legs.iter().chain([&pair.switch]));
        let way: BTreeSet<PciAddress> = way.copied().collect();
        let redirect = |port: &PciAddress| match (&tree.get(*port)?.acs, wanted.get(port)) {
            (Reading::Unknown(_), _) => Some(Redirect::Unknown),
            (Reading::Known(acs), Some(wanted)) => match wanted.redirects(acs.control) {
                bits if bits.is_empty() => None,
                bits if wanted.vfio_below.is_empty() => Some(Redirect::On(bits)),
                bits => Some(Redirect::ForGuests(bits)),
            },
            _ => None,
        };
        Ports(way.iter().filter_map(|port| Some((*port, redirect(port)?))).collect())
    }

    /// Returns the state of the link above a function.
    pub(super) fn mark<'a>(&self, shown: &TopologyView<'a>, function: &'a Function) -> Mark<'a> {
        let above = function.parent.and_then(|port| shown.topology.tree().get(port));
        let unknown = Property { now: None, best: None };
        let (speed, width) = above.map_or((unknown, unknown), |above| {
            (pcie_link::speed(function, above), pcie_link::width(function, above))
        });
        let state = match (above.is_some(), width.is_degraded(), speed.is_degraded()) {
            (false, ..) => State::Best,
            (_, true, _) => State::Degraded,
            (_, _, true) if function.is_gpu() => State::Idle,
            (_, _, true) => State::Degraded,
            _ if speed.is_known() && width.is_known() => State::Best,
            _ => State::Unknown,
        };
        let ports = [above.map(|above| above.address), Some(function.address)];
        let redirect = ports.into_iter().flatten().find_map(|port| self.0.get(&port).copied());
        Mark { above, state, speed, width, redirect }
    }
}
