//! `bedplate nccl env`: recommended settings of NCCL, RCCL or oneCCL for a host.

use std::path::Path;

use bedplate::report::nccl;
use bedplate_tests::expected;

use crate::session::Session;
use crate::transcripts::CHANGES;

#[test]
fn recommended_nccl_settings() {
    let session = Session::new();
    session
        .host("plain.bp", CHANGES)
        .host("unread.bp", "machine = \"plain\"\ndenied = [\"/sys/bus/pci/devices\"]\n")
        .image("image");
    session.expect(
        "nccl",
        &[
            &["nccl", "env", "--demo", "hgx"],
            &["nccl", "env", "--demo", "hgx", "--nccl-version", "2.12", "-v"],
            &["nccl", "env", "--demo", "hgx", "--format", "sh"],
            &["nccl", "env", "--demo", "gb300", "--format", "k8s"],
            &["nccl", "env", "--demo", "b300", "--format", "slurm"],
            &["nccl", "env", "--demo", "grace", "--nccl-version", "2.28"],
            &["nccl", "env", "--demo", "mi300x", "--json"],
            &["nccl", "env", "--demo", "mi300x", "--nccl-version", "2.21", "-v"],
            &["nccl", "env", "--demo", "mi300x", "--nccl-version", "2.27", "-v"],
            &["nccl", "env", "--demo", "mi300x", "--library", "nccl"],
            &["nccl", "env", "--demo", "hgx", "--library", "oneccl", "-v"],
            &["nccl", "env", "--demo", "hgx", "--library", "oneccl", "--format", "conf"],
            &["nccl", "env", "--demo", "hgx", "--nccl-version", "2.4"],
            &["nccl", "env", "--snapshot", "plain.bp"],
            &["nccl", "env", "--snapshot", "unread.bp"],
            &["nccl", "env", "--root", "image"],
            &["nccl", "env", "--nccl-version", "2.x"],
            &["nccl", "env", "--demo", "hgx", "--nccl-version", "3.1"],
            &["nccl", "env", "--demo", "mi300x", "--nccl-version", "2.7"],
        ],
    );
}

/// The documentation's table matches the program's.
#[test]
fn documented_variables_match_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/nccl.md");
    expected::file(&path, &nccl::markdown(), "cli").expect("docs/nccl.md");
}
