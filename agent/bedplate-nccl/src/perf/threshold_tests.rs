//! Verdicts by the table of thresholds.

use super::judge::{Assumptions, Judged, Links, Verdict, judge};
use super::limit::{Nic, Port};
use super::machine::{Machine, Path};
use super::thresholds::{Condition, TABLE};
use super::{Algorithm, Device, Measure, Point, Results, Run, Test};
use crate::ports::PluginNic;
use bedplate_base::Reading;
use bedplate_facts::nvlink_sharp::NvlinkSharp;

/// Returns a machine without NVSwitches and plugins.
fn plain() -> Machine {
    Machine { nvlink_sharp: Reading::Absent, ..Machine::default() }
}

fn hopper() -> Machine {
    Machine { nvlink_sharp: Reading::Known(NvlinkSharp::Hopper), ..plain() }
}

/// Returns links with NICs of 50 GB/s.
fn links(nics: usize, machine: Machine) -> Links {
    let port = |nth| Port { name: format!("mlx5_{nth}/1"), rate: Some(400.0), ethernet: false };
    let nics: Vec<Nic> = (0..nics).map(|nth| Nic { ports: vec![port(nth)], pcie: None }).collect();
    Links { chosen: nics.clone(), all: nics, machine, ..Links::default() }
}

fn run(test: Test, hosts: usize, ranks: usize, bandwidth: f64) -> Run {
    let out = Some(Measure { bandwidth, time: None, wrong: None });
    let point = Point { line: 9, bytes: 1 << 30, out, within: None };
    let is_perftest = matches!(test, Test::IbWriteBw);
    let device = Device { name: Some("mlx5_0".to_owned()), ..Device::default() };
    let host = |nth| format!("node{nth}");
    Run {
        line: 1,
        test: Some(test),
        ranks: (0..hosts).flat_map(|nth| vec![host(nth); ranks]).collect(),
        device: is_perftest.then_some(device),
        points: vec![point],
        ..Run::default()
    }
}

fn judged(runs: Vec<Run>, machine: Machine, assumptions: &Assumptions) -> Vec<Judged> {
    let results = Results { runs, ..Results::default() };
    judge(results, &links(8, machine), assumptions).runs
}

fn of_algorithm(algorithm: Option<Algorithm>) -> Assumptions {
    Assumptions { algorithm, expect: None }
}

/// One run per row: test, hosts, ranks per host, machine, algorithm.
fn shapes() -> Vec<(Test, usize, usize, Machine, Option<Algorithm>, Condition)> {
    use Condition::*;
    let by = |plugin| Machine { plugin: Some(plugin), ..hopper() };
    let on = |path| Machine { path, ..hopper() };
    let amd = Machine { is_amd: true, ..plain() };
    let ring = Some(Algorithm::Ring);
    vec![
        (Test::IbWriteBw, 0, 0, hopper(), None, Perftest),
        (Test::AllGather, 2, 1, on(Path::Gb10), None, Gb10),
        (Test::AllReduce, 2, 8, by(PluginNic::Slingshot), None, Libfabric),
        (Test::AllReduce, 2, 8, by(PluginNic::Efa), None, Libfabric),
        (Test::AllReduce, 2, 8, on(Path::HostMemory), None, HostMemory),
        (Test::AllReduce, 6, 8, hopper(), Some(Algorithm::Nvls), Sharp),
        (Test::AllReduce, 6, 8, hopper(), Some(Algorithm::CollnetDirect), Sharp),
        (Test::AllReduce, 2, 8, hopper(), Some(Algorithm::NvlsTree), NvlsTree),
        (Test::AllReduce, 2, 8, hopper(), None, MayBeNvlsTree),
        (Test::AllReduce, 2, 8, by(PluginNic::Gvnic), None, Tcpxo),
        (Test::AllReduce, 2, 8, amd.clone(), None, Amd),
        (Test::Alltoall, 2, 8, amd, None, Amd),
        (Test::AllReduce, 2, 8, hopper(), ring, TwoHosts),
        (Test::AllReduce, 2, 8, plain(), None, TwoHosts),
        (Test::AllReduce, 2, 4, hopper(), None, TwoHosts),
        (Test::AllReduce, 4, 8, hopper(), None, SomeHosts),
        (Test::AllReduce, 10, 8, hopper(), Some(Algorithm::NvlsTree), SomeHosts),
        (Test::AllReduce, 32, 8, hopper(), None, Any),
        (Test::AllGather, 10, 8, hopper(), None, Any),
        (Test::ReduceScatter, 10, 8, hopper(), None, Any),
        (Test::Alltoall, 4, 8, hopper(), None, Any),
        (Test::Broadcast, 2, 8, hopper(), None, Any),
        (Test::Sendrecv, 2, 8, hopper(), None, Any),
    ]
}

#[test]
fn each_row_decides_between_three_verdicts() {
    let mut used = vec![false; TABLE.len()];
    for (test, hosts, ranks, machine, algorithm, condition) in shapes() {
        let assumptions = of_algorithm(algorithm);
        let of = |bandwidth: f64| {
            let runs = vec![run(test, hosts, ranks, bandwidth)];
            let mut all = judged(runs, machine.clone(), &assumptions);
            all.remove(0)
        };
        let is_row = |tests: &[Test]| tests.contains(&test) || tests.is_empty();
        let found = TABLE.iter().position(|row| row.condition == condition && is_row(row.tests));
        let nth = found.expect("a row");
        used[nth] = true;
        let (row, name) = (&TABLE[nth], format!("{test:?} {condition:?}"));
        let bound = of(1.0).limit.expect("a limit").expected;
        let found = of(row.good * bound);
        assert!(found.expectation.expect("known").by.ends_with(&condition.to_string()), "{name}");
        assert_eq!(found.verdict, Verdict::Good, "{name}");
        assert_eq!(of((row.bad - 0.011) * bound).verdict, Verdict::Bad, "{name}");
        if row.good > row.bad {
            let found = of(f64::midpoint(row.good, row.bad) * bound);
            assert_eq!(found.verdict, Verdict::CannotTell, "{name}");
            let text = &found.findings[0].text;
            assert!(text.starts_with("below known-good machines"), "{name}: {text}");
        }
    }
    let unused: Vec<_> = TABLE.iter().zip(used).filter(|(_, used)| !used).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// Bandwidth of NVLSTree on two hosts by NICs in use, 58.65 GB/s each.
#[test]
fn missing_nics_are_found() {
    let best = |nics: u32| f64::from(nics) * 58.65;
    let of = |bandwidth, algorithm| {
        let runs = vec![run(Test::AllReduce, 2, 8, bandwidth)];
        judged(runs, hopper(), &of_algorithm(algorithm)).remove(0)
    };
    for (nics, alone, known) in [
        (8, Verdict::Good, Verdict::Good),
        (7, Verdict::CannotTell, Verdict::Bad),
        (6, Verdict::CannotTell, Verdict::Bad),
        (5, Verdict::Bad, Verdict::Bad),
    ] {
        let found = of(best(nics), None);
        assert_eq!(found.verdict, alone, "{nics}");
        if alone == Verdict::CannotTell {
            let text = &found.findings[0].text;
            for part in [
                "below known-good machines, algorithm unknown",
                &format!("NVLSTree uses {nics} of 8 NICs"),
                "bedplate nccl job",
            ] {
                assert!(text.contains(part), "{text}");
            }
        }
        assert_eq!(of(best(nics), Some(Algorithm::NvlsTree)).verdict, known, "{nics}");
    }
    // Rings at 97 % of the NICs are healthy, but the table alone does not show rings.
    assert_eq!(of(388.0, Some(Algorithm::Ring)).verdict, Verdict::Good);
    assert_eq!(of(388.0, None).verdict, Verdict::CannotTell);
    // More than rings can reach.
    assert_eq!(of(410.6, Some(Algorithm::Ring)).verdict, Verdict::CannotTell);
    // 7 of 8 NICs.
    assert_eq!(of(340.0, Some(Algorithm::Ring)).verdict, Verdict::CannotTell);
}

#[test]
fn unknown_nvlink_sharp_is_reported() {
    let machine = Machine { nvlink_sharp: Reading::unknown("a VM hides it"), ..plain() };
    let runs = vec![run(Test::AllReduce, 2, 8, 388.0)];
    let found = judged(runs, machine, &Assumptions::default()).remove(0);
    assert_eq!(found.verdict, Verdict::CannotTell);
    assert!(found.findings[0].text.contains("a VM hides it"), "{}", found.findings[0].text);
}

/// NVLink SHARP of Hopper carries 480 GB/s: less than 117 % of faster NICs.
#[test]
fn nvlink_sharp_limits_the_expectation() {
    let results = Results { runs: vec![run(Test::AllReduce, 2, 8, 480.0)], ..Results::default() };
    let assumptions = of_algorithm(Some(Algorithm::NvlsTree));
    let report = judge(results, &links(16, hopper()), &assumptions);
    let expectation = report.runs[0].expectation.as_ref().expect("known");
    assert_eq!(expectation.good, 0.88 * 800.0);
}

#[test]
fn expectation_of_the_user_overrides() {
    for (expect, bandwidth, verdict) in [
        (410.0, 410.0, Verdict::Good),
        (450.0, 410.0, Verdict::CannotTell),
        (460.0, 410.0, Verdict::Bad),
    ] {
        let assumptions = Assumptions { expect: Some(expect), algorithm: None };
        let runs = vec![run(Test::AllReduce, 2, 8, bandwidth)];
        assert_eq!(judged(runs, hopper(), &assumptions)[0].verdict, verdict, "{expect}");
        // On one host the links give no limit.
        let runs = vec![run(Test::AllReduce, 1, 8, bandwidth)];
        assert_eq!(judged(runs, hopper(), &assumptions)[0].verdict, verdict, "{expect}");
    }
}

/// A slow pair of ranks is doubtful where other tests are good.
#[test]
fn slow_sendrecv_is_doubtful_next_to_good_runs() {
    let verdict = |other: f64| {
        let runs = vec![run(Test::Sendrecv, 2, 8, 20.0), run(Test::AllReduce, 2, 8, other)];
        let found = judged(runs, hopper(), &Assumptions::default());
        assert_eq!(found[0].run.test, Some(Test::Sendrecv), "order of the file");
        (found[0].verdict, found[0].findings[0].text.clone())
    };
    let (found, text) = verdict(470.0);
    assert_eq!(found, Verdict::CannotTell);
    assert!(text.starts_with("doubtful"), "{text}");
    assert_eq!(verdict(100.0).0, Verdict::Bad);
}

#[test]
fn slower_one_of_equal_runs_is_bad() {
    let verdicts = |second: Run| {
        let runs = vec![run(Test::AllGather, 2, 8, 390.0), second];
        let found = judged(runs, hopper(), &Assumptions { expect: Some(200.0), algorithm: None });
        (found[0].verdict, found[1].verdict, found[1].findings.clone())
    };
    let other = |bandwidth| {
        let mut second = run(Test::AllGather, 2, 8, bandwidth);
        second.ranks.iter_mut().for_each(|host| *host = host.replace("node1", "node7"));
        second
    };
    assert_eq!(verdicts(other(300.0)).1, Verdict::Good);
    let (first, second, findings) = verdicts(other(280.0));
    assert_eq!((first, second), (Verdict::Good, Verdict::Bad));
    assert!(findings[0].text.contains("390.00 in an equal run (line 1), without node7"));
    // Another shape, and another test.
    assert_eq!(verdicts(run(Test::AllGather, 4, 4, 280.0)).1, Verdict::Good);
    assert_eq!(verdicts(run(Test::ReduceScatter, 2, 8, 280.0)).1, Verdict::Good);
}
