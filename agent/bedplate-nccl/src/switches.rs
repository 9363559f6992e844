//! Variables that disable features needed for GPUDirect RDMA (handbook §8.4 to §8.6). Pure.

/// A feature that a variable can disable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// InfiniBand and RoCE.
    Rdma,
    /// Direct transfers between NICs and GPU memory.
    GpuDirect,
    /// Registering GPU memory by DMA-BUF.
    DmaBuf,
    /// Direct transfers between GPUs.
    PeerToPeer,
    /// Shared memory between processes.
    SharedMemory,
}

impl Off {
    /// Returns the name of the feature in findings.
    pub fn description(self) -> &'static str {
        match self {
            Off::Rdma => "RDMA",
            Off::GpuDirect => "GPUDirect RDMA",
            Off::DmaBuf => "DMA-BUF",
            Off::PeerToPeer => "direct transfers between GPUs",
            Off::SharedMemory => "shared memory",
        }
    }
}

/// Returns the feature that a variable disables with this value.
pub fn switches_off(name: &str, value: &str) -> Option<Off> {
    // NCCL parses numbers with strtoll: any value but 0 is on.
    let is_on = value.trim().parse::<i64>().is_ok_and(|number| number != 0);
    match name {
        "NCCL_IB_DISABLE" if is_on => Some(Off::Rdma),
        "NCCL_NET" if value.eq_ignore_ascii_case("socket") => Some(Off::Rdma),
        "NCCL_NET_GDR_LEVEL" | "NCCL_IB_GDR_LEVEL" if matches!(value, "LOC" | "0") => {
            Some(Off::GpuDirect)
        }
        "NCCL_DMABUF_ENABLE" if value == "0" => Some(Off::DmaBuf),
        "NCCL_P2P_DISABLE" if is_on => Some(Off::PeerToPeer),
        "NCCL_SHM_DISABLE" if is_on => Some(Off::SharedMemory),
        _ => None,
    }
}

/// Returns the choice of NCCL that a variable overrides.
pub fn forces(name: &str) -> Option<&'static str> {
    Some(match name {
        "NCCL_NET_GDR_LEVEL" | "NCCL_IB_GDR_LEVEL" => {
            "the distance between GPU and NIC up to which GPUDirect RDMA is used"
        }
        "NCCL_NET_GDR_READ" => "whether NICs read GPU memory directly",
        "NCCL_NET_GDR_C2C" => "whether NICs access GPU memory over NVLink-C2C",
        "NCCL_P2P_LEVEL" => "the distance up to which GPUs access each other directly",
        "NCCL_ALGO" => "the algorithms",
        "NCCL_PROTO" => "the protocols",
        "NCCL_NET" => "the network",
        "NCCL_TOPO_FILE" => "the topology",
        _ => return None,
    })
}

/// Whether an `NCCL_IB_HCA` list selects a port. `^` excludes the listed names, `=` requires exact names, otherwise a
/// name is a prefix (handbook §8.5).
pub fn takes(list: &str, device: &str, port: &str) -> bool {
    let (leaves_out, list) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    let (is_exact, list) = list.strip_prefix('=').map_or((false, list), |rest| (true, rest));
    let named = list.split(',').filter(|one| !one.is_empty()).any(|one| {
        let mut parts = one.split(':');
        let name = parts.next().unwrap_or_default();
        let number = parts.next().filter(|number| !number.is_empty());
        let is_name = if is_exact { device == name } else { device.starts_with(name) };
        is_name && number.is_none_or(|number| number == port)
    });
    named != leaves_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_lists_match_as_in_nccl() {
        assert!(takes("mlx5", "mlx5_10", "1"));
        assert!(takes("mlx5_1", "mlx5_10", "1"));
        assert!(!takes("=mlx5_1", "mlx5_10", "1"));
        assert!(takes("=mlx5_1:1,mlx5_2:1", "mlx5_2", "1"));
        assert!(!takes("=mlx5_1:1,mlx5_2:1", "mlx5_2", "2"));
        assert!(!takes("^mlx5_2", "mlx5_2", "1"));
        assert!(takes("^=mlx5_2", "mlx5_20", "1"));
    }

    #[test]
    fn values_disable_features_as_in_nccl() {
        assert_eq!(switches_off("NCCL_IB_DISABLE", "1"), Some(Off::Rdma));
        assert_eq!(switches_off("NCCL_IB_DISABLE", "0"), None);
        assert_eq!(switches_off("NCCL_NET", "Socket"), Some(Off::Rdma));
        assert_eq!(switches_off("NCCL_NET", "IB"), None);
        assert_eq!(switches_off("NCCL_DMABUF_ENABLE", "1"), None);
    }
}
