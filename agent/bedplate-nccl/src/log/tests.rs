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
    for host in ["(none)", "kn\u{f6}tchen)", ""] {
        let text = format!("{INIT}{DIRECT}{}\n", SOCKET.replacen('m', host, 1));
        assert_eq!(verdict(&text), Verdict::CannotTell, "{host}");
    }
}

#[test]
fn many_warnings_do_not_hide_a_fault() {
    let letters = |n: u32| n.to_string().bytes().map(|b| char::from(b + 49)).collect::<String>();
    let more: String =
        (100..200).map(|n| format!("n:1:2 [0] x.cc:1 NCCL WARN {} is new\n", letters(n))).collect();
    let fault = "n:1:2 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed\n";
    assert_eq!(verdict(&[INIT, DIRECT, &more, fault].concat()), Verdict::Faults);
    assert_eq!(verdict(&[INIT, DIRECT, &more].concat()), Verdict::Direct);
}
