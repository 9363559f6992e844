//! Limits of several hosts and of copies.

use super::hosts::{Host, judge};
use super::judge::{Assumptions, Links, Report, Verdict};
use super::limit::{Nic, Pcie, Port};
use super::read;

const HEADING: &str =
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";

/// Rows of nccl-tests with these pairs of algorithm and bus bandwidth.
pub(super) fn table(operation: &str, rates: &[(&str, &str)]) -> String {
    let row = |(algorithm, bus): &(&str, &str)| {
        let group = format!("50.0 {algorithm} {bus} 0");
        format!("1073741824 268435456 float {operation} {group} {group}\n")
    };
    HEADING.to_owned() + &rates.iter().map(row).collect::<String>()
}

pub(super) fn notes(text: &str) -> String {
    read(text).notes.iter().map(|note| format!("{}: {}\n", note.line, note.text)).collect()
}

fn pcie(address: &str, lanes: u32) -> Pcie {
    let best = (lanes < 16).then_some((320, 16));
    Pcie { address: address.to_owned(), speed: 320, lanes, payload: Some(256), best }
}

pub(super) fn host(name: &str, rate: f64) -> Host {
    let port = Port { name: "mlx5_0/1".to_owned(), rate: Some(rate), ethernet: false };
    let nics = vec![Nic { ports: vec![port], pcie: None }];
    let gpus = vec![pcie("0000:18:00.0", 16), pcie("0000:2a:00.0", 8)];
    let addresses = gpus.iter().filter_map(|gpu| gpu.address.parse().ok()).collect();
    Host {
        name: name.to_owned(),
        hostname: Some(name.to_owned()),
        links: Links {
            chosen: nics.clone(),
            all: nics,
            gpus,
            drives: Some(vec![pcie("0000:20:00.0", 4)]),
            ..Links::default()
        },
        gpus: Some(addresses),
    }
}

fn report(text: &str, hosts: &[Host]) -> Report {
    judge(read(text), hosts, &Assumptions::default())
}

pub(super) fn on_two_hosts(address: &str) -> String {
    let rank = |nth: usize| format!("#  Rank {nth} Pid 1 on node-{nth} device 0 [{address}] GPU\n");
    format!(
        "# Collective test starting: all_reduce_perf\n{}{}{}",
        rank(0),
        rank(1),
        table("sum -1", &[("20.00", "20.00")])
    )
}

#[test]
fn slowest_snapshot_limits_the_run() {
    let hosts = [host("node-0", 400.0), host("node-1.site", 200.0), host("node-2", 100.0)];
    let limit = |hosts: &[Host]| {
        let report = report(&on_two_hosts("0000:18:00"), hosts);
        (
            report.runs[0].host.clone(),
            report.runs[0].limit.as_ref().map(|limit| limit.most),
            report.host,
        )
    };
    let node_1 = Some("node-1.site".to_owned());
    // node-2 takes no part in the run.
    assert_eq!(limit(&hosts), (node_1.clone(), Some(25.0), node_1));
    assert_eq!(limit(&hosts[..1]), (None, Some(50.0), None));
    // Snapshots of hosts with other names stand for all hosts of the run.
    let others = [host("a", 400.0), host("b", 100.0)];
    assert_eq!(limit(&others).1, Some(12.5));
    // A host with an unknown limit may be the slowest.
    let mut unknown = host("node-1", 200.0);
    unknown.links.unknown = Some("cannot read PCI devices: x".to_owned());
    let report = report(&on_two_hosts("0000:18:00"), &[host("node-0", 400.0), unknown]);
    assert_eq!(
        (report.verdict, report.runs[0].host.as_deref()),
        (Verdict::CannotTell, Some("node-1"))
    );
}

#[test]
fn gpus_that_the_snapshot_lacks_are_reported() {
    let lacks = |address: &str, hostname: Option<&str>| {
        let hostname = hostname.map(str::to_owned);
        let report = report(&on_two_hosts(address), &[Host { hostname, ..host("node-0", 400.0) }]);
        report.runs[0].findings.iter().any(|finding| finding.text.contains("has no GPU at"))
    };
    assert!(lacks("0000:19:00", Some("node-0")) && lacks("0x19", Some("node-0")));
    assert!(!lacks("0000:18:00", Some("node-0")) && !lacks("0x18", Some("node-0")));
    assert!(!lacks("0000:18:00.0", Some("node-0")));
    // The word in brackets is not an address.
    assert!(!lacks("GPU-5", Some("node-0")));
    // A host with another name need not be in the run; one without a name may be any of them.
    assert!(!lacks("0000:19:00", Some("c")));
    assert!(lacks("0000:19:00", None) && !lacks("0000:18:00", None));
}

pub(super) const NVBANDWIDTH: &str = "nvbandwidth Version: v0.8\n\nnode-0\n\
    Device 0: NVIDIA H100 (00000000:18:00)\nDevice 1: NVIDIA H100 (00000000:2a:00)\n\n\
    Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n\
    \x20          0         1\n 0     55.10     27.30\n\nSUM host_to_device_memcpy_ce 82.40\n\n\
    Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n\
    \x20          0         1\n 0       N/A    370.10\n 1    370.20       N/A\n";

pub(super) fn json(first: &str) -> String {
    format!(
        "{{ \"nvbandwidth\" : {{\n\"GPU Device list\" : [ \"0: NVIDIA H100 (00000000:18:00): (node-0)\",\n\
         \"1: NVIDIA H100 (00000000:2a:00): (node-0)\" ],\n\"testcases\" : [\n{{\n\
         \"bandwidth_matrix\" : [ [ \"{first}\", \"N/A\" ] ],\n\"name\" : \"device_to_host_memcpy_sm\",\n\
         \"status\" : \"Passed\" }},\n{{ \"name\" : \"multinode_x\", \"status\" : \"Waived\" }} ],\n\
         \"version\" : \"v0.8\" }} }}"
    )
}

#[test]
fn copies_are_limited_by_the_link_of_the_gpu() {
    let hosts = [host("node-0", 400.0)];
    let text = report(NVBANDWIDTH, &hosts);
    let limits: Vec<f64> =
        text.runs[0].copies.iter().filter_map(|copy| copy.limit).map(f64::round).collect();
    assert_eq!(limits, [58.0, 29.0]);
    // Both rates fit the links, but one link has half of its lanes.
    assert_eq!(
        (text.runs.len(), text.runs[0].findings.len()),
        (1, 1),
        "{:?}",
        text.runs[0].findings
    );
    assert!(text.runs[0].findings[0].text.contains("has 8 lanes"));
    assert!(text.findings[0].text.contains("NVLink"), "{:?}", text.findings);
    for (rate, verdict) in [("55.1", Verdict::Good), ("26.0", Verdict::Bad), ("370", Verdict::Bad)]
    {
        assert_eq!(report(&json(rate), &hosts).verdict, verdict, "{rate}");
    }
    let other = json("55.1").replace(":18:00", ":99:00");
    let report = report(&other, &hosts);
    assert_eq!(report.verdict, Verdict::CannotTell);
    assert!(report.runs[0].findings[0].text.contains("no GPU at 00000000:99:00"));
}

#[test]
fn gdrcopy_names_the_gpu_and_is_limited_by_its_link() {
    let text = |rate: &str| {
        format!(
            "GPU id:0; name: H100; Bus id: 0000:18:00\nGPU id:1; name: H100; Bus id: 0000:2a:00\n\
             selecting device 1\nwriting test, size=131072 offset=0 num_iters=10000\nwrite BW: {rate}MB/s\n\
             reading test, size=131072 offset=0 num_iters=100\nread BW: 530.135MB/s\n"
        )
    };
    let results = read(&text("9638.54"));
    let copy = &results.runs[0].copies[0];
    assert_eq!((copy.address.as_deref(), copy.bytes), (Some("0000:2a:00"), Some(131_072)));
    assert_eq!((copy.bandwidth * 1000.0).round(), 10107.0);
    let mut host = host("node-0", 400.0);
    host.links.gpus[1].best = None;
    let hosts = [host];
    assert_eq!(report(&text("9638.54"), &hosts).verdict, Verdict::CannotTell);
    assert_eq!(report(&text("60000"), &hosts).runs[0].verdict, Verdict::Bad);
    assert_eq!(report(&text("26000"), &hosts).runs[0].verdict, Verdict::Good);
    assert!(
        notes("GPU id:0; name: H100; Bus id: 0000:18:00\nselecting device 0\n")
            .contains("no bandwidth")
    );
}

#[test]
fn gdsio_is_limited_by_drives_and_ports() {
    let text = |transfer: &str, rate: &str| {
        format!(
            "IoType: READ XferType: {transfer} Threads: 8 DataSetSize: 8363008/8388608(KiB) IOSize: 1024(KiB) \
             Throughput: {rate} GiB/sec, Avg_Latency: 1138.9 usecs ops: 8167 total_time 1.17 secs\n"
        )
    };
    // A drive of 14.4 GB/s and a port of 50 GB/s; the GPUs carry more.
    let hosts = [host("node-0", 400.0)];
    let verdict = |transfer, rate| report(&text(transfer, rate), &hosts).verdict;
    assert_eq!(verdict("GPUD", "6.816723"), Verdict::CannotTell);
    assert_eq!(verdict("GPUD", "55.0"), Verdict::Good);
    assert_eq!(verdict("CPUONLY", "80.0"), Verdict::Bad);
    let cut = text("GPUD", "6.816723");
    assert_eq!(read(&(cut[..60].to_owned() + "\n")).unread, [1]);
    assert!(notes(&cut[..60]).contains("incomplete"));
    let mut unknown = host("node-0", 400.0);
    unknown.links.drives = None;
    assert_eq!(report(&cut, &[unknown]).verdict, Verdict::CannotTell);
}
