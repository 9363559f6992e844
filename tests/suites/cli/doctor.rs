//! `bedplate doctor`: the causes it names, its inputs, and its exit status.

use std::path::Path;

use bedplate::report::doctor::markdown;
use bedplate_tests::expected;

use crate::session::{Session, text};

/// Ready, with the log of a boot without faults.
const GOOD: &str = "machine = \"hgx\"\niommu = \"passthrough\"\nacs = false\ncmdline = \"intel_iommu=on iommu=pt\"\n";
/// Factory defaults, with an unresponsive GPU and a module that the kernel refused.
const BAD: &str = "machine = \"hgx\"\nnvidia = \"proprietary\"\nkernel-log = [\n\
    \"nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\",\n\
    \"mlx5_ib: Unknown symbol _ib_alloc_device (err -22)\",\n\
    \"NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.\",\n]\n\
    [modules]\nmlx5_ib = \"available\"\n\
    [files]\n\"/sys/class/infiniband/mlx5_3/ports/1/state\" = \"1: DOWN\\n\"\n\
    \"/sys/class/infiniband/mlx5_3/ports/1/phys_state\" = \"3: Disabled\\n\"\n";
const NCCL: &str = "node17:4711:4720 [0] NCCL INFO NET/IB : No device found.\n\
    node17:4711:4720 [0] NCCL INFO Using network Socket\n\
    node17:4711:4720 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n\
    node17:4711:4720 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n";
const DIRECT: &str =
    "node17:4711:4720 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n";

#[test]
fn causes() {
    let session = Session::new();
    session
        .host("good.bp", GOOD)
        .host("bad.bp", BAD)
        .host("user.bp", &format!("{GOOD}unprivileged = true\n"))
        .file("nccl.log", NCCL)
        .file("direct.log", DIRECT)
        .file("other.log", "all is well\n");
    session.expect(
        "doctor",
        &[
            &["doctor", "--snapshot", "bad.bp"],
            &["doctor", "gpu-lost", "--snapshot", "bad.bp"],
            &["doctor", "peermem", "won't", "load", "--snapshot", "bad.bp"],
            &["doctor", "GDR disabled", "--snapshot", "good.bp"],
            &["doctor", "low-bandwidth", "--snapshot", "user.bp"],
            &["doctor", "nccl.log", "--snapshot", "bad.bp"],
            &["doctor", "direct.log", "--snapshot", "good.bp"],
            &["doctor", "other.log", "--snapshot", "good.bp"],
            &["doctor", "xid and low bandwidth", "--snapshot", "good.bp"],
            &["doctor", "it \u{1b}[31mdoes not work", "--snapshot", "good.bp"],
            &["doctor", "./none.log", "--snapshot", "good.bp"],
            &["doctor", "peermem", "--json", "--snapshot", "bad.bp"],
        ],
    );
    let status = |host: &str, what: &str| session.status(&["doctor", what, "--snapshot", host]);
    assert_eq!(status("bad.bp", "nccl.log"), 4);
    assert_eq!(status("good.bp", "gdr-disabled"), 5);
    // One line does not show a whole job.
    assert_eq!(status("good.bp", "direct.log"), 5);
    assert_eq!(status("good.bp", "other.log"), 5);
    assert_eq!(status("user.bp", "gpu-lost"), 5);
    assert_eq!(status("good.bp", "./none.log"), 1);
}

/// A symptom is recognized by its text, even if that looks like a path.
#[test]
fn symptom_text_is_not_taken_for_a_file() {
    let session = Session::new();
    for symptom in bedplate_core::doctor::SYMPTOMS {
        for words in [symptom.id, symptom.title] {
            let output =
                session.command(&["doctor", words, "--demo", "hgx"]).output().expect("it starts");
            let named = format!("({})", symptom.id);
            assert!(text(&output.stdout).contains(&named), "{words}: {}", text(&output.stderr));
        }
    }
    assert_eq!(session.status(&["doctor", "no/such.log", "--demo", "hgx"]), 1);
    for word in ["/", ".", "Gbps/node"] {
        assert_eq!(session.status(&["doctor", word, "--demo", "hgx"]), 64, "{word}");
    }
}

#[test]
fn json_follows_its_schema() {
    let session = Session::new();
    session.host("bad.bp", BAD).file("nccl.log", NCCL);
    let json =
        |args: &[&str]| serde_json::from_str(&text(&session.run(args).stdout)).expect("it is JSON");
    let schema: serde_json::Value = json(&["doctor", "--json-schema"]);
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    for what in [&["nccl.log"][..], &["gpu-lost"], &[]] {
        let args = [&["doctor", "--json"], what, &["--snapshot", "bad.bp"]].concat();
        let document = json(&args);
        let errors: Vec<String> =
            validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{what:?}: {errors:?}");
        assert_eq!(document["bedplate_doctor"], 2);
    }
}

/// A megabyte without a line end, NULs, and terminal control sequences.
#[test]
fn hostile_log_is_harmless() {
    let session = Session::new();
    let long = "x".repeat(1 << 20);
    let log = format!(
        "{long}\n\0\u{1b}[2J\u{1b}]0;own\u{7} NVRM: Xid (PCI:0000:18:00): 79\u{9b}\n\0\0{long}"
    );
    session.host("bad.bp", BAD).file("hostile.log", &log);
    for more in [&[][..], &["--json"]] {
        let args = [&["doctor", "hostile.log"], more, &["--snapshot", "bad.bp"]].concat();
        let output = session.run(&args);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
        assert!(said.contains("gpu-lost") && said.len() < 64 << 10, "{} bytes", said.len());
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    }
}

#[test]
fn documented_table_matches_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/doctor.md");
    expected::file(&path, &markdown(), "cli").expect("the table of symptoms");
}
