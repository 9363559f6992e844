//! Tables of `inspect`: GPUs, NICs, the ports above them, and a count of the rest.

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

/// Formats all tables, or the reason why there are none. Cells are wrapped to stay within `width` columns.
pub(super) fn sections(facts: &Facts, names: &Names, width: u16) -> String {
    match &facts.pci {
        Reading::Known(tree) => {
            gpus(tree, names, width)
                + &nics(tree, names, width)
                + &ports(tree, width)
                + &other_functions(tree)
        }
        Reading::Absent | Reading::Unknown(_) if facts.host == HostKind::Image => {
            format!("\n{}\n", paint(WARN, "An image has no PCI devices; inspect the machine."))
        }
        Reading::Absent => format!("\n{}\n", paint(WARN, "This host has no PCI bus.")),
        Reading::Unknown(why) => {
            format!("\n{}\n", paint(WARN, &format!("PCI functions: {}.", unread(why))))
        }
    }
}

/// Formats a titled table.
pub(super) fn section(title: &str, header: &[&str], rows: Vec<Vec<String>>, width: u16) -> String {
    // Split addresses and drivers are unreadable, so no column is narrower than its longest word.
    let longest = |(at, title): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        let words = cells.chain([*title]).flat_map(|cell| cell.split(' '));
        // One blank on each side.
        let columns = words.map(|word| word.chars().count()).max().unwrap_or(0).saturating_add(2);
        ColumnConstraint::LowerBoundary(Width::Fixed(u16::try_from(columns).unwrap_or(u16::MAX)))
    };
    let constraints: Vec<ColumnConstraint> = header.iter().enumerate().map(longest).collect();
    let mut table = Table::new();
    // Only a rule below the header; more rules would double the length.
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(header.to_vec());
    table.add_rows(rows);
    table.set_constraints(constraints);
    format!("\n{title}\n{}\n", table.trim_fmt())
}

/// Returns hardware functions that `wanted` selects, in address order.
fn physical<'a>(
    tree: &'a PciTree,
    wanted: impl Fn(&Function) -> bool + 'a,
) -> impl Iterator<Item = &'a Function> {
    tree.functions.values().filter(move |function| !function.is_vf() && wanted(function))
}

/// Returns the selected functions that respond.
fn answering(tree: &PciTree, wanted: fn(&Function) -> bool) -> impl Iterator<Item = &Function> {
    physical(tree, wanted).filter(|function| !function.is_dead())
}

/// Formats the counts: `7 GPUs, and 1 not responding`.
fn count_answering(tree: &PciTree, wanted: fn(&Function) -> bool, what: &str) -> String {
    let answering = counted(answering(tree, wanted).count(), what);
    match physical(tree, wanted).filter(|function| function.is_dead()).count() {
        0 => answering,
        1 => format!("{answering}, and 1 not responding"),
        dead => format!("{answering}, and {dead} not responding"),
    }
}

/// Formats a table of one type of functions: the common columns, then those of `own` under `own_header`.
fn devices<const N: usize>(
    (tree, names, width): (&PciTree, &Names, u16),
    (kind, wanted): (&str, fn(&Function) -> bool),
    own_header: [&str; N],
    own: fn(&PciTree, &Function) -> [String; N],
    none: impl FnOnce() -> String,
) -> String {
    let row = |one: &Function| {
        let what = format!("{} {}", ids(one), class(one));
        let driver = one.driver.as_deref().map_or_else(|| NONE.to_owned(), clean);
        let row = vec![one.address.to_string(), what, node(one), link(one), driver];
        row.into_iter().chain(own(tree, one)).collect()
    };
    let rows: Vec<Vec<String>> = physical(tree, wanted).map(row).collect();
    if rows.is_empty() {
        return format!("\n{}\n", paint(WARN, &none()));
    }
    // Device names follow the count, if the host has them.
    let mut title = vec![paint(HEAD, &count_answering(tree, wanted, kind))];
    let models = names::models(names, answering(tree, wanted)).into_iter();
    title.extend(models.map(|line| format!("  {line}")));
    let header = [kind, "what", "NUMA", "link (its best)", "driver"];
    let header: Vec<&str> = header.into_iter().chain(own_header).collect();
    section(&title.join("\n"), &header, rows, width)
}

fn gpus(tree: &PciTree, names: &Names, width: u16) -> String {
    let own = |tree: &PciTree, gpu: &Function| {
        [reading(&gpu.iommu_group, u32::to_string), above(tree, gpu)]
    };
    let none = || match tree.unread().len() {
        0 => "No GPU: no function of this host is a GPU or accelerator.".to_owned(),
        unread => {
            let unread = counted(unread, "other");
            format!("No GPU among the readable functions; {unread} could not be read.")
        }
    };
    let header = ["group", "port above, its ACS"];
    devices((tree, names, width), ("GPU", Function::is_gpu), header, own, none)
}

fn nics(tree: &PciTree, names: &Names, width: u16) -> String {
    let own = |_: &PciTree, nic: &Function| {
        [listed(&nic.net), listed(&nic.infiniband), virtual_functions(nic)]
    };
    let none = || "No NIC: no function of this host is a network controller.".to_owned();
    let header = ["net", "rdma", "VFs"];
    devices((tree, names, width), ("NIC", Function::is_nic), header, own, none)
}

/// Formats bridges with a GPU or NIC below; the rest is only counted.
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
                acs(port, |acs| acs.capable),
                acs_on(port),
                counts(*below),
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
            "{} without a GPU or NIC below; see `bedplate inspect --tree`\n",
            counted(rest, "bridge")
        );
    }
    out
}

/// Returns the ports with the number of GPUs and NICs below each.
fn below(tree: &PciTree) -> BTreeMap<PciAddress, [usize; 2]> {
    let mut ports: BTreeMap<PciAddress, [usize; 2]> = BTreeMap::new();
    for function in physical(tree, |function| function.is_gpu() || function.is_nic()) {
        for port in tree.path_up(function.address) {
            let [gpus, nics] = ports.entry(port).or_default();
            *(if function.is_gpu() { gpus } else { nics }) += 1;
        }
    }
    ports
}

/// Formats `2 GPUs, 1 NIC`.
fn counts([gpus, nics]: [usize; 2]) -> String {
    let parts = [(gpus, "GPU"), (nics, "NIC")].into_iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, word)| counted(count, word)).collect::<Vec<_>>().join(", ")
}

/// Counts the remaining functions by class, and the VFs.
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
        true => format!("\n{total} in total.\n"),
        false => {
            let line = format!("{total} in total; not listed above: {}.", parts.join(", "));
            format!("\n{}\n", wrapped(&line))
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { NONE.to_owned() } else { clean(&names.join(" ")) }
}

/// Formats `enabled/total`.
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

/// Formats the port directly above, with its enabled ACS bits.
fn above(tree: &PciTree, function: &Function) -> String {
    match function.parent {
        None => "none (root bus)".to_owned(),
        Some(parent) => match tree.get(parent) {
            Some(port) => format!("{parent} {}", acs_on(port)),
            None => format!("{parent} {UNKNOWN}"),
        },
    }
}

/// Formats the enabled ACS bits (`SV RR CR UF`), `off` if no bit is enabled, or `no ACS` if the port lacks ACS.
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
