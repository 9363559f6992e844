//! Parser for the table of oneCCL's benchmark (uxlfoundation/oneCCL examples/benchmark, 2021.1 to 2021.14). It prints
//! times; bus bandwidth follows with the factors of nccl-tests (doc/PERFORMANCE.md).

use super::input::number;
use super::ranks::{Layout, MOST_RANKS};
use super::{Measure, Point, Results, Run, Test};

/// Names of collectives. Those with `true` print the bytes per rank or pair of ranks (`get_send_multiplier` and
/// `get_recv_multiplier` of examples/benchmark/src/*/*_strategy.hpp), nccl-tests those of all.
const COLLECTIVES: &[(&str, Test, bool)] = &[
    ("allreduce", Test::AllReduce, false),
    ("allgather", Test::AllGather, true),
    ("allgatherv", Test::AllGather, true),
    ("alltoall", Test::Alltoall, true),
    ("alltoallv", Test::Alltoallv, true),
    ("bcast", Test::Broadcast, false),
    ("broadcast", Test::Broadcast, false),
    ("reduce", Test::Reduce, false),
    ("reduce_scatter", Test::ReduceScatter, false),
];

/// State of the reader.
#[derive(Default)]
pub(super) struct Oneccl {
    /// Processes and ranks of each process, from the list of options.
    processes: Option<usize>,
    ranks_per_process: Option<usize>,
    /// Current table: line, collectives, and the column of the average time, if its heading was read.
    table: Option<(usize, String)>,
    average: Option<usize>,
    points: Vec<(usize, u64, f64)>,
    runs: Vec<Run>,
    notes: Vec<(usize, String)>,
    unread: Vec<usize>,
}

impl Oneccl {
    /// Reads a line. Returns whether it belongs to a table of this program.
    pub(super) fn line(&mut self, line: &str, number_of_line: usize) -> bool {
        let after = |key: &str| Some(line[line.find(key)? + key.len()..].trim());
        let count = |text: &str| text.parse().ok().filter(|count| (1..=MOST_RANKS).contains(count));
        if let Some(names) = after("# Benchmarking:") {
            self.close();
            self.table = Some((number_of_line, names.to_owned()));
        } else if let Some(processes) = after("# #processes:").or_else(|| after(" processes:")) {
            self.processes = count(processes);
        } else if let Some(ranks) = after(" ranks_per_proc:") {
            self.ranks_per_process = count(ranks);
        } else if self.table.is_some() && line.contains("#bytes") {
            let names = line[line.find("#bytes").unwrap_or(0)..].split_whitespace();
            self.average =
                names.into_iter().position(|name| name.trim_start_matches("t_") == "avg[usec]");
        } else if let Some(column) = self.average {
            let words: Vec<&str> = line.split_whitespace().collect();
            // A launcher's prefix is not a number.
            let start =
                words.iter().rposition(|word| number(word).is_none()).map_or(0, |at| at + 1);
            let words = &words[start..];
            let values = words.first().and_then(|bytes| bytes.parse().ok());
            let time = words.get(column).and_then(|time| number(time));
            let Some((bytes, time)) = values.zip(time).filter(|_| words.len() > column + 1) else {
                if line.contains("# All done") {
                    self.close();
                } else if super::input::is_cut_row(line) {
                    self.unread.push(number_of_line);
                }
                return false;
            };
            self.points.push((number_of_line, bytes, time));
        } else {
            return false;
        }
        true
    }

    fn close(&mut self) {
        self.average = None;
        let points = std::mem::take(&mut self.points);
        let Some((line, names)) = self.table.take() else { return };
        let mut note = |text: &str| self.notes.push((line, text.to_owned()));
        let Some((_, test, is_part)) = COLLECTIVES.iter().find(|(name, ..)| *name == names) else {
            return note(
                "oneCCL's benchmark measured several collectives together, or an unknown one: run each alone",
            );
        };
        let Some(processes) = self.processes else {
            return note(
                "the number of processes of oneCCL's benchmark is missing: save its whole output",
            );
        };
        if points.is_empty() {
            return note(super::input::NO_ROWS);
        }
        let ranks = (processes * self.ranks_per_process.unwrap_or(1)).min(MOST_RANKS);
        let (all, share) = (ranks as u64, (ranks as f64 - 1.0) / ranks as f64);
        let factor = match test {
            Test::AllReduce => 2.0 * share,
            Test::Broadcast | Test::Reduce => 1.0,
            _ => share,
        };
        let point = |(line, bytes, time): (usize, u64, f64)| {
            let bytes = if *is_part { bytes.checked_mul(all)? } else { bytes };
            // Bytes per microsecond are MB/s.
            let bandwidth = if time > 0.0 { bytes as f64 / time / 1e3 * factor } else { 0.0 };
            let out = Some(Measure { bandwidth, time: Some(time), wrong: None });
            Some(Point { line, bytes, out, within: None })
        };
        self.runs.push(Run {
            line,
            test: Some(*test),
            version: Some("oneCCL benchmark".to_owned()),
            layout: Some(Layout::of_header(ranks)),
            points: points.into_iter().filter_map(point).collect(),
            ..Run::default()
        });
    }

    /// Moves the runs to the results.
    pub(super) fn finish(mut self, results: &mut Results) {
        self.close();
        results.runs.extend(self.runs);
        results.unread.extend(self.unread);
        for (line, text) in self.notes {
            results.note(line, text);
        }
    }
}
