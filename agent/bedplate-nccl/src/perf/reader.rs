//! Reads a file of results line by line.

use memchr::memmem;

use super::gdrcopy::Gdrcopy;
use super::gpu_address::is_address;
use super::input::number;
use super::nccl_tests::{self, Columns, Reduction, Row};
use super::nvbandwidth::Nvbandwidth;
use super::oneccl::Oneccl;
use super::{Claim, Device, NamedGpu, Results, Run, Test, gdsio, input, json, perftest};

/// Maximum bytes of a host name (RFC 1123).
const LONGEST_NAME: usize = 255;
/// Maximum bytes of a line of a table in the output of a job. A line has about 150.
const LONGEST_LINE: usize = 1 << 10;
/// Maximum number of lines of tables in the output of a job. A table has about a hundred.
const MOST_LINES: usize = 1 << 16;

/// State of the reader.
#[derive(Default)]
struct State {
    results: Results,
    run: Option<Run>,
    columns: Columns,
    bandwidth: Option<perftest::Columns>,
    /// Test named in a command line before the program's own output.
    announced: Option<Test>,
    in_place_only: bool,
    /// Group of the first rank.
    group: Option<String>,
    /// Fastest row of the current run, if it reduces.
    reduction: Option<Reduction>,
    /// Line of the title of the current latency test.
    latency: Option<usize>,
    nvbandwidth: Nvbandwidth,
    gdrcopy: Gdrcopy,
    oneccl: Oneccl,
}

/// Reads results. Skips unrelated lines (NCCL's or a launcher's).
pub fn read(text: &str) -> Results {
    if text.trim_start().starts_with('{')
        && let Some(results) = json::read(text)
    {
        return results;
    }
    let mut state = State::default();
    for (nth, line) in text.lines().enumerate() {
        let line = anstream::adapter::strip_str(line).to_string();
        state.line(&line, nth + 1);
    }
    let cut = text.lines().enumerate().last().filter(|_| !text.ends_with('\n'));
    let mut results = state.finish(cut.map(|(nth, line)| (nth + 1, line)));
    if results.is_empty() {
        results.note(1, input::reason(text));
    }
    results
}

impl State {
    fn line(&mut self, line: &str, number: usize) {
        if self.nvbandwidth.line(line, number)
            || self.gdrcopy.line(line, number)
            || gdsio::line(line, number, &mut self.results)
            || self.oneccl.line(line, number)
        {
            return;
        }
        if let Some(title) = perftest::title(line, number) {
            self.close();
            match title {
                perftest::Title::Bandwidth(run) => self.run = Some(*run),
                perftest::Title::Latency => {
                    self.latency = Some(number);
                    self.results.latency.push(number);
                }
            }
            return;
        }
        if let Some(columns) = perftest::Columns::heading(line) {
            // Without a title, the table does not belong to a run above.
            if self.run.as_ref().is_none_or(|run| run.device.is_none()) {
                self.close();
                let device = Some(Device::default());
                self.run = Some(Run { line: number, device, ..Run::default() });
            }
            self.bandwidth = Some(columns);
            return;
        }
        if perftest::is_latency(line) {
            self.results.latency.extend((self.latency.is_none()).then_some(number));
            return;
        }
        if let Some(device) = self.run.as_mut().and_then(|run| run.device.as_mut()) {
            perftest::header(line, device);
        }
        if let Some(columns) = self.bandwidth
            && let Some(point) = perftest::row(line, number, columns)
        {
            self.run(number).points.push(point);
            return;
        }
        self.collective(line, number);
    }

    /// Returns the results. `cut` is a last line without a line break, and its number.
    fn finish(mut self, cut: Option<(usize, &str)>) -> Results {
        let open = self.run.as_ref().map(|run| run.points.last().map_or(0, |point| point.line));
        self.close();
        self.nvbandwidth.finish(&mut self.results);
        self.gdrcopy.finish(&mut self.results);
        self.oneccl.finish(&mut self.results);
        self.results.runs.sort_by_key(|run| run.line);
        self.results.unread.sort_unstable();
        if let Some((number, line)) = cut {
            let is_unread = self.results.unread.pop_if(|last| *last == number).is_some();
            if is_unread || open.is_some_and(|last| last < number) && input::is_cut_row(line) {
                self.results.note(number, "the last line is incomplete: the file is truncated");
            }
        }
        self.results.notes.sort_by_key(|note| note.line);
        self.results
    }

    fn collective(&mut self, line: &str, number: usize) {
        if let Some(test) = Test::named_in(line) {
            if line.contains("concluded") {
                return self.close();
            }
            if line.contains("starting") {
                self.begin(number).test = Some(test);
            } else if self.run.as_ref().is_none_or(|run| !run.points.is_empty()) {
                self.announced = Some(test);
            }
        } else if line.contains("nThread ") && line.contains("minBytes ") {
            self.begin(number);
        } else if let Some(at) = line.find("nccl-tests version ") {
            let version = line[at + 19..].split_whitespace().next().unwrap_or_default();
            self.begin(number).version = Some(format!("nccl-tests {version}"));
        } else if let Some(at) = line.find("rccl-tests: Version ") {
            let version = line[at + 20..].split_whitespace().next().unwrap_or_default();
            self.run(number).version = Some(format!("RCCL-tests {version}"));
        } else if line.contains('#') && line.contains(" in-place ") {
            self.in_place_only = !line.contains("out-of-place");
        } else if let Some(columns) = Columns::heading(line, self.in_place_only) {
            self.columns = columns;
            self.bandwidth = None;
        } else if line.contains('#') && line.contains("Rank") && line.contains(" device ") {
            self.rank(line, number);
        } else if let Some(claim) = claim(line, "Out of bounds values", number) {
            self.run(number).out_of_bounds = Some(claim);
        } else if let Some(claim) = claim(line, "Avg bus bandwidth", number) {
            self.run(number).average = Some(claim);
        } else if self.bandwidth.is_none() {
            match nccl_tests::row(line, number, &self.columns) {
                Some(Row::Point(point, reduction, ratio)) => {
                    let run = self.run(number);
                    run.points.push(point);
                    run.ratio = std::mem::take(&mut run.ratio).and(ratio);
                    self.reduction = reduction.map(|one| one.faster(self.reduction));
                }
                Some(Row::Unread) => self.results.unread.push(number),
                None => {}
            }
        }
    }

    /// Returns the current run, or starts one without a header.
    fn run(&mut self, line: usize) -> &mut Run {
        let announced = &mut self.announced;
        self.run.get_or_insert_with(|| Run { line, test: announced.take(), ..Run::default() })
    }

    /// Returns the run that this header belongs to.
    fn begin(&mut self, line: usize) -> &mut Run {
        let is_over =
            |run: &Run| !run.points.is_empty() || run.device.is_some() || !run.ranks.is_empty();
        if self.run.as_ref().is_some_and(is_over) {
            self.close();
        }
        self.bandwidth = None;
        self.run(line)
    }

    /// Parses `#  Rank  0 Group  0 Pid   1234 on     node1 device  0 [0000:1b:00] NVIDIA H100`; older versions print
    /// fewer fields.
    fn rank(&mut self, line: &str, number: usize) {
        let mut words = line.split_whitespace().skip_while(|word| !word.ends_with("Rank")).skip(1);
        let is_rank = words.next().is_some_and(|rank| rank.parse::<u32>().is_ok());
        let rest: Vec<&str> = words.collect();
        let after = |key: &str| {
            let at = rest.iter().position(|word| *word == key)?;
            rest.get(at + 1).map(|word| (*word).to_owned())
        };
        let (true, Some(host)) = (is_rank, after("on")) else { return };
        if host.len() > LONGEST_NAME {
            return;
        }
        let group = after("Group");
        if self.run(number).ranks.is_empty() {
            self.group.clone_from(&group);
        }
        let split = self.group != group;
        let run = self.run(number);
        run.split |= split;
        // `[0000:1b:00]`, in older versions `[0x1b]`.
        let bracket = rest.iter().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        if let Some(address) = bracket.filter(|text| is_address(text)) {
            let address = address.to_owned();
            run.gpus.push(NamedGpu { line: number, host: host.clone(), address });
        }
        run.ranks.push(host);
    }

    fn close(&mut self) {
        self.bandwidth = None;
        self.latency = None;
        let reduction = self.reduction.take();
        let Some(mut run) = self.run.take() else { return };
        run.ratio.rooted = reduction.map(|reduction| reduction.rooted);
        // RCCL-tests and older nccl-tests do not print the test's name.
        run.test = run.test.or_else(|| reduction?.test(run.ranks.len()));
        if !run.points.is_empty() || run.out_of_bounds.is_some() {
            self.results.runs.push(run);
        } else if run.average.is_none() && self.results.unread.last() < Some(&run.line) {
            self.results.note(run.line, input::NO_ROWS);
        }
    }
}

/// Parses `# Out of bounds values : 0 OK`.
fn claim(line: &str, name: &str, number_of_line: usize) -> Option<Claim> {
    let rest = line[line.find(name)? + name.len()..].trim_start().strip_prefix(':')?;
    let mut words = rest.split_whitespace();
    let value = number(words.next()?)?;
    Some(Claim { line: number_of_line, value, failed: words.next() == Some("FAILED") })
}

/// Incremental reader of the result tables in the output of a job.
#[derive(Default)]
pub struct TableReader {
    state: State,
    /// Lines read, also of the files before.
    lines: usize,
}

impl TableReader {
    /// Reads a line, if it may belong to a table.
    pub fn line(&mut self, line: &[u8], number: u64) {
        let is_open = self.state.run.is_some() || self.state.bandwidth.is_some();
        let begins = || {
            memchr::memchr(b'#', line).is_some()
                || [&b"_perf"[..], b" BW "].iter().any(|part| memmem::find(line, part).is_some())
        };
        if !(is_open || begins()) || line.len() > LONGEST_LINE {
            return;
        }
        self.lines += 1;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if self.lines == MOST_LINES {
            self.state
                .results
                .note(number, "too many lines: the results from here on are not read");
        } else if self.lines < MOST_LINES {
            let line = anstream::adapter::strip_bytes(line).into_vec();
            self.state.line(&String::from_utf8_lossy(&line), number);
        }
    }

    /// Ends a file. Returns its tables.
    pub fn end_file(&mut self) -> Results {
        std::mem::take(&mut self.state).finish(None)
    }
}
