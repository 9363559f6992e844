//! Generated page `docs/nccl-log.md`.

use std::fmt::Write as _;

use bedplate_nccl::log::failures::FAILURES;
use bedplate_nccl::log::warning_meanings::{MEANINGS, STATUSES};

/// Generates the tables of `docs/nccl-log.md`.
pub fn markdown() -> String {
    let mut out = "# Reading NCCL's log\n\n\
         `bedplate nccl log FILE…` analyzes the output of a job with `NCCL_DEBUG=INFO`, from NCCL 2.4 to 2.30 and RCCL. It accepts many ranks in one \
         file or one file per rank, prefixes of mpirun, srun and kubectl, colors and timestamps, gzip, zstd and UTF-16, and \
         `-` for standard input. Memory use does not grow with the log.\n\n\
         ```console\n\
         $ NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,DESTROY mpirun … 2>&1 | tee job.log\n\
         $ bedplate nccl log job.log\n\
         $ bedplate nccl log job.log.1.gz job.log --json\n\
         $ bedplate nccl log job.log --snapshot 'nodes/*.bp'      # with causes found on the nodes\n\
         ```\n\n\
         The verdict is based on the lines `Channel … via NET/…`, which are the same in every version: with `/GDRDMA` the NIC accesses GPU \
         memory directly, without it data go through host memory, `NET/Socket` is TCP. `NET/IB : Using` alone proves nothing. Every \
         finding names its first line, `FILE:LINE`. A snapshot belongs to the node that its file is named after \
         (`nodes/node-7.bp`). Without snapshots, the node's own facts are used if the log is from this machine.\n\n\
         A positive verdict requires a whole log without a sign of a failure:\n\n\
         - connections of every rank, and on several nodes a connection of every node to another one (with one file \
         per rank or node, pass all files);\n\
         - as many `[send]` as `[receive]` lines, because each end reports a connection;\n\
         - connections of every communicator, and a complete setup of each;\n\
         - no unreadable lines, and none without node and process id. Such lines can only prove that a connection is not direct;\n\
         - no warning after the setup that bedplate does not know.\n\n\
         If one is missing, the verdict is *unknown*. The last line of a file may be incomplete while the job runs: it \
         does not prove a connection through host memory.\n\n\
         Jobs are told apart by the communicator ids of their ranks (from 2.16 on), and each is judged by itself; the worst one decides. \
         Processes that each form a job of one rank did not find each other: a fault. [The verdict on a job](nccl-job.md) adds the end of \
         the job and its results.\n\n\
         A known fault decides: a warning in the table below, a trace of a failed call (`proxy.cc:679 -> 6 [Proxy Thread]`) \
         after the setup of its rank or without a complete one, or a line of a launcher or program. A job that was cancelled, or reached its time \
         limit, has not ended well either.\n\n\
         Exit status: 0 all connections between nodes are direct, or there is only one node; 4 some are not, or a fault is reported; \
         5 unknown: the log does not show it, or not for every rank; 1 error; 64 usage.\n\n\
         Not tested with a log of real GPUs: none was available. Line formats are taken from NCCL's source.\n\n\
         ## Known warnings\n\n\
         | text | meaning | fix |\n|---|---|---|\n"
        .to_owned();
    for row in MEANINGS.iter() {
        let (has, fix) = (row.has.replace('|', "\\|"), row.fix.unwrap_or("none needed"));
        let _ = writeln!(out, "| `{}` | {} | {fix} |", has.trim(), row.means);
    }
    out += "\n## Lines of launchers and programs\n\n| text | meaning |\n|---|---|\n";
    for row in FAILURES.iter() {
        let _ = writeln!(out, "| `{}` | {} |", row.has.trim(), row.means);
    }
    out += "\n## Completion statuses\n\n| number | name | meaning |\n|---|---|---|\n";
    for (number, name, means) in STATUSES {
        let _ = writeln!(out, "| {number} | {name} | {means} |");
    }
    out
}
