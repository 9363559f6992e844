//! Properties of a host, beyond its links, that decide which bandwidth known-good hosts reach.

use crate::env;
use crate::ports::{self, PlacedPort, PluginNic};
use bedplate_base::Reading;
use bedplate_facts::Facts;
use bedplate_facts::gpu::is_amd_accelerator;
use bedplate_facts::nvlink_sharp::{NvlinkSharp, nvlink_sharp};
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::superchip::is_gb10;
use bedplate_facts::topology::Distance;

/// Properties of a host.
#[derive(Debug, Clone)]
pub struct Machine {
    /// NVLink SHARP; `Absent`: no NVSwitches.
    pub nvlink_sharp: Reading<NvlinkSharp>,
    /// Kind of the NICs that NCCL would use, if a plugin drives them.
    pub plugin: Option<PluginNic>,
    /// Whether the GPUs are AMD's accelerators.
    pub is_amd: bool,
    /// Path of the data between GPUs and NICs.
    pub path: Path,
}

/// Path between GPUs and NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// GPUDirect RDMA is possible.
    Direct,
    /// NCCL stages in host memory by default: no NIC is within the GDR level of a GPU.
    HostMemory,
    /// A GB10, which has no GPUDirect RDMA.
    Gb10,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            nvlink_sharp: Reading::unknown("the host was not inspected"),
            plugin: None,
            is_amd: false,
            path: Path::Direct,
        }
    }
}

impl Machine {
    /// Derives the properties. `ports` are those of the host, `reach` is the GDR level.
    pub fn of_host(facts: &Facts, tree: &PciTree, ports: &[PlacedPort], reach: Distance) -> Self {
        let gpus = || tree.functions.values().filter(|gpu| gpu.is_gpu() && !gpu.vfio);
        let carrying = env::carrying(ports, reach).unwrap_or_default();
        let nics = carrying.iter().filter_map(|one| tree.get(one.port.function));
        let has_gpus = ports.iter().any(|one| one.distance.is_some());
        Machine {
            nvlink_sharp: nvlink_sharp(tree, &facts.cpu.is_guest),
            plugin: plugin(nics),
            is_amd: gpus().any(is_amd_accelerator),
            path: if gpus().any(is_gb10) {
                Path::Gb10
            } else if has_gpus && !env::reaches_gpus(ports, reach) {
                Path::HostMemory
            } else {
                Path::Direct
            },
        }
    }
}

/// Returns the plugin's kind that all NICs have in common.
fn plugin<'f>(nics: impl Iterator<Item = &'f Function>) -> Option<PluginNic> {
    let mut kinds = nics.map(ports::plugin_nic);
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::value::PciId;
    use bedplate_testhosts::fixture::{Files, Machine as Built};

    /// gVNICs next to GPUs are those of TCPXO; a NIC far from all GPUs means host memory.
    #[test]
    fn nics_decide_plugin_and_path() {
        let mut built = Built::default();
        built.root_port("0000:00:00.0", 0);
        let ports = built.switch("0000:00:00.0", "0000:01:00.0", 2);
        built.gpu("0000:04:00.0", Some(&ports[0]));
        let nic = built.nic("0000:05:00.0", Some(&ports[1]));
        (nic.vendor, nic.device) = (PciId(0x1ae0), PciId(0x0042));
        nic.net = vec!["eth1".into()];
        let files = Files::new(&[
            ("/sys/class/net/eth1/operstate", "up\n"),
            ("/sys/class/net/eth1/speed", "200000\n"),
        ]);
        let of = |built: &Built, reach| {
            let ports = ports::of_plugins(&files, &built.tree);
            Machine::of_host(&built.facts(), &built.tree, &ports, reach)
        };
        let machine = of(&built, Distance::Pxb);
        assert_eq!((machine.plugin, machine.path), (Some(PluginNic::Gvnic), Path::Direct));
        assert!(!machine.is_amd);
        built.get("0000:05:00.0").parent = None;
        assert_eq!(of(&built, Distance::Pxb).path, Path::HostMemory);
        built.get("0000:04:00.0").device = PciId(0x2e12);
        assert_eq!(of(&built, Distance::Pxb).path, Path::Gb10);
    }
}
