//! Meanings of NCCL's warnings, in one table (`docs/nccl-log.md`). Unknown warnings are shown verbatim.

/// Severity of a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WarningSeverity {
    /// Informational.
    Note,
    /// The job fails, or is slower than possible.
    Fault,
}

/// A known warning.
#[derive(Debug)]
pub struct Meaning {
    /// Substring of its text.
    pub has: &'static str,
    /// Severity.
    pub weight: WarningSeverity,
    /// Meaning.
    pub means: &'static str,
    /// Fix.
    pub fix: &'static str,
}

const fn fault(has: &'static str, means: &'static str, fix: &'static str) -> Meaning {
    Meaning { has, weight: WarningSeverity::Fault, means, fix }
}

const fn note(has: &'static str, means: &'static str, fix: &'static str) -> Meaning {
    Meaning { has, weight: WarningSeverity::Note, means, fix }
}

/// Known warnings; the first matching entry applies. Sources: NCCL src/transport/net_ib*, src/misc/ibvwrap.cc,
/// src/misc/socket.cc, src/graph, src/init.cc of the tags 2.4 to 2.30.
pub const MEANINGS: &[Meaning] = &[
    fault(
        "Mismatched NCCL version",
        "ranks run different versions of NCCL",
        "run the same image or library on all nodes",
    ),
    fault(
        "Call to ibv_reg_mr",
        "memory could not be registered with the NIC",
        "run `bedplate doctor registration` on that node",
    ),
    fault(
        "Call to ibv_modify_qp failed",
        "connection setup failed: the peer is unreachable from this port, or its GID is of another kind",
        "run `bedplate doctor rdma-connect` on both nodes",
    ),
    fault(
        "Call to ibv_create_qp failed",
        "the NIC created no queue pair: out of lockable memory or of queue pairs",
        "run `bedplate verify --check limits` on that node",
    ),
    fault(
        "Call to ibv_",
        "a call to the RDMA library failed",
        "run `bedplate doctor rdma-connect` on that node",
    ),
    fault(
        "Got async event",
        "a port or NIC reported an event, usually a link that went down",
        "run `bedplate doctor nic-down` and read the kernel log on that node",
    ),
    fault(
        "Got async error event",
        "a port or NIC reported an error",
        "run `bedplate doctor nic-down` and read the kernel log on that node",
    ),
    note(
        "Got non-fatal async event",
        "a port or NIC reported an event",
        "read the kernel log of that node",
    ),
    fault("Got completion", "the NIC reported an error for a transfer", "see the status"),
    fault(
        "XML Topology has wrong version",
        "NCCL_TOPO_FILE has the wrong version: NCCL reads version 1, RCCL version 2",
        "check it with `bedplate topology --import FILE`",
    ),
    note(
        "Could not open XML topology file",
        "NCCL_TOPO_FILE is missing in the container; NCCL reads sysfs instead",
        "mount the file, or unset the variable",
    ),
    fault(
        "XML Graph has wrong version",
        "NCCL_GRAPH_FILE does not match this NCCL version",
        "unset NCCL_GRAPH_FILE",
    ),
    fault(
        "XML Parse",
        "a topology or graph file is invalid",
        "check it with `bedplate topology --import FILE`",
    ),
    fault(
        "XML Mismatch",
        "a topology or graph file is invalid",
        "check it with `bedplate topology --import FILE`",
    ),
    note(
        "Could not find real path of",
        "the device is missing in the container's sysfs, so NCCL treats it as distant",
        "mount the host's /sys",
    ),
    fault(
        "No usable listening interface found",
        "no usable network interface for the ranks' bootstrap",
        "correct NCCL_SOCKET_IFNAME (run `ip -br addr` on that node)",
    ),
    fault(
        "no socket interface found",
        "no usable network interface for the ranks' bootstrap",
        "correct NCCL_SOCKET_IFNAME (run `ip -br addr` on that node)",
    ),
    fault(
        "Connection closed by remote peer",
        "the peer process has ended: it failed first",
        "find the first error on that node",
    ),
    fault(
        "Connect to",
        "the other node is unreachable at that address",
        "check NCCL_SOCKET_IFNAME, routes and firewalls between the nodes",
    ),
    fault(
        "Cuda failure",
        "a CUDA call failed",
        "run `bedplate doctor no-cuda-device` and `dmesg | grep Xid` on that node",
    ),
    fault("HIP failure", "a HIP call failed", "read the kernel log of that node"),
    fault(
        "Failed to initialize any NET plugin",
        "neither RDMA nor sockets are usable",
        "run `bedplate doctor socket-fallback` on that node",
    ),
    fault(
        "NET/Plugin",
        "a network plugin is unusable",
        "check NCCL_NET_PLUGIN and the libraries of the image",
    ),
    note(
        "P2P is disabled between",
        "GPUs do not use the link between them",
        "unset NCCL_P2P_DISABLE, or run `bedplate verify --check acs`",
    ),
    fault("Timeout waiting for", "a rank did not join", "find the first error on the other nodes"),
    fault(
        "Error: failed to extend /dev/shm",
        "/dev/shm is too small",
        "give the job a larger /dev/shm (docker: --shm-size; Kubernetes: an emptyDir of medium Memory)",
    ),
    fault(
        "while creating shared memory segment",
        "/dev/shm is too small or not writable",
        "give the job a larger /dev/shm (docker: --shm-size; Kubernetes: an emptyDir of medium Memory)",
    ),
    fault(
        "while attaching to shared memory segment",
        "ranks of one node do not share /dev/shm",
        "run them in one container, or share its IPC namespace",
    ),
];

/// Meanings of completion statuses (rdma-core libibverbs/verbs.h, enum ibv_wc_status).
pub const STATUSES: &[(u32, &str, &str)] = &[
    (
        1,
        "local length error",
        "the receive buffer is too small: versions or settings differ between ranks",
    ),
    (2, "local QP operation error", "the queue pair was misused, or the NIC's firmware failed"),
    (
        4,
        "local protection error",
        "the memory is not registered for this access: check ATS, ACS and the driver's peer memory",
    ),
    (5, "work request flushed", "follows an earlier error on the connection; find the first"),
    (9, "remote invalid request", "the peer rejected the request: settings differ between ranks"),
    (
        10,
        "remote access error",
        "the peer's memory is not registered for this access, or a PCIe access there failed",
    ),
    (11, "remote operation error", "the peer could not complete it: check its NIC and kernel log"),
    (
        12,
        "transport retry counter exceeded",
        "no answer: the link or a switch loses packets, routes differ, or the peer has ended",
    ),
    (13, "RNR retry counter exceeded", "the peer is stuck: not ready to receive"),
];

/// Returns the meaning of a warning.
pub(crate) fn meaning(text: &str) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|row| text.contains(row.has))
}

/// Parses the status of a failed completion: `status=12`, `status=IBV_WC_RETRY_EXC_ERR(12)`, `with error 12`.
pub(crate) fn status(text: &str) -> Option<&'static (u32, &'static str, &'static str)> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u32>().ok()
    };
    let rest = text.split_once("status=").map(|(_, rest)| rest);
    let named = |rest: &str| {
        let word = rest.split([' ', ',']).next()?;
        digits(word.split_once('(')?.1)
    };
    let number = match rest {
        Some(rest) => digits(rest).or_else(|| named(rest)),
        None => digits(text.split_once("with error ")?.1),
    }?;
    STATUSES.iter().find(|row| row.0 == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_status_is_parsed_in_all_forms() {
        for text in [
            "NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129",
            "NET/IB : Got completion from peer 10.0.0.1<4791> with status=12 opcode=0 len=0 vendor err 129",
            "NET/IB: Got completion from peer x with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129",
        ] {
            assert_eq!(status(text).map(|row| row.0), Some(12), "{text}");
            assert_eq!(meaning(text).unwrap().has, "Got completion");
        }
        assert_eq!(status("Got completion with status=77"), None);
        assert_eq!(status("status="), None);
    }
}
