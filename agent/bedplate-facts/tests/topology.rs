//! Topologies of hand-built machines.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;

use bedplate_base::Reading;
use bedplate_facts::pci::PortType;
use bedplate_facts::placement::Placement;
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::topology::*;
use bedplate_testhosts::fixture::{Machine, at, hgx, lab};

fn distance(machine: &Machine, a: &str, b: &str) -> Distance {
    let forth = Topology::new(&machine.tree).distance(at(a), at(b));
    assert_eq!(
        forth,
        Topology::new(&machine.tree).distance(at(b), at(a)),
        "distance has no direction"
    );
    forth
}

#[test]
fn eight_gpu_machine_pairs_within_each_switch() {
    let machine = hgx();
    let topology = Topology::new(&machine.tree);
    let pairs = topology.pairs();
    // Per switch: 2 GPUs × 2 NICs and one GPU–GPU pair.
    assert_eq!(pairs.len(), 4 * 5);
    assert_eq!(pairs.iter().filter(|pair| pair.kind == Peer::Gpu).count(), 4);
    let first = &pairs[0];
    assert_eq!((first.gpu, first.peer), (at("0000:19:00.0"), at("0000:1a:00.0")));
    assert_eq!(first.switch, at("0000:17:00.0"));
    assert_eq!(first.legs, [at("0000:18:00.0"), at("0000:18:01.0")]);
    assert_eq!(first.root_port, Some(at("0000:16:01.0")));
    assert_eq!(distance(&machine, "0000:19:00.0", "0000:1a:00.0"), Distance::Pix);
    assert_eq!(distance(&machine, "0000:19:00.0", "0000:3a:00.0"), Distance::Node);
    assert_eq!(distance(&machine, "0000:19:00.0", "0000:9a:00.0"), Distance::Sys);
}

#[test]
fn two_switch_levels_are_pxb_with_ports_of_both() {
    let mut machine = Machine::default();
    machine.root_port("0000:10:00.0", 0);
    let upper = machine.switch("0000:10:00.0", "0000:11:00.0", 2);
    let left = machine.switch(&upper[0], "0000:20:00.0", 2);
    let right = machine.switch(&upper[1], "0000:30:00.0", 2);
    machine.gpu("0000:22:00.0", Some(&left[0]));
    machine.nic("0000:23:00.0", Some(&left[1]));
    machine.nic("0000:32:00.0", Some(&right[0]));
    assert_eq!(distance(&machine, "0000:22:00.0", "0000:23:00.0"), Distance::Pix);
    assert_eq!(distance(&machine, "0000:22:00.0", "0000:32:00.0"), Distance::Pxb);
    let pairs = Topology::new(&machine.tree).pairs();
    let far = pairs.iter().find(|pair| pair.peer == at("0000:32:00.0")).unwrap();
    assert_eq!(far.switch, at("0000:11:00.0"));
    let expected = [
        "0000:12:00.0",
        "0000:12:01.0",
        "0000:20:00.0",
        "0000:21:00.0",
        "0000:30:00.0",
        "0000:31:00.0",
    ];
    assert_eq!(far.legs, expected.map(at));
}

#[test]
fn emulated_switch_ports_get_role_by_location() {
    let machine = lab();
    let topology = Topology::new(&machine.tree);
    let roles = [
        ("0000:20:00.0", Role::RootPort),
        ("0000:21:00.0", Role::Upstream),
        ("0000:22:00.0", Role::Downstream),
        ("0000:22:02.0", Role::Downstream),
        ("0000:23:00.0", Role::Other),
        ("0000:ff:00.0", Role::Other),
    ];
    for (address, role) in roles {
        assert_eq!(topology.role(at(address)), role, "{address}");
    }
    assert_eq!(distance(&machine, "0000:23:00.0", "0000:24:00.0"), Distance::Pix);
    assert_eq!(distance(&machine, "0000:83:00.0", "0000:86:00.0"), Distance::Phb);
    assert_eq!(distance(&machine, "0000:23:00.0", "0000:86:00.0"), Distance::Sys);
    assert_eq!(topology.pairs().len(), 2);
}

#[test]
fn unreadable_port_types_get_role_by_location() {
    let mut machine = hgx();
    let bridges: Vec<_> =
        machine.tree.functions.values().filter(|f| f.is_bridge()).cloned().collect();
    let known = Topology::new(&machine.tree).pairs();
    for bridge in &bridges {
        machine.tree.functions.get_mut(&bridge.address).unwrap().port =
            Reading::unknown("64 bytes");
    }
    assert_eq!(Topology::new(&machine.tree).pairs(), known);
    for bridge in &bridges {
        machine.tree.functions.get_mut(&bridge.address).unwrap().port =
            Reading::Known(PortType::Reserved(13));
    }
    assert_eq!(Topology::new(&machine.tree).pairs(), known);
}

#[test]
fn missing_numa_node_gives_unknown_distance() {
    let mut machine = Machine::default();
    machine.root_port("0000:10:00.0", -1);
    machine.root_port("0000:20:00.0", 0);
    machine.gpu("0000:11:00.0", Some("0000:10:00.0"));
    machine.nic("0000:21:00.0", Some("0000:20:00.0"));
    assert_eq!(distance(&machine, "0000:11:00.0", "0000:21:00.0"), Distance::Unknown);
    assert_eq!(distance(&machine, "0000:11:00.0", "0000:99:00.0"), Distance::Unknown);
    machine.get("0000:11:00.0").numa_node = Reading::Absent;
    assert_eq!(distance(&machine, "0000:11:00.0", "0000:21:00.0"), Distance::Unknown);
    machine.get("0000:21:00.0").root = machine.get("0000:11:00.0").root.clone();
    assert_eq!(distance(&machine, "0000:11:00.0", "0000:21:00.0"), Distance::Phb);
}

#[test]
fn functions_of_one_device_or_slot_are_pix() {
    let mut machine = Machine::default();
    machine.root_port("0000:10:00.0", 0);
    machine.gpu("0000:11:00.0", Some("0000:10:00.0"));
    machine.nic("0000:11:00.1", Some("0000:10:00.0"));
    machine.nic("0000:11:01.0", Some("0000:10:00.0"));
    assert_eq!(distance(&machine, "0000:11:00.0", "0000:11:00.1"), Distance::Pix);
    assert_eq!(distance(&machine, "0000:11:00.0", "0000:11:01.0"), Distance::Pix);
    assert_eq!(Topology::new(&machine.tree).pairs(), []);
}

#[test]
fn vf_has_location_of_its_pf() {
    let mut machine = hgx();
    machine.vf("0000:1a:10.0", "0000:1a:00.0").parent = Some(at("0000:b8:00.0"));
    machine.get("0000:1a:10.0").root = "elsewhere".into();
    assert_eq!(distance(&machine, "0000:1a:10.0", "0000:19:00.0"), Distance::Pix);
    assert_eq!(distance(&machine, "0000:1a:10.0", "0000:1a:00.0"), Distance::Pix);
    let topology = Topology::new(&machine.tree);
    assert_eq!(topology.below(at("0000:18:01.0")), [at("0000:1a:00.0"), at("0000:1a:10.0")]);
    assert_eq!(topology.below(at("0000:b8:00.0")), [at("0000:b9:00.0")]);
}

#[test]
fn vm_without_bridges_and_wide_domains_have_distances() {
    let mut machine = Machine::default();
    machine.gpu("0000:00:05.0", None).root = "pci0000:00".into();
    machine.nic("0000:00:06.0", None).root = "pci0000:00".into();
    machine.port("10000:e0:06.0", None, PortType::RootPort);
    machine.nic("10000:e1:00.0", Some("10000:e0:06.0"));
    assert_eq!(distance(&machine, "0000:00:05.0", "0000:00:06.0"), Distance::Phb);
    assert_eq!(distance(&machine, "0000:00:05.0", "10000:e1:00.0"), Distance::Node);
    assert_eq!(Topology::new(&machine.tree).role(at("10000:e0:06.0")), Role::RootPort);
}

#[test]
fn wrong_parents_are_tolerated() {
    let mut machine = hgx();
    machine.get("0000:16:01.0").parent = Some(at("0000:18:00.0"));
    machine.get("0000:37:00.0").parent = Some(at("0000:37:00.0"));
    machine.get("0000:97:00.0").parent = Some(at("0000:ee:00.0"));
    let topology = Topology::new(&machine.tree);
    assert_eq!(topology.role(at("0000:16:01.0")), Role::Other);
    assert!(topology.below(at("0000:16:01.0")).contains(&at("0000:19:00.0")));
    // A switch with an unlisted parent is still a switch; only its root port is unknown.
    let orphaned: Vec<_> =
        topology.pairs().into_iter().filter(|p| p.switch == at("0000:97:00.0")).collect();
    assert_eq!(orphaned.len(), 5);
    assert!(orphaned.iter().all(|pair| pair.root_port.is_none()));
}

#[test]
fn each_gpu_is_counted_at_one_nearest_nic() {
    let machine = hgx();
    let topology = Topology::new(&machine.tree);
    let counts = topology.gpus_per_nic(&topology.gpus(), &topology.nics());
    assert_eq!(counts.len(), 8);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    // With one NIC per switch, both GPUs of the switch use it.
    let firsts: Vec<_> =
        ["0000:1a:00.0", "0000:3a:00.0", "0000:9a:00.0", "0000:ba:00.0"].map(at).to_vec();
    assert!(topology.gpus_per_nic(&topology.gpus(), &firsts).values().all(|count| *count == 2));
    // NICs on one socket only: GPUs of their own switches first, then the distant ones, evenly.
    let counts = topology.gpus_per_nic(&topology.gpus(), &[at("0000:1a:00.0"), at("0000:3a:00.0")]);
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [4, 4]);
    assert_eq!(topology.gpus_per_nic(&topology.gpus(), &[]), BTreeMap::new());
}

/// 10,000 functions: work per pair of functions would not finish here.
#[test]
fn ten_thousand_functions_are_handled_in_time() {
    let mut machine = Machine::default();
    for domain in 0..40 {
        let root = format!("{domain:04x}:16:01.0");
        machine.root_port(&root, domain % 2);
        let up = format!("{domain:04x}:17:00.0");
        machine.port(&up, Some(&root), PortType::Upstream);
        for device in 0..4u8 {
            let port = format!("{domain:04x}:18:{device:02x}.0");
            machine.port(&port, Some(&up), PortType::Downstream);
            let leaf = format!("{domain:04x}:{:02x}:00.0", 0x19 + device);
            if device % 2 == 0 {
                machine.gpu(&leaf, Some(&port));
            } else {
                machine.nic(&leaf, Some(&port));
                for vf in 0..120u8 {
                    let address =
                        format!("{domain:04x}:{:02x}:{:02x}.{}", 0x40 + device, vf / 8, vf % 8);
                    machine.vf(&address, &leaf);
                }
            }
        }
    }
    assert!(machine.tree.functions.len() >= 10_000, "{}", machine.tree.functions.len());
    let started = std::time::Instant::now();
    let topology = Topology::new(&machine.tree);
    assert_eq!(topology.pairs().len(), 40 * 5);
    assert_eq!(
        topology
            .gpus_per_nic(&topology.gpus(), &topology.nics())
            .values()
            .map(|n| u32::from(*n))
            .sum::<u32>(),
        80
    );
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

fn ids(names: &[&str]) -> Vec<String> {
    let mut machine = Machine::default();
    machine.nic("0000:01:00.0", None);
    for (bus, name) in names.iter().enumerate() {
        let nic = machine.nic(&format!("0000:{:02x}:00.0", 0x10 + bus), None);
        nic.infiniband = vec![(*name).to_owned()];
    }
    let topology = Topology::new(&machine.tree);
    let found = Devices::find(&topology, &Placement::default(), false);
    found.nics.iter().map(|nic| nic.id.clone()).collect()
}

/// Legends of published matrices, each in the PCI order that its names imply; the first NIC here has no RDMA device.
#[test]
fn nics_are_numbered_as_in_nvidia_smi() {
    let twelve: Vec<String> = (0..12).map(|n| format!("mlx5_{n}")).collect();
    let twelve: Vec<&str> = twelve.iter().map(String::as_str).collect();
    assert_eq!(ids(&twelve)[0], "NIC12");
    assert_eq!(ids(&twelve)[11], "NIC10");
    let mixed = ["ibp14s0", "rocep32s0f0", "ibp71s0", "ibp134s0", "ibp195s0"];
    assert_eq!(ids(&mixed), ["NIC5", "NIC0", "NIC4", "NIC1", "NIC2", "NIC3"]);
    let azure = ["mlx5_eth0", "mlx5_ib0", "mlx5_eth1", "mlx5_ib1"];
    assert_eq!(ids(&azure), ["NIC4", "NIC2", "NIC0", "NIC3", "NIC1"]);
    let onboard = ["rocep13s0f0", "roceo12399", "roceo12409", "rocep181s0f0"];
    assert_eq!(ids(&onboard), ["NIC4", "NIC2", "NIC0", "NIC1", "NIC3"]);
    assert_eq!(ids(&["mlx5_bond_0", "mlx5_3"]), ["NIC2", "NIC1", "NIC0"]);
}

#[test]
fn vfs_with_rdma_device_are_numbered_with_nics() {
    let mut machine = Machine::default();
    machine.nic("0000:11:00.0", None).infiniband = vec!["mlx5_0".into()];
    machine.nic("0000:12:00.0", None).infiniband = vec!["mlx5_1".into()];
    machine.vf("0000:11:00.1", "0000:11:00.0").infiniband = vec!["mlx5_2".into()];
    machine.vf("0000:11:00.2", "0000:11:00.0");
    let topology = Topology::new(&machine.tree);
    let found = Devices::find(&topology, &Placement::default(), true);
    let ids: Vec<&str> = found.nics.iter().map(|nic| nic.id.as_str()).collect();
    assert_eq!(ids, ["NIC0", "NIC2", "NIC0v1", "NIC1"]);
}
