//! Topology file for NCCL (handbook §8.7): the output of `bedplate topology --nccl-xml`, limited to parts that stay stable
//! while ports go down and VFs change.

use super::NAME;
use super::conf::Variable;
use crate::file_heading::{heading, is_heading};
use crate::kind::{Context, TargetFile, removed, some_of};
use crate::plan::{Item, KindPlan, Rationale};
use bedplate_base::Reading;
use bedplate_facts::topology::Topology;
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::{Depth, placement, scan};
use bedplate_host::HostKind;
use bedplate_nccl::topology_xml::{self, Detail, Machine};

/// Path of the file. Not below /var/run/nvidia-topologyd, which NCCL reads by default and NVIDIA's daemon writes.
pub(crate) const PATH: &str = "/etc/nccl-topology.xml";

/// Variable that names the file.
pub(crate) const VARIABLE: &str = "NCCL_TOPO_FILE";

/// Returns the variable with the file's path.
pub(crate) fn variable() -> Variable {
    let why = vec![Rationale::new("the profile requests a topology file", "nccl.topology_file")];
    Variable { name: VARIABLE.to_owned(), value: PATH.to_owned(), why }
}

/// Compares the file. Returns whether it exists after the plan; only then may the variable name it.
pub fn plan(context: &Context, asked: bool, out: &mut KindPlan) -> bool {
    let Some(file) = TargetFile::read(context, NAME, PATH, asked, out) else { return false };
    let is_there = file.before.is_some();
    let text = file.before.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    let is_ours = text.is_some_and(is_ours);
    if !asked {
        if is_ours {
            let item = removed("topology", "written by bedplate");
            out.changes.push(file.change(None::<String>, vec![item]));
        }
        return false;
    }
    if is_there && !is_ours {
        refuse(
            out,
            "not written by bedplate".to_owned(),
            "move the file away, or set it in the profile: [nccl] set = { NCCL_TOPO_FILE = \"/etc/nccl-topology.xml\" }",
        );
        return false;
    }
    let Some(body) = body(context, out) else { return is_ours };
    if text.is_some_and(|text| without_heading(text) == body) {
        let state = "matches this machine".to_owned();
        out.unchanged.push(NAME.up_to_date(PATH.to_owned(), state));
        return true;
    }
    let why =
        Rationale::new("NCCL reads the machine's topology from this file", "nccl.topology_file");
    let (from, to) = match is_there {
        true => (Some("outdated"), "matches this machine"),
        false => (None, "locations of this machine's GPUs, NICs and switches"),
    };
    let after = format!("{}\n{body}", xml_heading(&context.profile.name));
    let item = Item::new("topology", from, Some(to), &[why]);
    out.changes.push(file.change(Some(after), vec![item]));
    true
}

/// Returns the file without its first line, or `None` with a reason in `out`.
fn body(context: &Context, out: &mut KindPlan) -> Option<String> {
    let subject = || PATH.to_owned();
    if context.facts.host == HostKind::Image {
        let text = "depends on the machine: `bedplate apply` writes it at the first boot";
        out.notes.push(NAME.note(subject(), text.to_owned()));
        return None;
    }
    let mut unknown = |reason: String| {
        out.unknowns.push(NAME.unknown(subject(), reason));
    };
    // Planning does not read links, which this file needs.
    let tree = match scan::scan(context.reader, Depth::Thorough) {
        Reading::Known(tree) => tree,
        Reading::Absent => {
            unknown("this host shows no PCI functions".to_owned());
            return None;
        }
        Reading::Unknown(why) => {
            unknown(why.to_string());
            return None;
        }
    };
    let unread = tree.unread();
    if !unread.is_empty() {
        let named = some_of(unread.iter().map(|gap| gap.address.to_string()), 4, "PCI functions");
        unknown(format!("{named} could not be read; may be a GPU or a NIC"));
        return None;
    }
    if let Some(why) = topology_xml::unknown_cpu(context.facts) {
        unknown(why);
        return None;
    }
    let placement = placement::observe(context.reader, &tree);
    let topology = Topology::new(&tree);
    let devices = Devices::find(&topology, &placement, false);
    if devices.gpus.is_empty() {
        refuse(
            out,
            "no GPU on this host".to_owned(),
            "check `bedplate topology`, or remove `topology_file` from [nccl]",
        );
        return None;
    }
    let (topology, devices, placement) = (&topology, &devices, &placement);
    let machine = Machine { facts: context.facts, topology, devices, placement };
    Some(topology_xml::xml(machine, Detail::Places))
}

/// Whether bedplate wrote the file.
pub(crate) fn is_ours(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("<!--").is_some_and(|rest| is_heading(&format!("#{rest}")))
}

/// Returns the heading as an XML comment, which must not contain `--`.
fn xml_heading(profile: &str) -> String {
    let mut text = heading(profile).trim_end().to_owned();
    while text.contains("--") {
        text = text.replace("--", "- -");
    }
    format!("<!-- {text} -->")
}

fn without_heading(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, body)| body)
}

fn refuse(out: &mut KindPlan, reason: String, fix: &str) {
    let (subject, fix) = (PATH.to_owned(), fix.to_owned());
    out.blockers.push(NAME.blocker(subject, reason, fix));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heading_is_one_comment_for_any_profile_name() {
        for name in ["h100--prod", "a--->b", "-->", "x-"] {
            let text = xml_heading(name);
            let inner = text.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
            assert!(inner.is_some_and(|inner| !inner.contains("--")), "{text}");
            assert!(is_ours(&text));
        }
    }
}
