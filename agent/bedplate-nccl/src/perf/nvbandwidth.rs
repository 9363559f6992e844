//! Parser for the output of nvbandwidth, JSON (`-j`, since v0.5) or text (NVIDIA/nvbandwidth v0.8 json_output.cpp,
//! output.cpp, inline_common.h).

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::gpu_address::is_address;
use super::input::number;
use super::{Copied, NamedGpu, Results, Run, Test};

#[derive(Deserialize)]
struct Document {
    nvbandwidth: Output,
}

#[derive(Deserialize)]
struct Output {
    version: Option<String>,
    error: Option<String>,
    #[serde(rename = "GPU Device list", default)]
    devices: Vec<String>,
    #[serde(default)]
    testcases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(default)]
    status: String,
    error: Option<String>,
    #[serde(rename = "bandwidth_matrix", default)]
    matrix: Vec<Vec<String>>,
}

/// State of the reader.
#[derive(Default)]
pub(super) struct Nvbandwidth {
    version: Option<String>,
    /// Addresses of GPUs by index.
    gpus: BTreeMap<usize, NamedGpu>,
    /// Current test case and its line.
    case: Option<(usize, String)>,
    /// Hostname, printed above the list of GPUs.
    host: String,
    /// Line of a matrix heading; the next lines have its values.
    matrix: bool,
    runs: Vec<Run>,
    /// Test cases without a known limit: the first one and its line, and their number, by reason.
    unknown: BTreeMap<&'static str, (usize, String, usize)>,
    notes: Vec<(usize, String)>,
}

/// Parses the JSON. Returns `None` for another document.
pub(super) fn json(text: &str, results: &mut Results) -> Option<()> {
    let output = serde_json::from_str::<Document>(text).ok()?.nvbandwidth;
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for (nth, line) in text.lines().enumerate() {
        // Every second part is within quotes.
        line.split('"')
            .skip(1)
            .step_by(2)
            .for_each(|word| _ = lines.entry(word).or_insert(nth + 1));
    }
    let line_of = |word: &str| lines.get(word).copied().unwrap_or(1);
    let mut reader = Nvbandwidth { version: output.version, ..Nvbandwidth::default() };
    for device in &output.devices {
        reader.device(device, line_of("GPU Device list"));
    }
    if let Some(error) = output.error {
        reader.notes.push((line_of("error"), format!("nvbandwidth reports an error: {error}")));
    }
    for case in output.testcases {
        let line = line_of(&case.name);
        if case.error.is_some() || case.status.eq_ignore_ascii_case("error") {
            let why = case.error.map(|why| format!(": {why}")).unwrap_or_default();
            reader.notes.push((line, format!("{} reports an error{why}", case.name)));
            continue;
        }
        // A waived test case does not apply to the GPUs, and has no matrix.
        reader.case = (!case.matrix.is_empty()).then_some((line, case.name));
        reader.begin_matrix(line);
        for row in &case.matrix {
            reader.row(row.iter().map(String::as_str), line);
        }
    }
    reader.finish(results);
    Some(())
}

impl Nvbandwidth {
    /// Reads a line of the text output. Returns whether it belongs to this program.
    pub(super) fn line(&mut self, line: &str, number_of_line: usize) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = line.find("nvbandwidth Version: ") {
            self.version = Some(line[at + 21..].trim().to_owned());
            self.gpus.clear();
        } else if let ["Device", index, ..] = words.as_slice()
            && index.strip_suffix(':').is_some_and(|index| index.parse::<usize>().is_ok())
        {
            let text = line.trim_start().trim_start_matches("Device").trim();
            self.device(&format!("{text}: ({})", self.host), number_of_line);
        } else if let ["Running", name] = words.as_slice()
            && let Some(name) = name.strip_suffix('.')
        {
            self.case = Some((number_of_line, name.to_owned()));
            self.matrix = false;
        } else if line.contains("(row)") && line.contains("(column)") {
            self.begin_matrix(number_of_line);
        } else if self.matrix && words.iter().all(|word| word.parse::<u32>().is_ok()) {
            // Column numbers, or the empty line below the matrix.
            self.matrix = !words.is_empty();
        } else if self.matrix && words.first().is_some_and(|row| row.parse::<u32>().is_ok()) {
            self.row(words.into_iter().skip(1), number_of_line);
        } else {
            if let ([host], true) = (words.as_slice(), self.version.is_some()) {
                (*host).clone_into(&mut self.host);
            }
            return false;
        }
        true
    }

    /// Parses `0: NVIDIA H100 (00000000:18:00): (node-1)`.
    fn device(&mut self, text: &str, line: usize) {
        let Some((index, rest)) = text.split_once(':') else { return };
        let mut parts = rest.split(['(', ')']);
        let address = parts.find(|part| is_address(part)).map(str::to_owned);
        let host = parts.nth(1).unwrap_or_default().to_owned();
        if let (Ok(index), Some(address)) = (index.trim().parse(), address) {
            self.gpus.insert(index, NamedGpu { line, host, address });
        }
    }

    /// Starts a matrix. Only copies between one GPU and host memory at a time have a known limit.
    fn begin_matrix(&mut self, line: usize) {
        let Some((_, name)) = &self.case else { return };
        self.matrix = true;
        if let Some(why) = unknown_limit(name) {
            let known = self.unknown.entry(why).or_insert_with(|| (line, name.clone(), 0));
            known.2 += 1;
            self.case = None;
            return;
        }
        self.runs.push(Run {
            line,
            test: Some(Test::Nvbandwidth),
            case: Some(name.clone()),
            version: self.version.clone(),
            gpus: self.gpus.values().filter(|gpu| !gpu.host.is_empty()).cloned().collect(),
            ..Run::default()
        });
    }

    /// Reads a row of a matrix: a column per GPU.
    fn row<'t>(&mut self, values: impl Iterator<Item = &'t str>, line: usize) {
        let (Some(_), Some(run)) = (&self.case, self.runs.last_mut()) else { return };
        for (gpu, value) in values.enumerate() {
            run.copies.extend(number(value).map(|bandwidth| Copied {
                line,
                gpu: Some(gpu),
                address: self.gpus.get(&gpu).map(|named| named.address.clone()),
                bytes: None,
                bandwidth,
            }));
        }
    }

    /// Moves the runs to the results.
    pub(super) fn finish(self, results: &mut Results) {
        let (full, empty): (Vec<Run>, Vec<Run>) =
            self.runs.into_iter().partition(|run| !run.copies.is_empty());
        results.runs.extend(full);
        for run in empty {
            results.note(run.line, super::input::NO_ROWS);
        }
        for (why, (line, name, count)) in self.unknown {
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            results.note(line, format!("{name}{more}: {why}"));
        }
        for (line, text) in self.notes {
            results.note(line, text);
        }
    }
}

/// Returns the reason that the limit of a test case is unknown.
fn unknown_limit(name: &str) -> Option<&'static str> {
    if name.contains("latency") {
        return Some("latency tests do not measure bandwidth");
    }
    if ["host_to_device_memcpy", "device_to_host_memcpy"].iter().any(|own| name.starts_with(own)) {
        return None;
    }
    Some(match name.contains("host") && !name.starts_with("multinode") {
        true => {
            "copies of several GPUs or in both directions share host memory and switches, whose rate is not in sysfs"
        }
        false => {
            "copies between or within GPUs cross NVLink or GPU memory, whose rate is not in sysfs"
        }
    })
}
