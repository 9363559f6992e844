//! Snapshots behave like directories, and their text form round-trips.

use super::*;

fn sample() -> Snapshot {
    let mut snapshot = Snapshot::new(true);
    snapshot.insert("/etc/os-release", Node::Link("../usr/lib/os-release".into()));
    snapshot.insert("/usr/lib/os-release", Node::File(b"ID=x\n".to_vec()));
    snapshot.insert("/usr/lib/binary", Node::File(vec![0xff, 0, 1]));
    snapshot.insert(
        "/usr/lib",
        Node::Dir(Some(vec!["binary".into(), "os-release".into(), "other".into()])),
    );
    snapshot.insert("/proc/cpuinfo", Node::Start(b"processor : 0\n".to_vec()));
    snapshot.insert("/boot/loader", Node::Denied);
    snapshot.insert("/sys/x/gid", Node::Failed("Invalid argument".into()));
    snapshot.insert("/etc/kernel", Node::Absent);
    snapshot.insert("/etc/loop", Node::Link("/etc/loop".into()));
    snapshot.insert("/usr/sbin/tool", Node::Present);
    let mut config = Config { length: 256, ..Config::default() };
    config.add(0x40, &[1, 2]);
    config.add(0x42, &[3, 4]);
    snapshot.insert("/sys/devices/pci0000:00/0000:00:01.0/config", Node::Config(config));
    snapshot.insert(
        "/sys/bus/pci/devices/0000:00:01.0",
        Node::Link("../../../devices/pci0000:00/0000:00:01.0".into()),
    );
    snapshot
}

fn answers(snapshot: &Snapshot) {
    assert_eq!(snapshot.text("/etc/os-release").unwrap(), "ID=x\n");
    assert_eq!(snapshot.text("/etc/../usr/./lib//os-release").unwrap(), "ID=x\n");
    assert_eq!(snapshot.link("/etc/os-release").unwrap(), "../usr/lib/os-release");
    assert!(matches!(snapshot.link("/usr/lib/os-release"), Err(ReadError::Failed { .. })));
    assert!(matches!(snapshot.text("/usr/lib/binary"), Err(ReadError::Failed { .. })));
    // Listed but not recorded; and provably absent.
    assert!(matches!(snapshot.read("/usr/lib/other"), Err(ReadError::NotRecorded { .. })));
    assert!(snapshot.read("/usr/lib/nothing").unwrap_err().is_absent());
    assert_eq!(snapshot.exists("/etc/kernel/cmdline"), Ok(false));
    assert!(matches!(snapshot.exists("/opt"), Err(ReadError::NotRecorded { .. })));
    assert!(snapshot.read("/usr/lib/os-release/below").unwrap_err().is_absent());
    assert!(matches!(snapshot.list("/boot/loader"), Err(ReadError::Denied { .. })));
    assert!(matches!(snapshot.read("/boot/loader/entries/x.conf"), Err(ReadError::Denied { .. })));
    let reason = snapshot.read("/sys/x/gid").unwrap_err().to_string();
    assert_eq!(reason, "/sys/x/gid cannot be read: Invalid argument");
    assert!(matches!(snapshot.read("/etc/loop"), Err(ReadError::Failed { .. })));
    assert_eq!(snapshot.read_start("/proc/cpuinfo", 9).unwrap(), b"processor");
    assert!(matches!(snapshot.read_start("/proc/cpuinfo", 99), Err(ReadError::NotRecorded { .. })));
    assert_eq!(snapshot.exists("/usr/sbin/tool"), Ok(true));
    assert!(matches!(snapshot.links("/usr/lib"), Err(ReadError::NotRecorded { .. })));
}

#[test]
fn added_bytes_join_blocks_and_keep_existing() {
    let mut config = Config { length: 256, ..Config::default() };
    for (offset, bytes) in
        [(0x40, &[1, 2][..]), (0x44, &[5]), (0x60, &[7]), (0x41, &[9, 3, 4, 9]), (0x50, &[])]
    {
        config.add(offset, bytes);
    }
    assert_eq!(config.blocks, BTreeMap::from([(0x40, vec![1, 2, 3, 4, 5]), (0x60, vec![7])]));
    config.add(0x3f, &[0]);
    assert_eq!(config.blocks, BTreeMap::from([(0x3f, vec![0, 1, 2, 3, 4, 5]), (0x60, vec![7])]));
}

#[test]
fn reads_follow_links_and_keep_errors() {
    answers(&sample());
}

#[test]
fn text_round_trips_and_is_stable() {
    let text = sample().to_text();
    let again = Snapshot::from_text(&text).unwrap();
    assert_eq!(again, sample());
    assert_eq!(again.to_text(), text);
    answers(&again);
    assert!(text.contains("\"/usr/lib/binary\": {\"hex\":\"ff0001\"}"), "{text}");
    assert!(text.contains("\"config\":256,\"at\":{\"040\":\"01020304\"}"), "{text}");
    assert!(
        Snapshot::from_text(&Snapshot::new(false).to_text())
            .is_ok_and(|empty| empty.kind() == HostKind::Image)
    );
}

#[test]
fn sparse_config_space_reports_unrecorded_bytes() {
    let snapshot = sample();
    let config = snapshot.config("00:01.0".parse().unwrap()).unwrap();
    let mut four = [0; 4];
    assert_eq!(config.read(0x40, &mut four), Ok(4));
    assert_eq!(four, [1, 2, 3, 4]);
    assert!(matches!(config.read(0x44, &mut four), Err(ReadError::NotRecorded { .. })));
    // Past the end: known to be empty, so a short read.
    assert_eq!(config.read(0x100, &mut four), Ok(0));
    assert!(matches!(config.read(0xfe, &mut four), Err(ReadError::NotRecorded { .. })));
    let zero = Config { length: 64, rest_is_zero: true, ..Config::default() };
    assert_eq!(zero.get(0x3e, 4), Some(vec![0, 0]));
}

#[test]
fn complete_trees_prove_absence() {
    let mut snapshot = Snapshot::new(true);
    snapshot.insert("/etc/a", Node::File(Vec::new()));
    snapshot.insert("/etc/b", Node::Link("a".into()));
    snapshot.complete();
    assert_eq!(snapshot.list("/").unwrap(), ["etc"]);
    assert_eq!(snapshot.list("/etc").unwrap(), ["a", "b"]);
    assert_eq!(snapshot.links("/etc").unwrap(), [("b".to_owned(), "a".to_owned())]);
    assert!(snapshot.read("/opt/x").unwrap_err().is_absent());
    assert_eq!(Snapshot::from_text(&snapshot.to_text()).unwrap(), snapshot);
}

#[test]
fn damaged_snapshot_error_names_cause() {
    let text = sample().to_text();
    let error = |text: &str| Snapshot::from_text(text).unwrap_err().to_string();
    let newer = text.replace("\"bedplate_snapshot\": 1", "\"bedplate_snapshot\": 2");
    for (text, what) in [
        ("hello", "not a bedplate snapshot"),
        ("{\"profile\": 1}", "not a bedplate snapshot"),
        (&text[..text.len() / 2], "damaged snapshot; record it again"),
        (&newer, "has format 2"),
    ] {
        assert!(error(text).contains(what), "{what}: {}", error(text));
    }
    for (entry, what) in [
        ("\"etc\": {\"text\":\"\"}", "plain"),
        ("\"/a/../b\": {\"text\":\"\"}", "plain"),
        ("\"/a\": {}", "no node type"),
        ("\"/a\": {\"text\":\"\",\"link\":\"b\"}", "more than one node type"),
        ("\"/a\": {\"hex\":\"0\"}", "hexadecimal"),
        ("\"/a\": {\"dir\":[\"x/y\"]}", "listing"),
        ("\"/a\": {\"config\":64,\"at\":{\"03f\":\"0000\"}}", "config"),
    ] {
        let text = format!("{{\"bedplate_snapshot\":1,\"running\":true,\"entries\":{{{entry}}}}}");
        let said = error(&text);
        assert!(said.contains(what), "{entry}: {said}");
    }
}

/// Bytes on the heap are proportional to those of the paths, because each node has one.
fn bytes_of_paths(snapshot: &Snapshot) -> usize {
    snapshot.nodes().map(|(path, _)| path.len()).sum()
}

fn document(entries: &[(String, &str)]) -> String {
    let lines: Vec<String> =
        entries.iter().map(|(path, entry)| format!("{path:?}: {entry}")).collect();
    format!(
        "{{\n\"bedplate_snapshot\": 1, \"running\": true, \"entries\": {{{}}}}}",
        lines.join(",\n")
    )
}

#[test]
fn small_text_cannot_expand_to_large_snapshot() {
    const FILE: &str = r#"{"text":""}"#;
    let deep = |first: usize, length: usize| (format!("/{first}{}", "/a".repeat(length / 2)), FILE);
    let reason = |text: &str| Snapshot::from_text(text).unwrap_err().to_string();
    // 60 KB in one path, and the maximum number of paths.
    let one = document(&[deep(1, 60_000)]);
    assert!(reason(&one).contains("has a path longer than 4,096 bytes"));
    assert!(reason(&one).len() < 1000);
    let many: Vec<_> = (0..15).map(|first| deep(first, 4_000)).collect();
    let many = document(&many);
    assert!(reason(&many).contains("is in too many directories"), "{}", reason(&many));
    // As deep as a real host, many times over.
    let real: Vec<_> = (0..500).map(|n| (format!("/sys/devices/pci0000:00/0000:00:{n:03}.0/0000:01:00.0/net/eth{n}/queues/rx-0/rps_cpus"), FILE)).collect();
    let real = document(&real);
    let snapshot = Snapshot::from_text(&real).unwrap();
    assert!(bytes_of_paths(&snapshot) < 8 * real.len());
    assert!(Snapshot::from_text(&document(&[("/a/b/c/d/e/f/g/h".into(), FILE)])).is_ok());
}

#[test]
fn config_space_lengths_are_checked() {
    let config = |entry: &str| Snapshot::from_text(&document(&[("/c".into(), entry)]));
    assert!(config(r#"{"config":4096,"at":{"000":"0102","100":"03"}}"#).is_ok());
    for bad in [
        r#"{"config":4097,"at":{}}"#,
        r#"{"config":65535,"zero_elsewhere":true}"#,
        r#"{"config":2,"at":{"000":"010203"}}"#,
        r#"{"config":16,"at":{"00f":"0102"}}"#,
        r#"{"config":16,"at":{"000":"0102","001":"03"}}"#,
        r#"{"config":16,"at":{"000":"0102","002":"03"}}"#,
        r#"{"config":16,"at":{"0":"01","00":"01"}}"#,
        r#"{"config":16,"at":{"004":""}}"#,
        r#"{"config":16,"at":{"+04":"01"}}"#,
    ] {
        assert!(config(bad).is_err(), "{bad}");
    }
}
