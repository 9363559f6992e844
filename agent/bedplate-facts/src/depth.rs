//! How much of a host is read.

/// How much to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// What tells one machine from another. Nothing for which the kernel asks or waits for a driver: sriov_numvfs waits for
    /// a PF's probe to end (drivers/pci/iov.c, sriov_numvfs_show: device_lock, until Linux 6.9).
    Identity,
    /// What planning needs, at the least cost: config space of bridges and of NICs behind them, and only the dwords that count.
    Plan,
    /// What GPUDirect RDMA depends on: links, windows, device control, NUMA nodes and group types of the functions that
    /// [take part](crate::pci::Function::takes_part); of bridges no group types. Reading registers of the rest would tell nothing, and wakes what sleeps.
    Thorough,
    /// The same of every function: what `inspect --tree` shows, and what a snapshot keeps for questions to come.
    Everything,
}
