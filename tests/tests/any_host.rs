//! Whatever the files of a host hold, it is observed, planned for and reported: damaged boot files, cut config space,
//! links that lead nowhere. Nothing panics, nothing takes long, and no report can steer a terminal.

use std::time::{Duration, Instant};

use bedplate::demo::HostSpec;
use bedplate::engine::{self, observe};
use bedplate::facts::Depth;
use bedplate::facts::names::Names;
use bedplate::host::snapshot::{Node, Snapshot};
use bedplate::ledger::Ledger;
use bedplate::profile::{LayerText, Loaded, load, shipped};
use bedplate::report::{diff, inspect, json, style, text};
use proptest::prelude::*;
use proptest::sample::Index;

const LOADERS: [&str; 9] =
    ["debian", "rhel9", "rhel8", "suse", "systemd-boot", "uki", "rpm-ostree", "bootc", "talos"];

/// Pieces that mean something to one of the readers, and pieces that mean nothing to any.
const PIECES: [&str; 44] = [
    "\"",
    "'",
    "\\",
    "\n",
    "\r\n",
    "\t",
    " ",
    "$",
    "`",
    "=",
    "{",
    "}",
    "(",
    ")",
    "-",
    "--",
    ",",
    ";",
    ";;",
    ":",
    ".",
    "#",
    "\0",
    "\u{1b}",
    "\u{feff}",
    "é",
    "日",
    "menuentry '",
    "submenu x {",
    "if ",
    "fi",
    "function f {",
    "${x",
    "$(",
    "[[",
    "pci=",
    "iommu=",
    "hugepages=",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"",
    "set default=",
    "saved_entry=",
    "99999999999999999999999",
    "-1",
    "options ",
];

/// One change to some bytes.
#[derive(Debug, Clone)]
enum Damage {
    Cut(Index),
    Insert(Index, usize),
    Byte(Index, u8),
    Drop(Index, usize),
    Repeat(Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), 0..PIECES.len()).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        (any::<Index>(), 1..20_usize).prop_map(|(at, length)| Damage::Drop(at, length)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

fn hurt(bytes: &mut Vec<u8>, damage: &Damage) {
    let length = bytes.len();
    match damage {
        Damage::Cut(at) => bytes.truncate(at.index(length + 1)),
        Damage::Insert(at, piece) => {
            let at = at.index(length + 1);
            bytes.splice(at..at, PIECES[*piece].bytes());
        }
        Damage::Byte(at, byte) if length > 0 => bytes[at.index(length)] = *byte,
        Damage::Byte(..) => {}
        Damage::Drop(at, count) => {
            let at = at.index(length + 1);
            bytes.drain(at..(at + count).min(length));
        }
        Damage::Repeat(at, count) => {
            let at = at.index(length + 1);
            let again = bytes[at..(at + count).min(length)].to_vec();
            bytes.splice(at..at, again);
        }
    }
}

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
                // Config space keeps its size; what was cut away reads as ones, as from a device that is gone.
                block.resize(length, 0xff);
            }
        }
        Node::Dir(_) | Node::Absent | Node::Denied | Node::Failed(_) | Node::Present => {}
    }
}

fn loaded(profile: usize) -> Loaded {
    let text = shipped()[profile % shipped().len()].text;
    load(&[LayerText { path: "profile.toml", text }], shipped()).expect("a shipped profile")
}

fn base(loader: usize) -> Snapshot {
    let description = format!("machine = \"plain\"\nloader = \"{}\"\n", LOADERS[loader]);
    HostSpec::from_toml(&description).expect("a description").build()
}

/// All that can be said of a host.
fn everything(host: &Snapshot, loaded: &Loaded) -> String {
    let mut facts = observe(host, Depth::Thorough);
    let names = Names::new(host, &facts);
    let mut said = inspect::tables(&facts, &names, 100) + &inspect::tree(&facts, &names);
    engine::assume_cpu(&mut facts, None, &loaded.profile);
    let plan = engine::plan(&loaded.profile, &facts, host, &Ledger::default()).plan;
    said += &text::plan(&plan, &facts.label(), text::Detail { verbose: true });
    said += &diff::plan(&plan);
    json::plan(&plan, "host").expect("a plan is JSON");
    style::terminal(&said)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_survived(
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
