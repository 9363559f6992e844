//! Recognition of symptoms in a log. The log is read as a stream and may hold any bytes: only the start of a line, and
//! only the first lines of a symptom, are retained.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Pattern, SYMPTOMS, Symptom};
use bedplate_base::terminal::brief;

/// Bytes of a line that are examined: NCCL's lines are shorter (src/debug.cc, 1024).
const LINE: usize = 4096;
/// Limits of a symptom's citations: number of lines, and characters of each.
const CITED: usize = 3;
const CHARACTERS: usize = 200;
/// Maximum number of hosts of kernel logs.
const MOST_HOSTS: usize = 1 << 10;

/// Pattern of a channel that carries GPU memory directly (handbook §8.8).
const DIRECT: Pattern = Pattern { has: &["via NET/", "/GDRDMA"], lacks: &[] };

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Citation {
    /// File; only if several logs were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line number, from 1.
    pub line: u64,
    /// Start of the line, without characters that could steer a terminal.
    pub text: String,
}

/// Lines that show one symptom.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// Number of lines.
    pub count: u64,
    /// Number of lines that are not from NCCL.
    pub foreign: u64,
    /// The first lines, for citation.
    pub first: Vec<Citation>,
}

/// Symptoms recognised in a log.
#[derive(Debug, Default)]
pub struct Recognised {
    /// Lines read.
    pub lines: u64,
    /// Lines about NCCL channels that carry GPU memory directly.
    pub direct: u64,
    /// Whether the input is a snapshot of a host, not a log.
    pub is_snapshot: bool,
    /// Hosts that wrote lines of a kernel log.
    pub hosts: BTreeSet<String>,
    symptoms: BTreeMap<&'static str, Lines>,
}

impl Recognised {
    /// Returns the symptoms found, in the order of the table.
    pub fn symptoms(&self) -> impl Iterator<Item = (&'static Symptom, &Lines)> {
        SYMPTOMS.iter().filter_map(|symptom| Some((symptom, self.symptoms.get(symptom.id)?)))
    }
}

/// Reads a log in pieces.
#[derive(Debug, Default)]
pub struct Recogniser {
    line: Vec<u8>,
    begun: bool,
    /// Name of the current file, if there are several.
    file: Option<String>,
    /// Lines in the files before the current one.
    before: u64,
    found: Recognised,
}

impl Recogniser {
    /// Reads the next piece, of any length.
    pub fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (own, ends) = match piece.strip_suffix(b"\n") {
                Some(own) => (own, true),
                None => (piece, false),
            };
            let room = LINE.saturating_sub(self.line.len()).min(own.len());
            self.line.extend_from_slice(&own[..room]);
            self.begun = true;
            if ends {
                self.end_line(true);
            }
        }
    }

    /// Starts a file; `name` is cited if there are several.
    pub fn start_file(&mut self, name: Option<String>) {
        if self.begun {
            // The rest of the last line may be missing.
            self.end_line(false);
        }
        self.file = name;
        self.before = self.found.lines;
    }

    /// Returns the result, after the last piece.
    pub fn finish(mut self) -> Recognised {
        self.start_file(None);
        self.found
    }

    fn end_line(&mut self, is_whole: bool) {
        self.found.lines += 1;
        let text = String::from_utf8_lossy(&self.line);
        self.found.direct += u64::from(DIRECT.fits(&text));
        self.found.is_snapshot |=
            self.found.lines == 2 && text.starts_with("\"bedplate_snapshot\"");
        if let Some(host) = kernel_host(&text)
            && self.found.hosts.len() < MOST_HOSTS
        {
            self.found.hosts.insert(host.to_owned());
        }
        let is_foreign = !text.contains("NCCL INFO ") && !text.contains("NCCL WARN ");
        for symptom in SYMPTOMS {
            let fits =
                |pattern: &Pattern| (is_whole || pattern.lacks.is_empty()) && pattern.fits(&text);
            if !symptom.lines.iter().any(fits) {
                continue;
            }
            let lines = self.found.symptoms.entry(symptom.id).or_default();
            lines.count += 1;
            lines.foreign += u64::from(is_foreign);
            if lines.first.len() < CITED {
                let text = brief(text.trim(), CHARACTERS);
                let line = self.found.lines - self.before;
                lines.first.push(Citation { file: self.file.clone(), line, text });
            }
        }
        self.line.clear();
        self.begun = false;
    }
}

/// Returns the host of a line of the kernel log, as syslog and journald write it: `Nov 29 03:00:00 node-7 kernel: …`.
fn kernel_host(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(" kernel: ")?;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host = before.rsplit(' ').next()?;
    (before.len() > host.len() && host.chars().all(is_of_name)).then_some(host)
}

impl Pattern {
    fn fits(&self, line: &str) -> bool {
        self.has.iter().all(|text| line.contains(text))
            && !self.lacks.iter().any(|text| line.contains(text))
    }
}
