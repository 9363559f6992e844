//! `bedplate nccl log`: analysis of NCCL's output. The logs are `tests/data/nccl/log/*`, in the formats of NCCL's source.

use std::path::Path;

use bedplate::report::nccl_log;
use bedplate_tests::expected;

use crate::session::Session;

/// A session with all the logs.
fn logs() -> Session {
    let session = Session::new();
    let directory = bedplate_tests::data("nccl/log");
    for entry in std::fs::read_dir(directory).expect("the logs") {
        let entry = entry.expect("a log");
        let name = entry.file_name().into_string().expect("a name");
        session.file(&name, std::fs::read(entry.path()).expect("its bytes"));
    }
    session
}

#[test]
fn findings_of_nccl_logs() {
    let session = logs();
    session.file("cut.log.gz", [0x1f, 0x8b, 8, 0, 0, 0]);
    session.expect(
        "nccl-log",
        &[
            &["nccl", "log", "direct.log"],
            &["nccl", "log", "sockets.log.gz", "-v"],
            &["nccl", "log", "staged-2.7.log"],
            &["nccl", "log", "ring-2.4.log"],
            &["nccl", "log", "mixed.log.zst"],
            &["nccl", "log", "failed.log"],
            &["nccl", "log", "version.log"],
            &["nccl", "log", "other.log"],
            &["nccl", "log", "rccl.log"],
            &["nccl", "log", "plugin.log", "--json"],
            &["nccl", "log", "direct.log", "sockets.log"],
            &["nccl", "log", "nowhere.log"],
            &["nccl", "log", "cut.log.gz"],
            &["nccl", "log"],
        ],
    );
}

/// The cause is on the node, and its snapshot contains it.
#[test]
fn node_snapshots_explain_findings() {
    let session = logs();
    let down =
        |port: &str| format!("\"/sys/class/infiniband/{port}/ports/1/state\" = \"1: DOWN\\n\"");
    session.host(
        "nodes/node-b.bp",
        &format!("machine = \"hgx\"\n[files]\n{}\n{}\n", down("mlx5_0"), down("mlx5_3")),
    );
    session.host("nodes/node-z.bp", "machine = \"plain\"\n");
    session.expect(
        "nccl-log-nodes",
        &[
            &["nccl", "log", "mixed.log", "--snapshot", "nodes/*.bp"],
            &["nccl", "log", "sockets.log", "--snapshot", "nodes/node-b.bp"],
        ],
    );
}

/// Findings are the same for packed and plain logs, in one file or several.
#[test]
fn packed_logs_have_the_same_findings() {
    let session = logs();
    let said = |file: &str| {
        let output = session.run(&["nccl", "log", "--json", file]);
        String::from_utf8(output.stdout).expect("text").replace(file, "FILE")
    };
    assert_eq!(said("sockets.log"), said("sockets.log.gz"));
    assert_eq!(said("mixed.log"), said("mixed.log.zst"));
}

/// The documentation's tables match the program's.
#[test]
fn documented_warnings_match_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/nccl-log.md");
    expected::file(&path, &nccl_log::markdown(), "cli").expect("docs/nccl-log.md");
}
