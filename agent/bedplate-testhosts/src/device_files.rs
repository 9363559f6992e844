//! Sysfs files of a fake PCI function.

use super::device::Device;
use super::nic;
use bedplate_host::snapshot::{Node, Snapshot};

impl Device {
    /// Adds the function to a host. Allocates its windows from `address_space` and advances it.
    pub(crate) fn write(
        &self,
        snapshot: &mut Snapshot,
        address_space: &mut u64,
        config_length: u16,
    ) {
        let name = self.address.to_string();
        let depth = self.directory.matches('/').count() - 1;
        let up = "../".repeat(depth);
        snapshot.insert(
            &format!("/sys/bus/pci/devices/{name}"),
            Node::Link(format!("../../../{}", self.directory.trim_start_matches("/sys/"))),
        );
        let file = |snapshot: &mut Snapshot, name: &str, text: String| {
            snapshot.insert(&format!("{}/{name}", self.directory), Node::File(text.into_bytes()));
        };
        let link = |snapshot: &mut Snapshot, name: &str, text: String| {
            snapshot.insert(&format!("{}/{name}", self.directory), Node::Link(text));
        };
        for (name, text) in self.attributes(address_space) {
            file(snapshot, name, text);
        }
        link(snapshot, "subsystem", format!("{up}bus/pci"));
        if let Some(driver) = self.bound() {
            snapshot.insert(&format!("/sys/bus/pci/drivers/{driver}"), Node::Dir(None));
            link(snapshot, "driver", format!("{up}bus/pci/drivers/{driver}"));
        }
        if let Some(group) = self.group {
            link(snapshot, "iommu_group", format!("{up}kernel/iommu_groups/{group}"));
            let device = format!("../../../../{}", self.directory.trim_start_matches("/sys/"));
            snapshot.insert(
                &format!("/sys/kernel/iommu_groups/{group}/devices/{name}"),
                Node::Link(device),
            );
        }
        if let Some(vpd) = &self.vpd {
            snapshot.insert(&format!("{}/vpd", self.directory), Node::File(vpd.clone()));
        }
        if let Some(sriov) = &self.sriov {
            for (index, vf) in sriov.vfs.iter().enumerate() {
                link(snapshot, &format!("virtfn{index}"), format!("../{vf}"));
            }
        }
        if let Some(pf) = &self.physfn {
            link(snapshot, "physfn", format!("../{pf}"));
        }
        if let Some(port) = &self.network {
            nic::files(self, port, snapshot);
        }
        if let Some(disk) = &self.disk {
            snapshot.insert(&format!("{}/nvme/{disk}", self.directory), Node::Dir(None));
        }
        if self.vfio_dev {
            vfio_device(self, snapshot);
        }
        let mut config = self.config();
        config.length = config_length;
        config.blocks.retain(|at, _| *at < config_length);
        snapshot.insert(&format!("{}/config", self.directory), Node::Config(config));
    }
}

/// Adds the VFIO class entry and the device's own directory.
fn vfio_device(device: &Device, snapshot: &mut Snapshot) {
    let name = format!("vfio{:x}{:02x}", device.address.domain, device.address.bus);
    let directory = format!("{}/vfio-dev/{name}", device.directory);
    snapshot.insert(&directory, Node::Dir(None));
    let target = format!("../..{}", directory.trim_start_matches("/sys"));
    snapshot.insert(&format!("/sys/class/vfio-dev/{name}"), Node::Link(target));
}
