//! `bedplate nccl job`, and `bedplate doctor` with the log of a job.

use bedplate_tests::data;
use serde_json::Value;

use crate::session::{Session, text};

/// Output of a good job: two nodes with two GPUs each, the rates of their ports, the result table, and the end.
fn good() -> String {
    std::fs::read_to_string(data("nccl/log/job.log")).expect("the log")
}

/// Returns the output without the lines that contain a text.
fn without(output: &str, part: &str) -> String {
    output.split_inclusive('\n').filter(|line| !line.contains(part)).collect()
}

fn json(session: &Session, file: &str) -> (Option<i32>, Value) {
    let output = session.run(&["nccl", "job", file, "--json"]);
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

#[test]
fn job_reports() {
    let session = Session::new();
    let other = good().replace("node-a", "node-c").replace("node-b", "node-d");
    let other = without(&other.replace("commId 0xa1", "commId 0xb2"), "# ");
    session
        .file("good.log", good())
        .file("living.log", without(&without(&good(), "Destroy"), "# "))
        .file("other.log", other)
        .file("slow.log", good().replace("97.40", "41.20").replace("96.10", "41.00"))
        .file("sockets.log", good().replace("NET/IB/1/GDRDMA", "NET/Socket/0"))
        .file("failed.log", good() + "srun: error: node-b: task 3: Exited with exit code 6\n")
        .file("empty.log", "")
        .file("binary.log", b"\x7fELF\x02\x01\0\0\0\0".as_slice())
        .file("table.log", without(&good(), "NCCL INFO"));
    session.expect(
        "nccl-job",
        &[
            &["nccl", "job", "good.log"],
            &["nccl", "job", "good.log", "-v"],
            &["nccl", "job", "living.log"],
            &["nccl", "job", "good.log", "other.log"],
            &["nccl", "job", "slow.log"],
            &["nccl", "job", "sockets.log"],
            &["nccl", "job", "failed.log", "--json"],
            &["nccl", "job", "empty.log"],
            &["nccl", "job", "binary.log"],
            &["nccl", "job", "table.log"],
            &["nccl", "job", "table.log", "--demo", "hgx"],
            &["nccl", "job"],
        ],
    );
}

#[test]
fn exit_status_is_zero_only_for_proven_jobs() {
    let session = Session::new();
    let status = |output: &str| {
        session.file("job.log", output);
        session.status(&["nccl", "job", "job.log"])
    };
    assert_eq!(status(&good()), 0);
    // Each of these parts is necessary.
    let needed = [
        "node-b",
        "[1,3]",
        "[receive]",
        "Init COMPLETE",
        "speed=400000",
        "node-a:100:120 [0] NCCL INFO Channel",
    ];
    for part in needed {
        assert_eq!(status(&without(&good(), part)), 5, "{part}");
    }
    // The end is shown by the table and by the ranks.
    assert_eq!(status(&without(&good(), "Destroy")), 0);
    assert_eq!(status(&without(&without(&good(), "Destroy"), "# ")), 5);
    for (from, to) in [
        ("# Out of bounds values : 0 OK", "# Out of bounds values : 12 FAILED"),
        ("# Avg bus", "node-b: Test CUDA failure common.cu:1 'an error'\n# Avg bus"),
        ("NET/IB/1/GDRDMA", "NET/IB/1"),
        ("97.40", "20.00"),
    ] {
        let output =
            good().replace(from, to).replace("96.10", if to == "20.00" { to } else { "96.10" });
        let output = output.replace("88.00", if to == "20.00" { to } else { "88.00" });
        assert_eq!(status(&output), 4, "{to}");
    }
}

#[test]
fn json_names_the_node_at_fault_and_follows_its_schema() {
    let session = Session::new();
    session.file("bad.log", good() + "srun: error: node-b: task 3: Exited with exit code 6\n");
    let (code, document) = json(&session, "bad.log");
    assert_eq!(code, Some(4));
    let schema =
        serde_json::from_str(&text(&session.run(&["nccl", "job", "--json-schema"]).stdout));
    let schema: Value = schema.expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(document["log"]["findings"][0]["node"], "node-b");
    assert_eq!(document["end"]["state"], "failed");
    assert_eq!(document["jobs"][0]["path"]["state"], "direct");
    let nodes = document["nodes"].as_array().expect("nodes");
    let verdict = |name: &str| {
        let node = nodes.iter().find(|node| node["node"] == name);
        node.map(|node| node["verdict"].clone())
    };
    assert_eq!(verdict("node-a"), Some("good".into()));
    assert_eq!(verdict("node-b"), Some("bad".into()));
}

/// A file that is read twice would double the connections.
#[test]
fn repeated_log_is_a_usage_error() {
    let session = Session::new();
    session.file("job.log", good());
    for command in [&["nccl", "job"][..], &["nccl", "log"], &["doctor"]] {
        assert_eq!(session.status(&[command, &["job.log", "job.log"]].concat()), 64, "{command:?}");
    }
}

/// Hosts are spoken of only if the log names them, or the user does.
#[test]
fn doctor_diagnoses_only_hosts_of_the_log() {
    let session = Session::new();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the host name");
    let xid = "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.";
    session
        .file("job.log", good())
        .file("cuda.log", "node-a:1:2 [0] x.cc:1 NCCL WARN Cuda failure 'out of memory'\n")
        .file("plain.log", format!("[   10.000000] {xid}\n"))
        .file("other.log", format!("Nov 29 03:00:00 another-host kernel: {xid}\n"))
        .file("own.log", format!("Nov 29 03:00:00 {} kernel: {xid}\n", host.trim()))
        .host("good.bp", "machine = \"hgx\"\n");
    let doctor = |args: &[&str]| {
        let output = session.run(&[&["doctor", "--json"], args].concat());
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), document["host"].is_string())
    };
    assert_eq!(doctor(&["job.log"]), (Some(0), false));
    assert_eq!(doctor(&["cuda.log"]), (Some(4), false));
    assert_eq!(doctor(&["plain.log"]), (Some(4), false));
    assert_eq!(doctor(&["other.log"]), (Some(4), false));
    assert_eq!(doctor(&["own.log"]), (Some(4), true));
    assert_eq!(doctor(&["plain.log", "--this-host"]), (Some(4), true));
    assert_eq!(doctor(&["other.log", "--snapshot", "good.bp"]), (Some(4), true));
    assert_eq!(doctor(&["job.log", "plain.log"]), (Some(4), false));
}
