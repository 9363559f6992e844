//! Contents of a snapshot: the paths that resource types name, further paths, and the reads for every PCI function.
//! All reads of planning and inspection must be among them or in [`bedplate_facts::observe`].

use std::ops::ControlFlow;

use super::Recorder;
use crate::kind::RecordMode::{self, IfSet, Names, Presence, Whole};
use crate::kind::modules::topo_check;
use crate::kind::{KINDS, cmdline, limits as limits_kind};
use crate::ledger::Ledger;
use bedplate_facts::kernel_log;
use bedplate_facts::pci::Function;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::service_processes::{SLICES, of_service};
use bedplate_facts::{
    Depth, aer, caps, cuda_library, fabric, flow_control, imex, limits, names, nvidia_modules,
    observe, placement, rdma, rebar, storage, uplink, vfs,
};
use bedplate_host::{Reader, fat_backup, module};
use bedplate_nccl::ports::of_plugins;
use bedplate_nccl::{Library, vm_topology};

/// Paths that no resource type records; `*` matches any part of one component.
const PATHS: &[(&str, RecordMode)] = &[
    // GPU driver.
    ("/proc/driver/nvidia/version", Whole),
    ("/proc/driver/nvidia/params", Whole),
    // Drivers, RDMA links.
    ("/sys/bus/pci/drivers", Names),
    ("/sys/class/infiniband/*/ports/*/state", Whole),
    ("/sys/class/infiniband/*/ports/*/phys_state", Whole),
    ("/sys/class/infiniband/*/ports/*/link_layer", Whole),
    ("/sys/class/infiniband/*/ports/*/rate", Whole),
    // Ledger records of one boot are valid only in that boot.
    (bedplate_host::boot_id::PATH, Whole),
    // These turn a reboot into something else.
    ("/sys/kernel/kexec_loaded", Whole),
    ("/run/systemd/shutdown/scheduled", Presence),
    ("/run/reboot-required", Presence),
    // Topology files for VMs.
    (vm_topology::DEFAULT_FILE, Presence),
    (vm_topology::VENDOR_FILES, Whole),
    // bedplate's own files.
    ("/etc/bedplate/profile.toml", Whole),
    ("/etc/bedplate/profile.d/*", Whole),
    ("/etc/bedplate/profiles/*", Whole),
    ("/var/lib/bedplate/*", Whole),
    ("/var/lib/bedplate/daemon/*", Whole),
    // Types of hosts, and the tools that a plan may name.
    ("/.dockerenv", Presence),
    ("/run/.containerenv", Presence),
    ("/run/systemd/container", Presence),
    ("/run/ostree-booted", Presence),
    ("/sysroot/ostree", Presence),
    ("/usr/bin/bootc", Presence),
];

/// Attributes of a function that no scan reads.
const ATTRIBUTES: [&str; 4] = ["driver_override", "sriov_offset", "sriov_stride", "ari_enabled"];

/// Reads everything through the recorder. Results are ignored here: the recorder stores each, including failures.
pub(crate) fn read_all(recorder: &Recorder) {
    observe(recorder, Depth::Plan);
    let facts = observe(recorder, Depth::Everything);
    let profiles = profiles(recorder);
    for (pattern, take) in KINDS.iter().flat_map(|kind| kind.recorded).chain(PATHS) {
        if matches!(take, IfSet(key) if !profiles.contains(key)) {
            continue;
        }
        for path in expand(recorder, pattern) {
            match take {
                Whole | IfSet(_) => drop(recorder.read(&path)),
                Names => drop(recorder.list(&path)),
                Presence => drop(recorder.exists(&path)),
            }
        }
    }
    // Keeps only the names of this host's devices, of a megabyte.
    for path in names::FILES {
        let cut = |bytes: &[u8]| names::excerpt(&String::from_utf8_lossy(bytes), &facts);
        recorder.read_part(path, |bytes| cut(bytes).into_bytes());
    }
    // Backup files next to files with an interrupted replacement.
    if let Ok(ledger) = Ledger::load(recorder) {
        ledger.unfinished().for_each(|path| drop(recorder.exists(&fat_backup::path(path))));
    }
    let _ = recorder.default_routes();
    // Files that the default boot entry loads.
    let mut booting = facts.clone();
    booting.os.next_kernel = cmdline::next_kernel(recorder, &booting);
    let _ = cmdline::soundness(recorder, &booting);
    // Distances between devices (`topology`).
    let _ = placement::nodes(recorder);
    of_kernel_log(recorder);
    limits::read(recorder, facts.pci.known());
    of_services(recorder);
    fabric::observe(recorder, facts.pci.known(), facts.cpu.is_virtual());
    imex::record(recorder, facts.pci.known());
    drop(cuda_library::observe(recorder));
    drop(nvidia_modules::observe(
        recorder,
        &facts.gpu,
        facts.os.kernel.known().map(String::as_str),
    ));
    // Must not follow the paths that these files name: a user-chosen path would appear in the snapshot.
    let _ = recorder.read(Library::file_of_host(&facts));
    let _ = recorder.exists(crate::kind::nccl::topology::PATH);
    topo_check::observe(recorder);
    storage::read(recorder, &facts);
    let Some(tree) = facts.pci.known() else { return };
    tree.functions.values().for_each(|function| of_function(recorder, function));
    let pfs = tree.functions.values().filter(|function| !function.is_vf());
    let ports: Vec<RdmaPort> = pfs.flat_map(|function| rdma::ports(recorder, function)).collect();
    flow_control::read(recorder, tree, &ports, Library::file_of_host(&facts));
    let _ = of_plugins(recorder, tree);
    vfs::read(recorder, tree);
}

/// Records the limits of services that start jobs. The names and processes of other services are not recorded.
fn of_services(recorder: &Recorder) {
    let services = limits_kind::services(recorder.inner);
    for directory in SLICES {
        let is_kept =
            |name: &str| name.strip_suffix(".service").is_some_and(|name| services.contains(name));
        recorder.list_part(directory, is_kept);
    }
    for service in &services {
        let _ = of_service(recorder, service);
    }
}

/// Returns the texts of the host's profiles.
fn profiles(recorder: &Recorder) -> String {
    let patterns = PATHS.iter().map(|(pattern, _)| *pattern);
    let patterns = patterns.filter(|pattern| pattern.starts_with("/etc/bedplate/"));
    let paths = patterns.flat_map(|pattern| expand(recorder, pattern));
    paths.filter_map(|path| recorder.text(&path).ok()).collect()
}

/// Returns the paths that match a pattern.
fn expand(recorder: &Recorder, pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for part in pattern.split('/').skip(1) {
        let Some((before, after)) = part.split_once('*') else {
            paths.iter_mut().for_each(|path| *path = format!("{path}/{part}"));
            continue;
        };
        let fits = |name: &String| {
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        };
        paths = paths
            .into_iter()
            .flat_map(|path| {
                let names = recorder.list(&path).unwrap_or_default();
                names.into_iter().filter(fits).map(move |name| format!("{path}/{name}"))
            })
            .collect();
    }
    paths
}

/// Records relevant log lines, and whether the modules that they mention are loaded.
fn of_kernel_log(recorder: &Recorder) {
    let Ok(log) = recorder.kernel_log(kernel_log::redacted_line) else { return };
    for module in kernel_log::modules(&log) {
        let _ = module::is_loaded(recorder, &module);
    }
}

fn of_function(recorder: &Recorder, function: &Function) {
    let directory = format!("{}/{}", bedplate_facts::scan::DEVICES, function.address);
    let _ = recorder.link(&format!("{directory}/driver"));
    if function.is_nic() || function.is_gpu() || function.is_vf() {
        for name in ATTRIBUTES {
            let _ = recorder.read(&format!("{directory}/{name}"));
        }
        let _ = recorder.link(&format!("{directory}/physfn"));
    }
    let is_endpoint = function.is_nic() || function.is_gpu() || function.is_data_direct();
    if function.is_bridge() || is_endpoint {
        for (name, _) in aer::FILES {
            let _ = recorder.read(&format!("{directory}/{name}"));
        }
    }
    if function.is_gpu() {
        let _ = rebar::largest_possible(recorder, function);
    }
    // Pairs a NIC with its Data Direct function; serial numbers are masked (`redact`).
    if (function.is_nic() || function.is_data_direct()) && !function.is_vf() {
        let _ = recorder.read(&format!("{directory}/vpd"));
    }
    if function.is_nvme() {
        let _ = recorder.list(&format!("{directory}/nvme"));
    }
    for device in &function.infiniband {
        let _ = recorder.list(&format!("{directory}/infiniband/{device}/ports"));
    }
    if function.sriov.known().is_some() {
        let _ = recorder.eswitch(function.address);
        if let Some(interface) = uplink::uplink(recorder, &function.net) {
            let _ = recorder.vfs(function.address, interface);
        }
    }
    let Ok(config) = recorder.config(function.address) else { return };
    let _ = config.read(0, &mut [0; 256]);
    let mut found = Vec::new();
    let _ = caps::extended(config.as_ref(), |id, at| {
        found.push((id, at));
        ControlFlow::<()>::Continue(())
    });
    for (id, at) in found {
        // ACS with its egress vector, ATS, SR-IOV. Any other capability keeps only its header: one contains a serial
        // number.
        let length = match id {
            0x000d => 16,
            0x000f => 8,
            0x0010 => 64,
            _ => continue,
        };
        let _ = config.read(at, &mut vec![0; length]);
    }
}
