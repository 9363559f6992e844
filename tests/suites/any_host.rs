//! Damaged host files (boot files, truncated config space, dangling links): bedplate observes, plans and reports without a
//! panic, without delay, and without control characters in its output.

use std::time::{Duration, Instant};

use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_tests::damage::{Damage, damage, hurt};
use bedplate_tests::whole_host::{LOADERS, base, everything, loaded};
use proptest::prelude::*;
use proptest::sample::Index;

fn hurt_node(node: &mut Node, damages: &[Damage]) {
    match node {
        Node::File(bytes) | Node::Start(bytes) => {
            damages.iter().for_each(|damage| hurt(bytes, damage))
        }
        Node::Link(target) => {
            let mut bytes = target.clone().into_bytes();
            damages.iter().for_each(|damage| hurt(&mut bytes, damage));
            *target = String::from_utf8_lossy(&bytes).into_owned();
        }
        Node::Config(config) => {
            for block in config.blocks.values_mut() {
                let length = block.len();
                damages.iter().for_each(|damage| hurt(block, damage));
                // Config space keeps its size. Truncated bytes read as ones, as from a removed device.
                block.resize(length, 0xff);
            }
        }
        Node::Dir(_) | Node::Absent | Node::Denied | Node::Failed(_) | Node::Present => {}
    }
}

proptest! {
    #![proptest_config(bedplate_tests::property::config(400))]

    #[test]
    fn damaged_files_cause_no_panic_or_delay(
        loader in 0..LOADERS.len(),
        profile in 0..64_usize,
        wounds in prop::collection::vec((any::<Index>(), prop::collection::vec(damage(), 1..4)), 1..4),
    ) {
        let mut host = base(loader);
        let wounded: Vec<String> = host
            .nodes()
            .filter(|(_, node)| matches!(node, Node::File(_) | Node::Start(_) | Node::Link(_) | Node::Config(_)))
            .map(|(path, _)| path.to_owned())
            .collect();
        for (which, damages) in &wounds {
            let path = which.get(&wounded);
            if let Some(mut node) = host.node(path).cloned() {
                hurt_node(&mut node, damages);
                host.insert(path, node);
            }
        }
        let started = Instant::now();
        let said = everything(&host, &loaded(profile));
        prop_assert!(started.elapsed() < Duration::from_secs(5), "it took {:?}", started.elapsed());
        let ours = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
        let rest = ours.iter().fold(said, |text, sequence| text.replace(sequence, ""));
        prop_assert!(!rest.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{rest:?}");
    }

    #[test]
    fn damaged_recordings_are_refused_or_read(damages in prop::collection::vec(damage(), 1..6)) {
        let mut bytes = base(0).to_text().into_bytes();
        damages.iter().for_each(|damage| hurt(&mut bytes, damage));
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(host) = Snapshot::from_text(&text) {
            everything(&host, &loaded(0));
        }
    }
}
