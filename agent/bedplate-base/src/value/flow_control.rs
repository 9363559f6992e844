//! Flow control of a port for packets that its network cannot take in time, as its driver reports it by DCB (Data
//! Center Bridging, IEEE 802.1Qaz): priority flow control, and the source of a packet's priority. Snapshots record it.
//! Pure.

use crate::joined;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Flow control of a network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowControl {
    /// Priorities with priority flow control, bit 0 for priority 0, if the driver reports them.
    pub pfc: Option<u8>,
    /// Configured priority by DSCP. mlx5 uses DSCP while entries exist, otherwise VLAN tags (Linux
    /// drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dscp: BTreeMap<u8, u8>,
    /// Configured priority of RoCE v2 (UDP port 4791), if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roce: Option<u8>,
}

impl FlowControl {
    /// Whether a priority has priority flow control.
    pub fn covers(&self, priority: u8) -> bool {
        priority < 8 && self.pfc.unwrap_or(0) >> priority & 1 == 1
    }

    /// Returns the priority of RoCE v2 packets with this DSCP, or `None` if it is not recorded here.
    pub fn priority(&self, dscp: u8) -> Option<u8> {
        self.roce.or_else(|| self.dscp.get(&dscp).copied())
    }
}

/// Formats the priorities of a mask (`3 and 4`).
pub fn priorities(mask: u8) -> String {
    let on: Vec<String> =
        (0..8u8).filter(|priority| mask >> priority & 1 == 1).map(|one| one.to_string()).collect();
    if on.is_empty() { "none".to_owned() } else { joined(&on, "and") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_priority_precedes_dscp() {
        let mut port =
            FlowControl { pfc: Some(0b1000), dscp: [(26, 3)].into(), ..FlowControl::default() };
        assert_eq!((port.priority(26), port.priority(0)), (Some(3), None));
        assert!(port.covers(3) && !port.covers(0) && !port.covers(8));
        port.roce = Some(5);
        assert_eq!(port.priority(26), Some(5));
    }

    #[test]
    fn masks_are_formatted_as_priorities() {
        for (mask, words) in [(0, "none"), (8, "3"), (0b0001_1000, "3 and 4"), (7, "0, 1 and 2")] {
            assert_eq!(priorities(mask), words);
        }
    }
}
