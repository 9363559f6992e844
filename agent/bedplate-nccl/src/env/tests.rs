use super::*;
use bedplate_facts::rdma::{GidKind, RdmaPort, RoceGid};

fn port(name: &str, state: &str, gid: Option<u16>) -> RdmaPort {
    let layer = if gid.is_some() { "Ethernet" } else { "InfiniBand" };
    RdmaPort {
        state: Reading::Known(state.to_owned()),
        link_layer: Reading::Known(layer.to_owned()),
        gid: Reading::from_option(gid.map(|index| RoceGid { index, kind: GidKind::Ipv4 })),
        ..RdmaPort::unread("0000:18:00.0".parse().unwrap(), name, &"not asked".into())
    }
}

const ACTIVE: &str = "4: ACTIVE";
const DOWN: &str = "1: DOWN";
const NEAR: Option<Distance> = Some(Distance::Pix);
const FAR: Option<Distance> = Some(Distance::Sys);

fn placed(port: &RdmaPort, distance: Option<Distance>) -> PlacedPort {
    PlacedPort { port: port.clone(), way: port.function, distance }
}

fn advice_for(ports: &[(&RdmaPort, Option<Distance>)], version: &str) -> Advice {
    let ports: Vec<PlacedPort> = ports.iter().map(|(port, far)| placed(port, *far)).collect();
    advise(&ports, Distance::Pxb, Library::Nccl, version.parse().unwrap())
}

fn value<'a>(advice: &'a Advice, name: &str) -> Option<&'a str> {
    advice.set.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
}

#[test]
fn active_ports_near_gpus_are_listed_in_numerical_order() {
    let ten = port("mlx5_10/1", ACTIVE, None);
    let two = port("mlx5_2/2", ACTIVE, None);
    let (far, down) = (port("mlx5_0/1", ACTIVE, None), port("mlx5_3/1", DOWN, None));
    let advice = advice_for(&[(&ten, NEAR), (&two, NEAR), (&far, FAR), (&down, NEAR)], "2.30");
    assert_eq!(value(&advice, "NCCL_IB_HCA"), Some("=mlx5_2:2,mlx5_10:1"));
    assert_eq!(advice.set.len(), 1);
    assert_eq!(
        advice.set[0].why,
        "the 2 ACTIVE RDMA ports within the GDR level of a GPU; mlx5_0:1 left out: farther from GPUs; mlx5_3:1 left out: not \
         ACTIVE"
    );
    assert!(advice.complete && advice.notes.is_empty(), "{:?}", advice.notes);
}

#[test]
fn without_near_port_all_active_ports_are_used_with_note() {
    let far = port("mlx5_0/1", ACTIVE, None);
    for distance in [FAR, None, Some(Distance::Unknown)] {
        let advice = advice_for(&[(&far, distance)], "2.30");
        assert_eq!(value(&advice, "NCCL_IB_HCA"), Some("=mlx5_0:1"));
        assert!(advice.notes[0].contains("no ACTIVE port is within the GDR level of a GPU"));
    }
}

#[test]
fn without_active_port_nothing_is_set() {
    let down = port("mlx5_0/1", DOWN, None);
    let advice = advice_for(&[(&down, NEAR)], "2.30");
    assert!(advice.set.is_empty() && advice.complete);
    assert!(advice.notes[0].contains("sockets"));
}

fn unread(name: &str, layer: &str) -> RdmaPort {
    let unknown = Reading::unknown("permission denied".to_owned());
    let link_layer = Reading::Known(layer.to_owned());
    RdmaPort { state: unknown, link_layer, ..port(name, ACTIVE, None) }
}

#[test]
fn unreadable_port_makes_advice_incomplete() {
    let unread = unread("mlx5_0/1", "InfiniBand");
    let other = port("mlx5_1/1", ACTIVE, None);
    let advice = advice_for(&[(&unread, NEAR), (&other, NEAR)], "2.30");
    assert!(!advice.complete);
    assert_eq!(value(&advice, "NCCL_IB_HCA"), Some("=mlx5_1:1"));
    assert_eq!(advice.notes, ["unknown state of port mlx5_0/1, not listed: permission denied"]);
}

/// An unknown state is not taken for one that is not ACTIVE.
#[test]
fn unreadable_port_that_may_decide_leaves_no_list() {
    let (alone, roce) = (unread("mlx5_0/1", "InfiniBand"), port("mlx5_1/1", ACTIVE, Some(3)));
    for ports in [
        &[(&alone, NEAR)][..],
        // The only near port.
        &[(&alone, NEAR), (&port("mlx5_2/1", ACTIVE, None), FAR)],
        // The InfiniBand ports may be the better ones.
        &[(&alone, NEAR), (&roce, NEAR)],
    ] {
        let advice = advice_for(ports, "2.30");
        assert!(advice.set.is_empty() && !advice.complete, "{advice:?}");
        assert!(advice.notes.iter().all(|note| !note.contains("sockets")), "{advice:?}");
    }
    // Beyond the GDR level it decides nothing.
    let advice = advice_for(&[(&alone, FAR), (&roce, NEAR)], "2.30");
    assert_eq!(value(&advice, "NCCL_IB_HCA"), Some("=mlx5_1:1"));
}

#[test]
fn old_versions_get_gid_index_only_if_ports_agree() {
    let (three, also) = (port("mlx5_0/1", ACTIVE, Some(3)), port("mlx5_1/1", ACTIVE, Some(3)));
    let other = port("mlx5_2/1", ACTIVE, Some(5));
    let index = |ports: &[_], version| {
        let advice = advice_for(ports, version);
        (value(&advice, "NCCL_IB_GID_INDEX").map(str::to_owned), advice.notes.len())
    };
    assert_eq!(index(&[(&three, NEAR), (&also, NEAR)], "2.20"), (Some("3".to_owned()), 0));
    assert_eq!(index(&[(&three, NEAR), (&also, NEAR)], "2.21"), (None, 0));
    assert_eq!(index(&[(&three, NEAR), (&other, NEAR)], "2.20"), (None, 1));
    let left = |version| {
        let advice = advice_for(&[(&three, NEAR), (&other, NEAR)], version);
        let row = advice.omitted.iter().find(|row| row.name == GID_INDEX).unwrap();
        row.why.contains("since 2.21")
    };
    assert!(!left("2.20") && left("2.21"));
    let first = port("mlx5_0/1", ACTIVE, Some(0));
    assert_eq!(index(&[(&first, NEAR)], "2.20"), (None, 0));
    // InfiniBand has no GID index.
    let infiniband = port("mlx5_0/1", ACTIVE, None);
    assert_eq!(index(&[(&infiniband, NEAR)], "2.4"), (None, 0));
}

#[test]
fn set_variables_are_not_omitted() {
    let roce = port("mlx5_0/1", ACTIVE, Some(3));
    let advice = advice_for(&[(&roce, NEAR)], "2.10");
    let left = |name: &str| advice.omitted.iter().find(|row| row.name == name);
    assert!(left("NCCL_IB_GID_INDEX").is_none());
    let dmabuf = left("NCCL_DMABUF_ENABLE").unwrap();
    assert_eq!(dmabuf.default, None);
    assert_eq!(dmabuf.why, "not in NCCL 2.10, only in 2.13 and later");
    assert_eq!(left("NCCL_IB_TIMEOUT").unwrap().default, Some("14"));
}

#[test]
fn list_has_one_link_layer() {
    let rate = |port: RdmaPort, bus: u8, rate: &str| {
        let mut port = RdmaPort { rate: Reading::Known(rate.to_owned()), ..port };
        port.function.bus = bus;
        port
    };
    let roce = rate(port("mlx5_0/1", ACTIVE, Some(3)), 1, "400 Gb/sec (4X NDR)");
    let ib = rate(port("mlx5_1/1", ACTIVE, None), 2, "200 Gb/sec (4X HDR)");
    let advice = advice_for(&[(&roce, NEAR), (&ib, NEAR)], "2.30");
    assert_eq!(value(&advice, "NCCL_IB_HCA"), Some("=mlx5_0:1"));
    assert_eq!(
        advice.set[0].why,
        "the 1 ACTIVE Ethernet port within the GDR level of a GPU; mlx5_1:1 left out: InfiniBand cannot connect to Ethernet; \
         InfiniBand has 1 NIC with 200 Gb/s, Ethernet 1 NIC with 400 Gb/s"
    );
    let same = rate(port("mlx5_1/1", ACTIVE, None), 2, "400 Gb/sec (4X NDR)");
    let advice = advice_for(&[(&roce, NEAR), (&same, NEAR)], "2.30");
    assert!(advice.set.is_empty() && advice.complete);
    assert!(advice.notes[0].contains("equally near"), "{:?}", advice.notes);
    assert!(chosen(&[placed(&roce, NEAR), placed(&same, NEAR)], Distance::Pxb).is_err());
}

#[test]
fn overlong_lists_are_noted() {
    let many: Vec<RdmaPort> =
        (0..200).map(|n| port(&format!("mlx5_{n}/1"), ACTIVE, None)).collect();
    let many: Vec<_> = many.iter().map(|port| (port, NEAR)).collect();
    assert!(advice_for(&many, "2.30").notes[0].contains("1023"));
}

/// `=` would be part of a name there, which no device has.
#[test]
fn oldest_version_gets_prefix_names() {
    let (one, ten) = (port("mlx5_1/1", ACTIVE, None), port("mlx5_10/1", ACTIVE, None));
    let advice = advice_for(&[(&one, NEAR), (&ten, FAR)], "2.4");
    assert_eq!(value(&advice, "NCCL_IB_HCA"), Some("mlx5_1:1"));
    assert_eq!(
        advice.notes,
        [
            "NCCL 2.4 only supports prefixes and also matches mlx5_10; 2.5 and later support exact names"
        ]
    );
    assert_eq!(
        value(&advice_for(&[(&one, NEAR), (&ten, FAR)], "2.5"), "NCCL_IB_HCA"),
        Some("=mlx5_1:1")
    );
    assert!(advice_for(&[(&one, NEAR), (&ten, NEAR)], "2.4").notes.is_empty());
}

#[test]
fn rccl_gets_nccl_variables_and_oneccl_device_names() {
    let (one, two) = (port("mlx5_1/1", ACTIVE, Some(3)), port("mlx5_2/1", ACTIVE, Some(3)));
    let second = port("mlx5_2/2", ACTIVE, Some(3));
    let ports = [&one, &two, &second].map(|port| placed(port, NEAR));
    let of = |library, version| advise(&ports, Distance::Pxb, library, version);
    let rccl = of(Library::Rccl, Version(2, 18));
    assert_eq!(value(&rccl, "NCCL_IB_HCA"), Some("=mlx5_1:1,mlx5_2:1,mlx5_2:2"));
    assert_eq!(value(&rccl, "NCCL_IB_GID_INDEX"), Some("3"));
    assert!(rccl.set[0].why.starts_with("RCCL 2.18 "), "{:?}", rccl.set);
    let left = rccl.omitted.iter().find(|row| row.name == "NCCL_DMABUF_ENABLE").unwrap();
    assert_eq!((left.advice, left.default), ("1", Some("0")));
    let oneccl = of(Library::OneCcl, Version(2021, 14));
    assert_eq!(oneccl.set.len(), 1);
    assert_eq!(value(&oneccl, "CCL_MNIC_NAME"), Some("mlx5_1,mlx5_2"));
    assert!(oneccl.notes[0].contains("CCL_ATL_TRANSPORT=ofi"), "{:?}", oneccl.notes);
    assert!(oneccl.omitted.iter().all(|row| !row.name.starts_with("NCCL_")));
}
