//! Page about `bedplate nccl perf`.

use bedplate_nccl::perf::Test;
use bedplate_nccl::perf::judge::{LARGE, LARGE_OF_PERFTEST, size};
use bedplate_nccl::perf::thresholds::{NEAR, Row, TABLE};

/// Section about limits.
const LIMITS: &str = "## The limit\n\n\
    The *limit* is the most that the links carry with any algorithm. The *bound* is the most that a transfer pattern reaches; on two hosts, \
    trees and NVLSTree can exceed the bound of rings. *Expected* is the rate of known-good machines.\n\n\
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
    The bound of a transfer pattern is lower: rings send each byte past each host once (B), in equal shares over all NICs, so that \
    the slowest NIC times their number bounds them; sendrecv, gather and scatter use one NIC per rank, alltoall with one rank \
    per host uses one NIC, and hypercube sends in the same way as alltoall.\n\n\
    If all ranks are on one host, NVLink or another GPU interconnect carries the data. sysfs does not show its rate: unknown.\n\n\
    | copy | limit |\n|---|---|\n\
    | nvbandwidth: `host_to_device_memcpy`, `device_to_host_memcpy` | the GPU's PCIe link |\n\
    | gdrcopy_copybw | the GPU's PCIe link; one CPU core makes the copies, so that a lower rate is unknown |\n\
    | gdsio | the links of all NVMe drives and RDMA ports, or of all GPUs if they carry less; a lower rate is unknown |\n\n\
    nvbandwidth's other test cases cross NVLink, GPU memory, or host memory and switches that several copies share: unknown. \
    If the file does not name the GPU's address, all GPUs must have equal links.\n\n";

/// Generates `docs/nccl-perf.md`.
pub fn markdown() -> String {
    format!(
        "# Benchmark results\n\n\
         `bedplate nccl perf FILE` compares the output of benchmarks with the capacity of the links of this host (or of \
         `--snapshot`, `--demo`).\n\n\
         ```console\n\
         $ mpirun -n 16 -N 8 all_reduce_perf -b 8 -e 8G -f 2 | tee result.txt\n\
         $ bedplate nccl perf result.txt                      # on one of the nodes\n\
         $ bedplate nccl perf result.txt --snapshot node.bp   # elsewhere\n\
         $ bedplate nccl perf result.txt --snapshot '*.bp'    # by the slowest of several nodes\n\
         $ bedplate nccl perf result.txt --algo NVLSTree      # the algorithm, if the job's log is another file\n\
         $ bedplate nccl perf result.txt --expect 420         # instead of the table below, in GB/s\n\
         $ bedplate nccl perf result.txt --svg >result.svg\n\
         ```\n\n\
         | program | accepted output |\n|---|---|\n\
         | nccl-tests since 2.0, RCCL-tests | every column layout, in and out of place, with or without a launcher's prefix; several runs in one file |\n\
         | ib_write_bw, ib_read_bw, ib_send_bw, ib_atomic_bw | MB/sec (2²⁰ bytes) and Gb/sec, both directions, both ports; the file of --out_json; a table without its title is read, but its limit is unknown |\n\
         | nvbandwidth since 0.5 | text, or JSON (-j) |\n\
         | gdrcopy_copybw since 1.3 | text |\n\
         | gdsio | text |\n\
         | oneCCL's benchmark since 2021.1 | text; bus bandwidth is calculated from the average time; one collective per run |\n\n\
         Newer nccl-tests name the collective. In files without the name, all_reduce, reduce_scatter and reduce are recognized by their columns \
         (the operation, the root, and bus bandwidth by algorithm bandwidth). For other collectives, pass it: `--test all_gather`.\n\n\
         ## Without a header\n\n\
         If the file does not name the ranks, their number follows from bus bandwidth by algorithm bandwidth: 2(n−1)/n for all_reduce, \
         (n−1)/n for all_gather, reduce_scatter, alltoall, gather and scatter. Both are printed with two decimals. If these fit several \
         numbers of ranks, pass it: `--ranks 1024`. The hosts remain unknown: pass the number of ranks on each, `--per-host 8`. oneCCL's \
         benchmark names the number of ranks, but no hosts. Options that contradict the file or each other are a usage error (64).\n\n\
         ## Several hosts\n\n\
         With several snapshots, each run has the limit of its slowest host, which the report names. If the run names the hosts of \
         some snapshots (`bedplate snapshot --with-hostname`), only these count. A host with an unknown limit may be the slowest.\n\n\
         If a run names GPUs of a host by PCI address, and its snapshot has no GPU there, the verdict is unknown: the results are of another \
         host, or the GPU is gone. A snapshot without a hostname may be any host of the run.\n\n\
         {LIMITS}\
         ## Known-good machines\n\n\
         The first row that holds for a run decides. Shares are those of the bound above, rounded to whole percent. From the good share on, \
         a result is as expected; below the bad share it is not; in between, it is below known-good machines: unknown.\n\n\
         | test | condition | good from | bad below | source |\n|---|---|---|---|---|\n\
         {}\n\
         NVLink SHARP on 2 hosts passes the bound of rings only if NVLink carries that much: about 480 GB/s on H100, 840 on B200. With \
         faster NICs, the row for rings applies. Without --algo, a table does not show the algorithm: a result between 75 % and the good \
         share is unknown, because both rings and NVLSTree with missing NICs explain it. `--algo` takes NCCL's names; NCCL prints \
         them with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING.\n\n\
         `--expect VALUE` overrides the table for all runs of the file: good from VALUE on, bad below {:.0} % of it. It also decides where the limit \
         is unknown.\n\n\
         Slingshot and gVNIC have no verbs: their limits are those of the network interfaces, if the host has no RDMA device.\n\n{}",
        TABLE.iter().map(row).collect::<String>(),
        NEAR * 100.0,
        verdicts(),
    )
}

/// Returns the table of verdicts.
fn verdicts() -> String {
    format!(
        "## Verdicts\n\n\
         | finding | verdict |\n|---|---|\n\
         | wrong elements, values out of bounds | not as expected |\n\
         | above the limit | not as expected: not measured over these links |\n\
         | in place and out of place differ at {} and more | not as expected |\n\
         | the largest size far below smaller ones | not as expected |\n\
         | a run far below an equal run in the file | not as expected |\n\
         | a NIC limited by a PCIe link that both ends could run faster | not as expected |\n\
         | bad share, at {} and more (perftest: {}) | not as expected; flat like sockets, if so |\n\
         | the same for sendrecv, with good results of other tests in the file | unknown: doubtful |\n\
         | between the bad and the good share | unknown: below known-good machines |\n\
         | no size of {} and more (perftest: {}) | unknown: this is latency |\n\
         | a truncated line, a header without results, an empty file, a file of another program | unknown |\n\
         | a binary file | error (1) |\n\n\
         Other thresholds are bedplate's own. Not tested on GPUs: no machine with GPUs was available.\n",
        size(LARGE),
        size(LARGE),
        size(LARGE_OF_PERFTEST),
        size(LARGE),
        size(LARGE_OF_PERFTEST),
    )
}

/// Formats a row of the table of thresholds.
fn row(row: &Row) -> String {
    let tests: Vec<&str> = row.tests.iter().map(|test| test_name(*test)).collect();
    let tests = if tests.is_empty() { "all collectives".to_owned() } else { tests.join(", ") };
    format!(
        "| {tests} | {} | {:.0} % | {:.0} % | {} |\n",
        row.condition,
        row.good * 100.0,
        row.bad * 100.0,
        row.source
    )
}

fn test_name(test: Test) -> &'static str {
    let program = test.program();
    program.strip_suffix("_perf").unwrap_or(program)
}
