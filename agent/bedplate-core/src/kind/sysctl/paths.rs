//! Paths of kernel parameters: recorded in snapshots, watched by the daemon.

use crate::kind::{RecordMode, Watch, WriteScope};
use crate::profile::model::Profile;
use bedplate_facts::Facts;

/// Recorded in snapshots. Of /proc/sys only the keys that profiles of GPU and RDMA nodes set: reading some others has side
/// effects (vm/stat_refresh). Planning from a snapshot reports keys without a record as unknown.
pub(crate) const RECORDED: &[(&str, RecordMode)] = &[
    ("/etc/sysctl.d/*", RecordMode::Whole),
    ("/run/sysctl.d/*", RecordMode::Whole),
    ("/usr/local/lib/sysctl.d/*", RecordMode::Whole),
    ("/usr/lib/sysctl.d/*", RecordMode::Whole),
    ("/etc/sysctl.conf", RecordMode::Whole),
    ("/proc/sys/kernel/numa_balancing", RecordMode::Whole),
    ("/proc/sys/kernel/panic", RecordMode::Whole),
    ("/proc/sys/kernel/panic_on_oops", RecordMode::Whole),
    ("/proc/sys/kernel/pid_max", RecordMode::Whole),
    ("/proc/sys/vm/compaction_proactiveness", RecordMode::Whole),
    ("/proc/sys/vm/max_map_count", RecordMode::Whole),
    ("/proc/sys/vm/min_free_kbytes", RecordMode::Whole),
    ("/proc/sys/vm/nr_hugepages", RecordMode::Whole),
    ("/proc/sys/vm/overcommit_memory", RecordMode::Whole),
    ("/proc/sys/vm/swappiness", RecordMode::Whole),
    ("/proc/sys/vm/zone_reclaim_mode", RecordMode::Whole),
    ("/proc/sys/net/core/netdev_max_backlog", RecordMode::Whole),
    ("/proc/sys/net/core/optmem_max", RecordMode::Whole),
    ("/proc/sys/net/core/rmem_default", RecordMode::Whole),
    ("/proc/sys/net/core/rmem_max", RecordMode::Whole),
    ("/proc/sys/net/core/somaxconn", RecordMode::Whole),
    ("/proc/sys/net/core/wmem_default", RecordMode::Whole),
    ("/proc/sys/net/core/wmem_max", RecordMode::Whole),
    ("/proc/sys/net/ipv4/tcp_mtu_probing", RecordMode::Whole),
    ("/proc/sys/net/ipv4/tcp_rmem", RecordMode::Whole),
    ("/proc/sys/net/ipv4/tcp_wmem", RecordMode::Whole),
    ("/proc/sys/net/ipv4/conf/*/arp_announce", RecordMode::Whole),
    ("/proc/sys/net/ipv4/conf/*/arp_filter", RecordMode::Whole),
    ("/proc/sys/net/ipv4/conf/*/arp_ignore", RecordMode::Whole),
    ("/proc/sys/net/ipv4/conf/*/rp_filter", RecordMode::Whole),
];

/// Paths that this resource type writes.
pub(crate) const OWNS: WriteScope = WriteScope {
    files: &["/etc/sysctl.d/zz-bedplate.conf"],
    attributes: &["/proc/sys/**"],
    ..WriteScope::NONE
};

/// Watches the directory of the file and the running values; programs write to both.
pub(crate) fn watch(profile: &Profile, _: &Facts) -> Watch {
    let mut watch = Watch::directories(&["/etc/sysctl.d"]);
    watch.attributes = profile.sysctl.set.iter().map(|setting| setting.key.path()).collect();
    watch
}
