//! Parser for lines of gdrcopy_copybw (NVIDIA/gdrcopy tests/copybw.cpp, v1.3 to v2.6). Its MB/s means 2²⁰ bytes per
//! second.

use super::input::number;
use super::perftest::MIB;
use super::{Copied, Results, Run, Test};

/// State of the reader.
#[derive(Default)]
pub(super) struct Gdrcopy {
    /// Addresses of GPUs by index.
    gpus: Vec<(usize, String)>,
    gpu: Option<usize>,
    bytes: Option<u64>,
    /// First line of the current output.
    begun: Option<usize>,
    runs: Vec<Run>,
}

impl Gdrcopy {
    /// Reads a line. Returns whether it belongs to this program.
    pub(super) fn line(&mut self, line: &str, number_of_line: usize) -> bool {
        let after = |key: &str| Some(line[line.find(key)? + key.len()..].trim());
        if let Some((gpu, address)) =
            after("GPU id:").and_then(|rest| rest.split_once(';')).zip(after("Bus id:"))
        {
            if self.gpu.take().is_some() {
                self.gpus.clear();
            }
            self.begun.get_or_insert(number_of_line);
            self.gpus.extend(gpu.0.parse().ok().map(|gpu| (gpu, address.to_owned())));
        } else if let Some(gpu) = after("selecting device ") {
            self.gpu = gpu.parse().ok();
        } else if let Some(rest) =
            after("writing test, size=").or_else(|| after("reading test, size="))
        {
            self.begun.get_or_insert(number_of_line);
            self.bytes = rest.split_whitespace().next().and_then(|size| size.parse().ok());
        } else if let Some((case, rest)) = after("write BW: ")
            .map(|rest| ("write", rest))
            .or_else(|| after("read BW: ").map(|rest| ("read", rest)))
            && let Some(rate) = rest.strip_suffix("MB/s").and_then(number)
        {
            self.add(case, rate * MIB, number_of_line);
        } else {
            return false;
        }
        true
    }

    fn add(&mut self, case: &str, bandwidth: f64, line: usize) {
        self.begun = None;
        let address = self.gpus.iter().find(|(gpu, _)| Some(*gpu) == self.gpu);
        let copy = Copied {
            line,
            gpu: self.gpu,
            address: address.map(|(_, address)| address.clone()),
            bytes: self.bytes.take(),
            bandwidth,
        };
        // Sizes alternate between both directions; each GPU has its own runs.
        let is_same = |run: &&mut Run| {
            run.case.as_deref() == Some(case)
                && run
                    .copies
                    .last()
                    .is_some_and(|last| (last.gpu, &last.address) == (copy.gpu, &copy.address))
        };
        if let Some(run) = self.runs.iter_mut().rev().take(2).find(is_same) {
            run.copies.push(copy);
            return;
        }
        self.runs.push(Run {
            line,
            test: Some(Test::GdrcopyCopybw),
            case: Some(case.to_owned()),
            copies: vec![copy],
            ..Run::default()
        });
    }

    /// Moves the runs to the results.
    pub(super) fn finish(self, results: &mut Results) {
        results.runs.extend(self.runs);
        if let Some(line) = self.begun {
            results.note(
                line,
                "gdrcopy_copybw printed no bandwidth: it failed, or the file is truncated",
            );
        }
    }
}
