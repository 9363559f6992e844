//! Output of `bedplate nccl env`: the variables in the format of their file, with reasons as comments.

use std::fmt::Write as _;

use serde::Serialize;

use bedplate_base::terminal::one_line;
use bedplate_nccl::env::{Advice, Setting};
use bedplate_nccl::{Library, Version, variables};

/// Output format of the variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `/etc/nccl.conf`: `NAME=value`, without quotes or blanks; a `#` starts a comment only in the first column
    /// (handbook §8.6).
    Conf,
    /// Commands for a shell.
    Shell,
    /// Entries of a container's `env` list.
    Kubernetes,
    /// Lines for a TaskProlog script, whose output Slurm sets in the task.
    Slurm,
}

/// Formats the notes as comments, and the variables, each below its reason. `verbose` adds omitted variables with
/// reasons.
pub fn text(advice: &Advice, form: Form, verbose: bool) -> String {
    let mut out = format!("# {} {}\n", advice.library, advice.nccl_version);
    for note in &advice.notes {
        let _ = writeln!(out, "# warning: {}", one_line(note));
    }
    for setting in &advice.set {
        let (name, value) = (setting.name, one_line(&setting.value));
        let line = match form {
            Form::Conf => format!("{name}={value}"),
            Form::Shell => export(setting),
            // A JSON string is also a YAML string.
            Form::Kubernetes => {
                format!("- name: {name}\n  value: {}", serde_json::Value::from(value))
            }
            Form::Slurm => format!("echo export {}", quoted(&format!("{name}={value}"))),
        };
        let _ = write!(out, "# {}\n{line}\n", one_line(&setting.why));
    }
    if verbose {
        out += "#\n# Not set";
        if let Some(version) = &advice.known_to {
            let _ = write!(out, " (as of {} {version}; later versions may differ)", advice.library);
        }
        out += ":\n";
        for row in &advice.omitted {
            let default =
                row.default.map(|value| format!(" Default: {value}.")).unwrap_or_default();
            let _ = writeln!(out, "# {}={}: {}.{default}", row.name, row.advice, row.why);
        }
    }
    out
}

/// Returns the shell command that sets a variable.
pub fn export(setting: &Setting) -> String {
    format!("export {}={}", setting.name, quoted(&one_line(&setting.value)))
}

/// Quotes a value for a shell. Device names need no quoting, but sysfs does not guarantee that.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Output of `bedplate nccl env --json`.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate nccl env"))]
pub(crate) struct Document<'a> {
    /// Version of this format, 1.
    bedplate_nccl_env: u32,
    /// Recommended NCCL settings.
    #[serde(flatten)]
    advice: &'a Advice,
}

/// Returns the output for programs.
pub fn document(advice: &Advice) -> impl Serialize + use<'_> {
    Document { bedplate_nccl_env: 2, advice }
}

/// JSON Schema (draft 2020-12) of [`document`].
pub const SCHEMA: &str = include_str!("../../schemas/nccl-env.json");

/// Generates `docs/nccl.md`.
pub fn markdown() -> String {
    let mut out = "# NCCL settings\n\n\
         Set very little: NCCL inspects the machine itself, and manual overrides tend to outlive the hardware and version they were \
         meant for.\n\
         `bedplate nccl env` prints the variables that a host needs, each with its reason; `-v` also lists commonly recommended variables \
         that the host does not need, with reasons.\n\n\
         ```console\n\
         $ bedplate nccl env                                    # lines for /etc/nccl.conf; [nccl] in the profile keeps them there\n\
         $ eval \"$(bedplate nccl env --format sh)\"              # in a job script, on each node\n\
         $ bedplate nccl env --format k8s                       # for the env list of a container\n\
         $ bedplate nccl env --format slurm                     # for a TaskProlog script\n\
         $ bedplate nccl env --nccl-version 2.18 --snapshot node.bp -v\n\
         $ bedplate nccl env --library rccl                     # AMD: lines for /etc/rccl.conf\n\
         $ bedplate nccl env --library oneccl                   # Intel\n\
         ```\n\n\
         `NCCL_IB_HCA` names the ACTIVE ports near GPUs (PIX or PXB, or through a Data Direct function; on Grace and its successors, from 2.29 on, \
         also the same NUMA node if no NIC is nearer), in the exact form with `=` (from 2.5 on; 2.4 supports only prefixes, and the output reports \
         which other ports they match). If no port is near, it names all ACTIVE ports and reports that.\n\n\
         The list has one link layer, because NCCL cannot connect InfiniBand to \
         Ethernet: the one with more bandwidth (number of NICs × rate), then the nearer one; if both are equal, no list is printed. The \
         reason names the ports that are left out: farther from GPUs (BlueField, front end), or of the other layer. If the state of a port \
         is unknown, the output reports that, and has no list if the port could decide the layer. Warnings are also comments of the output.\n\n\
         Before 2.21, RoCE \
         needs `NCCL_IB_GID_INDEX`; it is printed if all these ports have their RoCE v2 entry at one index. The list applies to one \
         host: hosts of one model have the same list, others may not.\n\n\
         VMs usually show GPUs and NICs without the switches between them. There, `nccl env` names the topology file of the cloud image \
         (`NCCL_TOPO_FILE`) if one names the GPUs of the VM, and otherwise where to get one.\n\n\
         `--library` defaults to the library of the host's GPU vendor. Not tested with any of them: no machine with GPUs was available.\n\n\
         ## Variables\n\n"
        .to_owned();
    out += &intro(
        Library::Nccl,
        "Versions and defaults were read from the source of each release; other sources are sections of the handbook.",
    );
    table(&mut out, Library::Nccl);
    out += "\n## RCCL\n\n";
    out += &intro(
        Library::Rccl,
        "RCCL versions are the versions of NCCL that it follows (`RCCL 2.21.5 for ROCm 6.3`). It reads NCCL's variable names, including \
         `NCCL_IB_HCA` with `=`. Up to 2.21, whose source was read, it has the variables and defaults above, except for those below; `NCCL_CUMEM_ENABLE`, `NCCL_MNNVL_ENABLE` and \
         `NCCL_NVLS_ENABLE` have no effect. Defaults of later versions are unknown, unless the table lists them. It reads /etc/rccl.conf from 2.12 (ROCm 5.3) on, \
         /etc/nccl.conf before.",
    );
    table(&mut out, Library::Rccl);
    out += "\n## oneCCL\n\n";
    out += &intro(
        Library::OneCcl,
        "Its list of NICs is `CCL_MNIC_NAME`: prefixes of device names, without an exact form and without \
         ports. It is read only with `CCL_ATL_TRANSPORT=ofi`. oneCCL has no variables for the GID index, the traffic class or timeouts, \
         and reads no file.",
    );
    table(&mut out, Library::OneCcl);
    out
}

fn intro(library: Library, text: &str) -> String {
    let (oldest, newest) = library.versions();
    format!("Versions {oldest} to {newest}. {text}\n\n")
}

fn table(out: &mut String, library: Library) {
    *out += "| variable | versions | default | decides | common advice, and why it is not needed | source |\n\
             |---|---|---|---|---|---|\n";
    for row in variables::own(library) {
        let default = |(from, value): &(Version, &str)| format!("{value} (from {from})");
        let defaults: Vec<String> = row.defaults.iter().map(default).collect();
        let advice = row.advice.as_ref();
        let advice = advice.map(|advice| format!("`{}`: {}", advice.value, advice.why_not));
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            row.name,
            row.versions(),
            defaults.join("; "),
            row.decides,
            advice.unwrap_or_default(),
            row.source
        );
    }
}
