//! The tables of `inspect`: GPUs, NICs, the ports above them, and a count of the rest.

use std::collections::BTreeMap;

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, Width, presets};

use super::format::{NONE, UNKNOWN, class, clean, ids, link, node, reading, unread, wrapped};
use crate::report::names;
use crate::report::style::{HEAD, WARN, paint};
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_base::{Reading, counted};
use bedplate_facts::Facts;
use bedplate_facts::names::Names;
use bedplate_facts::pci::{Acs, Function, PciTree};
use bedplate_host::HostKind;

/// All tables, or why there are none. Cells are wrapped rather than going beyond `width` columns.
pub(super) fn sections(facts: &Facts, names: &Names, width: u16) -> String {
    match &facts.pci {
        Reading::Known(tree) => {
            gpus(tree, names, width)
                + &nics(tree, names, width)
                + &ports(tree, width)
                + &other_functions(tree)
        }
        Reading::Absent | Reading::Unknown(_) if facts.host == HostKind::Image => {
            format!("\n{}\n", paint(WARN, "An image has no PCI devices: look at the machine."))
        }
        Reading::Absent => format!("\n{}\n", paint(WARN, "This host has no PCI.")),
        Reading::Unknown(why) => {
            format!("\n{}\n", paint(WARN, &format!("PCI functions: {}.", unread(why))))
        }
    }
}

/// A titled table.
pub(super) fn section(title: &str, header: &[&str], rows: Vec<Vec<String>>, width: u16) -> String {
    // An address or a driver in two halves cannot be read: no column is narrower than its longest word.
    let longest = |(at, title): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        let words = cells.chain([*title]).flat_map(|cell| cell.split(' '));
        // A blank on each side.
        let columns = words.map(|word| word.chars().count()).max().unwrap_or(0).saturating_add(2);
        ColumnConstraint::LowerBoundary(Width::Fixed(u16::try_from(columns).unwrap_or(u16::MAX)))
    };
    let constraints: Vec<ColumnConstraint> = header.iter().enumerate().map(longest).collect();
    let mut table = Table::new();
    // A rule below the header is enough: more would double the length.
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(header.to_vec());
    table.add_rows(rows);
    table.set_constraints(constraints);
    format!("\n{title}\n{}\n", table.trim_fmt())
}

/// Functions that exist in hardware and that `wanted` picks, in address order.
fn physical<'a>(
    tree: &'a PciTree,
    wanted: impl Fn(&Function) -> bool + 'a,
) -> impl Iterator<Item = &'a Function> {
    tree.functions.values().filter(move |function| !function.is_vf() && wanted(function))
}

/// Those that answer.
fn answering(tree: &PciTree, wanted: fn(&Function) -> bool) -> impl Iterator<Item = &Function> {
    physical(tree, wanted).filter(|function| !function.is_dead())
}

/// `7 GPUs, and 1 that does not answer`.
fn count_answering(tree: &PciTree, wanted: fn(&Function) -> bool, what: &str) -> String {
    let answering = counted(answering(tree, wanted).count(), what);
    match physical(tree, wanted).filter(|function| function.is_dead()).count() {
        0 => answering,
        1 => format!("{answering}, and 1 that does not answer"),
        dead => format!("{answering}, and {dead} that do not answer"),
    }
}

/// `8 GPUs`, and below it their names, where the host knows them.
fn titled<'a>(
    title: String,
    names: &Names,
    functions: impl Iterator<Item = &'a Function>,
) -> String {
    let mut lines = vec![paint(HEAD, &title)];
    lines.extend(names::models(names, functions).into_iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

fn gpus(tree: &PciTree, names: &Names, width: u16) -> String {
    let rows: Vec<Vec<String>> = physical(tree, Function::is_gpu)
        .map(|gpu| {
            vec![
                gpu.address.to_string(),
                format!("{} {}", ids(gpu), class(gpu)),
                node(gpu),
                link(gpu),
                driver(gpu),
                reading(&gpu.iommu_group, u32::to_string),
                above(tree, gpu),
            ]
        })
        .collect();
    if rows.is_empty() {
        let unread = tree.unread().len();
        let said = match unread {
            0 => "No GPU: no function of this host is a GPU or accelerator.".to_owned(),
            _ => format!(
                "No GPU among the functions that could be read; {} could not.",
                counted(unread, "other")
            ),
        };
        return format!("\n{}\n", paint(WARN, &said));
    }
    let title = titled(
        count_answering(tree, Function::is_gpu, "GPU"),
        names,
        answering(tree, Function::is_gpu),
    );
    section(
        &title,
        &["GPU", "what", "NUMA", "link (its best)", "driver", "group", "port above, its ACS"],
        rows,
        width,
    )
}

fn nics(tree: &PciTree, names: &Names, width: u16) -> String {
    let rows: Vec<Vec<String>> = physical(tree, Function::is_nic)
        .map(|nic| {
            vec![
                nic.address.to_string(),
                format!("{} {}", ids(nic), class(nic)),
                node(nic),
                link(nic),
                driver(nic),
                listed(&nic.net),
                listed(&nic.infiniband),
                virtual_functions(nic),
            ]
        })
        .collect();
    if rows.is_empty() {
        return format!(
            "\n{}\n",
            paint(WARN, "No NIC: no function of this host is a network controller.")
        );
    }
    let title = titled(
        count_answering(tree, Function::is_nic, "NIC"),
        names,
        answering(tree, Function::is_nic),
    );
    section(
        &title,
        &["NIC", "what", "NUMA", "link (its best)", "driver", "net", "rdma", "VFs"],
        rows,
        width,
    )
}

/// Bridges with a GPU or NIC below; the others are only counted.
fn ports(tree: &PciTree, width: u16) -> String {
    let below = below(tree);
    let bridges = physical(tree, Function::is_bridge).count();
    let rows: Vec<Vec<String>> = below
        .iter()
        .filter_map(|(address, below)| Some((tree.get(*address)?, below)))
        .map(|(port, below)| {
            vec![
                port.address.to_string(),
                class(port),
                ids(port),
                node(port),
                acs_able(port),
                acs_on(port),
                below.to_string(),
            ]
        })
        .collect();
    let rest = bridges.saturating_sub(rows.len());
    let mut out = String::new();
    if !rows.is_empty() {
        let header = ["port", "type", "what", "NUMA", "ACS able", "ACS on", "below"];
        let title = paint(HEAD, "Ports above GPUs and NICs");
        out += &section(&title, &header, rows, width);
    }
    if rest > 0 {
        out += &format!(
            "{} without a GPU or NIC below: see bedplate inspect --tree\n",
            counted(rest, "bridge")
        );
    }
    out
}

/// What hangs below a port.
#[derive(Default)]
struct DownstreamFunctions {
    gpus: usize,
    nics: usize,
}

impl std::fmt::Display for DownstreamFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [(self.gpus, "GPU"), (self.nics, "NIC")];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| counted(*n, word)).collect();
        f.write_str(&parts.join(", "))
    }
}

fn below(tree: &PciTree) -> BTreeMap<PciAddress, DownstreamFunctions> {
    let mut ports: BTreeMap<PciAddress, DownstreamFunctions> = BTreeMap::new();
    for function in physical(tree, |function| function.is_gpu() || function.is_nic()) {
        for port in tree.path_up(function.address) {
            let below = ports.entry(port).or_default();
            if function.is_gpu() {
                below.gpus += 1;
            } else {
                below.nics += 1;
            }
        }
    }
    ports
}

/// What is neither GPU, NIC nor bridge, by class, and the VFs.
fn other_functions(tree: &PciTree) -> String {
    let listed =
        |function: &Function| function.is_gpu() || function.is_nic() || function.is_bridge();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for function in physical(tree, move |function| !listed(function)) {
        *kinds.entry(class(function)).or_default() += 1;
    }
    let mut parts: Vec<String> =
        kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let vfs = tree.functions.values().filter(|function| function.is_vf()).count();
    if vfs > 0 {
        parts.push(counted(vfs, "VF"));
    }
    let total = counted(tree.functions.len(), "PCI function");
    match parts.is_empty() {
        true => format!("\n{total} in all.\n"),
        false => {
            let line = format!("{total} in all; besides those above: {}.", parts.join(", "));
            format!("\n{}\n", wrapped(&line))
        }
    }
}

fn driver(function: &Function) -> String {
    function.driver.as_deref().map_or_else(|| NONE.to_owned(), clean)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { NONE.to_owned() } else { clean(&names.join(" ")) }
}

/// `enabled/total`.
fn virtual_functions(function: &Function) -> String {
    match &function.sriov {
        Reading::Known(pf) => {
            format!(
                "{}/{}",
                reading(&pf.enabled, u16::to_string),
                reading(&pf.total, u16::to_string)
            )
        }
        Reading::Absent => NONE.to_owned(),
        Reading::Unknown(_) => UNKNOWN.to_owned(),
    }
}

/// The port directly above, and which ACS bits it has switched on.
fn above(tree: &PciTree, function: &Function) -> String {
    match function.parent {
        None => "none (root bus)".to_owned(),
        Some(parent) => match tree.get(parent) {
            Some(port) => format!("{parent} {}", acs_on(port)),
            None => format!("{parent} {UNKNOWN}"),
        },
    }
}

fn acs_able(port: &Function) -> String {
    acs(port, |acs| acs.capable)
}

/// `SV RR CR UF`; `off` where the port could and does not; `no ACS` where it cannot.
fn acs_on(port: &Function) -> String {
    acs(port, |acs| acs.control)
}

fn acs(port: &Function, side: impl Fn(&Acs) -> AcsBits) -> String {
    match &port.acs {
        Reading::Known(acs) if side(acs).is_empty() => "off".to_owned(),
        Reading::Known(acs) => side(acs).to_string(),
        Reading::Absent => "no ACS".to_owned(),
        Reading::Unknown(_) => UNKNOWN.to_owned(),
    }
}
