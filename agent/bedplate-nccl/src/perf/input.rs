//! Numbers in result files, and the kind of a file without results.

/// Text for a table without rows.
pub(super) const NO_ROWS: &str =
    "a header without results: the benchmark failed, or the file is truncated";

/// Whether bytes are not text. Logs may contain a few bytes that are not UTF-8, such as a blank from a lost write.
pub fn is_binary(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(64 << 10)];
    let text = String::from_utf8_lossy(start);
    let is_foreign = |c: &char| {
        *c == char::REPLACEMENT_CHARACTER
            || c.is_control() && !"\t\n\r\u{8}\u{c}\u{1b}".contains(*c)
    };
    // The end may cut a character.
    text.chars().filter(is_foreign).count() > 1 + text.chars().count() / 10
}

/// Texts in files of other programs, and the reason.
const OTHERS: &[(&str, &str)] = &[
    ("NCCL INFO", "a log of NCCL without a table of results: run `bedplate nccl log FILE`"),
    ("NCCL WARN", "a log of NCCL without a table of results: run `bedplate nccl log FILE`"),
    ("|CCL_", "a log of oneCCL without a table of results, which bedplate does not read"),
    ("<system ", "a topology file of NCCL: run `bedplate topology --import FILE`"),
    ("# OSU MPI", "results of OSU micro-benchmarks, which bedplate does not read: run nccl-tests"),
];

/// Returns the reason that a text has no results.
pub(super) fn reason(text: &str) -> &'static str {
    if text.trim().is_empty() {
        return "the file is empty";
    }
    let found = OTHERS.iter().find(|(part, _)| text.contains(part));
    found.map_or(
        "no results of nccl-tests, RCCL-tests, perftest, nvbandwidth, gdrcopy_copybw, gdsio or oneCCL's benchmark",
        |(_, why)| why,
    )
}

/// Whether the last line is the start of a row of numbers.
pub(super) fn is_cut_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    // A prefix of a launcher may touch the number.
    words.next().and_then(|word| word.rsplit([':', '>', '|']).next()).is_some_and(is_number)
}

/// Parses a number that can be a measurement.
pub(super) fn number(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || b".e+-".contains(&byte));
    let value: f64 = digits.then(|| text.parse().ok()).flatten()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}
