//! Topology files for VMs: hypervisors hide the PCIe switches between GPUs and NICs (handbook §8.7).

use crate::library::Library;
use crate::ports::PlacedPort;
use crate::topology_file::{self, ImportedTopology};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::PciTree;
use bedplate_facts::topology::Distance;
use bedplate_facts::{Facts, nccl_conf};
use bedplate_host::Reader;

/// File that NCCL reads without NCCL_TOPO_FILE (NCCL src/graph/topo.cc). /var/run is a link to /run.
pub const DEFAULT_FILE: &str = "/run/nvidia-topologyd/virtualTopology.xml";

/// Directory of topology files in Azure's images, one for each size of VM (Azure/azhpc-images customizations/ndv4.sh,
/// ndv5.sh).
const VENDOR_DIRECTORY: &str = "/opt/microsoft";
/// End of their names.
const VENDOR_SUFFIX: &str = "-topo.xml";
/// The files as a pattern, for snapshots.
pub const VENDOR_FILES: &str = "/opt/microsoft/*-topo.xml";

/// Returns the note that a VM needs a topology file. `None`: the host is not known to be a VM, shows switches, or has
/// a file.
pub(crate) fn note(
    reader: &dyn Reader,
    facts: &Facts,
    tree: &PciTree,
    ports: &[PlacedPort],
    library: Library,
) -> Option<String> {
    let nearest = ports.iter().filter_map(|one| one.distance).min()?;
    if !facts.cpu.is_virtual() || library == Library::OneCcl || nearest <= Distance::Pxb {
        return None;
    }
    let conf = nccl_conf::observe(reader, Library::file_of_host(facts));
    if conf.topology_file == Reading::Known(true) || reader.exists(DEFAULT_FILE) == Ok(true) {
        return None;
    }
    let fix = match vendor_file(reader, tree, library) {
        Some(path) => format!(
            "set NCCL_TOPO_FILE={path}, which names its GPUs (check: `bedplate topology --import {path}`)"
        ),
        None => "set NCCL_TOPO_FILE to the cloud vendor's file, or to the output of `bedplate topology --nccl-xml` on \
                 the bare-metal host with the bus ids of this VM"
            .to_owned(),
    };
    Some(format!(
        "this VM shows no PCIe switch between GPUs and NICs, so {library} cannot tell which are near; {fix}"
    ))
}

/// Returns the file of the vendor that names exactly the GPUs of this VM, in the version of the library. Images
/// contain the files of several sizes.
fn vendor_file(reader: &dyn Reader, tree: &PciTree, library: Library) -> Option<String> {
    let names = reader.list(VENDOR_DIRECTORY).ok()?;
    let files = names.iter().filter(|name| name.ends_with(VENDOR_SUFFIX));
    let mut paths = files.map(|name| format!("{VENDOR_DIRECTORY}/{name}"));
    let version = library.topology_version().to_string();
    let gpus = tree.functions.values().filter(|function| function.is_gpu() && !function.is_vf());
    let gpus: Vec<PciAddress> = gpus.map(|gpu| gpu.address).collect();
    paths.find(|path| {
        let Ok(text) = reader.text(path) else { return false };
        let Ok(ImportedTopology::Nccl(file)) = topology_file::parse(&text) else { return false };
        let named = file.functions.iter().filter(|function| function.is_gpu());
        let named: Vec<Option<PciAddress>> = named.map(|gpu| gpu.busid.parse().ok()).collect();
        file.version.as_ref() == Some(&version)
            && named.len() == gpus.len()
            && gpus.iter().all(|gpu| named.contains(&Some(*gpu)))
    })
}
