//! Differences between an imported topology and sysfs, as text.

use super::TopologyView;
use crate::report::style::{BAD, GOOD, HEAD, WARN, paint};
use crate::report::wrap;
use bedplate_base::some_of;
use bedplate_base::terminal::brief;
use bedplate_nccl::Library;
use bedplate_nccl::topology_file::ImportedTopology;
use bedplate_nccl::topology_file::compare::compare;
use bedplate_nccl::topology_file::comparison_result::{ComparisonResult, Finding, HostValue};

/// Differences to list before the rest is counted.
const NAMED: usize = 40;
/// GPUs and nets to list before the rest is counted.
const FEW: usize = 4;
/// Maximum number of characters shown of text from the file.
const LONGEST: usize = 120;

/// Compares the file with the host and formats the result in `width` columns. Returns `false` if they differ.
pub fn imported(
    shown: &TopologyView,
    imported: &ImportedTopology,
    file: &str,
    width: usize,
) -> (String, bool) {
    let here = HostValue {
        topology: &shown.topology,
        devices: &shown.devices,
        placement: shown.placement,
        library: Library::of_host(shown.facts),
    };
    let ComparisonResult { findings, agreeing, unknown, added, unnamed } = compare(imported, here);
    let what = match imported {
        ImportedTopology::Nccl(_) => "NCCL topology",
        ImportedTopology::Smi(_) => "output of nvidia-smi topo -m",
    };
    let mut out = format!("{}\n", paint(HEAD, &format!("{}: {what}", brief(file, LONGEST))));
    for Finding { about, file, here } in findings.iter().take(NAMED) {
        let said = [about, file, here].map(|text| brief(text, LONGEST));
        let [about, file, here] = said;
        out += &format!("  {} {about}: file {file}; host {here}\n", paint(BAD, "✗"));
    }
    if findings.len() > NAMED {
        out += &format!("  … and {} more\n", findings.len() - NAMED);
    }
    let agrees = findings.is_empty();
    out += &match agrees {
        true if unnamed > 0 => {
            format!("  {} the other devices agree with sysfs\n", paint(GOOD, "✓"))
        }
        true => format!("  {} {}\n", paint(GOOD, "✓"), "the file agrees with sysfs"),
        false => String::new(),
    };
    out += &match unnamed {
        0 => String::new(),
        _ => format!("  {} {}\n", paint(WARN, "!"), nameless(unnamed)),
    };
    if !added.is_empty() {
        let named = some_of(added.into_iter(), FEW, "GPUs and nets");
        let text = format!("missing in the file, added by the library from sysfs: {named}");
        out += &format!("  {} {text}\n", paint(WARN, "!"));
    }
    let beside = match (unknown, imported) {
        (0, _) => String::new(),
        (_, ImportedTopology::Nccl(_)) => format!(
            "; {unknown} cannot be compared with sysfs (bridges that sysfs does not show, or nodes)"
        ),
        _ => format!("; {unknown} cannot be compared with sysfs (NVLink, or unknown here)"),
    };
    out += &format!("  {agreeing} statements agree, {} disagree{beside}\n", findings.len());
    if let (ImportedTopology::Smi(_), false) = (imported, agrees) {
        out +=
            "  GPUs are compared in PCI order; if nvidia-smi used another order, many disagree.\n";
    }
    (wrap::wrap(&out, width), agrees)
}

/// Formats the note about NICs that the file does not name.
fn nameless(count: usize) -> String {
    let (nics, them) = match count {
        1 => ("1 NIC is".to_owned(), "it"),
        _ => (format!("{count} NICs are"), "them"),
    };
    format!(
        "{nics} not compared: no legend in the file names {them}. `nvidia-smi topo -m` prints one below the matrix: \
         \"NIC0: mlx5_0\" …"
    )
}
