//! Differences between an imported topology and sysfs. Pure.

use std::collections::BTreeMap;

use super::ImportedTopology;
use super::compare_nccl;
use super::comparison_result::{ComparisonResult, HostValue, affinity_of};
use super::smi::{self, Matrix, Row};
use bedplate_base::counted;
use bedplate_facts::topology::devices::Device;
use bedplate_facts::topology::{Distance, cpulist};

/// Compares an imported topology with this host.
pub fn compare(imported: &ImportedTopology, here: HostValue) -> ComparisonResult {
    let mut compared = ComparisonResult::default();
    match imported {
        ImportedTopology::Nccl(file) => compare_nccl::compare(file, here, &mut compared),
        ImportedTopology::Smi(matrix) => of_matrix(matrix, here, &mut compared),
    }
    compared
}

fn of_matrix(matrix: &Matrix, here: HostValue, compared: &mut ComparisonResult) {
    let is_gpu = |name: &&String| smi::is_numbered(name, "GPU");
    let gpus = (matrix.columns.iter().filter(is_gpu).count(), here.devices.gpus.len());
    let counts = (counted(gpus.0, "GPU"), counted(gpus.1, "GPU"));
    compared.check(gpus.0 == gpus.1, "GPUs", counts.0, counts.1);
    let legend: BTreeMap<&str, &str> =
        matrix.legend.iter().map(|(nic, name)| (nic.as_str(), name.as_str())).collect();
    let find = |column: &str| -> Option<&Device> {
        if let Some(number) = column.strip_prefix("GPU").and_then(|n| n.parse::<usize>().ok()) {
            return here.devices.gpus.get(number);
        }
        let name = legend.get(column).copied().unwrap_or(column);
        here.devices.nics.iter().find(|nic| nic.name.as_deref() == Some(name))
    };
    let devices: Vec<Option<&Device>> = matrix.columns.iter().map(|column| find(column)).collect();
    for (column, device) in matrix.columns.iter().zip(&devices) {
        let called = legend.get(column.as_str());
        if called.is_none() && device.is_none() && smi::is_numbered(column, "NIC") {
            compared.unnamed += 1;
            continue;
        }
        let called = called.map(|name| format!(" ({name})")).unwrap_or_default();
        let about = format_args!("{column}{called}");
        compared.check(device.is_some(), about, "a device", "no such device");
    }
    for row in &matrix.rows {
        let Some(own) = find(&row.device) else { continue };
        for ((column, device), cell) in matrix.columns.iter().zip(&devices).zip(&row.cells) {
            let Some(device) = device else { continue };
            of_cell((row, own), (column, device), cell, here, compared);
        }
        of_row(row, own, here, compared);
    }
}

fn of_cell(
    (row, own): (&Row, &Device),
    (column, device): (&str, &Device),
    cell: &str,
    here: HostValue,
    compared: &mut ComparisonResult,
) {
    let mut pair = [row.device.as_str(), column];
    pair.sort_unstable();
    let about = pair.join(" to ");
    let same = own.address() == device.address();
    let said = match cell {
        "X" => return compared.check(same, about, "one device", "two devices"),
        "PIX" => Distance::Pix,
        "PXB" => Distance::Pxb,
        "PHB" => Distance::Phb,
        "NODE" => Distance::Node,
        // Old versions print SOC.
        "SYS" | "SOC" => Distance::Sys,
        // NVLink, which is not part of PCI, or another tool's abbreviation.
        _ => return compared.unknown += 1,
    };
    let found = here.topology.between(&own.spot, &device.spot);
    if found == Distance::Unknown {
        return compared.unknown += 1;
    }
    compared.check(found == said && !same, about, cell, found);
}

/// Compares affinity columns.
fn of_row(row: &Row, own: &Device, here: HostValue, compared: &mut ComparisonResult) {
    if let Some(node) = &row.node {
        match (node.parse::<i32>().ok(), own.spot.node) {
            (Some(said), Some(found)) => {
                let [file, sysfs] = [said, found].map(|node| format!("NUMA node {node}"));
                compared.check(said == found, &row.device, file, sysfs);
            }
            // `N/A`, or several nodes.
            _ => compared.unknown += 1,
        }
    }
    if let (Some(cpus), Some(node)) = (&row.cpus, own.spot.node) {
        affinity_of(here, node, cpulist::of_list(cpus), &row.device, compared);
    }
}
