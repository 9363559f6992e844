//! What the made-up kernel answers of NICs by netlink: attributes of VFs, modes of eswitches.

use super::device::Device;
use super::spec::HostSpec;
use crate::host::recorded::{eswitch_at, vfs_at};
use crate::host::snapshot::{Node, Snapshot};
use crate::value::vf::{EswitchMode, Guid, Mac, VfAttributes, VfLinkState, VfTable, Vlan};

/// Put the answers for every PF into a host.
pub fn answers(spec: &HostSpec, devices: &[Device], snapshot: &mut Snapshot) {
    for device in devices {
        let (Some(sriov), Some(port)) = (&device.sriov, &device.network) else { continue };
        let eswitch =
            port.infiniband.is_some().then(|| spec.eswitch.unwrap_or(EswitchMode::Legacy));
        let mode = match (spec.unprivileged, serde_json::to_vec(&eswitch)) {
            (false, Ok(bytes)) => Node::File(bytes),
            _ => Node::Denied,
        };
        snapshot.insert(&eswitch_at(device.address), mode);
        let (bus, slot) =
            (device.address.bus, device.address.device << 3 | device.address.function);
        let domain = device.address.domain.to_le_bytes()[0];
        let mut table = VfTable::default();
        if port.is_infiniband {
            let own = [0x9c, 0x63, 0xc0, 3, 0, domain, bus, slot];
            table.guid = Some(Guid(u64::from_be_bytes(own)));
        } else {
            table.mac = Some(Mac([0x9c, 0x63, 0xc0, domain, bus, slot]));
        }
        for (number, _) in (0u16..).zip(&sriov.vfs) {
            table.vfs.insert(number, of_vf(spec, port.is_infiniband, &table, number));
        }
        // As a snapshot has it.
        if let Ok(bytes) = serde_json::to_vec(&table.masked()) {
            snapshot.insert(&vfs_at(&port.net), Node::File(bytes));
        }
    }
}

/// As a driver leaves them, but for what the description says.
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
