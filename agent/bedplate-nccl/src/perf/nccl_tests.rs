//! Parser for lines of nccl-tests and RCCL-tests. Columns vary by version (with or without `redop` and `root`, one
//! group or two, four or more columns per group), so they are read from the heading if there is one (nccl-tests
//! src/util.cu, src/common.cu; RCCL-tests src/common.cu).

use super::input::number;
use super::ranks::Ratio;
use super::{Measure, Point, Test};

/// Names of data types in all versions of both programs.
const TYPES: &[&str] = &[
    "int8", "char", "uint8", "int32", "int", "uint32", "int64", "uint64", "half", "float",
    "double", "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "fp8", "bf8",
];
/// Minimum blanks between root and time if the out-of-place columns are empty (a replay of a trace).
const EMPTY_GROUP: usize = 20;

/// Column layout.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Columns {
    /// Number of columns between type and time.
    words: usize,
    /// Number of columns per measurement.
    group: usize,
    /// Index of the count of wrong elements; older versions print the largest difference instead.
    wrong: Option<usize>,
    /// Number of measurements.
    groups: usize,
    /// Whether a single measurement is in place.
    in_place_only: bool,
    /// Whether the time is in milliseconds, as in the first versions.
    milliseconds: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            words: 2,
            group: 4,
            wrong: None,
            groups: 2,
            in_place_only: false,
            milliseconds: false,
        }
    }
}

impl Columns {
    /// Parses a heading, if the line is one.
    pub(super) fn heading(line: &str, in_place_only: bool) -> Option<Self> {
        let line = &line[line.find('#')? + 1..];
        let names: Vec<&str> = line.split_whitespace().collect();
        let milliseconds = names.starts_with(&["bytes", "N", "type"]);
        if !milliseconds && !names.starts_with(&["size", "count", "type"]) {
            return None;
        }
        let first = names.iter().position(|name| *name == "time")?;
        let second = names.iter().skip(first + 1).position(|name| *name == "time");
        let of_group = &names[first..second.map_or(names.len(), |second| first + 1 + second)];
        // A timestamp may follow a single group.
        let group = of_group.iter().take_while(|name| !name.contains("stamp")).count();
        Some(Columns {
            words: first.saturating_sub(3),
            group: group.max(3),
            wrong: of_group.iter().position(|name| *name == "#wrong"),
            groups: if second.is_some() { 2 } else { 1 },
            in_place_only,
            milliseconds,
        })
    }
}

/// A line that starts like a result.
#[derive(Debug, PartialEq)]
pub(super) enum Row {
    /// A result.
    Point(Point, Option<Reduction>, Ratio),
    /// A line that continues as something else.
    Unread,
}

/// Data of a row of a reducing operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reduction {
    /// Whether the operation has a root.
    pub(super) rooted: bool,
    /// Algorithm bandwidth in GB/s: bytes by time.
    algorithm: f64,
    /// Bus bandwidth in GB/s: algorithm bandwidth times the operation's factor.
    bus: f64,
}

impl Reduction {
    /// Returns the faster row, which has more significant digits.
    pub(super) fn faster(self, other: Option<Self>) -> Self {
        other.filter(|other| other.algorithm > self.algorithm).unwrap_or(self)
    }

    /// Derives the operation for a number of ranks: bus bandwidth is 2(n−1)/n of algorithm bandwidth for all_reduce and
    /// half of that for reduce_scatter (nccl-tests doc/PERFORMANCE.md).
    pub(super) fn test(self, ranks: usize) -> Option<Test> {
        let between = 1.5 * (ranks.checked_sub(1)? as f64) / ranks as f64;
        // Values are printed with two decimals.
        match (self.rooted, self.algorithm >= 0.5 && ranks > 1) {
            (true, _) => Some(Test::Reduce),
            (false, true) if self.bus > between * self.algorithm => Some(Test::AllReduce),
            (false, true) => Some(Test::ReduceScatter),
            (false, false) => None,
        }
    }

    /// Parses the `words` between type and time: `sum -1`, in older versions only `sum`, or nothing for operations that
    /// do not reduce.
    fn parse(words: &[(usize, &str)], first: Option<&[(usize, &str)]>) -> Option<Self> {
        words.iter().find(|(_, word)| word.parse::<i64>().is_err() && *word != "none")?;
        let root = words.iter().find_map(|(_, word)| word.parse::<i64>().ok());
        let value = |at: usize| first?.get(at).and_then(|(_, word)| number(word));
        Some(Reduction {
            rooted: root.is_some_and(|root| root >= 0),
            algorithm: value(1)?,
            bus: value(2)?,
        })
    }
}

/// Parses a result, if the line is one. Skips the prefix of a launcher.
pub(super) fn row(line: &str, number: usize, columns: &Columns) -> Option<Row> {
    let tokens = tokens(line);
    let kind = tokens.iter().position(|(_, token)| TYPES.contains(token)).filter(|at| *at >= 2)?;
    // A prefix may touch the number: `[1,0]<stdout>:1048576`.
    let size = tokens[kind - 2].1.rsplit([':', '>', '|']).next()?;
    let (Ok(bytes), Ok(_)) = (size.parse::<u64>(), tokens[kind - 1].1.parse::<u64>()) else {
        return None;
    };
    let mut rest = &tokens[kind + 1..];
    while let [head @ .., (_, last)] = rest {
        // A timestamp at the end.
        let is_time = last.contains(':') || last.matches('-').count() == 2 && last.len() == 10;
        if !is_time {
            break;
        }
        rest = head;
    }
    let found = [columns.words, 2, 1, 0].into_iter().find_map(|words| {
        let (_, values) = rest.split_at_checked(words)?;
        let count = values.len() / columns.group;
        let fits = values.len() % columns.group == 0 && (1..=2).contains(&count);
        let groups = || values.chunks(columns.group).map(|group| measure(group, columns));
        let measures: Vec<Group> = fits.then(|| groups().collect::<Option<Vec<_>>>()).flatten()?;
        Some((words, measures))
    });
    let Some((words, measures)) = found else { return Some(Row::Unread) };
    let mut measures = measures.into_iter().map(|group| match group {
        Group::Measured(measure) => Some(measure),
        Group::Left => None,
    });
    let (first, second) = (measures.next().flatten(), measures.next());
    let before = tokens.get(kind + words).map_or(0, |(end, _)| *end);
    let begins = rest.get(words).map_or(0, |(end, token)| end.saturating_sub(token.len()));
    let (out, within) = match second {
        Some(second) => (first, second),
        None if columns.in_place_only => (None, first),
        None if columns.groups == 1 => (first, None),
        None if begins.saturating_sub(before) >= EMPTY_GROUP => (None, first),
        // The second measurement was truncated.
        None => (first, None),
    };
    let (words, values) = rest.split_at_checked(words).unwrap_or_default();
    let measured = values.chunks(columns.group).find(|group| group[0].1 != "N/A");
    let reduction = Reduction::parse(words, measured);
    let ratio = |group: &[(usize, &str)]| Ratio::of(group.get(1)?.1, group.get(2)?.1);
    let ratios = values.chunks(columns.group).filter_map(ratio);
    let ratio = ratios.fold(Ratio::default(), Ratio::and);
    Some(Row::Point(Point { line: number, bytes, out, within }, reduction, ratio))
}

/// Returns the words with their end positions.
fn tokens(line: &str) -> Vec<(usize, &str)> {
    let start = line.as_ptr() as usize;
    line.split_whitespace()
        .map(|word| (word.as_ptr() as usize - start + word.len(), word))
        .collect()
}

enum Group {
    Measured(Measure),
    /// Not measured: all columns are `N/A`.
    Left,
}

fn measure(group: &[(usize, &str)], columns: &Columns) -> Option<Group> {
    let word = |at: usize| group.get(at).map(|(_, word)| *word);
    if (0..3).all(|at| word(at) == Some("N/A")) {
        return Some(Group::Left);
    }
    let (time, _, bandwidth) = (number(word(0)?)?, number(word(1)?)?, number(word(2)?)?);
    let wrong = columns.wrong.and_then(word);
    let wrong = match wrong {
        None | Some("N/A") => None,
        Some(text) => Some(number(text.trim_end_matches('*'))?),
    };
    let time = if columns.milliseconds { time * 1000.0 } else { time };
    Some(Group::Measured(Measure { bandwidth, time: Some(time), wrong }))
}
