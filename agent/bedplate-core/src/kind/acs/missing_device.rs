//! Missing devices that an earlier argument covered: mostly a dead GPU or NIC that returns after a repair. The entries of
//! their ports stay on the kernel command line: removing and restoring them costs a cold reboot each, and on an empty port
//! they have no effect. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::{AcsPolicy, ArgSource, DesiredAcs, KernelArg};
use crate::kind::some_of;
use crate::ledger::Ledger;
use crate::plan::{Note, Rationale};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_cmdline::Token;
use bedplate_facts::pci::PciTree;

use super::guests::guests_below;
use super::previous_argument::owned;
use super::section::{self, AcsPersist, Guests};
use super::shape::{SHAPES, Shape};
use super::token::{may_open, of_entries};
use super::{BootArguments, NAME};

/// Entries of one of the two arguments, by port.
struct Entries {
    key: &'static str,
    by_port: BTreeMap<PciAddress, String>,
}

impl Entries {
    fn from_token(token: &Token) -> Option<Self> {
        let said = BootArguments::parse(token.as_str());
        let (key, list) = match (&said.config_acs, &said.disable_redir) {
            (Some(list), _) => ("config_acs", list),
            (None, Some(list)) => ("disable_acs_redir", list),
            (None, None) => return None,
        };
        let port = |entry: &str| {
            let device = entry.split_once('@').map_or(entry, |(_, device)| device);
            Some((device.parse().ok()?, entry.to_owned()))
        };
        // bedplate writes plain addresses; anything else is not its own.
        let by_port = list.split(';').map(port).collect::<Option<_>>()?;
        Some(Entries { key, by_port })
    }

    /// Returns the argument, unless it would be too long.
    fn token(&self) -> Option<Token> {
        let entries: Vec<String> = self.by_port.values().cloned().collect();
        of_entries(self.key, &entries)
    }
}

/// Returns the argument extended by earlier entries of missing devices, and a note about their ports.
pub(super) fn carried_over(
    arg: Reading<KernelArg>,
    profile: &section::Acs,
    acs: &DesiredAcs,
    tree: Option<&PciTree>,
    to_come: &[PciAddress],
    ledger: &Ledger,
) -> (Reading<KernelArg>, Option<Note>) {
    let mut earlier = owned(ledger).into_iter().filter_map(|token| Entries::from_token(&token));
    let (Some(tree), Some(earlier)) = (tree, earlier.next()) else { return (arg, None) };
    let new = match &arg {
        Reading::Known(new) => Entries::from_token(&new.token),
        // With no desired ports left, all of their devices may be missing.
        Reading::Absent if acs.ports.is_empty() => {
            Some(Entries { key: earlier.key, by_port: BTreeMap::new() })
        }
        Reading::Absent | Reading::Unknown(_) => None,
    };
    let is_for = profile.policy == AcsPolicy::DirectP2p && profile.persistence != AcsPersist::Live;
    let Some(mut new) = new.filter(|new| is_for && new.key == earlier.key) else {
        return (arg, None);
    };
    let missing: BTreeSet<PciAddress> = earlier
        .by_port
        .keys()
        .filter(|port| !new.by_port.contains_key(port) && is_empty(tree, **port))
        .copied()
        .collect();
    let carried = carried(&earlier, &new, &missing, profile, tree, to_come);
    let named: Vec<PciAddress> =
        missing.into_iter().filter(|port| carried.contains_key(port)).collect();
    new.by_port.extend(carried);
    let Some(token) = new.token().filter(|_| !named.is_empty()) else { return (arg, None) };
    let text = "no device below it: the earlier kernel argument keeps its entry until the missing device returns; \
                until then it has no effect";
    let subject = format!("port {}", some_of(named.iter().map(PciAddress::to_string), 4, "ports"));
    let why = match arg {
        Reading::Known(arg) => arg.why,
        _ => vec![Rationale::because("its devices are missing and may return")],
    };
    let note = NAME.note(subject, text.to_owned());
    (Reading::Known(KernelArg { token, why, from: ArgSource::Acs }), Some(note))
}

/// Returns the entries to carry over: of empty ports, of ports above them, and of a PCIe tree with no other desired port.
/// Omits entries that would disable redirect above a VM, and entries with bits of no topology class under this profile.
fn carried(
    earlier: &Entries,
    new: &Entries,
    missing: &BTreeSet<PciAddress>,
    profile: &section::Acs,
    tree: &PciTree,
    to_come: &[PciAddress],
) -> BTreeMap<PciAddress, String> {
    let guests = guests_below(tree, to_come);
    let top = |port: PciAddress| tree.path_up(port).last().copied().unwrap_or(port);
    let still_wanted: BTreeSet<PciAddress> = new.by_port.keys().map(|port| top(*port)).collect();
    let above: BTreeSet<PciAddress> = missing.iter().flat_map(|port| tree.path_up(*port)).collect();
    let gone: BTreeSet<PciAddress> = missing.iter().map(|port| top(*port)).collect();
    let belongs = |port: &PciAddress| {
        let top = top(*port);
        missing.contains(port)
            || above.contains(port)
            || gone.contains(&top) && !still_wanted.contains(&top)
    };
    let opens = |port: &PciAddress, entry: &str| match earlier.key {
        "config_acs" => may_open(Some(entry), None, *port),
        _ => true,
    };
    earlier
        .by_port
        .iter()
        .filter(|(port, _)| !new.by_port.contains_key(port) && belongs(port))
        .filter(|(_, entry)| is_of_a_shape(entry, profile))
        .filter(|(port, entry)| !guests.contains_key(port) || !opens(port, entry))
        .map(|(port, entry)| (*port, entry.clone()))
        .collect()
}

/// Whether the port is missing, or has nothing below it.
fn is_empty(tree: &PciTree, port: PciAddress) -> bool {
    let below = |parent: &Option<PciAddress>| *parent == Some(port);
    !tree.functions.values().any(|function| below(&function.parent))
        && !tree.hidden.values().any(below)
}

/// Whether a topology class allowed by the profile has these bits; entries of another policy are dropped.
fn is_of_a_shape(entry: &str, profile: &section::Acs) -> bool {
    let Some((flags, _)) = entry.split_once('@') else { return true };
    let allowed = |shape| match profile.guests {
        Guests::Auto => true,
        Guests::Yes => shape != Shape::Switch,
        Guests::No => shape != Shape::SwitchForGuests,
    };
    let rows = SHAPES.iter().filter(|row| allowed(row.shape));
    rows.flat_map(|row| [row.nic, row.gpu, row.root, row.upstream])
        .any(|bits| bits.flags() == flags)
}
