//! Use of VFs, to decide whether they may be destroyed. Unknown counts as use: a VF may be the network of a guest.

use bedplate_base::Reading;
use bedplate_facts::pci::{Function, PciTree, SriovPf};
use bedplate_host::Reader;

/// `IFF_UP` of include/uapi/linux/if.h.
const IFF_UP: u32 = 1;

/// Returns the uses of a PF's VFs, one text per VF; empty means unused.
pub(crate) fn users(sriov: &SriovPf, tree: &PciTree, reader: &dyn Reader) -> Vec<String> {
    let present = sriov.enabled.known().copied().unwrap_or(u16::MAX);
    let mut users: Vec<String> = sriov
        .vfs
        .iter()
        .filter_map(|vf| {
            let use_of = match tree.get(*vf) {
                Some(function) => use_of(function, tree, reader),
                None => Some("not visible among the PCI functions".to_owned()),
            };
            Some(format!("{vf} ({})", use_of?))
        })
        .collect();
    if sriov.vfs.len() < usize::from(present) {
        users.push(format!("{} VFs that are not visible", usize::from(present) - sriov.vfs.len()));
    }
    users
}

/// Describes the visible use of one VF.
pub(super) fn use_of(vf: &Function, tree: &PciTree, reader: &dyn Reader) -> Option<String> {
    if let Some(reason) = tree.unread_drivers.get(&vf.address) {
        return Some(format!("driver unknown: {reason}"));
    }
    let driver = vf.driver.as_deref()?;
    if vf.vfio || driver.contains("vfio") {
        return Some(format!("bound to {driver}: possibly assigned to a guest"));
    }
    if !vf.is_nic() {
        return Some(format!("bound to {driver}"));
    }
    if vf.net.is_empty() {
        return Some(format!(
            "bound to {driver}, interface not visible here: possibly in another namespace"
        ));
    }
    let interfaces = vf.net.iter().find_map(|name| interface_use(name, reader));
    interfaces.or_else(|| vf.infiniband.iter().find_map(|device| rdma_use(device, reader)))
}

fn interface_use(name: &str, reader: &dyn Reader) -> Option<String> {
    match is_up(name, reader) {
        Reading::Known(false) | Reading::Absent => None,
        Reading::Known(true) => Some(format!("{name} is up")),
        Reading::Unknown(why) => Some(format!("{name}: {why}")),
    }
}

/// Whether an interface is up. Never `Absent`: an interface that has disappeared is unknown.
pub(crate) fn is_up(name: &str, reader: &dyn Reader) -> Reading<bool> {
    // operstate is "down" on an interface that is up without a carrier; only the flag is reliable.
    let text = match reader.attribute(&format!("/sys/class/net/{name}/flags")) {
        Ok(text) => text,
        Err(error) => return Reading::unknown(error),
    };
    match u32::from_str_radix(text.trim_start_matches("0x"), 16) {
        Ok(flags) => Reading::Known(flags & IFF_UP != 0),
        Err(_) => Reading::unknown("invalid interface flags"),
    }
}

/// Returns the first active port: verbs on InfiniBand work while the interface is down, so an active port may be in use.
fn rdma_use(device: &str, reader: &dyn Reader) -> Option<String> {
    let ports = format!("/sys/class/infiniband/{device}/ports");
    let numbers = match reader.list(&ports) {
        Ok(numbers) => numbers,
        Err(error) => return Some(format!("{device}: {error}")),
    };
    numbers.iter().find_map(|port| match reader.attribute(&format!("{ports}/{port}/state")) {
        // `4: ACTIVE` (handbook §5.3)
        Ok(state) if state.starts_with("4:") => Some(format!("{device} port {port} is active")),
        Ok(_) => None,
        Err(error) => Some(format!("{device}: {error}")),
    })
}
