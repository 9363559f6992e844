//! oneCCL's variables, from its documentation and the source of its releases from 2021.4 to 2021.14. oneCCL has no
//! variable for the GID index, the traffic class or timeouts; its transport has them (MPI or libfabric).

use super::super::version::Version;
use super::{Advice, Variable};

const FIRST: Version = Version(2021, 4);

pub(super) const VARIABLES: &[Variable] = &[
    Variable {
        name: "CCL_ATL_HMEM",
        since: None,
        removed: None,
        defaults: &[(FIRST, "0")],
        decides: "whether the transport accepts GPU memory directly; otherwise it is staged in host memory",
        advice: Some(Advice {
            value: "1",
            why_not: "requires a libfabric or MPI built for it: set both together, and measure",
        }),
        source: "oneCCL env-variables, dmabuf",
    },
    Variable {
        name: "CCL_ATL_TRANSPORT",
        since: None,
        removed: None,
        defaults: &[(FIRST, "mpi")],
        decides: "whether MPI or libfabric (`ofi`) carries the data",
        advice: Some(Advice {
            value: "ofi",
            why_not: "the job's choice: with mpi, the MPI library's own variables select the NICs",
        }),
        source: "oneCCL env-variables",
    },
    Variable {
        name: "CCL_KVS_IFACE",
        since: None,
        removed: None,
        defaults: &[(FIRST, "unset (oneCCL selects one)")],
        decides: "interface for the ranks' bootstrap",
        advice: None,
        source: "oneCCL src/atl/util/pm",
    },
    Variable {
        name: "CCL_MNIC",
        since: None,
        removed: None,
        defaults: &[(FIRST, "none (one NIC for each process)")],
        decides: "whether several NICs are used: all (`global`) or those of the process's NUMA node (`local`)",
        advice: Some(Advice {
            value: "local",
            why_not: "the job's choice: each process then uses as many NICs of its NUMA node as it has workers",
        }),
        source: "oneCCL env-variables",
    },
    Variable {
        name: "CCL_MNIC_COUNT",
        since: None,
        removed: None,
        defaults: &[(FIRST, "the number of workers")],
        decides: "maximum number of NICs",
        advice: None,
        source: "oneCCL env-variables",
    },
    Variable {
        name: "CCL_MNIC_NAME",
        since: None,
        removed: None,
        defaults: &[(FIRST, "unset (every NIC that is up)")],
        decides: "libfabric NICs to use, with `ofi`: names or prefixes; after one `^`, those to exclude; no exact \
                  names, no ports",
        advice: None,
        source: "oneCCL env-variables, src/atl/ofi",
    },
    Variable {
        name: "FI_PROVIDER",
        since: None,
        removed: None,
        defaults: &[(FIRST, "unset (libfabric chooses)")],
        decides: "libfabric provider: verbs for RDMA devices",
        advice: Some(Advice {
            value: "verbs",
            why_not: "a libfabric variable that affects all its users; NICs of other vendors have other providers",
        }),
        source: "oneCCL transport-selection",
    },
];
