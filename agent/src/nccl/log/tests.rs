//! Whatever a log holds and however it comes, reading it ends well.

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
fn the_largest_communicator_gives_the_rank() {
    let line = |rank: u32, ranks: u32| {
        format!(
            "n:1:2 [0] NCCL INFO comm 0x1 rank {rank} nranks {ranks} cudaDev 0 - Init COMPLETE\n"
        )
    };
    let log = whole(&[line(0, 2), line(13, 64), line(1, 8)].concat());
    assert_eq!(log.workers[0].rank, Some((13, 64)));
}

#[test]
fn memory_is_bounded_whatever_is_said() {
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
fn lines_without_end_are_read_for_their_beginning() {
    let long = format!("n:1:2 [0] NCCL INFO Using network IB{}", "x".repeat(1 << 20));
    let log = whole(&format!("{long}\nn:1:2 [0] NCCL INFO Using network Socket"));
    assert_eq!((log.lines, log.said), (2, 2));
    let (network, place) = log.processes[&(0, 1)].network.as_ref().unwrap();
    assert_eq!((network.as_str(), place.line), ("Socket", 2));
}

#[test]
fn one_socket_spoils_the_word() {
    let direct = "n:1:2 [0] NCCL INFO Channel 0/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n";
    let socket = "m:1:2 [0] NCCL INFO Channel 0/0 : 1[0] -> 0[0] [send] via NET/Socket/0\n";
    assert_eq!(judge(&whole(direct)).verdict, Verdict::Direct);
    assert_eq!(judge(&whole(&direct.repeat(99))).verdict, Verdict::Direct);
    assert_eq!(judge(&whole(&(direct.repeat(99) + socket))).verdict, Verdict::NotDirect);
}

proptest! {
    /// Any bytes end in a word, and it is the same however they are cut.
    #[test]
    fn any_bytes_in_any_pieces(
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
