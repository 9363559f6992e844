//! Plans for huge pages, on a host of a few files. Plan texts are in tests/data/cases.

use std::collections::BTreeMap;

use super::*;
use crate::kind::plan_alone;
use crate::ledger::Ledger;
use crate::plan::{Action, KindPlan};
use crate::profile::of_text;
use crate::setting::{SettingChange as _, WriteAttribute};
use bedplate_base::Reading;
use bedplate_testhosts::fixture::{Files, facts};
use proptest::prelude::*;

const SYSTEM: &str = "/sys/devices/system/node";
/// Memory of a node in pages of 2 MiB.
const MEMORY: u64 = 1024;
const BOOT: &str = "this boot";

/// Total, free, surplus, and reserved pages of 2 MiB.
type Pages = (u64, u64, u64, u64);

/// Returns a host with the nodes 0 and 1, and node 2 without CPUs.
fn host(pages: [Pages; 3]) -> Files {
    let mut files = Files::new(&[]);
    let mut put = |path: String, text: String| files.files.insert(path, text);
    put(format!("{SYSTEM}/has_memory"), "0-2".into());
    put(format!("{SYSTEM}/has_cpu"), "0-1".into());
    put(bedplate_host::boot_id::PATH.into(), BOOT.into());
    let (mut all_reserved, mut all_surplus) = (0, 0);
    for (node, (total, free, surplus, reserved)) in pages.into_iter().enumerate() {
        let directory = format!("{SYSTEM}/node{node}/hugepages/hugepages-2048kB");
        put(format!("{directory}/nr_hugepages"), total.to_string());
        put(format!("{directory}/free_hugepages"), free.to_string());
        put(format!("{directory}/surplus_hugepages"), surplus.to_string());
        all_reserved += reserved;
        all_surplus += surplus;
        let kib = MEMORY << 11;
        let text = format!("\nNode {node} MemTotal:       {kib} kB\nNode {node} MemFree: 1 kB\n");
        put(format!("{SYSTEM}/node{node}/meminfo"), text);
    }
    let global = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    put(format!("{global}/resv_hugepages"), all_reserved.to_string());
    put(format!("{global}/surplus_hugepages"), all_surplus.to_string());
    files
}

fn plan_of(section: &str, reader: &Files, ledger: &Ledger) -> KindPlan {
    let profile = of_text(&format!("schema = 1\n[hugepages]\n{section}\n"));
    let facts = facts(Reading::Absent);
    plan_alone(&KIND, (&profile, &Desired::default()), &facts, reader, ledger)
}

/// Returns the writes as `NODE: before → after`.
fn writes(section: &KindPlan) -> Vec<String> {
    let actions = section.changes.iter().flat_map(|change| &change.actions);
    let write = |action: &Action| match action {
        Action::WriteAttribute(WriteAttribute { path, before, after, .. }) => {
            let node = path.strip_prefix(SYSTEM).unwrap().split('/').nth(1).unwrap();
            format!("{node}: {before} → {after}")
        }
        action => panic!("{action:?}"),
    };
    actions.map(write).collect()
}

const IDLE: Pages = (0, 0, 0, 0);

#[test]
fn per_node_skips_nodes_without_cpus() {
    let section = plan_of("per_node = { \"2M\" = 8 }", &host([IDLE; 3]), &Ledger::default());
    assert_eq!(writes(&section), ["node0: 0 → 8", "node1: 0 → 8"]);
    let single =
        "per_node = { \"2M\" = 8 }\nnodes = { \"1\" = { \"2M\" = 9 }, \"2\" = { \"2M\" = 1 } }";
    let section = plan_of(single, &host([IDLE; 3]), &Ledger::default());
    assert_eq!(writes(&section), ["node0: 0 → 8", "node1: 0 → 9", "node2: 0 → 1"]);
}

#[test]
fn pages_in_use_are_not_removed() {
    for (pages, wanted, is_refused) in [
        ((8, 8, 0, 0), 0, false),
        ((8, 5, 0, 0), 3, false),
        ((8, 5, 0, 0), 2, true),
        ((8, 8, 0, 4), 4, false),
        ((8, 8, 0, 4), 3, true),
        ((8, 0, 2, 0), 8, true),
        ((8, 0, 2, 0), 6, false),
        ((8, 0, 0, 0), 9, false),
    ] {
        let text = format!("nodes = {{ \"0\" = {{ \"2M\" = {wanted} }} }}");
        let section = plan_of(&text, &host([pages, IDLE, IDLE]), &Ledger::default());
        assert_eq!(
            section.blockers.len(),
            usize::from(is_refused),
            "{pages:?} {wanted} {section:?}"
        );
        assert!(!is_refused || section.changes.is_empty(), "{pages:?} {wanted}");
    }
}

#[test]
fn most_of_a_node_stays_for_programs() {
    for (wanted, is_refused) in [(MEMORY * 9 / 10, false), (MEMORY * 9 / 10 + 1, true)] {
        let text = format!("per_node = {{ \"2M\" = {wanted} }}");
        let section = plan_of(&text, &host([IDLE; 3]), &Ledger::default());
        assert_eq!(section.blockers.len(), 2 * usize::from(is_refused), "{wanted}");
        assert_eq!(section.changes.len(), 2 * usize::from(!is_refused), "{wanted}");
    }
}

#[test]
fn host_keeps_one_gib_for_programs() {
    let profile = of_text("schema = 1\n[hugepages]\nper_node = { \"2M\" = 512 }\n");
    // The pages of both nodes are 2 GiB.
    for (gib, is_refused) in [(3, false), (2, true)] {
        let mut facts = facts(Reading::Absent);
        facts.memory_bytes = Reading::Known(gib << 30);
        let (desired, reader) = (Desired::default(), host([IDLE; 3]));
        let section = plan_alone(&KIND, (&profile, &desired), &facts, &reader, &Ledger::default());
        assert_eq!(section.blockers.len(), usize::from(is_refused), "{gib} {section:?}");
        assert_eq!(section.changes.is_empty(), is_refused, "{gib}");
        // An obstacle of a single node is named beside it.
        let reader = host([(700, 0, 0, 0), IDLE, IDLE]);
        let section = plan_alone(&KIND, (&profile, &desired), &facts, &reader, &Ledger::default());
        assert_eq!(section.blockers.len(), 1 + usize::from(is_refused), "{gib} {section:?}");
    }
}

#[test]
fn surplus_pages_elsewhere_keep_pages_here() {
    let reader = host([(8, 8, 0, 0), (4, 0, 2, 0), IDLE]);
    let text = |pages: u32| format!("nodes = {{ \"0\" = {{ \"2M\" = {pages} }} }}");
    let fewer = plan_of(&text(4), &reader, &Ledger::default());
    assert_eq!((fewer.blockers.len(), fewer.changes.len()), (1, 0), "{fewer:?}");
    let more = plan_of(&text(9), &reader, &Ledger::default());
    assert_eq!((more.blockers.len(), more.changes.len()), (0, 1), "{more:?}");
}

#[test]
fn absurd_sysfs_is_no_panic() {
    let mut reader = host([IDLE; 3]);
    let directory = format!("{SYSTEM}/node0/hugepages/hugepages-18014398509481983kB");
    for name in ["nr_hugepages", "free_hugepages", "surplus_hugepages"] {
        reader.files.insert(format!("{directory}/{name}"), u64::MAX.to_string());
        let own = format!("{SYSTEM}/node0/hugepages/hugepages-2048kB/{name}");
        reader.files.insert(own, u64::MAX.to_string());
    }
    let section = plan_of("nodes = { \"0\" = { \"2M\" = 8 } }", &reader, &Ledger::default());
    assert_eq!(section.changes, [], "{section:?}");
}

#[test]
fn unreadable_file_is_unknown_without_changes() {
    for name in [
        "has_memory",
        "has_cpu",
        "node0/meminfo",
        "node0/hugepages/hugepages-2048kB/nr_hugepages",
        "node0/hugepages/hugepages-2048kB/free_hugepages",
        "node0/hugepages/hugepages-2048kB/surplus_hugepages",
    ] {
        for is_denied in [true, false] {
            let mut reader = host([IDLE; 3]);
            let path = format!("{SYSTEM}/{name}");
            match is_denied {
                true => _ = reader.denied.insert(path),
                false => _ = reader.files.insert(path, "many".into()),
            }
            let section = plan_of("per_node = { \"2M\" = 8 }", &reader, &Ledger::default());
            assert_eq!(section.unknowns.len(), 1, "{name}: {section:?}");
            let of_node_0 = |line: &String| line.starts_with("node0");
            assert!(!writes(&section).iter().any(of_node_0), "{name}: {section:?}");
        }
    }
}

#[test]
fn missing_node_and_size_are_blockers() {
    for text in ["nodes = { \"7\" = { \"2M\" = 1 } }", "per_node = { \"1G\" = 0 }"] {
        let section = plan_of(text, &host([IDLE; 3]), &Ledger::default());
        assert!(!section.blockers.is_empty() && section.changes.is_empty(), "{text}: {section:?}");
    }
    let without = Files::new(&[]);
    let section = plan_of("per_node = { \"2M\" = 1 }", &without, &Ledger::default());
    assert_eq!(section.blockers.len(), 1, "{section:?}");
}

#[test]
fn dropped_number_is_noted_until_next_boot() {
    let reader = host([(8, 8, 0, 0), IDLE, IDLE]);
    let path = format!("{SYSTEM}/node0/hugepages/hugepages-2048kB/nr_hugepages");
    let write = WriteAttribute { path, before: "0".into(), after: "8".into(), limit_s: 600 };
    let mut ledger = Ledger::default();
    ledger.begin_setting(&write, NAME, BOOT, &write.before);
    ledger.settle_setting(&write, &write.after);
    assert_eq!(plan_of("", &reader, &ledger).notes.len(), 1);
    assert_eq!(plan_of("per_node = { \"2M\" = 8 }", &reader, &ledger).notes, []);
    ledger.begin_setting(&write, NAME, "an earlier boot", &write.before);
    assert_eq!(plan_of("", &reader, &ledger).notes, []);
}

#[test]
fn pages_in_use_are_not_reverted() {
    let path = format!("{SYSTEM}/node0/hugepages/hugepages-2048kB/nr_hugepages");
    let write = WriteAttribute { path, before: "8".into(), after: "3".into(), limit_s: 600 };
    let used = |pages: Pages| use_of_pages(&host([pages, IDLE, IDLE]), &write).is_some();
    assert!(used((8, 4, 0, 0)) && used((8, 8, 0, 4)));
    assert!(!used((8, 5, 0, 0)));
    assert!(use_of_pages(&Files::new(&[]), &write).is_some(), "unknown counts as use");
    let other = WriteAttribute { path: "/proc/sys/vm/nr_hugepages".into(), ..write };
    assert_eq!(use_of_pages(&Files::new(&[]), &other), None);
}

#[test]
fn only_more_pages_of_a_node_stay_in_part() {
    let write = |path: &str, before: &str, after: &str| {
        let (path, before, after) = (path.to_owned(), before.to_owned(), after.to_owned());
        WriteAttribute { path, before, after, limit_s: 60 }
    };
    let pool = format!("{SYSTEM}/node0/hugepages/hugepages-2048kB/nr_hugepages");
    assert!(adds_pages(&write(&pool, "3", "8")));
    assert!(!adds_pages(&write(&pool, "8", "3")));
    // Kernel parameters are undone as a whole.
    assert!(!adds_pages(&write("/proc/sys/vm/nr_hugepages", "3", "8")));
}

#[test]
fn numbers_on_all_nodes_are_watched() {
    let profile = of_text(
        "schema = 1\n[hugepages]\nper_node = { \"2M\" = 8 }\nnodes = { \"4\" = { \"1G\" = 1 } }\n",
    );
    let mut facts = facts(Reading::Absent);
    facts.cpu.nodes = Reading::Known("0-1".into());
    let watched = (KIND.watch)(&profile, &facts).attributes;
    let path = |node, kib| format!("{SYSTEM}/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages");
    assert_eq!(watched, [path(0, 2048), path(1, 2048), path(4, 1 << 20)]);
}

proptest! {
    /// Writes the planned numbers as the kernel does; a second plan is empty, and the inverse writes restore the host.
    #[test]
    fn plan_converges_and_its_inverse_restores(
        pages in proptest::array::uniform3((0_u64..1200, 0_u64..1200, 0_u64..3, 0_u64..3)),
        wanted in proptest::array::uniform2(0_u64..1200),
    ) {
        let pages = pages.map(|(total, free, surplus, reserved)| {
            (total, free.min(total), surplus.min(total - free.min(total)), reserved)
        });
        let mut reader = host(pages);
        let before = reader.files.clone();
        let text = format!(
            "per_node = {{ \"2M\" = {} }}\nnodes = {{ \"1\" = {{ \"2M\" = {} }} }}",
            wanted[0], wanted[1]
        );
        let first = plan_of(&text, &reader, &Ledger::default());
        let mut undo = BTreeMap::new();
        for action in first.changes.iter().flat_map(|change| &change.actions) {
            let Action::WriteAttribute(write) = action else { panic!("{action:?}") };
            prop_assert_eq!(reader.files.get(&write.path), Some(&write.before));
            let number = |path: &String| reader.files[path].parse::<u64>().unwrap();
            let free = write.path.replace("nr_hugepages", "free_hugepages");
            let (used, after) = (number(&write.path) - number(&free), write.after.parse::<u64>().unwrap());
            prop_assert!(after >= used, "pages in use removed: {:?}", write);
            undo.insert(free.clone(), reader.files[&free].clone());
            undo.insert(write.path.clone(), write.before.clone());
            reader.files.insert(free, (after - used).to_string());
            reader.files.insert(write.path.clone(), write.after());
        }
        let second = plan_of(&text, &reader, &Ledger::default());
        prop_assert_eq!(&second.changes, &[]);
        prop_assert_eq!(second.blockers.len(), first.blockers.len());
        reader.files.extend(undo);
        prop_assert_eq!(reader.files, before);
    }
}
