//! Output of `bedplate nccl perf`: the verdict with its findings, the limit, a plot.

mod picture;
mod plot;

use std::fmt::Write as _;

use bedplate_base::counted;
use serde::Serialize;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use bedplate_base::terminal::one_line;
use bedplate_nccl::perf::Run;
use bedplate_nccl::perf::judge::{
    ENOUGH, Finding, Judged, LARGE, LARGE_OF_PERFTEST, Report, Verdict, size,
};
use bedplate_nccl::perf::limit::Pattern;

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
            paint(HEAD, "NICs that NCCL uses on this host:"),
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
    if let Some(limit) = &judged.limit {
        let nics = counted(limit.nics, "NIC");
        let ceiling = match (limit.limited_by_gpus, limit.limited_by_pcie.len()) {
            (Some(1), _) => "limited by the PCIe link of the one participating GPU".to_owned(),
            (Some(gpus), _) => {
                format!("limited by the PCIe links of the {gpus} participating GPUs")
            }
            (None, 0) => "limited by the ports' rate".to_owned(),
            (None, held) if held == limit.nics => "limited by PCIe, not by the ports:".to_owned(),
            (None, held) => format!("PCIe limits {held} of them:"),
        };
        let pattern = match limit.pattern {
            Pattern::Everything => "",
            Pattern::Ring => " for rings, which send each byte past each host once",
            Pattern::Pairs => " with a separate NIC per rank",
        };
        let reached = judged.run.peak().map(|peak| 100.0 * peak.best() / limit.expected);
        let reached = reached.filter(|share| share.is_finite());
        let reached = reached.map(|share| format!("; best is {share:.0} %")).unwrap_or_default();
        let _ = writeln!(out, "expected  {:.2} GB/s{what}{pattern}{reached}", limit.expected);
        let _ = writeln!(
            out,
            "limit     {:.2} GB/s{what}; {nics}, {:.2} GB/s each way; {ceiling}",
            limit.most, limit.host
        );
        for nic in &limit.limited_by_pcie {
            let _ = writeln!(out, "          {}", one_line(nic));
        }
        if let Some(with) = limit.with_switches {
            let _ = writeln!(out, "          {with:.2} with reduction in switches (SHARP)");
        }
    }
    out += &plot::draw(judged, width, ascii);
    judged.findings.iter().for_each(|finding| out += &line(finding, file));
    out
}

/// Formats the title of a run: `all_reduce_perf, 16 ranks on 2 hosts`.
pub(super) fn title(run: &Run) -> String {
    let mut title = run.test.map_or("unknown collective", |test| test.program()).to_owned();
    let hosts = run.hosts().len();
    if !run.ranks.is_empty() {
        let _ =
            write!(title, ", {} on {}", counted(run.ranks.len(), "rank"), counted(hosts, "host"));
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

/// Generates `docs/nccl-perf.md`.
pub fn markdown() -> String {
    format!(
        "# Benchmark results\n\n\
         `bedplate nccl perf FILE` compares the output of nccl-tests, RCCL-tests and perftest with the capacity of the links of \
         this host (or of `--snapshot`, `--demo`).\n\n\
         ```console\n\
         $ mpirun -n 16 -N 8 all_reduce_perf -b 8 -e 8G -f 2 | tee result.txt\n\
         $ bedplate nccl perf result.txt                      # on one of the nodes\n\
         $ bedplate nccl perf result.txt --snapshot node.bp   # elsewhere\n\
         $ bedplate nccl perf result.txt --svg >result.svg\n\
         ```\n\n\
         | program | accepted output |\n|---|---|\n\
         | nccl-tests since 2.0, RCCL-tests | every column layout, in and out of place, with or without a launcher's prefix; several runs in one file |\n\
         | ib_write_bw, ib_read_bw, ib_send_bw, ib_atomic_bw | MB/sec (2²⁰ bytes) and Gb/sec, both directions, both ports; the file of --out_json |\n\n\
         Newer nccl-tests name the collective. In files without the name, all_reduce, reduce_scatter and reduce are recognized by their columns \
         (the operation, the root, and bus bandwidth by algorithm bandwidth). For other collectives, pass it: `--test all_gather`.\n\n\
         ## The limit\n\n\
         The NICs are those that `bedplate nccl env` names. Each carries the rate of its ports, or the payload rate of its PCIe link at its \
         present speed and width (without encoding and packet headers), if that is less. Data that leaves a host comes from its r participating GPUs: over \
         PCIe, their limit is the sum of the r fastest GPU links of this host, each at the best speed of both ends, because an idle GPU slows \
         its link down. Every host of a run is assumed to have this host's links.\n\n\
         n ranks, r of them on a host; B: rate of its NICs in one direction, or of its GPUs, if that is less.\n\n\
         | collective | maximum bus bandwidth |\n|---|---|\n\
         | all_reduce, all_gather, reduce_scatter, gather, scatter, hypercube | B · (n−1)/(n−r) |\n\
         | all_reduce with reduction in switches (SHARP) | B · 2(n−1)/n |\n\
         | alltoall, alltoallv | B · (n−1)/(r·(n−r)) |\n\
         | broadcast, reduce, sendrecv | B |\n\n\
         The expected rate is lower: rings send each byte past each host once (B); sendrecv, gather and scatter use one NIC per rank, \
         and hypercube sends in the same way as alltoall.\n\n\
         If all ranks are on one host, NVLink or another GPU interconnect carries the data. sysfs does not show its rate: unknown.\n\n\
         ## Verdicts\n\n\
         | finding | verdict |\n|---|---|\n\
         | wrong elements, values out of bounds | not as expected |\n\
         | above the limit | not as expected: not measured over these links |\n\
         | in place and out of place differ at {} and more | not as expected |\n\
         | the largest size far below smaller ones | not as expected |\n\
         | a NIC limited by a PCIe link that both ends could run faster | not as expected |\n\
         | below {:.0} % of the expected rate, at {} and more | not as expected; flat like sockets, if so |\n\
         | no size of {} and more (perftest: {}) | unknown: this is latency |\n\
         | a truncated line | unknown |\n\n\
         The thresholds are bedplate's own. Not tested on GPUs: no machine with GPUs was available.\n",
        size(LARGE),
        ENOUGH * 100.0,
        size(LARGE),
        size(LARGE),
        size(LARGE_OF_PERFTEST),
    )
}
