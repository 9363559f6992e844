use super::*;

#[test]
fn entries_and_defaults_are_sorted() {
    for library in Library::ALL {
        let (oldest, newest) = library.versions();
        let rows = library.variables();
        assert!(rows.is_sorted_by(|a, b| a.name < b.name), "{library}");
        for row in &rows {
            assert!(row.defaults.is_sorted_by(|a, b| a.0 < b.0), "{}", row.name);
            let born = row.since.unwrap_or(Version(2, 4));
            assert!(row.defaults.iter().all(|(from, _)| *from >= born), "{}", row.name);
            // A variable has a default from its first version on.
            for version in [row.since.unwrap_or(oldest), newest] {
                let there = row.exists_in(version);
                assert_eq!(there, row.default_in(version).is_some(), "{} {version}", row.name);
            }
        }
    }
}

/// Variables in handbook §8.4 and §8.5.
#[test]
fn every_handbook_variable_has_an_entry() {
    let named = "NCCL_IB_HCA NCCL_IB_GID_INDEX NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_ROCE_VERSION_NUM NCCL_IB_TIMEOUT \
                 NCCL_IB_RETRY_CNT NCCL_IB_TC NCCL_IB_SL NCCL_IB_QPS_PER_CONNECTION NCCL_IB_PCI_RELAXED_ORDERING NCCL_CROSS_NIC \
                 NCCL_IB_CUDA_SUPPORT NCCL_DMABUF_ENABLE NCCL_GDRCOPY_ENABLE NCCL_NET NCCL_SHM_DISABLE NCCL_IB_DATA_DIRECT \
                 NCCL_SOCKET_IFNAME NCCL_NET_GDR_LEVEL NCCL_P2P_LEVEL NCCL_NET_GDR_C2C NCCL_NET_GDR_READ NCCL_CUMEM_ENABLE \
                 NCCL_NVLS_ENABLE NCCL_MNNVL_ENABLE NCCL_IB_MERGE_NICS NCCL_NET_MERGE_LEVEL NCCL_IB_SPLIT_DATA_ON_QPS \
                 NCCL_IB_ADAPTIVE_ROUTING NCCL_NET_PLUGIN NCCL_NCHANNELS_PER_NET_PEER NCCL_IB_RESILIENCY_PORT_FAILOVER \
                 NCCL_IB_RESILIENCY_PORT_RECOVERY NCCL_IB_OOO_RQ NCCL_IB_SUBNET_AWARE_ROUTING NCCL_IGNORE_CPU_AFFINITY";
    let rows = table(Library::Nccl);
    for name in named.split_whitespace() {
        assert!(rows.iter().any(|row| row.name == name), "{name}");
    }
}

fn default_of(library: Library, name: &str, version: Version) -> Option<&'static str> {
    let rows = library.variables();
    library.default_of(rows.iter().find(|row| row.name == name).unwrap(), version)
}

/// The version before a change, and the one with it.
#[test]
fn defaults_depend_on_version() {
    let of = |name: &str, version| default_of(Library::Nccl, name, version);
    assert_eq!(of("NCCL_IB_TIMEOUT", Version(2, 13)), Some("14"));
    assert_eq!(of("NCCL_IB_TIMEOUT", Version(2, 22)), Some("18"));
    assert_eq!(of("NCCL_IB_TIMEOUT", Version(2, 23)), Some("20"));
    assert_eq!(of("NCCL_IB_GID_INDEX", Version(2, 20)), Some("0"));
    assert_eq!(of("NCCL_DMABUF_ENABLE", Version(2, 12)), None);
    assert_eq!(of("NCCL_IB_CUDA_SUPPORT", Version(2, 4)), None);
    assert!(of("NCCL_IGNORE_CPU_AFFINITY", Version(2, 4)).is_some());
    for (name, born) in [
        ("NCCL_CROSS_NIC", 5),
        ("NCCL_GDRCOPY_ENABLE", 9),
        ("NCCL_NET", 10),
        ("NCCL_IB_MERGE_VFS", 18),
        ("NCCL_CUMEM_ENABLE", 18),
        ("NCCL_IB_ADAPTIVE_ROUTING", 16),
        ("NCCL_IB_ADDR_FAMILY", 21),
        ("NCCL_IB_ADDR_RANGE", 21),
        ("NCCL_IB_ROCE_VERSION_NUM", 21),
        ("NCCL_NET_GDR_C2C", 26),
        ("NCCL_IB_MERGE_NICS", 20),
        ("NCCL_IB_OOO_RQ", 30),
        ("NCCL_IB_RESILIENCY_PORT_FAILOVER", 29),
        ("NCCL_IB_RESILIENCY_PORT_RECOVERY", 30),
        ("NCCL_IB_SPLIT_DATA_ON_QPS", 18),
        ("NCCL_IB_SUBNET_AWARE_ROUTING", 30),
        ("NCCL_MNNVL_ENABLE", 21),
        ("NCCL_NCHANNELS_PER_NET_PEER", 12),
        ("NCCL_NET_MERGE_LEVEL", 24),
        ("NCCL_NET_PLUGIN", 11),
        ("NCCL_NVLS_ENABLE", 17),
    ] {
        assert_eq!(of(name, Version(2, born - 1)), None, "{name}");
        assert!(of(name, Version(2, born)).is_some(), "{name}");
    }
    for (name, changed) in [
        ("NCCL_P2P_LEVEL", 5),
        ("NCCL_NET_GDR_LEVEL", 6),
        ("NCCL_P2P_LEVEL", 6),
        ("NCCL_P2P_LEVEL", 7),
        ("NCCL_P2P_LEVEL", 9),
        ("NCCL_NET_GDR_READ", 19),
        ("NCCL_P2P_LEVEL", 23),
        ("NCCL_IB_TC", 26),
        ("NCCL_IB_SL", 26),
        ("NCCL_NET_GDR_C2C", 27),
        ("NCCL_CUMEM_ENABLE", 19),
        ("NCCL_IB_SPLIT_DATA_ON_QPS", 20),
        ("NCCL_NCHANNELS_PER_NET_PEER", 20),
        ("NCCL_NVLS_ENABLE", 18),
        ("NCCL_NET_GDR_LEVEL", 29),
    ] {
        assert_ne!(of(name, Version(2, changed - 1)), of(name, Version(2, changed)), "{name}");
    }
}

#[test]
fn rccl_has_nccl_names_and_known_own_defaults() {
    let of = |name: &str, minor| default_of(Library::Rccl, name, Version(2, minor));
    assert_eq!(of("NCCL_DMABUF_ENABLE", 21), Some("0"));
    assert_eq!(of("NCCL_DMABUF_ENABLE", 27), Some("0"));
    assert_eq!(of("NCCL_DMABUF_ENABLE", 30), Some("1, after peer memory"));
    assert_eq!(of("NCCL_IB_TIMEOUT", 21), Some("18"));
    // The source was reviewed up to 2.21.
    assert_eq!(of("NCCL_IB_TIMEOUT", 23), None);
    assert_eq!(of("NCCL_P2P_LEVEL", 23), None);
    let names: Vec<&str> = Library::Rccl.variables().iter().map(|row| row.name).collect();
    assert!(names.contains(&"RCCL_FORCE_ENABLE_GDRDMA") && names.contains(&"NCCL_IB_HCA"));
    for name in [
        "NCCL_NET_GDR_C2C",
        "NCCL_IB_DATA_DIRECT",
        "NCCL_IB_CUDA_SUPPORT",
        "NCCL_NVLS_ENABLE",
        "NCCL_CUMEM_ENABLE",
    ] {
        assert!(!names.contains(&name), "{name}");
    }
}
