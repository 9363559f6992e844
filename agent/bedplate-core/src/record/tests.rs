//! A snapshot answers like its host.

use std::path::Path;

use super::*;
use bedplate_base::Reading;
use bedplate_facts::{Depth, Facts, observe};
use bedplate_host::DirReader;
use bedplate_testhosts::HostSpec;

#[test]
fn recording_gives_the_same_facts() {
    for name in bedplate_testhosts::names() {
        let host = bedplate_testhosts::snapshot(name).unwrap();
        let recorded = record(&host);
        let again = Snapshot::from_text(&recorded.to_text()).unwrap();
        assert_eq!(again, recorded, "{name}");
        for depth in [Depth::Plan, Depth::Thorough] {
            let facts = |reader: &Snapshot| serials_by_order(observe(reader, depth));
            assert_eq!(facts(&again), facts(&host), "{name}");
        }
    }
}

/// Replaces serial numbers by their order: masking preserves only which of them are equal.
fn serials_by_order(mut facts: Facts) -> Facts {
    let mut met = Vec::new();
    let Reading::Known(tree) = &mut facts.pci else { return facts };
    for function in tree.functions.values_mut() {
        let Reading::Known(vpd) = &mut function.vpd else { continue };
        for serial in [&mut vpd.adapter, &mut vpd.board].into_iter().flatten() {
            let place = met.iter().position(|other| other == serial).unwrap_or(met.len());
            met.push(std::mem::replace(serial, place.to_string()));
        }
    }
    facts
}

#[test]
fn recording_a_recording_changes_nothing() {
    let recorded = record(&bedplate_testhosts::snapshot("hgx").unwrap());
    let (first, second) = (recorded.to_text(), record(&recorded).to_text());
    let difference = first.lines().zip(second.lines()).find(|(a, b)| a != b);
    assert_eq!(difference, None);
    assert_eq!(first.lines().count(), second.lines().count());
}

#[test]
fn vf_addresses_stay_only_with_identifiers() {
    let at = bedplate_host::snapshot_paths::vfs_at("eth0");
    let table = r#"{"mac":"02:00:5e:10:00:01","vfs":{"0":{"mac":"02:00:5e:aa:bb:cc"}}}"#;
    let table: VfTable = serde_json::from_str(table).unwrap();
    let mut host = Snapshot::new(true);
    host.insert(&at, Node::File(serde_json::to_vec(&table).unwrap()));
    for with_identifiers in [false, true] {
        let recorder = Recorder { with_identifiers, ..Recorder::new(&host) };
        recorder.vfs("0000:18:00.0".parse().unwrap(), "eth0").unwrap();
        let (recorded, _) = redact::snapshot(&recorder.recorded(), with_identifiers);
        let text = recorded.text(&at).unwrap();
        let shown = ["02:00:5e:10:00:01", "02:00:5e:aa:bb:cc"].map(|mac| text.contains(mac));
        assert_eq!(shown, [with_identifiers; 2], "{text}");
    }
}

#[test]
fn recording_agrees_with_its_directory() {
    let directory = std::env::temp_dir().join(format!("bedplate-record-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let spec = HostSpec::from_toml("machine = \"plain\"\nloader = \"rhel9\"\nunprivileged = true")
        .unwrap();
    bedplate_testhosts::write_tree(&spec.build(), &directory).unwrap();
    let reader = DirReader::image(&directory).unwrap();
    let recorded = record(&reader);
    for depth in [Depth::Plan, Depth::Thorough] {
        assert_eq!(observe(&recorded, depth), observe(&reader, depth));
    }
    for path in [
        "/etc/default/grub",
        "/boot/grub2/grubenv",
        "/lib/modules",
        "/etc/nothing.d",
        "/etc/kernel",
    ] {
        // Contents are masked.
        let read = recorded.read(path).map(drop);
        let same = read == reader.read(path).map(drop);
        assert!(same || matches!(read, Err(ReadError::NotRecorded { .. })), "{path}: {read:?}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn running_machine_is_recorded_without_identifiers() {
    let live = DirReader::live();
    let recorded = record(&live);
    let mut replayed = observe(&recorded, Depth::Plan);
    replayed.host = HostKind::Live;
    assert_eq!(replayed, observe(&live, Depth::Plan));
    // Data that identifies the machine must be absent.
    let text = recorded.to_text();
    for secret in
        ["/etc/machine-id", "/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/product_serial"]
    {
        if let Ok(secret) = std::fs::read_to_string(Path::new(secret))
            && secret.trim().len() >= 8
        {
            assert!(!text.contains(secret.trim()));
        }
    }
}

#[test]
fn refusals_and_absences_are_recorded() {
    let mut host = Snapshot::new(true);
    host.insert("/sys/secret", Node::Denied);
    host.insert("/sys/odd", Node::Failed("Input/output error".into()));
    host.insert("/sys/fine", Node::File(b"x".to_vec()));
    host.insert("/sys/link", Node::Link("fine".into()));
    host.complete();
    let recorder = Recorder::new(&host);
    let answers = |reader: &dyn Reader| {
        (
            [
                reader.read("/sys/secret"),
                reader.read("/sys/odd"),
                reader.read("/sys/none"),
                reader.read("/sys/link"),
            ],
            [
                reader.exists("/sys/none/below"),
                reader.exists("/sys/secret"),
                reader.exists("/sys/link"),
            ],
            reader.link("/sys/link"),
            reader.link("/sys/fine"),
            reader.list("/sys/none"),
        )
    };
    let expected = answers(&host);
    assert_eq!(answers(&recorder), expected);
    assert_eq!(answers(&recorder.finish()), expected);
}

#[test]
fn only_names_of_host_devices_are_recorded() {
    let host = bedplate_testhosts::snapshot("hgx").unwrap();
    let path = bedplate_facts::names::FILES[0];
    let whole = host.text(path).unwrap();
    assert!(whole.contains("\t2330  ") && whole.contains("\t74a1  "));
    let kept = record(&host).text(path).unwrap();
    assert!(
        kept.contains("10de  NVIDIA Corporation\n") && kept.contains("\t2330  GH100"),
        "{kept}"
    );
    assert!(!kept.contains("74a1") && !kept.contains("AMD"), "{kept}");
    // A host without the file is recorded without it.
    let mut bare = bedplate_testhosts::snapshot("hgx").unwrap();
    bare.insert(path, Node::Absent);
    assert!(record(&bare).read(path).unwrap_err().is_absent());
}

#[test]
fn default_routes_are_recorded_without_gateways() {
    let mut host = bedplate_testhosts::snapshot("hgx").unwrap();
    host.insert("/proc/net", Node::Link("self/net".into()));
    host.insert("/proc/self", Node::Link("4711".into()));
    let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                  eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n\
                  eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n";
    host.insert("/proc/4711/net/route", Node::File(routes.into()));
    host.complete();
    let kept = record(&host);
    let text = kept.text("/proc/net/route").unwrap();
    assert!(text.contains("eth0 00000000 00000000 0003 0 0 0 00000000\n"), "{text}");
    assert!(!text.contains("A8C0"), "{text}");
    assert!(kept.text("/proc/net/ipv6_route").unwrap_err().is_absent());
    assert!(!kept.to_text().contains("4711"));
}

#[test]
fn version_that_looks_like_an_address_stays() {
    let masked = |name: &str, text: &str| {
        let path = format!("/sys/devices/virtual/dmi/id/{name}");
        let mut host = Snapshot::new(true);
        host.insert(&path, Node::File(text.into()));
        redact::snapshot(&host, false).0.text(&path).unwrap()
    };
    for version in ["01.02.03.04.05.0b", "SE5C620.86B.02.01.0008.031920191559"] {
        assert_eq!(masked("bios_version", version), version);
        assert_ne!(masked("product_name", version), version);
    }
    for address in ["52:54:00:12:34:56", "v52-54-00-12-34-56", "525400abcdef", "506b4b0300c98a2c"] {
        assert_ne!(masked("bios_version", address), address);
    }
}
