//! Device nodes of made-up hosts: those that drivers and udev make for GPUs and RDMA devices.

use super::device::Device;
use crate::host::snapshot::{Node, Snapshot};

/// Puts them into a host.
pub fn put(devices: &[Device], snapshot: &mut Snapshot) {
    let is_gpu = |device: &&Device| matches!(device.class >> 16, 0x03 | 0x12);
    let of = |driver: &str| {
        devices.iter().filter(is_gpu).filter(|gpu| gpu.bound() == Some(driver)).count()
    };
    let mut nodes = Vec::new();
    let nvidia = of("nvidia");
    if nvidia > 0 {
        nodes.extend(["/dev/nvidiactl", "/dev/nvidia-uvm"].map(str::to_owned));
        nodes.extend((0..nvidia).map(|number| format!("/dev/nvidia{number}")));
        nodes.push(crate::facts::limits::PERSISTENCED.to_owned());
    }
    if of("amdgpu") > 0 {
        nodes.push("/dev/kfd".to_owned());
    }
    let has_verbs =
        |device: &&Device| device.network.as_ref().is_some_and(|port| port.infiniband.is_some());
    for (number, device) in devices.iter().filter(has_verbs).enumerate() {
        let directory = format!("{}/infiniband_verbs/uverbs{number}", device.directory);
        snapshot.insert(&directory, Node::Dir(None));
        nodes.push(format!("/dev/infiniband/uverbs{number}"));
    }
    if nvidia > 0 && devices.iter().any(|device| (device.id.0, device.class) == (0x10de, 0x06_8000))
    {
        snapshot.insert(crate::facts::fabric::GROUPS[0], Node::File(b"4242\n".to_vec()));
        nodes.push(crate::facts::fabric::PROGRAM.to_owned());
    }
    nodes.iter().for_each(|node| snapshot.insert(node, Node::Present));
}
