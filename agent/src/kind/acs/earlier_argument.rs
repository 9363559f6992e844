//! An argument of an earlier run that covers more than the one that can be worked out now: it stays. Pure.

use std::collections::BTreeSet;

use super::{BootArguments, token};
use crate::desired::DesiredAcs;
use crate::kind::cmdline;
use crate::ledger::Ledger;
use crate::value::PciAddress;

/// Whether the ledger has an argument that names more ports than this new one, where the new one is only for the ports that can
/// be read: without the earlier one the others would be closed at the next boot. One that opens a port above a guest does not
/// count.
pub(super) fn covers_more(new: &str, acs: &DesiredAcs, ledger: &Ledger) -> bool {
    let new = devices(&BootArguments::of(new));
    let new: BTreeSet<PciAddress> = new.iter().filter_map(|device| device.parse().ok()).collect();
    let owned = ledger.owned.get(cmdline::KIND.name).map(Vec::as_slice).unwrap_or_default();
    let earlier: Vec<BootArguments> = owned.iter().map(|token| BootArguments::of(token)).collect();
    let names_more = earlier
        .iter()
        .flat_map(devices)
        .any(|device| device.parse().is_ok_and(|port: PciAddress| !new.contains(&port)));
    let opens_a_guests_port = acs.ports.iter().filter(|port| port.exposes_guests()).any(|port| {
        earlier.iter().any(|said| {
            token::may_open(said.config_acs.as_deref(), said.disable_redir.as_deref(), port.port)
        })
    });
    names_more && !opens_a_guests_port
}

/// Whether the ledger has an argument for ACS at all.
pub(super) fn has_argument(ledger: &Ledger) -> bool {
    let owned = ledger.owned.get(cmdline::KIND.name).map(Vec::as_slice).unwrap_or_default();
    owned.iter().any(|token| !devices(&BootArguments::of(token)).is_empty())
}

/// The devices that an argument names.
fn devices(said: &BootArguments) -> Vec<String> {
    let config = said.config_acs.iter().flat_map(|list| list.split(';'));
    let config = config.filter_map(|entry| entry.split_once('@')).map(|(_, device)| device);
    let redir = said.disable_redir.iter().flat_map(|list| list.split(';'));
    config.chain(redir).map(str::to_owned).collect()
}
