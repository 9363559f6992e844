//! Redacts host addresses in the files of an IMEX domain: equal ones stay equal, and none belongs to a host. Pure.

use std::net::IpAddr;

use super::lines::lines;
use super::masker::Masker;
use bedplate_facts::imex;

/// Returns the part of one of these files that a snapshot retains.
pub(super) fn redact(path: &str, text: &str, words: &mut Masker) -> String {
    match path {
        imex::CONFIG => lines(text, |line| {
            let path = line.trim().strip_prefix(imex::NODES_KEY)?.trim();
            let path = if path == imex::NODES { path.to_owned() } else { words.mask(path) };
            Some(format!("{}{path}", imex::NODES_KEY))
        }),
        imex::NODES => lines(text, |line| match line.trim().parse() {
            Ok(address) => Some(words.address(address).to_string()),
            Err(_) => (!imex::is_comment(line)).then(|| words.mask(line.trim())),
        }),
        imex::FIB_TRIE => own(imex::ipv4(text), words)
            .map(|address| format!("|-- {address}\n{}\n", imex::LOCAL))
            .collect(),
        _ => own(imex::ipv6(text), words)
            .filter_map(|address| match address {
                IpAddr::V6(address) => Some(format!("{:032x}\n", u128::from(address))),
                IpAddr::V4(_) => None,
            })
            .collect(),
    }
}

fn own(addresses: Vec<IpAddr>, words: &mut Masker) -> impl Iterator<Item = IpAddr> {
    let addresses = addresses.into_iter().filter(|address| !address.is_loopback());
    addresses.map(|address| words.address(address))
}
