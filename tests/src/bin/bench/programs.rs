//! Programs to measure.

use std::path::Path;
use std::process::ExitStatus;

use crate::HUGE;
use crate::machine::Machine;

/// Number of bridges that the setpci loop reads on the huge machine: each setpci first scans the whole list of
/// functions.
const SAMPLE: usize = 20;

/// Baseline for comparisons.
pub const LSPCI: &str = "lspci -vvv";
pub const PLAN: &str = "bedplate plan";
pub const INSPECT: &str = "bedplate inspect --json";
pub const VERIFY: &str = "bedplate verify";
pub const TOPOLOGY: &str = "bedplate topology";

/// A program to measure.
pub struct Program {
    pub name: &'static str,
    pub argv: Vec<String>,
    /// Factor from the measured run to the complete work (1 = all of it).
    pub scale: f64,
    pub note: String,
    /// Whether it reads config space as whole files.
    pub whole_files: bool,
}

impl Program {
    /// Whether the exit status is a success; `verify` reports its findings as 4 and 5.
    pub fn accepts(&self, status: ExitStatus) -> bool {
        status.success() || self.name == VERIFY && matches!(status.code(), Some(4 | 5))
    }
}

/// Programs for one machine. `live`: the machine replaces the running one.
pub fn programs(bedplate: &Path, machine: &Machine, live: bool) -> Vec<Program> {
    let root = machine.root.display().to_string();
    let bedplate = bedplate.display().to_string();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let path = format!("sysfs.path={}", machine.pci());
    let whole = |name, words: &[&str], whole_files| Program {
        name,
        argv: owned(words),
        scale: 1.0,
        note: String::new(),
        whole_files,
    };
    let image = |name, words: &[&str]| {
        let words: Vec<&str> = [&[bedplate.as_str()], words, &["--cost", "--root", &root]].concat();
        whole(name, &words, true)
    };
    let mut programs =
        vec![whole(LSPCI, &["lspci", "-A", "linux-sysfs", "-O", &path, "-vvv"], false)];
    if live {
        let live = |name, words: &[&str]| {
            whole(name, &[&[bedplate.as_str()], words, &["--cost"]].concat(), false)
        };
        programs.extend([
            live(PLAN, &["plan", "--profile", "hgx-h100"]),
            live(INSPECT, &["inspect", "--json"]),
            live(VERIFY, &["verify"]),
            live(TOPOLOGY, &["topology"]),
            live("bedplate topology --json", &["topology", "--json"]),
        ]);
    }
    programs.extend([
        image("bedplate plan --root", &["plan", "--profile", "hgx-h100"]),
        image("bedplate inspect --json --root", &["inspect", "--json"]),
        setpci(machine),
    ]);
    programs
}

fn setpci(machine: &Machine) -> Program {
    let path = format!("sysfs.path={}", machine.pci());
    let all = machine.bridges.len();
    let (list, scale, note) = if machine.functions < HUGE {
        (
            format!("$({})", machine.list_bridges()),
            1.0,
            format!("lists the bridges with lspci, reads all {all}"),
        )
    } else {
        let sample: Vec<&str> = machine.bridges.iter().take(SAMPLE).map(String::as_str).collect();
        let read = sample.len();
        let note =
            format!("reads {read} of {all} bridges, numbers scaled up; listing them is left out");
        (sample.join(" "), all as f64 / read as f64, note)
    };
    // setpci fails on a bridge without ACS; loops in the field ignore that too.
    let script = format!(
        "for bridge in {list}; do \
         setpci -A linux-sysfs -O {path} -s $bridge ECAP_ACS+6.w 2>/dev/null; done; true"
    );
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    Program { name: "setpci loop", argv, scale, note, whole_files: false }
}
