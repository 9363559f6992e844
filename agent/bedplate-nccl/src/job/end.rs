//! End of a job. Programs report a regular end by destroying their communicators, or by the summary of a benchmark.

use std::collections::BTreeMap;

use super::{End, FileReport, Part};
use crate::log::verdict::LogVerdict;
use crate::log::{Log, Worker};
use crate::perf::Run;
use crate::perf::judge::Verdict;

/// Determines how the job ended.
pub(super) fn end(log: &Log, judged: &LogVerdict, reports: &[FileReport]) -> Part<End> {
    if let Some(failure) = judged.findings.iter().find(|finding| finding.is_failure) {
        return Part { verdict: Verdict::Bad, state: End::Failed, text: failure.text.clone() };
    }
    let ranks = || log.workers.iter().filter(|one| one.takes_part());
    let set_up = |one: &Worker| u64::from(one.setups.max(one.completed).max(1));
    let announced: u64 = ranks().map(set_up).sum();
    let destroyed: u64 = ranks().map(|one| u64::from(one.destroyed).min(set_up(one))).sum();
    let (verdict, state, text) = match () {
        () if announced > 0 && destroyed == announced => {
            (Verdict::Good, End::Well, "every rank destroyed its communicators".to_owned())
        }
        () if has_summaries(log, judged, reports) => {
            (Verdict::Good, End::Well, "the benchmark printed its summary".to_owned())
        }
        () => {
            let text = format!(
                "the output does not show how the job ended ({destroyed} of {announced} communicators destroyed): add the \
                 end of every rank's output, with NCCL_DEBUG=INFO and DESTROY in NCCL_DEBUG_SUBSYS (NCCL up to 2.11 does \
                 not report it)"
            );
            (Verdict::CannotTell, End::Unknown, text)
        }
    };
    Part { verdict, state, text }
}

/// Whether each run of a benchmark in the output printed its summary, after the setup of its ranks.
fn has_summaries(log: &Log, judged: &LogVerdict, reports: &[FileReport]) -> bool {
    let runs = reports
        .iter()
        .flat_map(|one| one.report.runs.iter().map(move |judged| (one.file, &judged.run)));
    let runs: Vec<(usize, &Run)> = runs.collect();
    let summary = |(file, run): &(usize, &Run)| {
        run.out_of_bounds.as_ref().map(|claim| (*file, claim.line as u64))
    };
    let summaries: Vec<(usize, u64)> = runs.iter().filter_map(summary).collect();
    // Runs are in order of line.
    let last: BTreeMap<usize, u64> = summaries.iter().copied().collect();
    let is_after_setup = log
        .workers
        .iter()
        .filter_map(|one| one.completed_at)
        .all(|place| last.get(&place.file).is_none_or(|line| *line > place.line));
    !runs.is_empty()
        && summaries.len() == runs.len()
        && summaries.len() >= judged.jobs.iter().map(|job| job.executions).sum()
        && is_after_setup
}
