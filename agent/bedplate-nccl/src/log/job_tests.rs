//! Logs of several jobs, and findings about a whole job.

use super::verdict::{LogVerdict, Path, Verdict, judge};
use super::*;

fn read(text: &str) -> Log {
    let mut reader = Reader::default();
    reader.feed(text.as_bytes());
    reader.finish()
}

fn judged(text: &str) -> LogVerdict {
    judge(&read(text))
}

/// A job with a GPU per node, all connected directly.
fn job(nodes: &[&str], id: &str) -> String {
    let ranks = nodes.len();
    let line = |(rank, node): (usize, &&str)| {
        let next = (rank + 1) % ranks;
        let before = (rank + ranks - 1) % ranks;
        format!(
            "{node}:1:2 [0] NCCL INFO comm 0x1 rank {rank} nranks {ranks} cudaDev 0{id} - Init START\n\
             {node}:1:2 [0] NCCL INFO Channel 0/0 : {rank}[0] -> {next}[0] [send] via NET/IB/0/GDRDMA\n\
             {node}:1:2 [0] NCCL INFO Channel 0/0 : {before}[0] -> {rank}[0] [receive] via NET/IB/0/GDRDMA\n\
             {node}:1:2 [0] NCCL INFO comm 0x1 rank {rank} nranks {ranks} cudaDev 0{id} - Init COMPLETE\n"
        )
    };
    nodes.iter().enumerate().map(line).collect()
}

fn sizes(judged: &LogVerdict) -> Vec<(Option<u32>, usize, Path)> {
    judged.jobs.iter().map(|job| (job.ranks, job.nodes.len(), job.path)).collect()
}

#[test]
fn jobs_are_joined_only_by_communicator_ids() {
    let one = job(&["a", "b"], " commId 0x1f");
    let other = job(&["c", "d", "e"], " commId 0x20");
    let both = judged(&(one.clone() + &other));
    assert_eq!(sizes(&both), [(Some(2), 2, Path::Direct), (Some(3), 3, Path::Direct)]);
    assert_eq!(both.verdict, Verdict::Direct);
    // One incomplete job decides.
    let half: String = other.lines().take(8).map(|line| format!("{line}\n")).collect();
    let half = judged(&(one.clone() + &half));
    assert_eq!(half.verdict, Verdict::CannotTell);
    assert!(half.jobs[0].missing.is_empty() && !half.jobs[1].missing.is_empty());
    assert!(half.reason.starts_with("job 2 of 2: "), "{}", half.reason);
    // A communicator of both.
    let bridge = "b:1:2 [0] NCCL INFO comm 0x2 rank 0 nranks 2 commId 0x99 - Init COMPLETE\n\
        c:1:2 [0] NCCL INFO comm 0x2 rank 1 nranks 2 commId 0x99 - Init COMPLETE\n";
    assert_eq!(judged(&(one + &other + bridge)).jobs.len(), 1);
    // Up to 2.15 there are no ids.
    assert_eq!(judged(&job(&["a", "b", "c"], "")).jobs.len(), 1);
}

#[test]
fn jobs_are_joined_in_any_order_of_communicators() {
    for reversed in [false, true] {
        let mut pairs: Vec<u32> = (0..2000).collect();
        if reversed {
            pairs.reverse();
        }
        let line = |rank: u32, id: u32| {
            format!(
                "n{rank}:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 commId 0x{id:x} - Init COMPLETE\n"
            )
        };
        let text: String = pairs.iter().map(|at| line(*at, *at) + &line(at + 1, *at)).collect();
        assert_eq!(judged(&text).jobs.len(), 1);
    }
}

#[test]
fn jobs_of_one_rank_each_are_recognized() {
    let alone = |node: &str, pid: u32| {
        format!(
            "{node}:{pid}:2 [0] NCCL INFO comm 0x1 rank 0 nranks 1 commId 0x{pid:x} - Init COMPLETE\n"
        )
    };
    let many = judged(&(alone("a", 1) + &alone("a", 2) + &alone("b", 3)));
    assert_eq!(many.verdict, Verdict::Faults);
    assert!(many.findings[0].text.starts_with("3 jobs of one rank each"), "{:?}", many.findings);
    assert!(many.findings[0].fix.as_ref().unwrap().contains("--mpi=pmix"));
    // One after another on one node; then at the same time.
    let [first, second] = [alone("a", 1), alone("a", 2)];
    assert_eq!(judged(&(first.clone() + &second)).verdict, Verdict::OneNode);
    assert_eq!(judged(&(first.clone() + &second + &first)).verdict, Verdict::Faults);
    // A single process needs no peers, and no NIC.
    let no_nic = "a:1:2 [0] NCCL INFO NET/IB : No device found.\n";
    assert_eq!(judged(&(no_nic.to_owned() + &alone("a", 1))).verdict, Verdict::OneNode);
}

#[test]
fn name_glued_from_known_names_is_no_node() {
    let good = job(&["node-a", "node-b"], " commId 0x1f");
    let torn =
        "node-anode-b:1:2 [0] NCCL INFO Channel 1/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA\n";
    let glued = judged(&(good.clone() + torn));
    assert_eq!(glued.verdict, Verdict::CannotTell);
    assert_eq!(sizes(&glued), [(Some(2), 2, Path::Direct)]);
    let log = read(&(torn.to_owned() + &good));
    assert_eq!(log.lost.map(|lost| (lost.count, lost.first.line)), Some((1, 1)));
    let receives =
        log.workers.iter().find(|one| log.hosts[one.host] == "node-b" && one.takes_part());
    assert_eq!(receives.unwrap().receives, 2);
    // A node with this name reports its setup.
    let real = judged(&job(&["node-a", "node-b", "node-anode-b"], " commId 0x1f"));
    assert_eq!((real.verdict, real.jobs[0].nodes.len()), (Verdict::Direct, 3));
}

#[test]
fn versions_are_compared_without_their_suffix() {
    let two = "NCCL version 2.21.5+cuda12.4\na:1:2 [0] NCCL INFO NCCL version 2.21.5\n";
    let log = read(two);
    let names: Vec<&str> = log.versions.keys().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, log.versions.values().next().unwrap().count), (vec!["2.21.5+cuda12.4"], 2));
    let texts = |text: &str| judged(text).findings.into_iter().map(|one| one.text);
    assert!(texts("NCCL version 2.99.1+cuda14.0").any(|text| text.contains("is newer than")));
    assert_eq!(texts(two).count(), 0);
}

#[test]
fn whole_job_findings_name_the_shared_reason() {
    let line = |node: &str, gpu: u32, end: &str| {
        format!(
            "{node}:{gpu}:2 [{gpu}] NCCL INFO Channel 0/0 : 0[0] -> 1[0] [send] via NET/IB/0{end}\n"
        )
    };
    let of = |node: &str, staged: u32| {
        let ends = |gpu| if gpu == staged { "" } else { "/GDRDMA" };
        (0..4).map(|gpu| line(node, gpu, ends(gpu))).collect::<String>()
    };
    let far = "a:3:2 [3] NCCL INFO GPU Direct RDMA Disabled for GPU 3 / HCA 1 (distance 9 > 4)\n";
    let shared = |text: &str| {
        let findings = judged(text).findings;
        findings.into_iter().find(|one| one.text.starts_with("GPU 3 goes through host memory"))
    };
    let both = shared(&(far.to_owned() + &of("a", 3) + &of("b", 3))).unwrap();
    assert!(both.fix.unwrap().contains("distance 9 > 4"));
    assert!(shared(&(of("a", 3) + &of("b", 2))).is_none());
    assert!(shared(&of("a", 3)).is_none());
}

#[test]
fn mixed_link_layers_and_forced_variables_are_notes() {
    let text = job(&["a", "b"], " commId 0x1")
        + "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE ; OOB e:10.0.0.1<0>\n\
           a:1:2 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to SYS\n";
    let judged = judged(&text);
    assert_eq!(judged.verdict, Verdict::Direct);
    let has = |part: &str| judged.findings.iter().any(|one| one.text.contains(part));
    assert!(has("InfiniBand and RoCE ports together") && has("NCCL_NET_GDR_LEVEL=SYS sets"));
}

#[test]
fn ends_rates_and_algorithms_are_read() {
    let log = read(
        "a:1:2 [0] NCCL INFO NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x1 pciPath=/x ar=1\n\
         a:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}\n\
         a:1:2 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}\n\
         a:1:2 [0] NCCL INFO Connected NVLS tree\n\
         a:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Destroy COMPLETE\n",
    );
    assert_eq!(log.rates.get(&(0, "mlx5_0:1".to_owned())), Some(&400.0));
    assert_eq!(log.algorithm, Some((1024, "NVLS_TREE".to_owned())));
    assert!(log.nvls_tree.is_some());
    assert_eq!(log.workers[0].destroyed, 1);
}

#[test]
fn every_rank_of_every_communicator_is_required() {
    let line = |node: &str, pid: u32, rank: u32, id: &str| {
        format!(
            "{node}:{pid}:2 [0] NCCL INFO comm 0x1 rank {rank} nranks 2 commId 0x{id} - Init COMPLETE\n"
        )
    };
    let link = |node: &str, pid: u32, side: &str| {
        format!(
            "{node}:{pid}:2 [0] NCCL INFO Channel 0/0 : 0[0] -> 1[0] [{side}] via NET/IB/0/GDRDMA\n"
        )
    };
    // Pairs in each node, and pairs across the nodes; no communicator of all ranks.
    let gpu = |node: &str, pid: u32, rank: u32, own: &str, across: &str| {
        let pair = line(node, pid, pid - 1, own);
        let side = if rank == 0 { "send" } else { "receive" };
        pair + &link(node, pid, side) + &line(node, pid, rank, across)
    };
    let all = [
        gpu("a", 1, 0, "a0", "d0"),
        gpu("a", 2, 0, "a0", "d1"),
        gpu("b", 1, 1, "b0", "d0"),
        gpu("b", 2, 1, "b0", "d1"),
    ];
    let missing = |text: &str| judged(text).jobs.remove(0).missing;
    let is_partial =
        |text: &str| missing(text).iter().any(|one| one.contains("ranks of communicator"));
    assert!(!is_partial(&all.concat()));
    assert!(is_partial(&all[..3].concat()));
}

#[test]
fn unknown_transport_is_no_direct_path() {
    let other = "a:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] via XLINK/0\n";
    let judged = judged(&(job(&["a", "b"], " commId 0x1") + other));
    assert_eq!((judged.verdict, judged.jobs[0].path), (Verdict::CannotTell, Path::Unknown));
}

#[test]
fn reductions_in_switches_are_read_in_old_versions() {
    let coll = "a:1:2 [0] NCCL INFO Coll 00 : 0 [send] via COLLNET/SHARP/0\n";
    assert_eq!(judged(&(job(&["a", "b"], "") + coll)).verdict, Verdict::NotDirect);
}

#[test]
fn warning_of_another_thread_is_after_the_setup_of_its_process() {
    let warning = "a:1:9 [5] init.cc:88 NCCL WARN NET/IB : a wholly new kind of event\n";
    assert_eq!(judged(&(job(&["a", "b"], " commId 0x1") + warning)).verdict, Verdict::CannotTell);
}

#[test]
fn effects_blame_the_peer_and_follow_causes() {
    let good = job(&["node-a", "node-b"], " commId 0x1");
    let effect = "node-a:1:2 [0] misc/socket.cc:1 NCCL WARN socketProgress: Connection closed by remote peer node-b.x<38422>\n";
    let found = judged(&(good.clone() + effect)).findings;
    assert_eq!((found[0].node, found[0].is_cause), (Some(1), false));
    let cause = "node-b:1:2 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async error event: port error\n";
    let found = judged(&(good.clone() + effect + cause)).findings;
    assert_eq!((found[0].node, found[0].is_cause), (Some(1), true));
    // Launchers: the process that was ended because of another one.
    let lines = "srun: error: node-a: task 0: Exited with exit code 143\n\
        srun: error: node-b.example: task 1: Exited with exit code 1\n";
    let found = judged(&(good + lines)).findings;
    assert_eq!((found[0].node, found[1].node), (Some(1), Some(0)));
}

#[test]
fn sockets_within_one_node_are_named_so() {
    let rank = |own: u32, peer: u32| {
        format!(
            "a:{own}:2 [{own}] NCCL INFO comm 0x1 rank {own} nranks 2 commId 0x1 - Init COMPLETE\n\
             a:{own}:2 [{own}] NCCL INFO Channel 0/0 : {own}[0] -> {peer}[1] [send] via NET/Socket/0\n"
        )
    };
    let whole = judged(&(rank(0, 1) + &rank(1, 0)));
    assert_eq!(whole.verdict, Verdict::NotDirect);
    assert!(whole.jobs[0].text.contains("between ranks"), "{}", whole.jobs[0].text);
    // The log of one of several nodes.
    assert!(judged(&rank(0, 1)).jobs[0].text.contains("between nodes"));
}
