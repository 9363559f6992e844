//! Limits of copies between a GPU and host memory or storage: the GPU's PCIe link, and the links to storage.

use std::collections::BTreeSet;

use super::gpu_address::is_at;
use super::judge::{Finding, Judged, Links, Verdict};
use super::limit::{CopyLimit, Nic, Pcie};
use super::result::TOLERANCE;
use super::{Copied, Run, Test};
use bedplate_facts::topology::pcie_link::in_words;

/// Minimum share of the limit that is as expected. bedplate's choice.
const ENOUGH: f64 = 0.75;

/// Evaluates a run of copies.
pub(super) fn judge(run: Run, links: &Links) -> Judged {
    let (mut findings, mut texts) = (Vec::new(), BTreeSet::new());
    let mut add = |verdict, line, text: String| {
        // One finding per reason.
        if texts.insert(text.clone()) {
            findings.push(Finding { verdict, line, text });
        }
    };
    let mut limits = Vec::new();
    for copy in &run.copies {
        match limit(&run, copy, links) {
            Ok((limit, bottleneck)) => {
                if let Some(text) = degraded(copy, links) {
                    add(Verdict::Bad, copy.line, text);
                }
                if let Some((verdict, text)) = compare(&run, copy, limit, &bottleneck) {
                    add(verdict, copy.line, text);
                }
                limits.push(CopyLimit { limit: Some(limit), bottleneck: Some(bottleneck) });
            }
            Err(why) => {
                add(Verdict::CannotTell, copy.line, format!("cannot determine the limit: {why}"));
                limits.push(CopyLimit { limit: None, bottleneck: None });
            }
        }
    }
    let verdict =
        findings.iter().map(|finding: &Finding| finding.verdict).max().unwrap_or(Verdict::Good);
    Judged { run, limit: None, host: None, copies: limits, expectation: None, findings, verdict }
}

fn compare(run: &Run, copy: &Copied, limit: f64, bottleneck: &str) -> Option<(Verdict, String)> {
    let (rate, share) = (copy.bandwidth, 100.0 * copy.bandwidth / limit);
    if rate > limit * TOLERANCE {
        let text = format!(
            "{rate:.2} GB/s is implausible, at most {limit:.2} on {bottleneck}: the run used another host, or a cache"
        );
        return Some((Verdict::Bad, text));
    }
    if rate >= limit * ENOUGH {
        return None;
    }
    Some(match run.test {
        Some(Test::GdrcopyCopybw) => (
            Verdict::CannotTell,
            "one CPU core makes these copies: a low rate does not show a slow link".to_owned(),
        ),
        Some(Test::Gdsio) => (
            Verdict::CannotTell,
            "gdsio does not name its GPUs and drives, and sysfs does not show the rate of drives"
                .to_owned(),
        ),
        _ => (
            Verdict::Bad,
            format!(
                "{rate:.2} GB/s, {share:.0} % of {limit:.2} on {bottleneck}: slow host memory, a remote NUMA node or a \
                 slower path (`bedplate verify`)"
            ),
        ),
    })
}

/// Returns the limit in GB/s and the bottleneck.
fn limit(run: &Run, copy: &Copied, links: &Links) -> Result<(f64, String), String> {
    if run.test == Some(Test::Gdsio) {
        return storage(run, links);
    }
    let gpu = gpu(copy, links)?;
    let words =
        format!("the PCIe link of {} ({} x{})", gpu.address, in_words(gpu.speed), gpu.lanes);
    Ok((gpu.bandwidth(), words))
}

/// Returns the link of the GPU of a copy. Without an address, all GPUs must have equal links.
fn gpu<'l>(copy: &Copied, links: &'l Links) -> Result<&'l Pcie, String> {
    let unknown = || {
        links.unknown.clone().unwrap_or_else(|| {
            "the PCIe links of this host's GPUs are unknown, or data reaches them over NVLink-C2C"
                .to_owned()
        })
    };
    let first = links.gpus.first().ok_or_else(unknown)?;
    let Some(address) = &copy.address else {
        let is_equal = links.gpus.iter().all(|gpu| gpu.bandwidth() == first.bandwidth());
        let why = "the file does not name the GPU's address, and GPUs have different PCIe links";
        return is_equal.then_some(first).ok_or_else(|| why.to_owned());
    };
    let is_this = |gpu: &&Pcie| gpu.address.parse().is_ok_and(|own| is_at(own, address));
    links.gpus.iter().find(is_this).ok_or_else(|| format!("this host has no GPU at {address}"))
}

/// Describes a link with fewer lanes than both ends have. Idle GPUs lower only the speed.
fn degraded(copy: &Copied, links: &Links) -> Option<String> {
    let gpu = gpu(copy, links).ok().filter(|_| copy.address.is_some())?;
    let (_, lanes) = gpu.best.filter(|(_, lanes)| *lanes > gpu.lanes)?;
    Some(format!(
        "the PCIe link of {} has {} lanes, but both ends support {lanes}: run `bedplate verify --check pcie` to find \
         the limiting end",
        gpu.address, gpu.lanes
    ))
}

/// Returns the rate of all drives and RDMA ports, or of all GPUs if that is less.
fn storage(run: &Run, links: &Links) -> Result<(f64, String), String> {
    let unknown =
        || links.unknown.clone().unwrap_or_else(|| "unknown PCIe link of an NVMe drive".to_owned());
    let drives = links.drives.as_ref().ok_or_else(unknown)?;
    let rate = |nic: &Nic| match nic.limit() {
        Some((rate, _)) => Ok(rate),
        None => Err(format!("unknown rate of {}", nic.name())),
    };
    let nics = links.all.iter().map(rate).collect::<Result<Vec<f64>, _>>()?;
    let storage = drives.iter().map(Pcie::bandwidth).sum::<f64>() + nics.iter().sum::<f64>();
    if storage <= 0.0 {
        return Err("this host has no NVMe drive and no ACTIVE RDMA port".to_owned());
    }
    let gpus: f64 = links.gpus.iter().map(Pcie::bandwidth).sum();
    let crosses_gpu = run.case.as_deref().is_some_and(|case| !case.ends_with("CPUONLY"));
    if crosses_gpu && gpus > 0.0 && gpus < storage {
        return Ok((gpus, "the PCIe links of all GPUs".to_owned()));
    }
    Ok((storage, "the links of all NVMe drives and RDMA ports".to_owned()))
}
