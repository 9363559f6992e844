//! The checks, one module for each group.

pub(super) mod acs;
pub(super) mod ats;
pub(super) mod bar1_size;
pub(super) mod cmdline;
pub(super) mod driver_versions;
pub(super) mod fabric;
pub(super) mod firmware;
pub(super) mod flow_control;
pub(super) mod groups;
pub(super) mod hugepages;
pub(super) mod iommu;
pub(super) mod kernel_log;
pub(super) mod limits;
pub(super) mod log_faults;
pub(super) mod modules;
pub(super) mod nccl_conf;
pub(super) mod pcie;
pub(super) mod pcie_command;
pub(super) mod pcie_link;
pub(super) mod port_state;
pub(super) mod presence;
pub(super) mod profile;
pub(super) mod rdma;
pub(super) mod roce;
pub(super) mod sriov;
pub(super) mod storage;
pub(super) mod topology;

use super::finding::{self, FEW, size};
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::Function;

/// Formats the functions: `0000:18:00.0, 0000:3b:00.0 and 6 more GPUs`.
fn named(functions: &[&Function], what: &str) -> String {
    finding::named(&addresses(functions), what)
}

/// Returns the addresses of the functions.
fn addresses<'a>(functions: impl IntoIterator<Item = &'a &'a Function>) -> Vec<PciAddress> {
    functions.into_iter().map(|function| function.address).collect()
}
