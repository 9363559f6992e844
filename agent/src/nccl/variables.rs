//! The variables of NCCL that people set on GPUDirect RDMA hosts: where they exist, what they are without being set, and what
//! is wrong with what is passed around about them. One row each; docs/nccl.md is made of them.

use super::version::Version;

/// One variable.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The first version that has it; `None`: the oldest that the table knows has it.
    pub since: Option<Version>,
    /// The first version without it.
    pub removed: Option<Version>,
    /// What it is where nobody sets it: from which version on, and the value.
    pub defaults: &'static [(Version, &'static str)],
    /// What it decides.
    pub decides: &'static str,
    /// A value that is passed around, and why it is not set here.
    pub advice: Option<Advice>,
    /// Where that is said.
    pub source: &'static str,
}

/// What people are told to set.
#[derive(Debug)]
pub struct Advice {
    /// The value.
    pub value: &'static str,
    /// Why not.
    pub why_not: &'static str,
}

impl Variable {
    /// Whether a version has it.
    pub fn exists_in(&self, version: Version) -> bool {
        self.since.is_none_or(|since| since <= version)
            && self.removed.is_none_or(|removed| version < removed)
    }

    /// What it is in a version where nobody sets it.
    pub fn default_in(&self, version: Version) -> Option<&'static str> {
        let known = self.defaults.iter().rev().find(|(from, _)| *from <= version);
        known.filter(|_| self.exists_in(version)).map(|(_, value)| *value)
    }

    /// In which versions it is there, in words.
    pub fn versions(&self) -> String {
        match (self.since, self.removed) {
            (None, None) => "all".to_owned(),
            (Some(since), None) => format!("since {since}"),
            (None, Some(removed)) => format!("before {removed}"),
            (Some(since), Some(removed)) => format!("since {since}, before {removed}"),
        }
    }
}

/// The table, in alphabetic order.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "NCCL_CROSS_NIC",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "2 (automatic)")],
        decides: "whether rings and trees may use different NICs on different nodes",
        advice: Some(Advice {
            value: "0 or 1",
            why_not: "NCCL decides by the topology that it sees",
        }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_DMABUF_ENABLE",
        since: Some(Version(2, 13)),
        removed: None,
        defaults: &[(Version(2, 13), "1")],
        decides: "whether NICs are given GPU memory by DMA-BUF",
        advice: Some(Advice {
            value: "0",
            why_not: "it turns DMA-BUF off, and GPUDirect RDMA with it where nvidia_peermem is not loaded; `bedplate verify` says what is \
                      wrong with DMA-BUF, ACS most often",
        }),
        source: "handbook §6.3, §8.5",
    },
    Variable {
        name: "NCCL_GDRCOPY_ENABLE",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "0")],
        decides: "whether control words are written with GDRCopy",
        advice: None,
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_CUDA_SUPPORT",
        since: None,
        removed: Some(Version(2, 4)),
        defaults: &[],
        decides: "nothing any more",
        advice: Some(Advice { value: "1", why_not: "removed in 2.4.0: it has no effect" }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_DATA_DIRECT",
        since: Some(Version(2, 27)),
        removed: None,
        defaults: &[(Version(2, 27), "1")],
        decides: "whether the Data Direct function of a ConnectX-8 is used",
        advice: None,
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_GID_INDEX",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "0"), (Version(2, 21), "-1 (automatic)")],
        decides: "which entry of each RoCE port's GID table is used; ignored on InfiniBand",
        advice: Some(Advice {
            value: "3",
            why_not: "the index is a place in each port's own table and changes with its addresses; since 2.21 NCCL looks for the RoCE v2 \
                      entry itself",
        }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_HCA",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "every active port")],
        decides: "which RDMA devices and ports are used; without `=` a name stands for all that begin with it (mlx5_1 for mlx5_10)",
        advice: None,
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_MERGE_VFS",
        since: None,
        removed: None,
        defaults: &[(Version(2, 30), "1")],
        decides: "whether VFs of one bus are taken for one NIC",
        advice: None,
        source: "handbook §8.1",
    },
    Variable {
        name: "NCCL_IB_PCI_RELAXED_ORDERING",
        since: Some(Version(2, 12)),
        removed: None,
        defaults: &[(Version(2, 12), "2 (automatic)")],
        decides: "whether memory is registered for relaxed ordering",
        advice: Some(Advice { value: "1", why_not: "automatic since 2.12" }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_QPS_PER_CONNECTION",
        since: Some(Version(2, 10)),
        removed: None,
        defaults: &[(Version(2, 10), "1")],
        decides: "queue pairs for each connection",
        advice: Some(Advice {
            value: "4 or more",
            why_not: "it depends on how the fabric spreads flows: measure there, set it for all its jobs",
        }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_SL",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "0"), (Version(2, 26), "-1 (acts as 0)")],
        decides: "the service level on InfiniBand; on RoCE the priority comes from NCCL_IB_TC",
        advice: None,
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_TC",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "0"), (Version(2, 26), "-1 (acts as 0)")],
        decides: "the traffic class, on RoCE the DSCP in its upper six bits",
        advice: Some(Advice {
            value: "106",
            why_not: "that is DSCP 26 with ECN bits; it is right where the switches' lossless class is DSCP 26, and only there",
        }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IB_TIMEOUT",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "14"), (Version(2, 14), "18"), (Version(2, 23), "20")],
        decides: "how long a lost packet is waited for: 4.096 µs × 2^n, seven times",
        advice: Some(Advice {
            value: "22 or 23",
            why_not: "17 or 34 seconds a try hide a link that loses packets; 0 and 32 or more wait for ever",
        }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_NET",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "unset (a plugin, then IB, then Socket)")],
        decides: "which network is used, by name",
        advice: Some(Advice {
            value: "IB",
            why_not: "it is tried first as it is; set, it makes jobs fail where there is no InfiniBand or RoCE",
        }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_NET_GDR_C2C",
        since: Some(Version(2, 26)),
        removed: None,
        defaults: &[(Version(2, 26), "0"), (Version(2, 27), "1")],
        decides: "whether GPUDirect RDMA goes over chip-to-chip links",
        advice: None,
        source: "handbook §8.4",
    },
    Variable {
        name: "NCCL_NET_GDR_LEVEL",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 6), "PXB"),
            (Version(2, 29), "P2C with NCCL_NET_GDR_C2C=1, else PXB"),
        ],
        decides: "up to which distance of GPU and NIC GPUDirect RDMA is used",
        advice: Some(Advice {
            value: "5",
            why_not: "a legacy number for SYS: any distance, which can be slower than staging in host memory across sockets; where it has \
                      to be, a word (PHB), and measured",
        }),
        source: "handbook §8.4",
    },
    Variable {
        name: "NCCL_NET_GDR_READ",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "-2 (automatic)")],
        decides: "whether NICs read GPU memory when sending",
        advice: Some(Advice { value: "1", why_not: "automatic: always on from Ampere on" }),
        source: "handbook §8.4",
    },
    Variable {
        name: "NCCL_P2P_LEVEL",
        since: None,
        removed: None,
        defaults: &[(Version(2, 6), "PXB (SYS on AMD CPUs with at most 2 GPUs)")],
        decides: "up to which distance GPUs use each other's memory over PCIe",
        advice: Some(Advice {
            value: "a number",
            why_not: "legacy numbers mean other distances in other versions; anything that is no level is ignored without a word",
        }),
        source: "handbook §8.3, §8.4",
    },
    Variable {
        name: "NCCL_SHM_DISABLE",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "0")],
        decides: "whether shared memory is left unused",
        advice: Some(Advice { value: "0", why_not: "that is the default" }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_SOCKET_IFNAME",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "unset (NCCL looks for one)")],
        decides: "interfaces of the bootstrap, of the addresses exchanged for NET/IB, and of NET/Socket's data",
        advice: None,
        source: "handbook §8.5",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_their_defaults_too() {
        assert!(VARIABLES.is_sorted_by(|a, b| a.name < b.name));
        for row in VARIABLES {
            assert!(row.defaults.is_sorted_by(|a, b| a.0 < b.0), "{}", row.name);
            let born = row.since.unwrap_or(Version::OLDEST);
            assert!(row.defaults.iter().all(|(from, _)| *from >= born), "{}", row.name);
            // A variable of the newest version has a default there.
            assert_eq!(
                row.exists_in(Version::NEWEST),
                row.default_in(Version::NEWEST).is_some(),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn defaults_are_those_of_the_version() {
        let of = |name: &str, version| {
            VARIABLES.iter().find(|row| row.name == name).unwrap().default_in(version)
        };
        assert_eq!(of("NCCL_IB_TIMEOUT", Version(2, 13)), Some("14"));
        assert_eq!(of("NCCL_IB_TIMEOUT", Version(2, 22)), Some("18"));
        assert_eq!(of("NCCL_IB_TIMEOUT", Version(2, 23)), Some("20"));
        assert_eq!(of("NCCL_IB_GID_INDEX", Version(2, 20)), Some("0"));
        assert_eq!(of("NCCL_DMABUF_ENABLE", Version(2, 12)), None);
        assert_eq!(of("NCCL_IB_CUDA_SUPPORT", Version(2, 4)), None);
    }
}
