//! `bedplate topology --for`: variables that give a library the recommended NICs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::{TopologyView, labels, unread};
use crate::report::nccl;
use bedplate_base::terminal::one_line;
use bedplate_base::value::PciAddress;
use bedplate_facts::topology::pairing::Choice;
use bedplate_nccl::env::{Advice, Setting};
use bedplate_nccl::ports::PlacedPort;
use bedplate_nccl::process_env::{NicVariable, PairedPorts, ProcessLibrary};

/// Variables that give one library the recommended NICs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Variables {
    /// Library: `NCCL`, `RCCL` or `oneCCL` with a version; `UCX`, `NVSHMEM` or `NIXL`.
    library: String,
    /// The variables to set, with the versions that have them.
    known: Vec<NicVariable>,
    /// Settings for all processes of the host: NCCL, RCCL, oneCCL.
    host: Vec<Setting>,
    /// Settings for the process of each GPU: UCX, NVSHMEM, NIXL. GPUs in VMs are left out.
    gpus: Vec<GpuSettings>,
    /// Notes, one sentence each.
    pub(crate) notes: Vec<String>,
    /// Whether all required ports and PCI functions were readable; if not, settings may be missing.
    pub(crate) complete: bool,
    #[serde(skip)]
    numbering: &'static str,
}

/// Settings for the process of one GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct GpuSettings {
    /// GPU.
    gpu: PciAddress,
    /// Number of the GPU, in PCI order: `GPU0`.
    id: String,
    /// Variables to set; empty: none of its NICs has an ACTIVE port of known state.
    set: Vec<Setting>,
    /// Ports of its NICs that are not ACTIVE, or of unknown state, each with the reason.
    unused: Vec<String>,
}

impl Variables {
    /// Whether there is a variable to set.
    pub(crate) fn has_settings(&self) -> bool {
        !self.host.is_empty() || self.gpus.iter().any(|gpu| !gpu.set.is_empty())
    }
}

/// Returns the variables of NCCL, RCCL or oneCCL: those of `bedplate nccl env`.
pub(crate) fn of_host(shown: &TopologyView, advice: Advice) -> Variables {
    let Advice { library, nccl_version, set, mut notes, complete, .. } = advice;
    let (oldest, newest) = library.versions();
    let rows = library.variables().into_iter();
    let rows = rows.filter(|row| set.iter().any(|setting| setting.name == row.name));
    let known = rows.map(|row| NicVariable {
        name: row.name,
        versions: format!("{} ({library} {oldest} to {newest} covered)", row.versions()),
        source: row.source,
    });
    let unread = unread(shown);
    let complete = complete && unread.is_none();
    notes.extend(unread);
    Variables {
        library: format!("{library} {nccl_version}"),
        known: known.collect(),
        host: set,
        gpus: Vec::new(),
        notes,
        complete,
        numbering: "",
    }
}

/// Returns the variables of a library that reads them per process, from the pairs of `bedplate topology`.
pub(crate) fn of_processes(
    shown: &TopologyView,
    ports: &[PlacedPort],
    library: ProcessLibrary,
) -> Variables {
    let mut found = Variables {
        library: library.to_string(),
        known: library.variables(),
        host: Vec::new(),
        gpus: Vec::new(),
        notes: Vec::new(),
        complete: true,
        numbering: labels::numbering(shown),
    };
    let mut layers = BTreeSet::new();
    for (gpu, pairing) in shown.paired_gpus() {
        if gpu.function.vfio || !library.supports(gpu.function) {
            continue;
        }
        let PairedPorts { active, mut unused, unknown } =
            PairedPorts::new(pairing, &shown.devices, ports);
        layers.extend(library.usable(&active).iter().filter_map(|port| port.link_layer.known()));
        let reason = |(nth, choice): (usize, &Choice)| {
            let nic = shown.devices.at(choice.peer).map_or("", |nic| nic.called());
            let why = labels::reason(shown, gpu, choice, labels::NIC, nth > 0);
            format!("{nic} {}, {why}", choice.distance)
        };
        let why: Vec<String> = pairing.nics.iter().enumerate().map(reason).collect();
        found.complete &= unknown.is_empty();
        found.notes.extend(unknown.iter().map(|text| format!("{}: {text}", gpu.id)));
        unused.extend(unknown);
        let set = library.settings(&active, &why.join("; "));
        found.gpus.push(GpuSettings { gpu: pairing.gpu, id: gpu.id.clone(), set, unused });
    }
    let set: Vec<&Setting> = found.gpus.iter().flat_map(|gpu| &gpu.set).collect();
    found.known.retain(|row| set.iter().any(|setting| setting.name == row.name));
    found.notes.extend(notes(&found.gpus, library));
    if layers.len() > 1 {
        found.notes.push(format!(
            "the ports mix InfiniBand and Ethernet, so processes may not reach each other; \
             remove the {library} lines that jobs should not use"
        ));
    }
    let unread = unread(shown);
    found.complete &= unread.is_none();
    found.notes.extend(unread);
    found
}

/// Returns the note about GPUs without settings.
fn notes(gpus: &[GpuSettings], library: ProcessLibrary) -> Option<String> {
    let without: Vec<&str> =
        gpus.iter().filter(|gpu| gpu.set.is_empty()).map(|gpu| gpu.id.as_str()).collect();
    match (gpus.is_empty(), without.is_empty()) {
        (true, _) => Some(format!("no GPU on this host that {library} can use")),
        (_, true) => None,
        (_, false) => Some(format!(
            "no usable port for {}; {library} selects NICs itself there (`bedplate verify --check rdma`)",
            without.join(", ")
        )),
    }
}

/// Formats the variables as lines for a shell, each below its reason.
pub(crate) fn text(found: &Variables) -> String {
    let mut out = format!("# {}\n", found.library);
    for NicVariable { name, versions, source } in &found.known {
        let _ = writeln!(out, "# {name}: {versions} [{source}]");
    }
    let settings = |out: &mut String, set: &[Setting]| {
        for setting in set {
            let _ = write!(out, "# {}\n{}\n", one_line(&setting.why), nccl::export(setting));
        }
    };
    settings(&mut out, &found.host);
    if !found.gpus.is_empty() {
        let _ = write!(
            out,
            "# The process of each GPU sets only the lines of that GPU.\n# {}\n",
            found.numbering
        );
    }
    for gpu in &found.gpus {
        let _ = writeln!(out, "#\n# {} {}", gpu.id, gpu.gpu);
        settings(&mut out, &gpu.set);
        gpu.unused.iter().for_each(|text| out += &format!("# {}\n", one_line(text)));
    }
    out
}
