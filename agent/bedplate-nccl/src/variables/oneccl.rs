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
        decides: "whether the transport takes GPU memory as it is; without, it is staged in host memory",
        advice: Some(Advice {
            value: "1",
            why_not: "it asks for a libfabric or MPI that was built for it: set it with that, and measure",
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
            why_not: "it is a choice of the job: with mpi, NICs are chosen by the MPI library's own variables",
        }),
        source: "oneCCL env-variables",
    },
    Variable {
        name: "CCL_KVS_IFACE",
        since: None,
        removed: None,
        defaults: &[(FIRST, "unset (oneCCL looks for one)")],
        decides: "the interface over which ranks find each other",
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
            why_not: "it is a choice of the job: each process then uses as many NICs of its NUMA node as it has workers",
        }),
        source: "oneCCL env-variables",
    },
    Variable {
        name: "CCL_MNIC_COUNT",
        since: None,
        removed: None,
        defaults: &[(FIRST, "the number of workers")],
        decides: "how many NICs are used at most",
        advice: None,
        source: "oneCCL env-variables",
    },
    Variable {
        name: "CCL_MNIC_NAME",
        since: None,
        removed: None,
        defaults: &[(FIRST, "unset (every NIC that is up)")],
        decides: "which NICs of libfabric are used, with `ofi`: names or prefixes of names, behind one `^` those to leave out; it has no \
                  exact form and no ports",
        advice: None,
        source: "oneCCL env-variables, src/atl/ofi",
    },
    Variable {
        name: "FI_PROVIDER",
        since: None,
        removed: None,
        defaults: &[(FIRST, "unset (libfabric chooses)")],
        decides: "the provider of libfabric: verbs for RDMA devices",
        advice: Some(Advice {
            value: "verbs",
            why_not: "it is libfabric's variable and holds for all that uses it; NICs of other makers have other providers",
        }),
        source: "oneCCL transport-selection",
    },
];
