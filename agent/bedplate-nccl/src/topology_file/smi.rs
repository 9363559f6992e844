//! Parser for the matrix of `nvidia-smi topo -m` (handbook §8.2). Pure.

use super::ImportError;

/// Maximum number of columns, rows and legend lines.
const MOST: usize = 512;

/// Parsed matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Headings of device columns, in order: `GPU0`, `NIC0`, in old versions `mlx5_0`.
    pub columns: Vec<String>,
    /// Rows, one per device.
    pub rows: Vec<Row>,
    /// Legend, as pairs: `NIC0: mlx5_0`.
    pub legend: Vec<(String, String)>,
}

/// A row of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Device of the row.
    pub device: String,
    /// One cell per column.
    pub cells: Vec<String>,
    /// `CPU Affinity`, if present.
    pub cpus: Option<String>,
    /// `NUMA Affinity`, if present.
    pub node: Option<String>,
}

/// Parses the matrix: a heading line that starts with `GPU0`, rows up to an empty line, and the names of NICs further
/// down.
///
/// # Errors
/// There is no heading or row, or more than a machine has.
pub fn parse(text: &str) -> Result<Matrix, ImportError> {
    let text = anstream::adapter::strip_str(text).to_string();
    let mut lines = text.lines().map(fields);
    let heads = lines
        .find(|heads| heads.first().is_some_and(|head| head == "GPU0"))
        .ok_or_else(|| {
            ImportError(
                "neither XML nor `nvidia-smi topo -m` output: no line starts with columns GPU0, GPU1 …"
                    .to_owned(),
            )
        })?;
    if heads.len() > MOST {
        return Err(ImportError::too_many(MOST, "columns"));
    }
    let is_device = |head: &String| !head.contains(' ');
    let devices = heads.iter().take_while(|head| is_device(head)).count();
    let place = |name: &str| heads.iter().position(|head| head == name);
    let (cpus, node) = (place("CPU Affinity"), place("NUMA Affinity"));
    let mut matrix =
        Matrix { columns: heads[..devices].to_vec(), rows: Vec::new(), legend: Vec::new() };
    for row in lines.by_ref().take_while(|row| !row.is_empty()) {
        if matrix.rows.len() == MOST {
            return Err(ImportError::too_many(MOST, "rows"));
        }
        let cell = |at: usize| row.get(at + 1).cloned();
        matrix.rows.push(Row {
            device: row[0].clone(),
            cells: (0..devices).map_while(cell).collect(),
            cpus: cpus.and_then(cell),
            node: node.and_then(cell),
        });
    }
    if matrix.rows.is_empty() {
        let why = "truncated `nvidia-smi topo -m` output: header without rows";
        return Err(ImportError(why.to_owned()));
    }
    let names = lines.filter_map(|line| {
        let (nic, name) = line.first()?.split_once(": ")?;
        is_numbered(nic, "NIC").then(|| (nic.to_owned(), name.trim().to_owned()))
    });
    matrix.legend = names.take(MOST).collect();
    Ok(matrix)
}

/// Whether a device of the matrix is of this kind: `GPU0`, `NIC3`.
pub(crate) fn is_numbered(device: &str, kind: &str) -> bool {
    device.strip_prefix(kind).is_some_and(|number| number.parse::<u16>().is_ok())
}

/// Splits a line at tabs. If copying lost the tabs, splits at two or more blanks.
fn fields(line: &str) -> Vec<String> {
    let cells: Vec<&str> = match line.contains('\t') {
        true => line.split('\t').collect(),
        false => line.split("  ").collect(),
    };
    cells
        .iter()
        .map(|cell| cell.trim())
        .filter(|cell| !cell.is_empty())
        .map(str::to_owned)
        .collect()
}
