//! Program output, and limits by a host's links.

use super::limit::{Ceiling, Nic, Pcie, Port, limit};
use super::{Run, Test, read};

fn pcie(speed: u32, lanes: u32) -> Pcie {
    let address = "0000:18:00.0".to_owned();
    Pcie { address, speed, lanes, payload: Some(256), best: None }
}

fn nic(name: &str, rate: f64, link: (u32, u32)) -> Nic {
    let port = Port { name: format!("{name}/1"), rate: Some(rate), ethernet: false };
    Nic { ports: vec![port], pcie: Some(pcie(link.0, link.1)) }
}

fn run(test: Test, hosts: &[(&str, usize)]) -> Run {
    let ranks = hosts.iter().flat_map(|(host, ranks)| vec![(*host).to_owned(); *ranks]).collect();
    Run { test: Some(test), ranks, ..Run::default() }
}

#[test]
fn link_bandwidth_excludes_overhead() {
    let bandwidth = |speed, lanes, payload| {
        let pcie = Pcie { payload: Some(payload), ..pcie(speed, lanes) };
        (pcie.bandwidth() * 100.0).round() / 100.0
    };
    // 16 · 32 GT/s · 128/130 / 8 · 256/280.
    assert_eq!(bandwidth(320, 16, 256), 57.61);
    assert_eq!(bandwidth(160, 16, 256), 28.81);
    assert_eq!(bandwidth(80, 8, 128), 6.63);
    assert_eq!(bandwidth(50, 8, 128), 3.37);
    // 16 · 64 GT/s · 236/256 / 8 · 512/528.
    assert_eq!(bandwidth(640, 16, 512), 114.42);
}

#[test]
fn slower_of_ports_and_link_is_the_ceiling() {
    assert_eq!(nic("mlx5_0", 400.0, (320, 16)).limit(), Some((50.0, Ceiling::Ports)));
    let (rate, ceiling) = nic("mlx5_0", 400.0, (160, 16)).limit().expect("a limit");
    assert_eq!((rate.round(), ceiling), (29.0, Ceiling::Pcie));
    let mut unknown = nic("mlx5_0", 400.0, (320, 16));
    unknown.ports[0].rate = None;
    assert_eq!(unknown.limit(), None);
}

/// Minimum data that must cross the NICs of a host, by collective.
#[test]
fn limit_depends_on_the_collective() {
    let nics = vec![nic("mlx5_0", 400.0, (320, 16)); 8];
    let most =
        |test, hosts: &[(&str, usize)]| limit(&run(test, hosts), &nics, &[]).expect("a limit").most;
    let two = [("a", 8), ("b", 8)];
    assert_eq!(most(Test::AllReduce, &two), 400.0 * 15.0 / 8.0);
    assert_eq!(most(Test::AllGather, &two), 750.0);
    assert_eq!(most(Test::Broadcast, &two), 400.0);
    assert_eq!(most(Test::Alltoall, &two), 400.0 * 15.0 / 64.0);
    // With one rank per host only a ring is possible.
    let ring = [("a", 1), ("b", 1), ("c", 1), ("d", 1)];
    assert_eq!(most(Test::AllReduce, &ring), 400.0);
    let limit = limit(&run(Test::AllReduce, &ring), &nics, &[]).expect("a limit");
    assert_eq!((limit.with_switches, limit.expected), (Some(600.0), 400.0));
}

/// Data that leaves a host comes from the participating GPUs over their links.
#[test]
fn few_gpus_cannot_fill_many_nics() {
    let nics = vec![nic("mlx5_0", 400.0, (320, 16)); 8];
    let gpus = [vec![pcie(160, 16)], vec![pcie(320, 16); 7]].concat();
    let of = |ranks| {
        let run = run(Test::AllReduce, &[("a", ranks), ("b", ranks)]);
        let limit = limit(&run, &nics, &gpus).expect("a limit");
        ((limit.host * 100.0).round() / 100.0, limit.limited_by_gpus)
    };
    // The fastest GPUs are assumed, because the participating ones are unknown.
    assert_eq!(of(1), (57.61, Some(1)));
    assert_eq!(of(4), (230.46, Some(4)));
    assert_eq!(of(8), (400.0, None));
    // With more ranks than this host has GPUs, the ranks belong to another kind of host.
    assert_eq!(of(9), (400.0, None));
}

#[test]
fn single_host_has_no_limit() {
    let nics = [nic("mlx5_0", 400.0, (320, 16))];
    let why = |run: &Run| limit(run, &nics, &[]).expect_err("no limit");
    assert!(why(&run(Test::AllReduce, &[("a", 8)])).contains("NVLink"));
    assert!(why(&run(Test::AllReduce, &[])).contains("Using devices"));
    let split = Run { split: true, ..run(Test::AllReduce, &[("a", 8), ("b", 8)]) };
    assert!(why(&split).contains("groups"));
    assert!(limit(&run(Test::AllReduce, &[("a", 8), ("b", 8)]), &[], &[]).is_err());
}

/// perftest's megabyte is 2²⁰ bytes.
#[test]
fn perftest_units_are_converted() {
    let read_one = |unit: &str, average: &str| {
        let text = format!(
            "   RDMA_Write BW Test\n Dual-port : OFF\t\tDevice         : mlx5_0\n\
             #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n\
             65536      5000             0.00               {average}\t\t     0.7\n"
        );
        let results = read(&text);
        let megabytes = (results.runs[0].points[0].best() * 1e6).round() / 1e6;
        (megabytes, results.runs[0].device.clone().expect("a device").name)
    };
    let device = Some("mlx5_0".to_owned());
    assert_eq!(read_one("MB/sec", "1000.00"), (1.048576, device.clone()));
    assert_eq!(read_one("MiB/sec", "1000.00"), (1.048576, device.clone()));
    assert_eq!(read_one("Gb/sec", "400.00"), (50.0, device));
}

/// Prefixes are not part of a line.
#[test]
fn prefixes_are_skipped() {
    let row = "1048576  262144  float  sum  -1  50.0  20.97  39.32  0  50.0  20.97  39.32  3";
    let heading = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong";
    for prefix in
        ["", "[1,0]<stdout>:", "0: ", "pod-0 | ", "2026-03-04T05:06:07Z 12 stdout F ", "\u{1b}[31m"]
    {
        let text = format!("{prefix}{heading}\n{prefix}{row}\n");
        let results = read(&text);
        let point = &results.runs[0].points[0];
        assert_eq!(point.bytes, 1_048_576, "{prefix}");
        let [out, within] = [&point.out, &point.within].map(|one| one.clone().expect("measured"));
        assert_eq!(
            (out.wrong, within.wrong, out.bandwidth),
            (Some(0.0), Some(3.0), 39.32),
            "{prefix}"
        );
    }
}

#[test]
fn truncated_result_lines_are_unread() {
    let text = "1048576  262144  float  sum  -1  50.0  20\n1048576  262144  float\n";
    let results = read(text);
    assert!(results.runs.is_empty());
    assert_eq!(results.unread, [1, 2]);
}

/// One pair of ranks at a time crosses hosts, through one NIC, so eight are not expected.
#[test]
fn pairs_are_not_expected_to_use_all_nics() {
    let nics = vec![nic("mlx5_0", 400.0, (320, 16)); 8];
    let two = [("a", 8), ("b", 8)];
    let expected = |test| limit(&run(test, &two), &nics, &[]).expect("a limit").expected;
    assert_eq!(expected(Test::Sendrecv), 50.0);
    assert_eq!(expected(Test::Hypercube), 93.75);
    assert_eq!(expected(Test::AllGather), 400.0);
}

/// RCCL-tests and older nccl-tests do not name the collective; the columns of a reducing one reveal it.
#[test]
fn reducing_test_is_inferred_from_columns() {
    let test = |ranks: usize, words: &str, values: &str| {
        let rank = |nth| format!("#  Rank {nth:2} Pid 1 on host{nth} device 0 [0x00] GPU\n");
        let header: String = (0..ranks).map(rank).collect();
        let small = format!("8 2 float {words} 20.0 0.00 0.00 0 N/A N/A N/A N/A\n");
        let large = format!("1048576 262144 float {words} {values}\n");
        read(&format!("{header}{small}{large}{small}")).runs[0].test
    };
    let place = "N/A N/A N/A N/A";
    for (ranks, words, values, expected) in [
        (16, "sum -1", "50.0 20.97 39.32 0", Some(Test::AllReduce)),
        (2, "max -1", "50.0 20.97 20.97 N/A", Some(Test::AllReduce)),
        (16, "sum -1", "50.0 20.97 19.66 0", Some(Test::ReduceScatter)),
        (2, "avg -1", "50.0 20.97 10.48 0", Some(Test::ReduceScatter)),
        (16, "sum 0", "50.0 20.97 20.97 0", Some(Test::Reduce)),
        // Older columns.
        (4, "sum", "50.0 20.97 31.46 0", Some(Test::AllReduce)),
        // Too slow for two decimals, or not reducing: all_gather and alltoall have the same columns. Without ranks,
        // `ranks::complete` infers it.
        (16, "sum -1", "50.0 0.02 0.04 0", None),
        (0, "sum -1", "50.0 20.97 39.32 0", None),
        (16, "none -1", "50.0 20.97 19.66 0", None),
    ] {
        for values in [format!("{values} {place}"), format!("{place} {values}")] {
            assert_eq!(test(ranks, words, &values), expected, "{ranks} ranks: {words} {values}");
        }
    }
}

/// Rings send equal shares over all NICs.
#[test]
fn slowest_rail_bounds_rings() {
    let mut nics = vec![nic("mlx5_0", 400.0, (320, 16)); 8];
    nics[3] = nic("mlx5_3", 200.0, (320, 16));
    let two = [("a", 8), ("b", 8)];
    let of = |test| limit(&run(test, &two), &nics, &[]).expect("a limit");
    let ring = of(Test::AllReduce);
    assert_eq!((ring.host, ring.expected), (375.0, 200.0));
    assert_eq!(ring.slowest.as_deref(), Some("mlx5_3/1"));
    assert_eq!(of(Test::Alltoall).slowest, None);
    let alike = limit(&run(Test::AllReduce, &two), &nics[4..], &[]).expect("a limit");
    assert_eq!((alike.expected, alike.slowest), (200.0, None));
}

/// The only GPU of a host sends through one NIC.
#[test]
fn alltoall_with_one_rank_per_host_uses_one_nic() {
    let nics = vec![nic("mlx5_0", 400.0, (320, 16)); 8];
    let one = [("a", 1), ("b", 1), ("c", 1)];
    let limit = limit(&run(Test::Alltoall, &one), &nics, &[]).expect("a limit");
    assert_eq!((limit.most, limit.expected), (400.0, 50.0));
}
