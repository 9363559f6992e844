//! Where an imported topology and sysfs disagree, in words.

use super::Shown;
use crate::report::style::{BAD, GOOD, HEAD, paint};
use crate::report::wrap;
use crate::topology::import::Imported;
use crate::topology::import::compare::{Compared, Finding, Here, compare};
use crate::visible::brief;

/// Disagreements that are named; the rest is counted.
const NAMED: usize = 40;
/// Characters of the file's words that are shown.
const LONGEST: usize = 120;

/// Compares with the host, and says what came of it in `width` columns; `false`: they disagree.
pub fn imported(shown: &Shown, imported: &Imported, file: &str, width: usize) -> (String, bool) {
    let here =
        Here { topology: &shown.topology, devices: &shown.devices, placement: shown.placement };
    let Compared { findings, agreeing, unknown } = compare(imported, here);
    let what = match imported {
        Imported::Nccl(_) => "a topology of NCCL",
        Imported::Smi(_) => "a matrix of nvidia-smi topo -m",
    };
    let mut out = format!("{}\n", paint(HEAD, &format!("{}: {what}", brief(file, LONGEST))));
    for Finding { about, file, here } in findings.iter().take(NAMED) {
        let said = [about, file, here].map(|text| brief(text, LONGEST));
        let [about, file, here] = said;
        out += &format!("  {} {about}: in the file {file}; here {here}\n", paint(BAD, "✗"));
    }
    if findings.len() > NAMED {
        out += &format!("  … and {} more\n", findings.len() - NAMED);
    }
    let agrees = findings.is_empty();
    out += &match agrees {
        true => format!("  {} {}\n", paint(GOOD, "✓"), "it agrees with sysfs"),
        false => String::new(),
    };
    let beside = match unknown {
        0 => String::new(),
        _ => format!("; {unknown} cannot be compared with sysfs (NVLink, or not known here)"),
    };
    out += &format!("  {agreeing} of its statements agree, {} disagree{beside}\n", findings.len());
    if let (Imported::Smi(_), false) = (imported, agrees) {
        out += "  GPUs are compared in PCI order: under another order of nvidia-smi's, many disagree.\n";
    }
    (wrap::wrap(&out, width), agrees)
}
