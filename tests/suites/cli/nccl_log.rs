//! `bedplate nccl log`: what NCCL said. The logs are `tests/data/nccl/log/*`, in the forms of NCCL's source.

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
fn what_nccl_said() {
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

/// The reason stands on the node, and its snapshot has it.
#[test]
fn nodes_say_why() {
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

/// Packed or not, in one piece or several files, the same is found.
#[test]
fn packing_changes_nothing() {
    let session = logs();
    let said = |file: &str| {
        let output = session.run(&["nccl", "log", "--json", file]);
        String::from_utf8(output.stdout).expect("text").replace(file, "FILE")
    };
    assert_eq!(said("sockets.log"), said("sockets.log.gz"));
    assert_eq!(said("mixed.log"), said("mixed.log.zst"));
}

/// The documentation's tables are those of the program.
#[test]
fn the_documentation_of_warnings_is_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/nccl-log.md");
    expected::file(&path, &nccl_log::markdown(), "cli").expect("docs/nccl-log.md");
}
