//! The matrix that `nvidia-smi topo -m` prints (handbook §8.2). Pure.

use super::ImportError;

/// Columns, rows and lines of a legend that are taken.
const MOST: usize = 512;

/// The matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Headings of the columns that are devices, in order: `GPU0`, `NIC0`, in old versions `mlx5_0`.
    pub columns: Vec<String>,
    /// Rows: the device, its cells (one for each of `columns`), CPU affinity, NUMA affinity.
    pub rows: Vec<Row>,
    /// `NIC0: mlx5_0`.
    pub legend: Vec<(String, String)>,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The device.
    pub device: String,
    /// A cell for each column.
    pub cells: Vec<String>,
    /// `CPU Affinity`, where it has one.
    pub cpus: Option<String>,
    /// `NUMA Affinity`, where it has one.
    pub node: Option<String>,
}

/// Reads it: a line of headings that begins with `GPU0`, rows until an empty line, and further down the names of NICs.
///
/// # Errors
/// There is no such line, or more than a machine has.
pub fn parse(text: &str) -> Result<Matrix, ImportError> {
    let text = anstream::adapter::strip_str(text).to_string();
    let mut lines = text.lines().map(fields);
    let heads = lines
        .find(|heads| heads.first().is_some_and(|head| head == "GPU0"))
        .ok_or_else(|| {
            ImportError(
                "it is neither XML nor the matrix of `nvidia-smi topo -m`: no line starts with columns GPU0, GPU1 …"
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
        let why = "it has the head of a matrix of `nvidia-smi topo -m`, and no row: it was cut off";
        return Err(ImportError(why.to_owned()));
    }
    let names = lines.filter_map(|line| {
        let (nic, name) = line.first()?.split_once(": ")?;
        is_numbered(nic, "NIC").then(|| (nic.to_owned(), name.trim().to_owned()))
    });
    matrix.legend = names.take(MOST).collect();
    Ok(matrix)
}

/// Whether a device of the matrix is one of that kind: `GPU0`, `NIC3`.
pub(crate) fn is_numbered(device: &str, kind: &str) -> bool {
    device.strip_prefix(kind).is_some_and(|number| number.parse::<u16>().is_ok())
}

/// Cells stand between tabs; where these were lost in copying, between two blanks or more.
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
