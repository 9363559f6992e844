//! Limits, malformed input, and verdicts about incomplete logs.

use proptest::prelude::*;

use super::verdict::{Verdict, judge};
use super::*;

fn read<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> Log {
    let mut reader = Reader::default();
    pieces.for_each(|piece| reader.feed(piece));
    reader.end_file();
    reader.finish()
}

fn whole(text: &str) -> Log {
    read(std::iter::once(text.as_bytes()))
}

#[test]
fn rank_is_that_of_the_largest_communicator() {
    let line = |rank: u32, ranks: u32| {
        format!(
            "n:1:2 [0] NCCL INFO comm 0x1 rank {rank} nranks {ranks} cudaDev 0 - Init COMPLETE\n"
        )
    };
    let log = whole(&[line(0, 2), line(13, 64), line(1, 8)].concat());
    assert_eq!(log.workers[0].rank, Some((13, 64)));
}

#[test]
fn memory_is_bounded_for_any_messages() {
    let mut text = String::new();
    for number in 0..5000 {
        let letters: String = format!("{number:05}").bytes().map(|b| char::from(b + 49)).collect();
        text += &format!("n:1:2 [0] x.cc:1 NCCL WARN {letters} is wrong\n");
        text += &format!("n:1:2 [0] NCCL INFO NCCL_{letters} set by environment to {number}\n");
        text += &format!("n:1:2 [0] NCCL INFO NCCL version 2.{number}\n");
        text +=
            &format!("n:1:2 [0] NCCL INFO Channel 0/0 : 0[0] -> 1[0] [send] via NET/IB/{number}\n");
    }
    let log = whole(&text);
    assert!(log.cut);
    assert!(log.warnings.len() <= MOST_KINDS && log.versions.len() <= MOST_KINDS);
    assert!(log.environment.len() <= 4 * MOST_KINDS && log.workers[0].nics.len() <= MOST_NICS);
}

#[test]
fn messages_in_one_line_are_read_up_to_a_limit() {
    let log = whole(&"h:1:2 [0] NCCL WARN x ".repeat(100));
    assert_eq!(log.said, 16);
    assert!(log.lost.is_some());
}

#[test]
fn overlong_lines_are_read_up_to_the_limit() {
    let long = format!("n:1:2 [0] NCCL INFO Using network IB{}", "x".repeat(1 << 20));
    let log = whole(&format!("{long}\nn:1:2 [0] NCCL INFO Using network Socket"));
    assert_eq!((log.lines, log.said), (2, 2));
    let (network, place) = log.processes[&(0, 1)].network.as_ref().unwrap();
    assert_eq!((network.as_str(), place.line), ("Socket", 2));
}

proptest! {
    /// Any bytes give a verdict, and the same one for any split into pieces.
    #[test]
    fn verdict_is_the_same_for_any_split_into_pieces(
        lines in prop::collection::vec(prop_oneof![
            any::<Vec<u8>>(),
            "[ -~]{0,60}".prop_map(String::into_bytes),
            "(n:1:2 )?\\[[0-9]{0,3}\\] (x:1 )?NCCL (INFO|WARN) (Channel|Ring|NET|NCCL|Call)[ -~]{0,60}"
                .prop_map(String::into_bytes),
        ], 0..12),
        cut in 1_usize..50,
    ) {
        let text = lines.join(&b'\n');
        let one = read(std::iter::once(text.as_slice()));
        let many = read(text.chunks(cut));
        prop_assert_eq!(one.lines, many.lines);
        prop_assert_eq!(one.said, many.said);
        prop_assert_eq!(one.workers.len(), many.workers.len());
        prop_assert_eq!(judge(&one).reason, judge(&many).reason);
    }
}

const INIT: &str = "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n\
    m:1:2 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 - Init COMPLETE\n";
const DIRECT: &str = "n:1:2 [0] NCCL INFO Channel 0/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n\
    m:1:2 [0] NCCL INFO Channel 0/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA\n";
const SOCKET: &str = "m:1:2 [0] NCCL INFO Channel 0/0 : 1[0] -> 0[0] [send] via NET/Socket/0";

fn verdict(text: &str) -> Verdict {
    judge(&whole(text)).verdict
}

#[test]
fn positive_verdict_requires_all_ranks() {
    assert_eq!(verdict(&[INIT, DIRECT].concat()), Verdict::Direct);
    // One of two files: the log lacks the connections of the other rank.
    let own = |text: &str| text.lines().next().map(|line| format!("{line}\n")).unwrap();
    let half = judge(&whole(&(own(INIT) + &own(DIRECT))));
    assert_eq!(half.verdict, Verdict::CannotTell);
    assert!(half.reason.contains("1 of 2 ranks"), "{}", half.reason);
    // The number of ranks is unknown.
    assert_eq!(verdict(DIRECT), Verdict::CannotTell);
    let peer = "n:1:2 [0] NCCL INFO Channel 0/0 : 0[0] -> 1[1] via P2P/CUMEM\n";
    assert_eq!(verdict(&(own(INIT) + peer)), Verdict::CannotTell);
    let both = "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE\n\
        n:2:3 [1] NCCL INFO comm 0x1 rank 1 nranks 2 - Init COMPLETE\n\
        n:2:3 [1] NCCL INFO Channel 0/0 : 1[1] -> 0[0] via P2P/CUMEM\n";
    assert_eq!(verdict(&[both, peer].concat()), Verdict::OneNode);
}

#[test]
fn one_socket_connection_makes_verdict_not_direct() {
    assert_eq!(verdict(&(INIT.to_owned() + &DIRECT.repeat(99))), Verdict::Direct);
    assert_eq!(verdict(&(INIT.to_owned() + &DIRECT.repeat(99) + SOCKET)), Verdict::NotDirect);
}

#[test]
fn nvlink_between_nodes_is_direct() {
    let peer = "n:1:2 [0] NCCL INFO Channel 0/0 : 0[0] -> 1[0] via P2P/MNNVL\n\
        m:1:2 [0] NCCL INFO Channel 0/0 : 1[0] -> 0[0] via P2P/MNNVL\n";
    assert_eq!(verdict(&[INIT, peer].concat()), Verdict::Direct);
}

#[test]
fn carriage_return_starts_a_new_line() {
    let bar = "#".repeat(20 << 10);
    for between in ["50%\r".to_owned(), format!("{bar}\r"), "\r\n\r".to_owned()] {
        let text = format!("{INIT}{DIRECT}{between}{SOCKET}\r\n");
        assert_eq!(verdict(&text), Verdict::NotDirect, "{between:?}");
    }
    let log = whole("a\rb\n\r\nn:1:2 [0] NCCL INFO Using network IB");
    assert_eq!(log.lines, 3);
    assert_eq!(log.processes[&(0, 1)].network.as_ref().unwrap().1.line, 3);
}

#[test]
fn two_messages_in_one_line_are_both_read() {
    let glued = format!("{} {SOCKET}\n", DIRECT.trim_end());
    assert_eq!(verdict(&[INIT, &glued].concat()), Verdict::NotDirect);
    // The end of a message is ambiguous, so no positive verdict may depend on it.
    let glued = format!("{}{}", DIRECT.trim_end(), DIRECT);
    assert_eq!(verdict(&[INIT, &glued].concat()), Verdict::CannotTell);
}

#[test]
fn unreadable_message_prevents_positive_verdict() {
    let direct = DIRECT.lines().next().expect("a line");
    for host in ["(none)", "kn\u{f6}tchen)", ""] {
        let with = |line: &str| format!("{INIT}{DIRECT}{}\n", line.replacen(['m', 'n'], host, 1));
        assert_eq!(verdict(&with(direct)), Verdict::CannotTell, "{host}");
        assert_eq!(verdict(&with(SOCKET)), Verdict::NotDirect, "{host}");
    }
}

/// Launchers and editors replace names and numbers. Such a line can prove only that a connection is not direct.
#[test]
fn message_without_its_process_is_read() {
    let whole = format!("{INIT}{DIRECT}");
    for before in [
        "<host>:1:2 [0] ",
        "node-1:XXXX:YYYY [0] ",
        "node-1 [0] ",
        "kn\u{f6}l:1:2 [0] ",
        "[0] ",
        "",
    ] {
        let with = |text: &str| {
            whole
                .lines()
                .map(|line| format!("{before}{}\n", &line[line.find("NCCL INFO").unwrap()..]))
                .collect::<String>()
                + before
                + text
                + "\n"
        };
        let direct = "NCCL INFO Channel 0/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA";
        assert_eq!(verdict(&with(direct)), Verdict::CannotTell, "{before}");
        assert_eq!(verdict(&with(&direct.replace("/GDRDMA", ""))), Verdict::NotDirect, "{before}");
        let fault = "x.cc:1 NCCL WARN Call to ibv_reg_mr failed";
        assert_eq!(verdict(&with(fault)), Verdict::Faults, "{before}");
    }
    assert_eq!(verdict("the NCCL INFO of my program\n"), Verdict::CannotTell);
}

#[test]
fn line_without_end_proves_no_missing_direct_access() {
    let other = "n:1:2 [0] NCCL INFO Channel 1/0 : 0[0] -> 1[0] [send] via NET/IB/0";
    let whole = [INIT, DIRECT].concat();
    for cut in ["", "/", "/GDR"] {
        assert_eq!(verdict(&format!("{whole}{other}{cut}")), Verdict::Direct, "{cut}");
    }
    assert_eq!(verdict(&format!("{whole}{other}/GDRDMA")), Verdict::CannotTell, "no other end");
    assert_eq!(verdict(&format!("{whole}{other}\n")), Verdict::NotDirect);
}

/// Four ranks on two nodes; the second node has only connections within it.
#[test]
fn every_node_and_direction_is_required() {
    let mut text = String::new();
    for (rank, host) in ["n", "n", "m", "m"].iter().enumerate() {
        let gpu = rank % 2;
        text += &format!(
            "{host}:{rank}:2 [{gpu}] NCCL INFO comm 0x1 rank {rank} nranks 4 cudaDev {gpu} - Init COMPLETE\n\
             {host}:{rank}:2 [{gpu}] NCCL INFO Channel 0/0 : {rank}[{gpu}] -> {}[1] via P2P/CUMEM\n",
            rank ^ 1
        );
    }
    let of = |host: &str, rank: u32, rest: &str| {
        format!("{host}:{rank}:2 [0] NCCL INFO Channel 0/0 : {rest}/GDRDMA\n")
    };
    let [send, back] = ["0[0] -> 2[0] [send] via NET/IB/0", "2[0] -> 0[0] [receive] via NET/IB/0"];
    let [receive, reply] =
        ["0[0] -> 2[0] [receive] via NET/IB/0", "2[0] -> 0[0] [send] via NET/IB/0"];
    let first = of("n", 0, send) + &of("n", 0, back);
    let second = of("m", 2, receive) + &of("m", 2, reply);
    assert_eq!(verdict(&format!("{text}{first}{second}")), Verdict::Direct);
    let one = judge(&whole(&format!("{text}{first}")));
    assert_eq!(one.verdict, Verdict::CannotTell);
    assert!(one.reason.contains("no connection of m"), "{}", one.reason);
    let sends = of("n", 0, send) + &of("m", 2, reply);
    assert_eq!(verdict(&format!("{text}{sends}")), Verdict::CannotTell);
}

#[test]
fn setup_that_does_not_finish_is_unknown() {
    let start = INIT.replace("COMPLETE", "START");
    assert_eq!(verdict(&[&start, DIRECT].concat()), Verdict::CannotTell);
    assert_eq!(verdict(&[&start, DIRECT, INIT].concat()), Verdict::Direct);
    assert_eq!(verdict(&[&start, DIRECT, INIT, &start].concat()), Verdict::CannotTell);
}

/// NCCL's lines of a communicator carry no id.
#[test]
fn connections_of_every_communicator_are_required() {
    let of = |what: &str| {
        ["n", "m"]
            .iter()
            .enumerate()
            .map(|(rank, host)| {
                format!("{host}:1:2 [0] NCCL INFO comm 0x2 rank {rank} nranks 2 - Init {what}\n")
            })
            .collect::<String>()
    };
    let (start, complete) = (of("START"), of("COMPLETE"));
    let rings =
        "n:1:2 [0] NCCL INFO Connected all rings\nm:1:2 [0] NCCL INFO Connected all rings\n";
    // At setup, without and with the report of its start, and at the first use.
    let eager = [DIRECT, &complete].concat();
    let started = [&start, DIRECT, &complete].concat();
    let used = [DIRECT, rings].concat();
    for text in [
        [&eager[..], &eager].concat(),
        [&started[..], &started].concat(),
        [&start[..], &complete, &start, &complete, &used, &used].concat(),
        [&start[..], &complete, &used, &start, &complete, &used].concat(),
    ] {
        assert_eq!(verdict(&text), Verdict::Direct, "{text}");
    }
    for text in [
        [&eager[..], &complete].concat(),
        [&started[..], &start, &complete].concat(),
        [&start[..], &complete, DIRECT, &start, &complete].concat(),
        [&start[..], &complete, &start, &complete, &used].concat(),
    ] {
        let judged = judge(&whole(&text));
        assert_eq!(judged.verdict, Verdict::CannotTell, "{text}");
        assert!(judged.reason.contains("communicators"), "{}", judged.reason);
    }
}

#[test]
fn many_warnings_do_not_hide_a_fault() {
    let letters = |n: u32| n.to_string().bytes().map(|b| char::from(b + 49)).collect::<String>();
    let more: String =
        (100..200).map(|n| format!("n:1:2 [0] x.cc:1 NCCL WARN {} is new\n", letters(n))).collect();
    let fault = "n:1:2 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed\n";
    assert_eq!(verdict(&[INIT, DIRECT, &more, fault].concat()), Verdict::Faults);
    // Unknown warnings before and after the setup.
    let few: String = more.lines().take(50).map(|line| format!("{line}\n")).collect();
    assert_eq!(verdict(&[&few, INIT, DIRECT].concat()), Verdict::Direct);
    assert_eq!(verdict(&[INIT, DIRECT, &few].concat()), Verdict::CannotTell);
    assert_eq!(verdict(&[&more, INIT, DIRECT].concat()), Verdict::CannotTell, "some are dropped");
    assert_eq!(verdict(&[INIT, DIRECT, &more].concat()), Verdict::CannotTell);
}

/// Lines after a whole log with direct connections. Sources: NCCL src/transport/net_ib, src/proxy.cc; aws-ofi-nccl; RCCL.
#[test]
fn job_that_failed_is_never_direct() {
    let whole = [INIT, DIRECT].concat();
    for line in [
        "transport/net_ib/common.cc:140 NCCL WARN NET/IB : mlx5_0:1 async fatal event on QP (0x7f00) qpn=417: local work queue catastrophic error",
        "x.cc:1 NCCL WARN communicator encountered a fatal error (detected in ncclIbTest)",
        "x.cc:1 NCCL WARN NET/IB : Attempted to connect incompatible devices: [1]mlx5_1:1/RoCE and [0]mlx5_0:1/IB.",
        "x.cc:1 NCCL WARN NET/IB : Fatal error. Detected 1 failed devices out of 1 devices on the send communicator",
        "x.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0 len=0 vendor err 129",
        "x.cc:1 NCCL WARN NET/OFI Unable to register memory (type = 2)",
        "x.cc:1 NCCL WARN NET/OFI Request 0x1 completed with error. RC: 110. Error: 12",
        "x.cc:1 NCCL WARN hipIpcGetMemHandle failed : invalid argument",
        "x.cc:1 NCCL WARN [Service thread] Error encountered progressing operation=Connect, res=3, closing connection",
        "x.cc:1 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
        "NCCL INFO proxy.cc:679 -> 6 [Proxy Thread]",
        "NCCL INFO group.cc:64 -> 3 [Async thread]",
    ] {
        let text = format!("{whole}n:1:2 [0] {line}\n");
        assert_eq!(verdict(&text), Verdict::Faults, "{line}");
    }
    for line in [
        "[rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: x",
        "srun: error: node-b: task 1: Exited with exit code 6",
        "slurmstepd: error: *** STEP 1.0 ON n CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***",
        "n:1:2 [0] [FATAL ERROR]: HIP failure: 'out of memory'",
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1970, unhandled system error, NCCL version 2.20.5",
    ] {
        for before in ["", "12: ", "[1,0]<stderr>:"] {
            let text = format!("{before}{line}\n");
            assert_eq!(verdict(&text), Verdict::Faults, "{text}");
            assert_eq!(verdict(&format!("{whole}{text}")), Verdict::Faults, "{text}");
        }
    }
    for line in [
        "x.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async event : GID table change",
        "x.cc:1 NCCL WARN RAS received unknown message",
        "x.cc:1 NCCL WARN Cuda failure 4 'driver shutting down'",
        "NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 0 - Abort COMPLETE",
        "NCCL INFO [Service thread] Connection closed by localRank 0",
        "NCCL INFO misc/socket.cc:47 -> 3",
    ] {
        let text = format!("{whole}n:1:2 [0] {line}\n");
        assert_eq!(verdict(&text), Verdict::Direct, "{line}");
    }
    // A failed attempt before a setup that succeeds.
    let attempt = "n:1:2 [0] NCCL INFO transport/net_ib/init.cc:526 -> 3\n";
    assert_eq!(verdict(&format!("{attempt}{whole}")), Verdict::Direct);
    assert_eq!(verdict(attempt), Verdict::Faults);
}

/// Time is linear in nodes.
#[test]
fn job_with_many_nodes_is_judged_once_per_node() {
    let mut text = String::new();
    for host in 0..20_000 {
        for gpu in 0..2 {
            text += &format!("h{host}:{gpu}:1 [{gpu}] NCCL INFO NET/IB : No device found.\n");
        }
    }
    let judged = judge(&whole(&text));
    assert_eq!(judged.findings.len(), 20_000);
}
