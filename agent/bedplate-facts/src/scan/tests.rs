//! Parsing of links and uevents, and scans of unusual trees.

use super::*;

#[test]
fn location_is_parsed_from_link() {
    let place =
        Place::from_link("../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0")
            .unwrap();
    let above = ["0000:16:01.0", "0000:17:00.0"].map(|address| address.parse().unwrap());
    assert_eq!(place, Place { root: "pci0000:16".into(), above: above.to_vec() });
    let top = Place::from_link("../../../devices/pci0000:16/0000:16:01.0").unwrap();
    assert_eq!(top, Place { root: "pci0000:16".into(), above: Vec::new() });
    let slash = Place::from_link("../../../devices/pci0000:16/0000:16:01.0/").unwrap();
    assert_eq!(slash, top);
}

#[test]
fn nested_host_bridge_is_its_own_root() {
    let place = Place::from_link(
        "../../../devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0",
    )
    .unwrap();
    let above = vec!["10000:e0:06.0".parse().unwrap()];
    assert_eq!(place, Place { root: "pci10000:e0".into(), above });
}

#[test]
fn other_links_have_no_location() {
    for text in
        ["", "../../../devices/platform/x", "../../../devices/pci0000:16", "pci0000:16/what"]
    {
        assert_eq!(Place::from_link(text), None, "{text}");
    }
}

#[test]
fn identity_is_parsed_from_uevent() {
    let identity = Identity::from_uevent(
        "DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:1021\nPCI_SUBSYS_ID=15B3:0041\nPCI_SLOT_NAME=0000:18:00.0\n",
    );
    assert_eq!(identity.class, Some(0x02_0700));
    assert_eq!(identity.id, Some((PciId(0x15b3), PciId(0x1021))));
    assert_eq!(identity.subsystem, Some((PciId(0x15b3), PciId(0x41))));
    assert_eq!(identity.driver.as_deref(), Some("mlx5_core"));
    assert_eq!(Identity::from_uevent("rubbish\nPCI_CLASS=zz\n"), Identity::default());
}

/// Four functions of the HGX demo, each with one entry removed or changed.
#[test]
fn incomplete_trees_are_scanned_with_gaps() {
    use crate::Depth;
    use bedplate_testhosts::HostSpec;
    let gpu = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";
    let nic = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0";
    let mut spec = HostSpec::from_toml("machine = 'hgx'").unwrap();
    spec.files.insert(format!("{gpu}/numa_node"), "1\n".into());
    spec.files.insert("/sys/devices/pci0000:15/0000:15:01.0/numa_node".into(), "-1\n".into());
    spec.links.insert(format!("{nic}/iommu_group"), "../../kernel/iommu_groups/7/".into());
    spec.remove = ["0000:16:00.0", "0000:15:01.0"]
        .map(|bridge| format!("/sys/bus/pci/devices/{bridge}"))
        .to_vec();
    let host = spec.build();
    let Reading::Known(tree) = scan(&host, Depth::Thorough) else { panic!() };
    let at = |address: &str| address.parse::<PciAddress>().unwrap();
    let (gpu, nic) = (tree.get(at("0000:18:00.0")).unwrap(), tree.get(at("0000:19:00.0")).unwrap());
    assert_eq!(gpu.numa_node, Reading::Known(1), "its own file, whatever the host bridge has");
    assert_eq!(nic.numa_node, Reading::Known(0));
    assert_eq!(nic.iommu_group, Reading::Known(7), "the link ends in a slash");
    // Both bridges above the ports are unlisted, but the links still name them.
    let above = ["0000:17:00.0", "0000:16:00.0", "0000:15:01.0"].map(at);
    assert_eq!(tree.path_up(at("0000:18:00.0")), above);
    let gaps: BTreeSet<PciAddress> = tree.gaps.iter().map(|gap| gap.address).collect();
    assert!(gaps.contains(&at("0000:16:00.0")) && gaps.contains(&at("0000:15:01.0")), "{gaps:?}");
}

#[test]
fn virtio_nic_is_named_after_its_child_device() {
    use crate::Depth;
    use bedplate_testhosts::HostSpec;
    let directory = "/sys/devices/pci0000:00/0000:00:03.0";
    let mut spec = HostSpec::from_toml("machine = 'plain'").unwrap();
    let files = [
        ("uevent", "DRIVER=virtio-pci\nPCI_CLASS=20000\nPCI_ID=1AF4:1041\n"),
        ("virtio1/net/enp0s3/mtu", "1500\n"),
        ("numa_node", "-1\n"),
    ];
    spec.files.extend(files.map(|(name, text)| (format!("{directory}/{name}"), text.into())));
    spec.links
        .insert("/sys/bus/pci/devices/0000:00:03.0".into(), format!("../../..{}", &directory[4..]));
    let Reading::Known(tree) = scan(&spec.build(), Depth::Plan) else { panic!() };
    let nic = tree.get("0000:00:03.0".parse().unwrap()).unwrap();
    assert_eq!(nic.net, ["enp0s3"]);
}

#[test]
fn vfio_device_is_found_without_its_class() {
    use crate::Depth;
    use bedplate_testhosts::HostSpec;
    let nic = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0";
    let mut spec = HostSpec::from_toml("machine = 'hgx'").unwrap();
    spec.files.insert(format!("{nic}/vfio-dev/vfio0/dev"), "511:0\n".into());
    let Reading::Known(tree) = scan(&spec.build(), Depth::Plan) else { panic!() };
    let guests = tree.functions.values().filter(|function| function.vfio);
    let guests: Vec<String> = guests.map(|function| function.address.to_string()).collect();
    assert_eq!(guests, ["0000:19:00.0"]);
}
