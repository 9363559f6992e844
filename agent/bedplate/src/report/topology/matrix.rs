//! Distance matrix: one row and one column per device, split into tables that fit the terminal.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::TopologyView;
use super::labels::{Heads, cell};
use crate::report::style::{HEAD, paint};
use bedplate_base::terminal::one_line;
use bedplate_facts::topology::Distance;
use bedplate_facts::topology::devices::{Device, DeviceClass};

/// Maximum length of a name in a column heading. A longer name is replaced by the device's number, and the key lists
/// it.
const LONGEST_HEAD: usize = 10;

/// A column: its heading, and one cell for each row.
pub(super) struct Column<'s> {
    pub head: String,
    pub cells: Vec<Cow<'s, str>>,
}

impl Column<'_> {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        cells.max(self.head.chars().count())
    }
}

/// Returns a function for the headings: a short, unique name, otherwise the device's number.
pub(super) fn heads(shown: &TopologyView) -> Box<Heads<'static>> {
    let mut seen = BTreeSet::new();
    let names = shown.devices.all().filter_map(|device| device.name.clone());
    let twice: BTreeSet<String> = names.filter(|name| !seen.insert(name.clone())).collect();
    Box::new(move |device| match &device.name {
        Some(name)
            if device.class != DeviceClass::Gpu
                && name.chars().count() <= LONGEST_HEAD
                && !name.contains(char::is_whitespace)
                && !twice.contains(name) =>
        {
            one_line(name)
        }
        _ => device.id.clone(),
    })
}

/// Formats the tables.
pub(super) fn text(shown: &TopologyView, rows: &[&Device], heads: &Heads, width: usize) -> String {
    let label = rows.iter().map(|row| heads(row).chars().count()).max().unwrap_or(0);
    let mut tables: Vec<Vec<Column>> = Vec::new();
    let mut room = 0;
    for group in groups(shown, rows, heads) {
        let needed = |columns: &[Column]| columns.iter().map(|c| c.width() + 2).sum::<usize>();
        let all = width.saturating_sub(label);
        // Columns that fit into one table stay together.
        if needed(&group) > room && needed(&group) <= all {
            room = 0;
        }
        for column in group {
            let own = column.width() + 2;
            match tables.last_mut().filter(|_| own <= room) {
                Some(table) => {
                    table.push(column);
                    room -= own;
                }
                None => {
                    room = all.saturating_sub(own);
                    tables.push(vec![column]);
                }
            }
        }
    }
    tables.iter().map(|table| format_table(table, rows, heads, label)).collect()
}

/// Returns all columns, for a table of any width.
pub(super) fn columns<'s>(
    shown: &'s TopologyView,
    rows: &[&Device],
    heads: &Heads,
) -> Vec<Column<'s>> {
    groups(shown, rows, heads).into_iter().flatten().collect()
}

/// Returns the columns in groups: GPUs, their locations, NICs, disks.
fn groups<'s>(shown: &'s TopologyView, rows: &[&Device], heads: &Heads) -> Vec<Vec<Column<'s>>> {
    let column = |device: &Device| Column {
        head: heads(device),
        cells: rows.iter().map(|row| Cow::Borrowed(between(shown, row, device))).collect(),
    };
    let devices = &shown.devices;
    let lists = [&devices.gpus, &devices.nics, &devices.nvmes];
    let mut groups: Vec<Vec<Column>> =
        lists.iter().map(|list| list.iter().map(column).collect()).collect();
    let node = |row: &&Device| {
        Cow::Owned(row.spot.node.map_or_else(|| "–".to_owned(), |node| node.to_string()))
    };
    let cpus = |row: &&Device| Cow::Owned(shown.cpus(row).map_or_else(|| "–".to_owned(), one_line));
    let place = vec![
        Column { head: "NUMA".to_owned(), cells: rows.iter().map(node).collect() },
        Column { head: "CPUs".to_owned(), cells: rows.iter().map(cpus).collect() },
    ];
    groups.insert(1, place);
    groups
}

fn between(shown: &TopologyView, row: &Device, column: &Device) -> &'static str {
    match row.address() == column.address() {
        true => "X",
        false => cell(shown.topology.between(&row.spot, &column.spot)),
    }
}

fn format_table(table: &[Column], rows: &[&Device], heads: &Heads, label: usize) -> String {
    let widths: Vec<usize> = table.iter().map(Column::width).collect();
    let line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
        let mut line = format!("{first:<label$}");
        for (width, cell) in widths.iter().zip(cells) {
            line += &format!("  {cell:<width$}");
        }
        line.trim_end().to_owned()
    };
    let head = line("", &mut table.iter().map(|column| column.head.as_str()));
    let mut out = format!("\n{}\n", paint(HEAD, &head));
    for (at, row) in rows.iter().enumerate() {
        let mut cells = table.iter().map(|column| column.cells.get(at).map_or("", |cell| cell));
        out += &format!("{}\n", line(&heads(row), &mut cells));
    }
    out
}

/// Returns the distances that occur in the matrix.
pub(super) fn occurring(shown: &TopologyView, rows: &[&Device]) -> BTreeSet<Distance> {
    let mut found = BTreeSet::new();
    for row in rows {
        let others = shown.devices.all().filter(|other| other.address() != row.address());
        found.extend(others.map(|other| shown.topology.between(&row.spot, &other.spot)));
    }
    found
}
