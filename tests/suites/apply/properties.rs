//! For any set of files and any changes of them: a second apply changes nothing, and revert restores everything.

use std::collections::BTreeMap;

use bedplate_core::plan::{Action, KindId};
use bedplate_tests::fake::tree::{foreign, times};
use bedplate_tests::fake::{Fuse, Machine};
use proptest::prelude::*;

use crate::scenario::{change, content, ledger, plan_of, revert, run};

/// Path → (content before with mode, successive desired contents); `None` = absent.
type Files = BTreeMap<String, (Option<(String, u32)>, Vec<Option<String>>)>;

fn text() -> impl Strategy<Value = Option<String>> {
    prop_oneof![1 => Just(None), 4 => "[ -~\n]{0,40}".prop_map(Some)]
}

fn files() -> impl Strategy<Value = Files> {
    let path = "/(etc|boot)(/[abc]\\.d){0,2}/[xyz]\\.conf";
    let mode =
        prop_oneof![Just(0o644), Just(0o600), Just(0o440), Just(0o755), Just(0o1750), Just(0o4750)];
    let was = prop_oneof![1 => Just(None), 2 => ("[ -~\n]{0,40}", mode).prop_map(Some)];
    proptest::collection::btree_map(path, (was, proptest::collection::vec(text(), 1..4)), 1..6)
}

/// One plan per round; each change covers several files.
fn plan(
    machine: &Machine,
    files: &Files,
    round: usize,
    per_change: usize,
) -> bedplate_core::plan::Plan {
    let actions: Vec<Action> = files
        .iter()
        .filter_map(|(path, (_, wanted))| {
            let after = wanted.get(round)?.as_deref().and_then(content);
            let before = std::fs::read(machine.at(path)).ok();
            let before = before.map(bedplate_core::plan::FileContent::new);
            Some(Action::ReplaceFile { path: path.clone(), before, after })
        })
        .collect();
    let changes = actions.chunks(per_change).enumerate();
    plan_of(
        changes
            .map(|(number, actions)| {
                change(KindId::Modules, &format!("{number}"), actions.to_vec())
            })
            .collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..bedplate_tests::property::config(150) })]

    #[test]
    fn twice_is_once_and_revert_restores(files in files(), per_change in 1_usize..4, kill in proptest::option::of(0_usize..200)) {
        let machine = Machine::new();
        for (path, (was, _)) in &files {
            if let Some((text, mode)) = was {
                machine.put_mode(path, text, *mode);
            }
        }
        let before = foreign(machine.root());
        let touched = |path: &String| files.get(&format!("/{path}")).is_some_and(|(was, wanted)| {
            let was = was.as_ref().map(|(text, _)| text);
            wanted.iter().any(|wanted| wanted.as_ref() != was)
        });
        // Replaced files lose their set-id bits and nothing else.
        let before: BTreeMap<String, String> = before
            .into_iter()
            .map(|(path, text)| match text.strip_prefix("104750") {
                Some(rest) if touched(&path) => (path, format!("100750{rest}")),
                _ => (path, text),
            })
            .collect();
        for round in 0..3 {
            let planned = plan(&machine, &files, round, per_change);
            if let Some(step) = kill {
                run(&machine, &planned, &Fuse::at(step));
            }
            let report = run(&machine, &planned, &Fuse::none());
            prop_assert!(report.succeeded(), "{:?}", report);
            for (path, (_, wanted)) in &files {
                if let Some(wanted) = wanted.get(round) {
                    let now = std::fs::read_to_string(machine.at(path)).ok();
                    prop_assert_eq!(&now, wanted);
                }
            }
            let written = times(machine.root());
            prop_assert!(run(&machine, &planned, &Fuse::none()).succeeded());
            prop_assert_eq!(times(machine.root()), written);
        }
        let (plan, report) = revert(&machine, &Fuse::none(), false);
        prop_assert!(plan.refused.is_empty() && report.succeeded(), "{:?} {:?}", plan, report);
        prop_assert_eq!(foreign(machine.root()), before);
        let ledger = ledger(&machine);
        prop_assert!(ledger.files.is_empty() && ledger.directories.is_empty());
    }
}
