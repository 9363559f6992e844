//! NICs of fake hosts: their sysfs files, and the kernel's netlink answers (attributes of VFs, modes of eswitches).

use super::device::{Device, Port};
use super::spec::HostSpec;
use bedplate_base::value::PciAddress;
use bedplate_base::value::flow_control::FlowControl;
use bedplate_base::value::vf::{EswitchMode, Guid, Mac, VfAttributes, VfLinkState, VfTable, Vlan};
use bedplate_facts::nccl_conf::{NCCL_CONF, RCCL_CONF};
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_host::snapshot_paths::{eswitch_at, flow_control_at, vfs_at};

/// Returns the MAC address of a function's interface.
fn mac(at: PciAddress) -> Mac {
    Mac([0x9c, 0x63, 0xc0, at.domain.to_le_bytes()[0], at.bus, at.device << 3 | at.function])
}

/// Returns the GUID of a function's port.
pub(crate) fn guid(at: PciAddress) -> Guid {
    let Mac([a, b, c, domain, bus, slot]) = mac(at);
    Guid(u64::from_be_bytes([a, b, c, 3, 0, domain, bus, slot]))
}

/// Returns the GUID that a description gives to VFs of this PF. InfiniBand VFs have no GUID by default.
pub(crate) fn vf_guid(
    spec: &HostSpec,
    pf: PciAddress,
    is_infiniband: bool,
    number: u16,
) -> Option<Guid> {
    let derived = spec.vf_derived.then(|| guid(pf).derived(number));
    spec.vf.node_guid.or(derived).or(is_infiniband.then_some(Guid(0)))
}

/// Returns the GID table of a RoCE port: its link-local and its IPv4 address, each for both versions.
fn gids(at: PciAddress) -> [(String, &'static str); 4] {
    let Mac([a, b, c, d, e, f]) = mac(at);
    let (a, slot) = (a ^ 2, f.wrapping_add(1));
    let local = format!("fe80:0000:0000:0000:{a:02x}{b:02x}:{c:02x}ff:fe{d:02x}:{e:02x}{f:02x}");
    let ipv4 = format!("0000:0000:0000:0000:0000:ffff:0a{d:02x}:{e:02x}{slot:02x}");
    let (one, two) = ("IB/RoCE v1", "RoCE v2");
    [(local.clone(), one), (local, two), (ipv4.clone(), one), (ipv4, two)]
}

/// Adds interface and RDMA device of a function, and their names in /sys/class.
pub(crate) fn files(device: &Device, port: &Port, snapshot: &mut Snapshot) {
    let mut put =
        |path: String, text: &str| snapshot.insert(&path, Node::File(text.as_bytes().to_vec()));
    let net = format!("{}/net/{}", device.directory, port.net);
    put(format!("{net}/operstate"), "up\n");
    put(format!("{net}/flags"), "0x1003\n");
    let mtu = match (port.is_infiniband, &port.infiniband) {
        (true, _) => "2044\n",
        (false, Some(_)) => "9000\n",
        (false, None) => "1500\n",
    };
    put(format!("{net}/mtu"), mtu);
    if !port.is_infiniband {
        put(format!("{net}/address"), &format!("{}\n", mac(device.address)));
    }
    let mut class = vec![("net", port.net.as_str())];
    if let Some(name) = &port.infiniband {
        let directory = format!("{}/infiniband/{name}", device.directory);
        let node = port.guid.unwrap_or_else(|| guid(device.address)).0;
        let groups = [48, 32, 16, 0].map(|shift| format!("{:04x}", node >> shift & 0xffff));
        put(format!("{directory}/node_guid"), &format!("{}\n", groups.join(":")));
        let ports = format!("{directory}/ports/1");
        put(format!("{ports}/state"), "4: ACTIVE\n");
        put(format!("{ports}/phys_state"), "5: LinkUp\n");
        put(
            format!("{ports}/link_layer"),
            if port.is_infiniband { "InfiniBand\n" } else { "Ethernet\n" },
        );
        put(format!("{ports}/rate"), "400 Gb/sec (4X NDR)\n");
        if !port.is_infiniband {
            let entries = (0..).zip(gids(device.address));
            entries.for_each(|(index, (gid, kind))| {
                put(format!("{ports}/gids/{index}"), &format!("{gid}\n"));
                put(format!("{ports}/gid_attrs/types/{index}"), &format!("{kind}\n"));
                put(format!("{ports}/gid_attrs/ndevs/{index}"), &format!("{}\n", port.net));
            });
        }
        class.push(("infiniband", name));
    }
    for (kind, name) in class {
        let target =
            format!("../../{}/{kind}/{name}", device.directory.trim_start_matches("/sys/"));
        snapshot.insert(&format!("/sys/class/{kind}/{name}"), Node::Link(target));
    }
}

/// Adds RoCE flow control as guides recommend: priority by DSCP in groups of eight, flow control on 3, which NCCL's
/// packets use.
fn flow_control(devices: &[Device], snapshot: &mut Snapshot) {
    // AMD GPUs use RCCL.
    let amd = devices.iter().any(|device| device.id.0 == 0x1002);
    let conf = if amd { RCCL_CONF } else { NCCL_CONF };
    let ports = devices.iter().filter_map(|device| device.network.as_ref());
    for port in ports.filter(|port| !port.is_infiniband && port.infiniband.is_some()) {
        let dscp = (0..64).map(|dscp| (dscp, dscp >> 3)).collect();
        let control = FlowControl { pfc: Some(1 << 3), dscp, roce: None };
        if let Ok(bytes) = serde_json::to_vec(&control) {
            snapshot.insert(&flow_control_at(&port.net), Node::File(bytes));
        }
        snapshot.insert(conf, Node::File(b"NCCL_IB_TC=106\n".to_vec()));
    }
}

/// Adds the netlink answers for every PF.
pub(crate) fn answers(spec: &HostSpec, devices: &[Device], snapshot: &mut Snapshot) {
    flow_control(devices, snapshot);
    for device in devices {
        let (Some(sriov), Some(port)) = (&device.sriov, &device.network) else { continue };
        let eswitch =
            port.infiniband.is_some().then(|| spec.eswitch.unwrap_or(EswitchMode::Legacy));
        let mode = match (spec.unprivileged, serde_json::to_vec(&eswitch)) {
            (false, Ok(bytes)) => Node::File(bytes),
            _ => Node::Denied,
        };
        snapshot.insert(&eswitch_at(device.address), mode);
        let mut table = VfTable::default();
        match port.is_infiniband {
            true => table.guid = Some(guid(device.address)),
            false => table.mac = Some(mac(device.address)),
        }
        for (number, _) in (0u16..).zip(&sriov.vfs) {
            table.vfs.insert(number, of_vf(spec, port.is_infiniband, &table, number));
        }
        // Masked, as in a snapshot.
        if let Ok(bytes) = serde_json::to_vec(&table.masked()) {
            snapshot.insert(&vfs_at(&port.net), Node::File(bytes));
        }
    }
}

/// Returns the attributes as a driver leaves them, overridden by the description.
fn of_vf(spec: &HostSpec, infiniband: bool, table: &VfTable, number: u16) -> VfAttributes {
    let mut vf = VfAttributes {
        link_state: Some(VfLinkState::Auto),
        trust: Some(false),
        spoof_check: Some(false),
        min_tx_rate: Some(0),
        max_tx_rate: Some(0),
        ..VfAttributes::default()
    };
    let derived = spec.vf_derived;
    if infiniband {
        let guid = table.guid.filter(|_| derived).map_or(Guid(0), |base| base.derived(number));
        (vf.node_guid, vf.port_guid) = (Some(guid), Some(guid));
    } else {
        vf.vlan = Some(Vlan::default());
        vf.mac =
            Some(table.mac.filter(|_| derived).map_or(Mac([0; 6]), |base| base.derived(number)));
    }
    spec.vf.or(&vf)
}
