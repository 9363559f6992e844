//! Lines of launchers, frameworks and programs that prove that a job failed or was ended.
//!
//! Sources: PyTorch 2.0 to 2.9 (ProcessGroupNCCL.cpp, torch/distributed/elastic), NVIDIA/nccl-tests, ROCm/rccl-tests,
//! SchedMD/slurm 17.11 to 26.05, open-mpi/ompi 1.10 to 5.0, openpmix/prrte, pmodels/mpich, glibc, bash, UCX, ROCm. A text
//! that healthy jobs print, too, is not in the table.

use std::sync::LazyLock;

use Condition::{Always, NotZero, With, Without};

/// A line that proves the end of a job.
#[derive(Debug)]
pub struct JobFailure {
    /// Part of the line.
    pub has: &'static str,
    condition: Condition,
    /// Meaning.
    pub means: &'static str,
}

/// Further condition of a line.
#[derive(Debug, Clone, Copy)]
enum Condition {
    Always,
    /// The line has this, too.
    With(&'static str),
    /// The line lacks this.
    Without(&'static str),
    /// The line has this, too, and the number after the part is not zero.
    NotZero(&'static str),
}

const fn row(has: &'static str, condition: Condition, means: &'static str) -> JobFailure {
    JobFailure { has, condition, means }
}

/// All such lines; the first matching row applies.
#[rustfmt::skip]
pub static FAILURES: &[JobFailure] = &[
    row("Watchdog caught collective operation timeout", Always, "a collective operation did not finish in time"),
    row("Caught collective operation timeout", Always, "a collective operation did not finish in time"),
    row("timed out in call to wait()", Always, "a collective operation did not finish in time"),
    row("timed out in blocking wait", Always, "a collective operation did not finish in time"),
    row(": Test timeout (", Always, "a collective operation did not finish in time"),
    row("Some NCCL operations have failed or timed out", Always, "a collective operation failed or did not finish in time"),
    row("we are taking the entire process down", Always, "a collective operation failed or did not finish in time"),
    row("watchdog thread terminated with exception", Always, "a collective operation failed or did not finish in time"),
    row("detected by watchdog at work", Always, "a collective operation failed or did not finish in time"),
    row("Terminating the process after attempting to dump debug info", Always, "a collective operation failed or did not finish in time"),
    row("watchdog detected an exception", Always, "a collective operation failed or did not finish in time"),
    row("remote error detected from rank", Always, "another rank reported an error"),
    row("NCCL error in: ", Always, "NCCL returned an error"),
    row("DistBackendError: NCCL error", Always, "NCCL returned an error"),
    row("NCCL operation ", With(" failed: "), "NCCL returned an error"),
    row(": Test NCCL failure ", Always, "NCCL returned an error"),
    row("weights differ between ranks or are not finite", Always, "the training loop of `bedplate render nccl-job` computed wrong weights"),
    row("command terminated with exit code", NotZero(""), "a process of the job failed"),
    row("]: Traceback (most recent call last)", With("[rank"), "a rank ended by an exception"),
    row("errors.ChildFailedError", Always, "a process of the job failed"),
    row("Root Cause (first observed failure)", Always, "a process of the job failed"),
    row("exitcode  :", NotZero(""), "a process of the job failed"),
    row("ProcessExitedException: process", Always, "a process of the job failed"),
    row("ProcessRaisedException", Always, "a process of the job failed"),
    row("exits with return code =", NotZero(""), "a process of the job failed"),
    row(": Exited with exit code ", NotZero("srun: error: "), "a process of the job failed"),
    row(" DUE TO TASK FAILURE", With("CANCELLED AT"), "a process of the job failed"),
    row("noticed that the job aborted", Always, "a process of the job failed"),
    row("processes exited with non-zero status", Always, "a process of the job failed"),
    row(" terminated normally, but ", With("job"), "a process of the job failed"),
    row("the job has been aborted", Always, "a process of the job failed"),
    row("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", Always, "a process of the job failed"),
    row("YOUR APPLICATION TERMINATED WITH THE EXIT STRING", Always, "a process of the job failed"),
    row("(SIGTERM) received by PID", Always, "the job was ended by a signal"),
    row("(SIGINT) received by PID", Always, "the job was ended by a signal"),
    row("death signal, shutting down workers", Always, "the job was ended by a signal"),
    row("SignalException: Process", Always, "the job was ended by a signal"),
    row(") received by PID", With("Signal "), "a process of the job was killed by a signal"),
    row("noticed that process rank", Always, "a process of the job was killed by a signal"),
    row("Error: CUDA error: ", Without("out of memory"), "a CUDA call failed"),
    row(": Test CUDA failure ", Always, "a CUDA call failed"),
    row("Error: HIP error: ", Without("out of memory"), "a HIP call failed"),
    row(": Test HIP failure ", Always, "a HIP call failed"),
    row(": Test failure ", With(" .. "), "the benchmark failed"),
    row("# Out of bounds values", With("FAILED"), "results are wrong"),
    row("OutOfMemoryError: CUDA out of memory", With("[rank"), "a rank ran out of GPU memory"),
    row("OutOfMemoryError: HIP out of memory", With("[rank"), "a rank ran out of GPU memory"),
    row("Memory access fault by GPU node-", Always, "a program accessed invalid GPU memory"),
    row("HW Exception by GPU node-", Always, "a GPU failed"),
    row(": Segmentation fault", With("srun: error: "), "a process of the job crashed"),
    row(": Bus error", With("srun: error: "), "a process of the job crashed"),
    row("*** Process received signal ***", Always, "a process of the job crashed"),
    row("[FATAL ERROR]: ", Always, "RCCL reports an error"),
    row("Segmentation fault", With("(core dumped)"), "a process of the job crashed"),
    row("Fatal Python error: ", Always, "a process of the job crashed"),
    row("terminate called after throwing an instance of", Always, "a process of the job crashed"),
    row("double free or corruption (", Always, "a process of the job crashed"),
    row("corrupted size vs. prev_size", Always, "a process of the job crashed"),
    row("stack smashing detected", Always, "a process of the job crashed"),
    row("] Caught signal ", With("("), "a process of the job crashed"),
    row(": Aborted", With("srun: error: "), "a process of the job aborted"),
    row("Aborted", With("(core dumped)"), "a process of the job aborted"),
    row(": Killed", With("srun: error: "), "a process of the job was killed"),
    row(" Killed ", With(": line "), "a process of the job was killed"),
    row(": Out Of Memory", With("srun: error: "), "a process of the job ran out of memory"),
    row(" oom_kill event", With("error: Detected "), "a process of the job ran out of memory"),
    row(" oom-kill event", With("error: Detected "), "a process of the job ran out of memory"),
    row("Exceeded job memory limit", Always, "a process of the job ran out of memory"),
    row(" DUE TO TIME LIMIT", With("CANCELLED AT"), "the job reached its time limit"),
    row(" DUE TO PREEMPTION", With("CANCELLED AT"), "the job was preempted"),
    row(" DUE TO JOB REQUEUE", With("CANCELLED AT"), "the job was requeued"),
    row(" DUE TO NODE FAILURE", With("CANCELLED AT"), "a node of the job failed"),
    row("srun: error: Node failure on", Always, "a node of the job failed"),
    row("has lost communication with a remote daemon", Always, "a node of the job failed"),
    row(" CANCELLED AT ", With("*** "), "the job was cancelled"),
    row("srun: error: Unable to create step", Always, "the job did not start"),
    row("srun: error: Task launch for", With(" failed on node "), "the job did not start"),
    row("daemon has unexpectedly failed after launch", Always, "the job did not start"),
    row("MPI_ABORT was invoked on rank", Always, "a rank aborted the job"),
    row("MPI_Abort(", With("application called"), "a rank aborted the job"),
    row("MPI_ERRORS_ARE_FATAL (processes in this", Always, "an MPI call failed"),
    row("MPI_ERRORS_ABORT (processes in this", Always, "an MPI call failed"),
    row("Bus error", With("(core dumped)"), "a process of the job crashed; /dev/shm may be full"),
    row("Terminating process because the", Always, "another process of the job failed"),
];

/// Maximum bytes of a launcher's prefix.
const LONGEST_PREFIX: usize = 64;

/// Rows of the table by the rarest pair of bytes in their part, to read each byte of a log once.
static BY_PAIR: LazyLock<Pairs> = LazyLock::new(Pairs::new);

struct Pairs {
    /// Whether a pair of bytes belongs to a row.
    is_known: Vec<bool>,
    /// Pair, its offset in the part of the row, and the row.
    rows: Vec<(u16, usize, &'static JobFailure)>,
}

impl Pairs {
    fn new() -> Self {
        let mut pairs = Self { is_known: vec![false; 1 << 16], rows: Vec::new() };
        for row in FAILURES.iter() {
            // Lower-case letters and blanks are frequent.
            let is_frequent = |byte: u8| byte.is_ascii_lowercase() || byte == b' ';
            let frequency = |pair: &[u8]| pair.iter().filter(|byte| is_frequent(**byte)).count();
            let bytes = row.has.as_bytes();
            let rarest = bytes.windows(2).enumerate().min_by_key(|(_, pair)| frequency(pair));
            let Some((offset, pair)) = rarest else { continue };
            let pair = u16::from_be_bytes([pair[0], pair[1]]);
            pairs.is_known[usize::from(pair)] = true;
            pairs.rows.push((pair, offset, row));
        }
        pairs
    }
}

/// Whether a shell prints a command (`set -x`): `+ `, nested `++ `, after the prefix of a launcher.
fn is_shell_trace(line: &[u8]) -> bool {
    let mut line = line.trim_ascii_start();
    // `3: `, `[1,0]<stderr>:`, `[pod/worker-0/main] `
    let prefix = line.iter().position(|byte| *byte == b'+').unwrap_or(0);
    if prefix <= LONGEST_PREFIX && line[..prefix].trim_ascii_end().ends_with(b":")
        || line[..prefix].trim_ascii_end().ends_with(b"]")
    {
        line = &line[prefix..];
    }
    let signs = line.iter().take_while(|byte| **byte == b'+').count();
    signs > 0 && line.get(signs) == Some(&b' ')
}

/// Returns the first failure in a line that is not from NCCL. The first row of the table has priority.
pub(super) fn find(line: &[u8]) -> Option<&'static JobFailure> {
    if is_shell_trace(line) {
        return None;
    }
    let pairs = &*BY_PAIR;
    let mut found: Option<&JobFailure> = None;
    // Rows whose condition the line does not satisfy.
    let mut rejected: Vec<&JobFailure> = Vec::new();
    let mut before = *line.first()?;
    for (at, byte) in line.iter().enumerate().skip(1) {
        let pair = u16::from_be_bytes([before, *byte]);
        before = *byte;
        if !pairs.is_known[usize::from(pair)] {
            continue;
        }
        for (_, offset, row) in pairs.rows.iter().filter(|(own, ..)| *own == pair) {
            let Some(start) = (at - 1).checked_sub(*offset) else { continue };
            let Some(rest) = line[start..].strip_prefix(row.has.as_bytes()) else { continue };
            let is_before = |found: &JobFailure| std::ptr::from_ref(*row) < found;
            if !found.is_none_or(is_before) || rejected.iter().any(|one| std::ptr::eq(*one, *row)) {
                continue;
            }
            match row.condition.holds(line, rest) {
                true => found = Some(row),
                false => rejected.push(row),
            }
        }
    }
    found
}

impl Condition {
    fn holds(self, line: &[u8], rest: &[u8]) -> bool {
        let has = |text: &str| memchr::memmem::find(line, text.as_bytes()).is_some();
        match self {
            Always => true,
            With(text) => has(text),
            Without(text) => !has(text),
            NotZero(text) => {
                let rest = rest.trim_ascii_start();
                let rest = rest.strip_prefix(b"-").unwrap_or(rest);
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
                has(text) && digits.clone().any(|digit| *digit != b'0')
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(line: &str) -> Option<&'static str> {
        find(line.as_bytes()).map(|row| row.means)
    }

    #[test]
    fn every_row_is_found() {
        for row in FAILURES.iter() {
            let (also, number) = match row.condition {
                Always | Without(_) => ("", ""),
                With(also) => (also, ""),
                NotZero(also) => (also, "-9"),
            };
            let line = format!("12: x {also} y {}{number} z", row.has);
            assert!(find(line.as_bytes()).is_some(), "{line}");
        }
    }

    #[test]
    fn repeated_parts_of_one_line_are_judged_once() {
        let line = "Aborted".repeat(200_000);
        assert_eq!(meaning(&line), None);
    }

    #[test]
    fn lines_of_failed_jobs_are_found() {
        for line in [
            "[rank1]:[E1128 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(x)",
            "torch.distributed.DistBackendError: NCCL error in: ../torch/x.cpp:1, unhandled system error",
            "[rank0]: Traceback (most recent call last):",
            "node-b: Test NCCL failure all_reduce.cu:44 'remote process exited'",
            "# Out of bounds values : 12 FAILED",
            "Segmentation fault (core dumped)",
            "/var/spool/job1/slurm_script: line 9: 77 Aborted                 (core dumped) ./a",
            "srun: error: node-b: task 1: Exited with exit code 6",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.",
            "mpirun noticed that process rank 1 with PID 0 on node b exited on signal 11 (Segmentation fault).",
            "  exitcode  : -9 (pid: 77)",
            "[node-a:77:0:77] Caught signal 11 (Segmentation fault: address not mapped)",
            "run.sh: line 9: 77 Killed                  python t.py",
        ] {
            assert!(meaning(line).is_some(), "{line}");
        }
        for (line, means) in [
            (
                "slurmstepd: error: *** STEP 1.0 ON a CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***",
                "the job reached its time limit",
            ),
            (
                "slurmstepd: error: *** JOB 1 ON a CANCELLED AT 2026-11-20T10:00:00 ***",
                "the job was cancelled",
            ),
        ] {
            assert_eq!(meaning(line), Some(means), "{line}");
        }
        for line in [
            "",
            "x",
            "# Out of bounds values : 0 OK",
            "srun: error: node-b: task 1: Exited with exit code 0",
            "  exitcode  : 0 (pid: 77)",
            "Traceback (most recent call last):",
            "step 7: loss 1.23, retries after failed checks: none",
            "ProcessGroupNCCL preparing to dump debug info.",
            "+ grep 'Segmentation fault (core dumped)' log",
            "++ grep -c 'Segmentation fault (core dumped)' log",
            "0: + grep 'Segmentation fault (core dumped)' log",
            "[1,0]<stderr>:+ grep 'Segmentation fault (core dumped)' log",
            "[rank3] CUDA out of memory, retrying with batch 8",
            "RuntimeError: CUDA error: out of memory",
        ] {
            assert_eq!(meaning(line), None, "{line}");
        }
    }
}
