//! Facts of recorded real hosts: old, incomplete trees, read without privilege. They must yield the recorded facts and
//! claim nothing else.

use std::path::PathBuf;
use std::process::Command;

use bedplate_base::{CpuVendor, Reading};
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::topology::{Distance, Topology};
use bedplate_facts::{BootLoader, Depth, Facts, observe, placement};
use bedplate_host::{DirReader, Reader};
use bedplate_tests::fixtures;

fn unpack(archive: &str) -> (tempfile::TempDir, PathBuf) {
    let archive = fixtures::find(&format!("hosts/{archive}"));
    let directory = tempfile::tempdir().unwrap();
    let tar = Command::new("tar")
        .arg("-xjf")
        .arg(&archive)
        .arg("-C")
        .arg(directory.path())
        .status()
        .unwrap();
    assert!(tar.success(), "tar cannot unpack {}", archive.display());
    let root = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    (directory, root)
}

fn pci(facts: &Facts) -> &PciTree {
    facts.pci.known().expect("a PCI tree")
}

/// Checks that every function has its identity, that nothing was invented, and that the cost is in proportion.
fn sane(reader: &DirReader, facts: &Facts) {
    for function in pci(facts).functions.values() {
        assert!(function.vendor.0 != 0 && function.vendor.0 != 0xffff, "{function:?}");
        assert!(function.root.starts_with("pci"), "{function:?}");
        assert_eq!(function.iommu_group, Reading::Absent);
        if function.is_bridge() {
            // Only 64 bytes of config space were recorded, so the registers are unknown.
            assert!(matches!(function.port, Reading::Unknown(_)), "{function:?}");
            assert!(matches!(function.acs, Reading::Unknown(_)), "{function:?}");
        }
    }
    assert!(matches!(facts.boot, BootLoader::Unknown { .. }));
    assert_eq!(facts.os.kernel, Reading::Absent);
    let functions = pci(facts).functions.len() as u64;
    assert!(reader.cost().config_dwords <= 2 * functions, "{:?}", reader.cost());
}

#[test]
#[cfg_attr(not(has = "hosts"), ignore = "needs hosts")]
fn facts_of_a_switch_box_with_vector_engines() {
    let (_directory, root) = unpack("32intel64-2p8co2t+8ve.tar.bz2");
    let reader = DirReader::image(&root).unwrap();
    let facts = observe(&reader, Depth::Plan);
    sane(&reader, &facts);
    assert_eq!(facts.cpu.vendor, Reading::Known(CpuVendor::Intel));
    assert_eq!(facts.cpu.nodes, Reading::Known("0-1".to_owned()));
    let tree = pci(&facts);
    assert_eq!(tree.functions.len(), 28);
    let engine = "0000:1a:00.0".parse().unwrap();
    let path: Vec<String> = tree.path_up(engine).iter().map(ToString::to_string).collect();
    assert_eq!(path, ["0000:19:04.0", "0000:18:00.0", "0000:17:00.0"]);
    let nic = tree.get("0000:60:00.1".parse().unwrap()).unwrap();
    assert_eq!(nic.net, ["enp96s0f1"]);
    assert_eq!(nic.driver.as_deref(), Some("i40e"));
    let sriov = nic.sriov.known().unwrap();
    assert_eq!((&sriov.total, &sriov.enabled), (&Reading::Known(64), &Reading::Known(0)));
    assert_eq!(sriov.autoprobe, Reading::Absent);
    // The port above the NIC was not recorded: that is a gap, not a shorter path.
    assert_eq!(nic.parent, "0000:5f:03.0".parse().ok());
    assert!(
        tree.gaps.iter().any(|gap| gap.address.to_string() == "0000:5f:03.0"),
        "{:?}",
        tree.gaps
    );
}

#[test]
#[cfg_attr(not(has = "hosts"), ignore = "needs hosts")]
fn facts_of_a_four_socket_host_of_2013() {
    let (_directory, root) = unpack("40intel64-2g2n4c+pcilocality.tar.bz2");
    let reader = DirReader::image(&root).unwrap();
    let facts = observe(&reader, Depth::Plan);
    sane(&reader, &facts);
    assert_eq!(pci(&facts).functions.len(), 37);
    assert_eq!(facts.cpu.nodes, Reading::Known("0-3".to_owned()));
    assert_eq!(facts.dmi.product_name, Reading::Known("PowerEdge R910".to_owned()));
    let hca = pci(&facts).get("0000:43:00.0".parse().unwrap()).unwrap();
    // From its own file; the file of the first function below the host bridge has -1.
    assert_eq!(hca.numa_node, Reading::Known(2));
    assert_eq!(hca.driver.as_deref(), Some("ib_qib"));
}

#[test]
#[cfg_attr(not(has = "hosts"), ignore = "needs hosts")]
fn thorough_observation_reads_the_same_functions() {
    let (_directory, root) = unpack("40intel64-2g2n4c+pcilocality.tar.bz2");
    let reader = DirReader::image(&root).unwrap();
    let plan = observe(&reader, Depth::Plan);
    for depth in [Depth::Thorough, Depth::Everything] {
        let facts = observe(&reader, depth);
        let functions = &pci(&facts).functions;
        assert!(pci(&plan).functions.keys().eq(functions.keys()));
        // On this server a thorough observation skips memory controllers, performance counters and the like.
        let read = functions.values().filter(|function| function.detail.is_some()).count();
        match depth {
            Depth::Everything => assert_eq!(read, functions.len()),
            _ => assert!(read > 0 && read < functions.len(), "{read} of {}", functions.len()),
        }
        let asked = |function: &&Function| depth == Depth::Everything || function.takes_part();
        assert!(functions.values().filter(asked).all(|function| function.detail.is_some()));
    }
}

#[test]
fn running_machine_can_be_read() {
    let reader = DirReader::live();
    let facts = observe(&reader, Depth::Plan);
    assert!(facts.os.kernel.known().is_some(), "{:?}", facts.os);
    assert!(facts.memory_bytes.known().is_some_and(|bytes| *bytes > 0));
}

/// Checks distances between functions of a recorded host, worked out by hand from the links in its /sys/bus/pci/devices.
fn distances(reader: &DirReader, expected: &[(&str, &str, Distance)]) {
    let facts = observe(reader, Depth::Thorough);
    let topology = Topology::new(pci(&facts));
    for (one, other, distance) in expected {
        let found = topology.distance(one.parse().unwrap(), other.parse().unwrap());
        assert_eq!(found, *distance, "{one} {other}");
    }
    // All pairs of NICs are covered.
    let nics = topology.nics();
    for (n, one) in nics.iter().enumerate() {
        for other in &nics[n + 1..] {
            let pair = [one.to_string(), other.to_string()];
            let is_it =
                |(a, b, _): &(&str, &str, Distance)| pair == [(*a).to_owned(), (*b).to_owned()];
            assert!(expected.iter().any(is_it), "{pair:?}");
        }
    }
}

#[test]
#[cfg_attr(not(has = "hosts"), ignore = "needs hosts")]
fn distances_in_the_switch_box() {
    let (_directory, root) = unpack("32intel64-2p8co2t+8ve.tar.bz2");
    let reader = DirReader::image(&root).unwrap();
    let expected = [
        // The InfiniBand adapter and a vector engine below one switch (18:00.0), whose port type was not recorded.
        ("0000:1a:00.0", "0000:1b:00.0", Distance::Pix),
        // The same functions below the other switch (3b:00.0), on a host bridge of the same NUMA node.
        ("0000:1a:00.0", "0000:41:00.0", Distance::Node),
        ("0000:1a:00.0", "0000:3e:00.0", Distance::Node),
        // Two ports of one Ethernet controller. Its bridge is missing from the recording; its host bridge is on that node,
        // too.
        ("0000:60:00.0", "0000:60:00.1", Distance::Pix),
        ("0000:1a:00.0", "0000:60:00.0", Distance::Node),
        ("0000:1a:00.0", "0000:60:00.1", Distance::Node),
        ("0000:3e:00.0", "0000:60:00.0", Distance::Node),
        ("0000:3e:00.0", "0000:60:00.1", Distance::Node),
    ];
    distances(&reader, &expected);
    let facts = observe(&reader, Depth::Thorough);
    let topology = Topology::new(pci(&facts));
    let found = Devices::find(&topology, &placement::observe(&reader, pci(&facts)), false);
    let nics: Vec<&str> = found.nics.iter().map(|nic| nic.called()).collect();
    assert_eq!(nics, ["NIC0", "NIC1", "enp96s0f0", "enp96s0f1"]);
    assert!(found.gpus.is_empty() && found.nvmes.is_empty());
}

#[test]
#[cfg_attr(not(has = "hosts"), ignore = "needs hosts")]
fn distances_in_the_four_socket_host() {
    let (_directory, root) = unpack("40intel64-2g2n4c+pcilocality.tar.bz2");
    let reader = DirReader::image(&root).unwrap();
    let expected = [
        // eth0 and eth1: one controller. eth2: another root port of the same host bridge.
        ("0000:02:00.0", "0000:02:00.1", Distance::Pix),
        ("0000:03:00.0", "0000:03:00.1", Distance::Pix),
        ("0000:02:00.0", "0000:03:00.0", Distance::Phb),
        ("0000:02:00.0", "0000:03:00.1", Distance::Phb),
        ("0000:02:00.1", "0000:03:00.0", Distance::Phb),
        ("0000:02:00.1", "0000:03:00.1", Distance::Phb),
        ("0000:01:00.0", "0000:03:00.1", Distance::Phb),
        // The InfiniBand adapter is on node 2; the firmware names no node for the first host bridge.
        ("0000:02:00.0", "0000:43:00.0", Distance::Unknown),
        ("0000:02:00.1", "0000:43:00.0", Distance::Unknown),
        ("0000:03:00.0", "0000:43:00.0", Distance::Unknown),
        ("0000:03:00.1", "0000:43:00.0", Distance::Unknown),
    ];
    distances(&reader, &expected);
    let facts = observe(&reader, Depth::Thorough);
    let topology = Topology::new(pci(&facts));
    let found = Devices::find(&topology, &placement::observe(&reader, pci(&facts)), false);
    // The only RDMA device comes first in nvidia-smi's order; the rest follow in PCI order.
    let ids: Vec<&str> = found.nics.iter().map(|nic| nic.id.as_str()).collect();
    assert_eq!(ids, ["NIC1", "NIC2", "NIC3", "NIC4", "NIC0"]);
    assert_eq!(found.nics[4].name.as_deref(), Some("qib0"));
}
