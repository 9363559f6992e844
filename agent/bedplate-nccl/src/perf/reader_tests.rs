//! Inputs without headers, of other programs, cut or arbitrary.

use proptest::prelude::*;

use super::hosts::judge;
use super::hosts_tests::{NVBANDWIDTH, host, json, notes, on_two_hosts, table};
use super::judge::Assumptions;
use super::ranks::{Layout, MOST_RANKS, Options, Origin, complete};
use super::{Results, Test, is_binary, read};

fn completed(text: &str, options: Options) -> Result<Results, String> {
    let mut results = read(text);
    complete(&mut results, &options).map(|()| results)
}

fn layout(text: &str, options: Options) -> (Option<Test>, Option<Layout>) {
    let results = completed(text, options).expect("options that fit");
    (results.runs[0].test, results.runs[0].layout.clone())
}

fn by_columns(ranks: usize) -> Option<Layout> {
    Some(Layout { ranks: Some(ranks), origin: Some(Origin::Columns), per_host: None })
}

#[test]
fn ranks_follow_from_columns_if_digits_suffice() {
    let of = |operation, rates| layout(&table(operation, rates), Options::default());
    assert_eq!(of("sum -1", &[("203.67", "381.88")]), (Some(Test::AllReduce), by_columns(16)));
    assert_eq!(of("sum -1", &[("203.67", "190.94")]), (Some(Test::ReduceScatter), by_columns(16)));
    // One row fits 60 to 69 ranks, both only 64.
    let two = [("1.50", "2.95"), ("190.00", "374.06")];
    assert_eq!(of("sum -1", &two), (Some(Test::AllReduce), by_columns(64)));
    assert_eq!(of("sum -1", &two[..1]), (Some(Test::AllReduce), None));
    assert_eq!(of("none -1", &[("203.67", "190.94")]), (None, None));
    // Two ranks of all_reduce and thousands of reduce_scatter have the same columns.
    assert_eq!(of("sum -1", &[("50.00", "50.00")]), (None, None));
    let named = |test| Options { test: Some(test), ..Options::default() };
    let equal = table("sum -1", &[("50.00", "50.00")]);
    assert_eq!(layout(&equal, named(Test::AllReduce)).1, by_columns(2));
    let gather = table("none -1", &[("203.67", "190.94")]);
    assert_eq!(layout(&gather, named(Test::AllGather)).1, by_columns(16));
    assert_eq!(layout(&gather, named(Test::Broadcast)).1, None);
}

#[test]
fn unknown_ranks_have_a_reason() {
    let why = |operation, rates, options| {
        completed(&table(operation, rates), options).expect("options that fit").runs[0]
            .unknown_hosts()
    };
    let large = why("sum -1", &[("10.00", "19.98")], Options::default());
    assert!(large.contains("fit 572 to 3998 ranks: set --ranks and --per-host"), "{large}");
    let small = why("sum -1", &[("0.00", "0.00")], Options::default());
    assert!(small.contains("set --test, --ranks"), "{small}");
    let hosts = why("sum -1", &[("203.67", "381.88")], Options::default());
    assert!(hosts.contains("16 ranks: set --per-host"), "{hosts}");
}

#[test]
fn options_supply_ranks_and_hosts() {
    let options = Options { ranks: Some(1000), per_host: Some(8), test: None };
    let results =
        completed(&table("sum -1", &[("10.00", "19.98")]), options).expect("options that fit");
    assert_eq!((results.runs[0].hosts().len(), results.runs[0].rank_count()), (125, 1000));
    assert_eq!(results.runs[0].hosts().values().max(), Some(&8));
}

#[test]
fn contradicting_options_are_rejected() {
    let ranks: String = (0..16)
        .map(|nth| {
            format!("#  Rank {nth:2} Pid 1 on host{} device {} [0x00] GPU\n", nth / 8, nth % 8)
        })
        .collect();
    let named = format!(
        "# nThread 1 nGpus 1 minBytes 8\n{ranks}{}",
        table("sum -1", &[("203.67", "381.88")])
    );
    let bare = table("sum -1", &[("203.67", "381.88")]);
    let ib = "   RDMA_Write BW Test\n #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n\
              65536 5000 0.00 1000.00 0.7\n";
    let error = |text: &str, ranks, per_host, test| {
        completed(text, Options { ranks, per_host, test }).expect_err("a contradiction")
    };
    assert!(error(&named, Some(8), None, None).contains("names 16 ranks"));
    assert!(error(&named, None, Some(4), None).contains("8 ranks on host0"));
    assert!(error(&named, None, None, Some(Test::AllGather)).contains("all_reduce_perf"));
    assert!(error(&bare, Some(8), None, None).contains("fit 16 ranks"));
    assert!(error(&bare, None, Some(5), None).contains("--per-host 5"));
    assert!(error("", Some(8), Some(3), None).contains("--per-host 3"));
    assert!(error(ib, Some(8), None, None).contains("no collective"));
    for (ranks, per_host) in [(None, None), (Some(16), Some(8)), (None, Some(8))] {
        let options = Options { ranks, per_host, test: Some(Test::AllReduce) };
        assert!(completed(&named, options).is_ok() && completed(&bare, options).is_ok());
    }
}

#[test]
fn bare_perftest_table_is_not_a_collective() {
    let heading =
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
    let text =
        table("sum -1", &[("203.67", "381.88")]) + heading + " 65536 5000 390.10 389.40 0.74\n";
    let results = read(&text);
    let devices: Vec<bool> = results.runs.iter().map(|run| run.device.is_some()).collect();
    assert_eq!(devices, [false, true]);
    assert_eq!(results.runs[1].points[0].best(), 389.40 / 8.0);
    let latency =
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n";
    assert_eq!(read(latency).latency, [1]);
}

#[test]
fn bad_inputs_are_told_apart() {
    for (text, part) in [
        ("", "1: the file is empty"),
        (" \n\n", "1: the file is empty"),
        ("some text\n", "no results of nccl-tests"),
        ("n:1:2 [0] NCCL INFO Bootstrap : Using eth0\n", "run `bedplate nccl log"),
        ("{\"test_info\": {\"test\": \"x\"}, ", "JSON ends early"),
        ("{\"a\": 1}\n", "JSON of another program"),
        ("{\"bedplate_snapshot\": 1, \"running\": true, \"entries\": {}}", "--snapshot"),
        ("<system version=\"1\">\n", "topology --import"),
        (
            "\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n# Using devices\n",
            "2: a header without results",
        ),
        ("  RDMA_Write BW Test\n Dual-port : OFF Device : mlx5_0\n", "1: a header without results"),
    ] {
        let found = notes(text);
        assert!(found.contains(part) && found.lines().count() == 1, "{text}: {found}");
    }
    assert!(is_binary(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0"));
    assert!(!is_binary("12 µs\t\u{1b}[31m34\0\n".as_bytes()) && !is_binary(b""));
}

/// A file may end within any character of a row.
#[test]
fn cut_last_row_is_reported_as_truncated() {
    let whole = table("sum -1", &[("203.67", "381.88"), ("203.67", "381.88")]);
    let start = whole.trim_end().rfind('\n').expect("two rows") + 1;
    for end in start + 1..whole.len() - 3 {
        let results = read(&whole[..end]);
        let is_row = results.runs[0].points.len() == 2;
        let is_reported = results.notes.iter().any(|note| note.line == 3);
        assert!(is_row || is_reported, "{}", &whole[start..end]);
        assert!(results.unread.is_empty());
    }
    assert!(read(&whole).notes.is_empty());
}

#[test]
fn oneccl_times_become_bus_bandwidth() {
    let text = |name: &str, processes: &str| {
        format!(
            "options:\n  processes:       16\n  backend: sycl\n# Benchmarking: {name} \n{processes}#----\n\
             \x20 #bytes   #elem_count  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]\n\
             \x20 1000000        250000            16         90.00        110.00        100.00       1.00\n\n# All done\n"
        )
    };
    let rate = |name| read(&text(name, "# #processes: 16\n")).runs[0].points[0].best();
    assert_eq!((rate("allreduce"), rate("bcast"), rate("reduce_scatter")), (18.75, 10.0, 9.375));
    assert_eq!(rate("allgather"), 150.0);
    let options = Options { per_host: Some(8), ..Options::default() };
    let results = completed(&text("allreduce", ""), options).expect("options that fit");
    let expected = Layout { ranks: Some(16), origin: Some(Origin::File), per_host: Some(8) };
    assert_eq!(
        (results.runs[0].layout.clone(), results.runs[0].hosts().len()),
        (Some(expected), 2)
    );
    assert!(notes(&text("allreduce bcast", "")).contains("several collectives"));
    let bare = text("allreduce", "").replace("processes:", "p:");
    assert!(notes(&bare).contains("number of processes"));
    let wrong = Options { ranks: Some(8), ..Options::default() };
    assert!(completed(&text("allreduce", ""), wrong).is_err());
}

/// Outputs of all programs.
fn samples() -> Vec<String> {
    vec![
        on_two_hosts("0000:18:00"),
        table("sum -1", &[("203.67", "381.88")]),
        NVBANDWIDTH.to_owned(),
        json("55.1"),
        "   RDMA_Write BW Test\n Dual-port : OFF Device : mlx5_0\n #bytes #iterations BW peak[MB/sec] \
         BW average[MB/sec] MsgRate[Mpps]\n 65536 5000 0.00 1000.00 0.7\n"
            .to_owned(),
        "GPU id:0; name: H100; Bus id: 0000:18:00\nselecting device 0\nwriting test, size=131072\n\
         write BW: 9638.54MB/s\n"
            .to_owned(),
        "IoType: READ XferType: GPUD IOSize: 1024(KiB) Throughput: 6.81 GiB/sec\n".to_owned(),
        "# Benchmarking: allreduce \n# #processes: 16\n #bytes #elem_count t_avg[usec] stddev[%]\n 4 1 2.0 1.0\n"
            .to_owned(),
    ]
}

proptest! {
    /// Any input has a result or a reason, and lines within the file.
    #[test]
    fn any_input_is_read_without_panic(
        which in 0..8_usize,
        cut in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        swap in any::<bool>(),
        ranks in prop::option::of(1..=MOST_RANKS),
    ) {
        let mut text = samples()[which].clone().into_bytes();
        let at = cut.index(text.len() + 1);
        let rest = text.split_off(at);
        text.extend(&bytes);
        text.extend(if swap { rest } else { Vec::new() });
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut results = read(&text);
        prop_assert!(!results.is_empty());
        let most = text.lines().count().max(1);
        prop_assert!(results.notes.iter().all(|note| (1..=most + 1).contains(&note.line)));
        let options = Options { ranks, per_host: Some(1), test: Some(Test::AllReduce) };
        let _ = complete(&mut results, &options);
        let hosts = [host("node-0", 400.0), host("node-1", 200.0)];
        let _ = judge(results, &hosts, &Assumptions::default());
    }

    /// A table shows the number of ranks that it was printed with, or a range around it.
    #[test]
    fn ranks_of_columns_are_never_wrong(ranks in 2..3000_usize, rate in 1.0..400.0_f64) {
        for (operation, factor) in [("sum -1", 2.0), ("none -1", 1.0)] {
            let bus = rate * factor * (ranks as f64 - 1.0) / ranks as f64;
            let text = table(operation, &[(&format!("{rate:.2}"), &format!("{bus:.2}"))]);
            let test = if factor > 1.0 { Test::AllReduce } else { Test::AllGather };
            let given = |ranks| Options { test: Some(test), ranks, per_host: None };
            prop_assert!(completed(&text, given(Some(ranks))).is_ok());
            let found = layout(&text, given(None)).1.and_then(|layout| layout.ranks);
            prop_assert!(found.is_none_or(|found| found == ranks), "{ranks}: {found:?}");
        }
    }
}
