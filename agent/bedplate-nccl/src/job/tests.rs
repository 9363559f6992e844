//! Verdicts on whole jobs.

use super::*;
use crate::log::Reader;
use crate::log::verdict::judge;
use crate::perf::judge::{self as perf_judge, Assumptions};

/// A two-node job with a rank per node.
fn job() -> String {
    let line = |(node, own, peer): (&str, u32, u32)| {
        let text = [
            "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x1 pciPath=/x ar=1".to_owned(),
            "NET/IB : Using [0]mlx5_0:1/IB ; OOB e:10.0.0.1<0>".to_owned(),
            "Using network IB".to_owned(),
            format!("comm 0x1 rank {own} nranks 2 cudaDev 0 commId 0x9 - Init START"),
            format!("Channel 0/0 : {own}[0] -> {peer}[0] [send] via NET/IB/0/GDRDMA"),
            format!("Channel 0/0 : {peer}[0] -> {own}[0] [receive] via NET/IB/0/GDRDMA"),
            format!("comm 0x1 rank {own} nranks 2 cudaDev 0 commId 0x9 - Init COMPLETE"),
        ];
        text.iter().map(|text| format!("{node}:7:9 [0] NCCL INFO {text}\n")).collect::<String>()
    };
    [("node-a", 0, 1), ("node-b", 1, 0)].map(line).concat()
}

const DESTROYED: &str = "node-a:7:9 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Destroy COMPLETE\n\
    node-b:7:9 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 - Destroy COMPLETE\n";

/// A result table of the job.
fn table(bandwidth: f64, hosts: [&str; 2]) -> String {
    format!(
        "# Collective test starting: all_reduce_perf\n\
         #  Rank  0 Group  0 Pid      7 on {} device  0 [0000:1b:00] NVIDIA H100\n\
         #  Rank  1 Group  0 Pid      7 on {} device  0 [0000:1b:00] NVIDIA H100\n\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n\
           8589934592    2147483648     float     sum      -1    100.0  {bandwidth:.2}  {bandwidth:.2}      0    100.0  {bandwidth:.2}  {bandwidth:.2}      0\n\
         # Out of bounds values : 0 OK\n\
         # Avg bus bandwidth    : {bandwidth:.2}\n",
        hosts[0], hosts[1]
    )
}

fn verdict(output: &str) -> JobVerdict {
    let mut reader = Reader::default();
    reader.feed(output.as_bytes());
    let mut log = reader.finish();
    let results = std::mem::take(&mut log.results);
    let judged = judge(&log);
    let links = links_of_log(&log, &judged);
    let assumptions = Assumptions { algorithm: algorithm_of_log(&log), ..Assumptions::default() };
    let reports: Vec<FileReport> = results
        .into_iter()
        .enumerate()
        .filter(|(_, results)| !results.runs.is_empty())
        .map(|(file, results)| FileReport {
            file,
            report: perf_judge::judge(results, &links, &assumptions),
        })
        .collect();
    evaluate(&log, &judged, &reports)
}

fn states(verdict: &JobVerdict) -> (Verdict, Path, Completeness, End, Option<ResultState>) {
    let job = &verdict.jobs[0];
    let results = verdict.results.as_ref().map(|part| part.state);
    (verdict.verdict, job.path.state, job.completeness.state, verdict.end.state, results)
}

#[test]
fn good_verdict_requires_path_completeness_and_end() {
    let good = verdict(&(job() + DESTROYED));
    let expected = (Verdict::Good, Path::Direct, Completeness::Complete, End::Well, None);
    assert_eq!(states(&good), expected);
    assert!(good.reason.is_empty() && good.nodes.iter().all(|one| one.verdict == Verdict::Good));
    // The end is not in the output.
    let living = verdict(&job());
    let expected = (Verdict::CannotTell, Path::Direct, Completeness::Complete, End::Unknown, None);
    assert_eq!(states(&living), expected);
    assert!(living.reason.contains("0 of 2 communicators destroyed"), "{}", living.reason);
    // Half of the job.
    let half: String = job().lines().take(7).map(|line| format!("{line}\n")).collect();
    let half = verdict(&half);
    assert_eq!(
        (half.verdict, half.jobs[0].completeness.state),
        (Verdict::CannotTell, Completeness::Incomplete)
    );
}

#[test]
fn result_table_is_judged_with_rates_of_the_log() {
    let hosts = ["node-a", "node-b"];
    let good = verdict(&(job() + &table(48.5, hosts)));
    let expected = (
        Verdict::Good,
        Path::Direct,
        Completeness::Complete,
        End::Well,
        Some(ResultState::AsExpected),
    );
    assert_eq!(states(&good), expected, "{}", good.reason);
    let slow = verdict(&(job() + &table(12.0, hosts)));
    assert_eq!(states(&slow).4, Some(ResultState::NotAsExpected));
    assert_eq!(slow.verdict, Verdict::Bad);
    // Without rates the number has no meaning.
    let without: String = job()
        .lines()
        .filter(|line| !line.contains("speed="))
        .map(|line| format!("{line}\n"))
        .collect();
    let unknown = verdict(&(without + &table(48.5, hosts)));
    assert_eq!(
        (unknown.verdict, states(&unknown).4),
        (Verdict::CannotTell, Some(ResultState::Unknown))
    );
    assert!(unknown.reason.contains("--snapshot"), "{}", unknown.reason);
}

#[test]
fn failed_job_names_its_node() {
    let failed =
        verdict(&(job() + "node-b: Test NCCL failure all_reduce.cu:44 'unhandled system error'\n"));
    assert_eq!((failed.verdict, failed.end.state), (Verdict::Bad, End::Failed));
    let at_fault: Vec<&str> = failed
        .nodes
        .iter()
        .filter(|one| one.verdict == Verdict::Bad)
        .map(|one| one.node.as_str())
        .collect();
    assert_eq!(at_fault, ["node-b"]);
    assert_eq!(failed.jobs[0].path.state, Path::Direct);
}

#[test]
fn node_shows_its_ports_and_network() {
    let node = &verdict(&job()).nodes[0];
    assert_eq!((node.node.as_str(), node.ranks.as_str(), node.gpus), ("node-a", "rank 0", 1));
    assert!(node.networks.contains("IB") && node.hcas.contains("mlx5_0:1/IB"));
    assert!(node.used.contains("mlx5_0:1/IB"));
}

#[test]
fn job_on_one_node_needs_no_network() {
    let rank = |own: u32, peer: u32| {
        format!(
            "n:{own}:9 [{own}] NCCL INFO NET/IB : No device found.\n\
             n:{own}:9 [{own}] NCCL INFO comm 0x1 rank {own} nranks 2 commId 0x9 - Init START\n\
             n:{own}:9 [{own}] NCCL INFO Channel 0/0 : {own}[0] -> {peer}[1] via P2P/CUMEM\n\
             n:{own}:9 [{own}] NCCL INFO comm 0x1 rank {own} nranks 2 commId 0x9 - Init COMPLETE\n\
             n:{own}:9 [{own}] NCCL INFO comm 0x1 rank {own} nranks 2 - Destroy COMPLETE\n"
        )
    };
    let local = verdict(&(rank(0, 1) + &rank(1, 0) + &table(300.0, ["n", "n"])));
    assert_eq!(
        (local.verdict, local.jobs[0].path.state),
        (Verdict::Good, Path::OneNode),
        "{}",
        local.reason
    );
    assert_eq!(states(&local).4, Some(ResultState::OneHost));
}

#[test]
fn every_job_of_the_output_must_be_good() {
    let other = job().replace("node-", "x-").replace("commId 0x9", "commId 0x8");
    let both = verdict(&(job() + &other + DESTROYED));
    assert_eq!((both.verdict, both.jobs.len(), both.nodes.len()), (Verdict::CannotTell, 2, 4));
    let both = verdict(&(job() + &other + DESTROYED + &DESTROYED.replace("node-", "x-")));
    assert_eq!(both.verdict, Verdict::Good);
}

#[test]
fn end_requires_every_communicator_and_run() {
    let good = verdict(&(job() + DESTROYED));
    assert_eq!(good.end.state, End::Well);
    // A second communicator is still in use.
    let second = |rank: u32, node: &str| {
        format!(
            "{node}:7:9 [0] NCCL INFO comm 0x2 rank {rank} nranks 2 cudaDev 0 commId 0xa - Init START\n\
             {node}:7:9 [0] NCCL INFO comm 0x2 rank {rank} nranks 2 cudaDev 0 commId 0xa - Init COMPLETE\n"
        )
    };
    let second = second(0, "node-a") + &second(1, "node-b");
    assert_eq!(verdict(&(job() + &second + DESTROYED)).end.state, End::Unknown);
    let aborted = DESTROYED.replace("Destroy", "Abort");
    assert_eq!(verdict(&(job() + &aborted)).end.state, End::Unknown);
    // A summary precedes the setup: it is of an earlier run.
    let summary = table(48.5, ["node-a", "node-b"]);
    assert_eq!(verdict(&(job() + &summary)).end.state, End::Well);
    assert_eq!(verdict(&(summary.clone() + &job())).end.state, End::Unknown);
    let cut = summary.replace("# Out of bounds values : 0 OK\n", "");
    assert_eq!(verdict(&(job() + &summary + &cut)).end.state, End::Unknown);
}

#[test]
fn table_of_another_host_is_unknown() {
    let other = verdict(&(job() + &table(2.0, ["x", "x"])));
    assert_eq!(states(&other).4, Some(ResultState::Unknown));
    // Containers with one name on several nodes.
    let one_name = (job() + &table(2.0, ["node", "node"]))
        .replace("node-a:7", "node:7")
        .replace("node-b:7", "node:8");
    let one_name = verdict(&one_name);
    assert_eq!(states(&one_name).4, Some(ResultState::Unknown));
}

#[test]
fn ceiling_counts_the_ports_in_use() {
    let listed = job()
        .replace("Using [0]mlx5_0:1/IB ;", "Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB ;");
    let one_gpu = verdict(&(listed + &table(48.5, ["node-a", "node-b"])));
    assert_eq!(
        (one_gpu.verdict, states(&one_gpu).4),
        (Verdict::Good, Some(ResultState::AsExpected)),
        "{}",
        one_gpu.reason
    );
}

#[test]
fn slow_port_is_not_its_own_yardstick() {
    let slow = job().replacen("speed=400000", "speed=25000", 1);
    let slow = verdict(&(slow + &table(2.9, ["node-a", "node-b"])));
    assert_eq!(states(&slow).4, Some(ResultState::Unknown));
    assert!(slow.reason.contains("unequal rates"), "{}", slow.reason);
}

#[test]
fn overlong_names_and_lines_of_tables_are_not_read() {
    let long = "h".repeat(256);
    let results = |output: &str| {
        let mut reader = Reader::default();
        reader.feed(output.as_bytes());
        reader.finish().results.remove(0)
    };
    let ranks = |output: &str| results(output).runs.remove(0).ranks.len();
    assert_eq!(ranks(&table(48.5, ["node-a", "node-b"])), 2);
    assert_eq!(ranks(&table(48.5, ["node-a", &long])), 1);
    assert!(results(&format!("# all_reduce_perf {}\n", "x".repeat(2000))).is_empty());
}
