//! Algorithms of NCCL.

use std::fmt;

use serde::Serialize;

/// Algorithm of a collective, by NCCL's names (NCCL 2.30 src/init.cc, `ncclAlgoStr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Each byte passes each host once.
    Ring,
    /// Double binary tree of hosts.
    Tree,
    /// Reduction in the switches of the network (SHARP), by all NICs at once.
    CollnetDirect,
    /// Reduction in the switches of the network (SHARP), with a chain inside each host.
    CollnetChain,
    /// NVLink SHARP in each host; between hosts only together with SHARP of the network.
    Nvls,
    /// NVLink SHARP in each host, a tree between hosts.
    NvlsTree,
    /// Parallel aggregated trees, for one rank per host.
    Pat,
}

/// Algorithms with NCCL's names.
const NAMES: [(Algorithm, &str); 7] = [
    (Algorithm::Ring, "Ring"),
    (Algorithm::Tree, "Tree"),
    (Algorithm::CollnetDirect, "CollNetDirect"),
    (Algorithm::CollnetChain, "CollNetChain"),
    (Algorithm::Nvls, "NVLS"),
    (Algorithm::NvlsTree, "NVLSTree"),
    (Algorithm::Pat, "PAT"),
];

impl Algorithm {
    /// Whether switches of the network reduce the data, so that the number of hosts hardly matters.
    pub fn reduces_in_network(self) -> bool {
        matches!(self, Algorithm::CollnetDirect | Algorithm::CollnetChain | Algorithm::Nvls)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(algorithm, _)| algorithm == self);
        f.write_str(name.map_or("?", |(_, name)| name))
    }
}

impl std::str::FromStr for Algorithm {
    type Err = String;

    /// Parses NCCL's name in any case, with or without separators: `NVLSTree`, `NVLS_TREE`, `nvls-tree`. `CollNet` is
    /// the name up to 2.13.
    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.replace(['-', '_'], "").to_ascii_lowercase();
        let plain = if plain == "collnet" { "collnetdirect" } else { &plain };
        let found = NAMES.iter().find(|(_, name)| name.to_ascii_lowercase() == plain);
        found.map(|(algorithm, _)| *algorithm).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_form() {
        for text in ["NVLSTree", "NVLS_TREE", "nvls-tree", "nvlstree"] {
            assert_eq!(text.parse(), Ok(Algorithm::NvlsTree), "{text}");
        }
        assert_eq!("COLLNET".parse(), Ok(Algorithm::CollnetDirect));
        assert!("rings".parse::<Algorithm>().is_err());
        for (algorithm, name) in NAMES {
            assert_eq!(name.parse(), Ok(algorithm));
            assert_eq!(algorithm.to_string(), name);
        }
    }
}
