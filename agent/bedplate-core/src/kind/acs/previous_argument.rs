//! An earlier argument that covers more ports than the newly computed one: it stays. Pure.

use std::collections::BTreeSet;

use super::guests::{are_certain, guests_below, used_by};
use super::{BootArguments, KEPT, token};
use crate::desired::{ArgSource, KernelArg};
use crate::kind::cmdline;
use crate::ledger::Ledger;
use crate::plan::Rationale;
use bedplate_base::value::PciAddress;
use bedplate_cmdline::{CommandLine, Token};
use bedplate_facts::Facts;

/// Whether the ledger has an argument for more ports than the new one, which covers only readable ports: dropping it would
/// enable redirect on the rest at the next boot.
pub(super) fn covers_more(new: &Token, ledger: &Ledger) -> bool {
    let new = named_by(new);
    let new: BTreeSet<PciAddress> = new.iter().filter_map(|device| device.parse().ok()).collect();
    let named: Vec<String> = owned(ledger).iter().flat_map(named_by).collect();
    named.iter().any(|device| device.parse().is_ok_and(|port: PciAddress| !new.contains(&port)))
}

/// Returns the earlier arguments for removal if they disable redirect above a VM, even while other facts are unknown.
pub(super) fn above_guests(
    ledger: &Ledger,
    facts: &Facts,
    to_come: &[PciAddress],
) -> Vec<KernelArg> {
    let Some(tree) = facts.pci.known() else { return Vec::new() };
    let guests = guests_below(tree, to_come);
    let earlier = owned(ledger);
    let BootArguments { config_acs, disable_redir } =
        BootArguments::of_line(&CommandLine::from_tokens(earlier.iter().cloned()));
    let opens = |port| token::may_open(config_acs.as_deref(), disable_redir.as_deref(), port);
    // A temporarily unreadable driver does not justify removing a working argument, and a reboot.
    let opened =
        guests.iter().find(|(port, functions)| opens(**port) && are_certain(tree, functions));
    let Some((port, functions)) = opened else { return Vec::new() };
    let why = Rationale::new(
        format!(
            "clears isolation bits of port {port}, below which {}: the guest's IOMMU group would include its neighbours",
            used_by(tree, functions, "")
        ),
        "Linux drivers/iommu/iommu.c; handbook §3.3",
    );
    let unwanted = |token| KernelArg { token, why: vec![why.clone()], from: ArgSource::Acs };
    earlier.into_iter().map(unwanted).collect()
}

/// Returns the ACS arguments that an earlier run put on the command line.
pub(super) fn owned(ledger: &Ledger) -> Vec<Token> {
    let mut owned = cmdline::owned(ledger);
    owned.retain(|token| KEPT.iter().any(|key| token.as_str().starts_with(&format!("{key}="))));
    owned
}

/// Whether the ledger has any ACS argument.
pub(super) fn has_argument(ledger: &Ledger) -> bool {
    owned(ledger).iter().any(|token| !named_by(token).is_empty())
}

/// Returns the devices that an argument names.
fn named_by(token: &Token) -> Vec<String> {
    let said = BootArguments::parse(token.as_str());
    let config = said.config_acs.iter().flat_map(|list| list.split(';'));
    let config = config.filter_map(|entry| entry.split_once('@')).map(|(_, device)| device);
    let redir = said.disable_redir.iter().flat_map(|list| list.split(';'));
    config.chain(redir).map(str::to_owned).collect()
}
