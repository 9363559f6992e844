//! Device nodes of fake hosts, as made by drivers and udev for GPUs and RDMA devices.

use super::device::Device;
use bedplate_facts::fabric;
use bedplate_host::snapshot::{Node, Snapshot};

/// Adds the device nodes to a host.
pub(crate) fn put(devices: &[Device], snapshot: &mut Snapshot) {
    let is_gpu = |device: &&Device| matches!(device.class >> 16, 0x03 | 0x12);
    let of = |driver: &str| {
        devices.iter().filter(is_gpu).filter(|gpu| gpu.bound() == Some(driver)).count()
    };
    let mut nodes = Vec::new();
    let nvidia = of("nvidia");
    if nvidia > 0 {
        nodes.extend(["/dev/nvidiactl", "/dev/nvidia-uvm"].map(str::to_owned));
        nodes.extend((0..nvidia).map(|number| format!("/dev/nvidia{number}")));
        nodes.push(bedplate_facts::limits::PERSISTENCED.to_owned());
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
    fabric(devices, nvidia > 0, snapshot);
    nodes.iter().for_each(|node| snapshot.insert(node, Node::Present));
}

/// Adds the programs that configure NVSwitches, if there are any.
fn fabric(devices: &[Device], has_driver: bool, snapshot: &mut Snapshot) {
    let has = |id: (u16, u16)| has_driver && devices.iter().any(|device| device.id == id);
    let (switches, nvlink5) = (has((0x10de, 0x22a3)), has((0x10de, 0x3182)));
    if !switches && !nvlink5 {
        return;
    }
    snapshot.insert(fabric::PROGRAM, Node::Present);
    let mut put = |path: &str, text: &str| snapshot.insert(path, Node::File(text.into()));
    put("/proc/1/comm", "systemd\n");
    put("/proc/4242/comm", "nv-fabricmanage\n");
    put(fabric::GROUP, if nvlink5 { "4242\n4243\n" } else { "4242\n" });
    if nvlink5 {
        put("/proc/4243/comm", "nvlsm\n");
        snapshot.insert(fabric::UMAD, Node::Dir(None));
    }
}
