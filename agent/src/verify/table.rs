//! The table of checks. The order is the order in which what they find is to be dealt with: a GPU that is gone comes before
//! a setting of the firmware, that before a kernel argument, and that before a register.

use super::Check;
use super::checks::{
    acs, cmdline, firmware, iommu, kernel_log, modules, pcie, pcie_link, profile, rdma, topology,
};

/// Every check.
pub static CHECKS: &[Check] = &[
    topology::DEVICES,
    modules::DRIVER,
    firmware::ABOVE_4G,
    firmware::IOMMU,
    iommu::ACTIVE,
    profile::IN_EFFECT,
    iommu::MODE,
    modules::GPUDIRECT,
    acs::ISOLATION,
    acs::PATH,
    acs::SHAPE,
    kernel_log::PCIE,
    kernel_log::MODULES,
    kernel_log::IOMMU,
    cmdline::REJECTED,
    rdma::PORT_STATE,
    pcie_link::WIDTH,
    pcie::MPS,
    pcie::AER,
    pcie_link::SPEED,
    topology::PAIRING,
    firmware::NUMA,
    firmware::BAR1_SIZE,
    firmware::SRIOV_RESOURCES,
    firmware::ARI,
    pcie::RELAXED_ORDERING,
    pcie::MRRS,
    cmdline::STATES,
    cmdline::HARMFUL,
    modules::LEFTOVERS,
];
