//! Depth of a host scan.

/// How much of a host to read, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Only identifying facts of a machine. Reads nothing for which the kernel queries or waits for a driver:
    /// sriov_numvfs waits for the PF's probe to finish (drivers/pci/iov.c, sriov_numvfs_show: device_lock, until Linux
    /// 6.9).
    Identity,
    /// Minimum for planning: config space of bridges and of the NICs behind them, and only the required dwords.
    Plan,
    /// Facts that GPUDirect RDMA depends on: links, windows, device control, NUMA nodes and group types of the
    /// functions that [take part](crate::pci::Function::takes_part), without the group types of bridges. Registers of
    /// other functions add nothing, and reading them wakes sleeping devices.
    Thorough,
    /// The thorough facts of every function, for `inspect --tree` and for later queries on a snapshot.
    Everything,
}
