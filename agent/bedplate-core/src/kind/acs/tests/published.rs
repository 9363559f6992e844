//! Published arguments for real machines, compared with the plan for a description of them.

use super::*;
use crate::record::record;
use bedplate_facts::{Depth, observe};
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_testhosts::HostSpec;

/// Oracle's GB300 nodes; the file is a link to a case of its own.
const HOST: &str = include_str!("gb300-oracle.toml");

/// NVIDIA/nodewright-packages, nvidia-tuned profiles/service/oke/cx8-pci-config-acs.grub (handbook §14.1).
const PUBLISHED: &str = "pci=config_acs=\
    xx111x0@0008:00:00.0;xx110x1@0008:02:00.0;xx101x1@0008:02:03.0;\
    xx111x0@0009:00:00.0;xx110x1@0009:02:00.0;xx101x1@0009:02:01.0;\
    xx111x0@0018:00:00.0;xx110x1@0018:02:00.0;xx101x1@0018:02:03.0;\
    xx111x0@0019:00:00.0;xx110x1@0019:02:00.0;xx101x1@0019:02:01.0";

/// Sets the next kernel, which the engine normally determines.
fn facts(host: &Snapshot) -> Facts {
    let mut facts = observe(host, Depth::Plan);
    kernel(&mut facts, "6.17.0-1003-nvidia-64k");
    facts
}

fn oracle() -> Snapshot {
    HostSpec::from_toml(HOST).expect("a description").build()
}

#[test]
fn gb300_argument_matches_published_one() {
    let resolved = resolve(&direct(), &facts(&oracle()));
    assert_eq!(argument(&resolved), PUBLISHED);
    assert_eq!((&resolved.notes[..], &resolved.unknowns[..]), (&[][..], &[][..]));
    assert_eq!(resolved.acs.ports.len(), 12);
}

/// Two switches between root port and GPU: only the ports of the common one are named, as in rdma_topo.
#[test]
fn gb300_demo_argument_matches_published_one() {
    let demo = bedplate_testhosts::snapshot("gb300").expect("a demo");
    assert_eq!(argument(&resolve(&direct(), &facts(&demo))), PUBLISHED);
}

#[test]
fn recording_keeps_pairing_and_hides_serial_numbers() {
    let host = oracle();
    let recorded = record(&host);
    let text = recorded.to_text();
    for (path, node) in recorded.nodes() {
        let Node::File(bytes) = node else { continue };
        let file = String::from_utf8_lossy(bytes);
        assert!(!file.contains("MT25186") && !file.contains("7f7a3b5cafef"), "{path}");
    }
    let again = Snapshot::from_text(&text).expect("a snapshot");
    let live = resolve(&direct(), &facts(&host));
    assert_eq!(resolve(&direct(), &facts(&again)), live);
    assert_eq!(record(&again).to_text(), text);

    // Recorded before Vital Product Data and VFIO devices were included: the same bits, and only the pairing is unknown.
    let mut before = again.clone();
    let product_data: Vec<String> = again
        .nodes()
        .map(|(path, _)| path.to_owned())
        .filter(|path| path.ends_with("/vpd") || path.contains("vfio-dev"))
        .collect();
    assert_eq!(product_data.iter().filter(|path| path.ends_with("/vpd")).count(), 8);
    product_data.iter().for_each(|path| before.remove(path));
    let resolved = resolve(&direct(), &facts(&before));
    assert_eq!(resolved.arg.known().map(|arg| arg.token.as_str()), Some(PUBLISHED));
    assert_eq!((resolved.unknowns.len(), resolved.notes.len()), (0, 1));
    assert!(resolved.notes[0].text.contains("Vital Product Data"), "{:?}", resolved.notes);
}
