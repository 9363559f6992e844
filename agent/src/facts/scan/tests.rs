//! What the scan makes of links and uevents.

use super::*;

#[test]
fn places_come_from_the_link_text() {
    let place =
        Place::of("../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0").unwrap();
    assert_eq!(place, Place { root: "pci0000:16".into(), parent: "17:00.0".parse().ok() });
    let top = Place::of("../../../devices/pci0000:16/0000:16:01.0").unwrap();
    assert_eq!(top, Place { root: "pci0000:16".into(), parent: None });
}

#[test]
fn a_host_bridge_inside_a_device_is_a_root_of_its_own() {
    let place = Place::of(
        "../../../devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0",
    )
    .unwrap();
    assert_eq!(place, Place { root: "pci10000:e0".into(), parent: "10000:e0:06.0".parse().ok() });
}

#[test]
fn other_links_have_no_place() {
    for text in
        ["", "../../../devices/platform/x", "../../../devices/pci0000:16", "pci0000:16/what"]
    {
        assert_eq!(Place::of(text), None, "{text}");
    }
}

#[test]
fn uevents_carry_the_identity() {
    let identity = Identity::from_uevent(
        "DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:1021\nPCI_SUBSYS_ID=15B3:0041\nPCI_SLOT_NAME=0000:18:00.0\n",
    );
    assert_eq!(identity.class, Some(0x02_0700));
    assert_eq!(identity.id, Some((PciId(0x15b3), PciId(0x1021))));
    assert_eq!(identity.subsystem, Some((PciId(0x15b3), PciId(0x41))));
    assert_eq!(identity.driver.as_deref(), Some("mlx5_core"));
    assert_eq!(Identity::from_uevent("rubbish\nPCI_CLASS=zz\n"), Identity::default());
}
