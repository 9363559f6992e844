//! An argument of an earlier run that covers more than the one that can be worked out now: it stays. Pure.

use std::collections::BTreeSet;

use super::{BootArguments, KEPT, NAME, token};
use crate::desired::Desired;
use crate::kind::cmdline;
use crate::ledger::Ledger;
use crate::value::PciAddress;

/// Where something about ACS cannot be read now, the argument is for the other ports only. If the ledger has one that names more
/// ports, that one stays: the ports that cannot be read would be closed at the next boot. One that opens a port above a guest
/// does not.
pub fn keep_wider(desired: &mut Desired, ledger: &Ledger) {
    if !desired.unknowns.iter().any(|unknown| unknown.kind == NAME) {
        return;
    }
    let Some(at) = desired.cmdline.set.iter().position(|arg| arg.from == NAME) else { return };
    let new = devices(&BootArguments::of(&desired.cmdline.set[at].token));
    let new: BTreeSet<PciAddress> = new.iter().filter_map(|device| device.parse().ok()).collect();
    let owned = ledger.owned.get(cmdline::KIND.name).map(Vec::as_slice).unwrap_or_default();
    let earlier: Vec<BootArguments> = owned.iter().map(|token| BootArguments::of(token)).collect();
    let names_more = earlier
        .iter()
        .flat_map(devices)
        .any(|device| device.parse().is_ok_and(|port: PciAddress| !new.contains(&port)));
    let opens_a_guests_port =
        desired.acs.ports.iter().filter(|port| port.exposes_guests()).any(|port| {
            earlier.iter().any(|said| {
                token::may_open(
                    said.config_acs.as_deref(),
                    said.disable_redir.as_deref(),
                    port.port,
                )
            })
        });
    if names_more && !opens_a_guests_port {
        desired.cmdline.set.remove(at);
        desired.cmdline.keep.extend(KEPT.map(str::to_owned));
    }
}

/// The devices that an argument names.
fn devices(said: &BootArguments) -> Vec<String> {
    let config = said.config_acs.iter().flat_map(|list| list.split(';'));
    let config = config.filter_map(|entry| entry.split_once('@')).map(|(_, device)| device);
    let redir = said.disable_redir.iter().flat_map(|list| list.split(';'));
    config.chain(redir).map(str::to_owned).collect()
}
