//! Every parser of the list survives foreign bytes: it ends soon, uses little memory, does not panic, and reads back what
//! it writes. Inputs are its corpus and damaged copies of it, as many as PROPTEST_CASES. `fuzz/` runs the same for hours
//! (docs/security.md).

use std::time::{Duration, Instant};

use bedplate_tests::damage::{Damage, PIECES, damage, hurt};
use bedplate_tests::parsers::{PARSERS, Parser};
use bedplate_tests::property;
use libtest_mimic::{Arguments, Failed, Trial};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Time limit per input, with a margin for debug builds on a busy machine.
const LIMIT: Duration = Duration::from_secs(5);
/// Limit for the growth of the program's memory, in KiB.
const MEMORY_KIB: u64 = 256 * 1024;
/// Maximum input length in bytes; real files may be that long.
const LONGEST: usize = 64 * 1024;

fn main() {
    let arguments = Arguments::from_args();
    let trials =
        PARSERS.iter().map(|(name, parser)| Trial::test(*name, || survives(name, *parser)));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// An input: one of the corpus with damage, or random bytes.
fn inputs(corpus: usize) -> impl Strategy<Value = (Option<Index>, Vec<Damage>, Vec<u8>)> {
    assert!(corpus > 0, "a parser without a corpus");
    let damaged = (any::<Index>(), prop::collection::vec(damage(), 0..6));
    prop_oneof![
        8 => damaged.prop_map(|(which, damages)| (Some(which), damages, Vec::new())),
        1 => prop::collection::vec(any::<u8>(), 0..600).prop_map(|bytes| (None, Vec::new(), bytes)),
        // Repeated pieces reveal parsers that are not linear or exhaust the stack.
        1 => (prop::collection::vec(any::<u8>(), 1..8), 1..4000_usize)
            .prop_map(|(piece, times)| (None, Vec::new(), piece.repeat(times))),
        2 => (0..PIECES.len(), 0..PIECES.len(), 1..20_000_usize).prop_map(|(one, other, times)| {
            (None, Vec::new(), [PIECES[one], PIECES[other]].concat().repeat(times).into_bytes())
        }),
    ]
}

fn survives(name: &str, parser: Parser) -> Result<(), Failed> {
    let corpus = corpus(name)?;
    for bytes in &corpus {
        timed(parser, bytes).map_err(|why| Failed::from(why.to_string()))?;
    }
    let before = peak();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..property::config(256) });
    let result = runner.run(&inputs(corpus.len()), |(which, damages, other)| {
        let mut bytes = which.map_or(other, |which| which.get(&corpus).clone());
        damages.iter().for_each(|damage| hurt(&mut bytes, damage));
        bytes.truncate(LONGEST);
        timed(parser, &bytes)
    });
    result.map_err(|error| error.to_string())?;
    let after = peak();
    if after - before > MEMORY_KIB {
        return Err(format!("{before} KiB before, {after} KiB after").into());
    }
    Ok(())
}

fn timed(parser: Parser, bytes: &[u8]) -> Result<(), TestCaseError> {
    let begun = Instant::now();
    parser(bytes);
    let took = begun.elapsed();
    prop_assert!(took < LIMIT, "it took {took:?}: {:?}", String::from_utf8_lossy(bytes));
    Ok(())
}

fn corpus(name: &str) -> Result<Vec<Vec<u8>>, Failed> {
    let directory = bedplate_tests::data("corpus").join(name);
    let files = std::fs::read_dir(&directory)
        .map_err(|error| format!("no corpus: {}: {error}", directory.display()))?;
    let mut paths = files.map(|file| Ok(file?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths.iter().map(std::fs::read).collect::<std::io::Result<_>>()?)
}

/// Peak memory so far, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
