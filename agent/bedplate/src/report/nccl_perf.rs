//! Output of `bedplate nccl perf`: the verdict with its findings, the limit, a plot.

mod copies;
mod markdown;
mod picture;
mod plot;

use std::fmt::Write as _;

use bedplate_base::counted;
use serde::Serialize;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use bedplate_base::terminal::one_line;
use bedplate_nccl::perf::Run;
use bedplate_nccl::perf::judge::{Finding, Judged, Report, Verdict, size};
use bedplate_nccl::perf::limit::{Limit, Pattern};

pub use markdown::markdown;
pub use picture::svg;

/// Formats the report. `file` is the name in findings, `width` the columns of the plot; `ascii` restricts its
/// characters.
pub fn text(report: &Report, file: &str, width: usize, ascii: bool) -> String {
    let mut out = String::new();
    for judged in &report.runs {
        out += &run(judged, file, width, ascii);
        out.push('\n');
    }
    report.findings.iter().for_each(|finding| out += &line(finding, file));
    let nics: Vec<String> =
        report.nics.iter().map(|nic| format!("  {}\n", one_line(&nic.to_string()))).collect();
    if report.runs.iter().any(|judged| judged.limit.is_some() && judged.run.device.is_none()) {
        let _ = write!(
            out,
            "{}\n{}\n",
            paint(
                HEAD,
                &format!(
                    "NICs that NCCL uses on {}:",
                    report.host.as_deref().map_or("this host".to_owned(), one_line)
                )
            ),
            nics.concat()
        );
    }
    let (style, words) = match report.verdict {
        Verdict::Good => (GOOD, "as expected for this host's links"),
        Verdict::CannotTell => (WARN, "unknown"),
        Verdict::Bad => (BAD, "not as expected"),
    };
    let _ = writeln!(out, "{}: {}", one_line(file), paint(style, words));
    out
}

fn run(judged: &Judged, file: &str, width: usize, ascii: bool) -> String {
    let mut out = format!("{}\n", paint(HEAD, &title(&judged.run)));
    let what = if judged.run.device.is_some() { "" } else { " bus bandwidth" };
    if let Some(peak) = judged.run.peak() {
        let _ = writeln!(
            out,
            "best      {:.2} GB/s{what} at {} ({}:{})",
            peak.best(),
            size(peak.bytes),
            one_line(file),
            peak.line
        );
    }
    if let Some(expectation) = &judged.expectation {
        let algorithm = expectation.algorithm.map(|algorithm| format!(", {algorithm}"));
        let _ = writeln!(
            out,
            "expected  {:.2} GB/s{what}, bad below {:.2}: {}{}",
            expectation.good,
            expectation.bad,
            expectation.by,
            algorithm.unwrap_or_default()
        );
    }
    if let Some(limit) = &judged.limit {
        out += &limits(limit, &judged.run, what);
    }
    if let Some(host) = &judged.host {
        let is_known =
            judged.limit.is_some() || judged.copies.iter().any(|one| one.limit.is_some());
        let slowest = if is_known {
            "the slowest"
        } else {
            "with an unknown limit, so possibly the slowest,"
        };
        let _ = writeln!(out, "host      {}, {slowest} of the snapshots", one_line(host));
    }
    out += &copies::table(judged);
    out += &plot::draw(judged, width, ascii);
    judged.findings.iter().for_each(|finding| out += &line(finding, file));
    out
}

/// Formats the bound of the transfer pattern, and the limit of the links.
fn limits(limit: &Limit, run: &Run, what: &str) -> String {
    let nics = counted(limit.nics, "NIC");
    let ceiling = match (limit.limited_by_gpus, limit.limited_by_pcie.len()) {
        (Some(1), _) => "limited by the PCIe link of the one participating GPU".to_owned(),
        (Some(gpus), _) => format!("limited by the PCIe links of the {gpus} participating GPUs"),
        (None, 0) => "limited by the ports' rate".to_owned(),
        (None, held) if held == limit.nics => "limited by PCIe, not by the ports:".to_owned(),
        (None, held) => format!("PCIe limits {held} of them:"),
    };
    let pattern = match limit.pattern {
        Pattern::Everything => "",
        Pattern::Ring => " for rings, which send each byte past each host once",
        Pattern::Pairs => " with a separate NIC per rank",
    };
    let slowest = limit.slowest.as_ref();
    let slowest = slowest.map(|nic| format!(", with {} as slow as {}", nics, one_line(nic)));
    let reached = run.peak().map(|peak| 100.0 * peak.best() / limit.expected);
    let reached = reached.filter(|share| share.is_finite());
    let reached = reached.map(|share| format!("; best is {share:.0} %")).unwrap_or_default();
    let mut out = format!(
        "bound     {:.2} GB/s{what}{pattern}{}{reached}\n\
         limit     {:.2} GB/s{what}; {nics}, {:.2} GB/s each way; {ceiling}\n",
        limit.expected,
        slowest.unwrap_or_default(),
        limit.most,
        limit.host
    );
    for nic in &limit.limited_by_pcie {
        let _ = writeln!(out, "          {}", one_line(nic));
    }
    if let Some(with) = limit.with_switches {
        let _ = writeln!(out, "          {with:.2} with reduction in switches (SHARP)");
    }
    out
}

/// Formats the title of a run: `all_reduce_perf, 16 ranks on 2 hosts`.
pub(super) fn title(run: &Run) -> String {
    let unknown = if run.device.is_some() { "unknown test" } else { "unknown collective" };
    let mut title = run.test.map_or(unknown, |test| test.program()).to_owned();
    if let Some(case) = &run.case {
        let _ = write!(title, " {}", one_line(case));
    }
    let hosts = run.hosts().len();
    if run.rank_count() > 0 {
        let _ = write!(title, ", {}", counted(run.rank_count(), "rank"));
        let on = counted(hosts, "host");
        title += &if hosts > 0 { format!(" on {on}") } else { " on unknown hosts".to_owned() };
    }
    if let Some(device) = &run.device {
        let _ = write!(
            title,
            " on {}",
            one_line(device.name.as_deref().unwrap_or("an unnamed device"))
        );
        title += if device.bidirectional { ", both directions" } else { "" };
        title += if device.dual_port { ", both ports" } else { "" };
        let mtu = device.mtu.map(|mtu| format!("MTU {mtu}"));
        for word in [&device.link, &device.connection, &mtu].into_iter().flatten() {
            let _ = write!(title, ", {}", one_line(word));
        }
    }
    if let Some(version) = &run.version {
        let _ = write!(title, " ({})", one_line(version));
    }
    title
}

fn line(finding: &Finding, file: &str) -> String {
    let (style, word) = match finding.verdict {
        Verdict::Good => (FAINT, "note"),
        Verdict::CannotTell => (WARN, "unknown"),
        Verdict::Bad => (BAD, "bad"),
    };
    format!(
        "{}  {}:{}: {}\n",
        paint(style, word),
        one_line(file),
        finding.line,
        one_line(&finding.text)
    )
}

/// Output of `bedplate nccl perf --json`.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate nccl perf"))]
pub(crate) struct Document<'a> {
    /// Version of this format, 1.
    bedplate_nccl_perf: u32,
    /// Input file; `-` is standard input.
    file: &'a str,
    /// Report.
    #[serde(flatten)]
    report: &'a Report,
}

/// Returns the output for programs.
pub fn document<'a>(report: &'a Report, file: &'a str) -> impl Serialize + use<'a> {
    Document { bedplate_nccl_perf: 2, file, report }
}

/// JSON Schema (draft 2020-12) of [`document`].
pub const SCHEMA: &str = include_str!("../../schemas/nccl-perf.json");
