//! Where kernel parameters are configured and show: what a snapshot records, what the daemon watches.

use super::section::Sysctl;
use crate::facts::Facts;
use crate::kind::{Owns, Take, Watch};
use crate::section::Declared;

/// Recorded in snapshots. Of /proc/sys only what profiles of GPU and RDMA nodes set: some of its files do something when they
/// are read (vm/stat_refresh). What is not recorded is unknown when a snapshot is planned for.
pub const RECORDED: &[(&str, Take)] = &[
    ("/etc/sysctl.d/*", Take::Whole),
    ("/run/sysctl.d/*", Take::Whole),
    ("/usr/local/lib/sysctl.d/*", Take::Whole),
    ("/usr/lib/sysctl.d/*", Take::Whole),
    ("/etc/sysctl.conf", Take::Whole),
    ("/proc/sys/kernel/numa_balancing", Take::Whole),
    ("/proc/sys/kernel/panic", Take::Whole),
    ("/proc/sys/kernel/panic_on_oops", Take::Whole),
    ("/proc/sys/kernel/pid_max", Take::Whole),
    ("/proc/sys/vm/compaction_proactiveness", Take::Whole),
    ("/proc/sys/vm/max_map_count", Take::Whole),
    ("/proc/sys/vm/min_free_kbytes", Take::Whole),
    ("/proc/sys/vm/nr_hugepages", Take::Whole),
    ("/proc/sys/vm/overcommit_memory", Take::Whole),
    ("/proc/sys/vm/swappiness", Take::Whole),
    ("/proc/sys/vm/zone_reclaim_mode", Take::Whole),
    ("/proc/sys/net/core/netdev_max_backlog", Take::Whole),
    ("/proc/sys/net/core/optmem_max", Take::Whole),
    ("/proc/sys/net/core/rmem_default", Take::Whole),
    ("/proc/sys/net/core/rmem_max", Take::Whole),
    ("/proc/sys/net/core/somaxconn", Take::Whole),
    ("/proc/sys/net/core/wmem_default", Take::Whole),
    ("/proc/sys/net/core/wmem_max", Take::Whole),
    ("/proc/sys/net/ipv4/tcp_mtu_probing", Take::Whole),
    ("/proc/sys/net/ipv4/tcp_rmem", Take::Whole),
    ("/proc/sys/net/ipv4/tcp_wmem", Take::Whole),
    ("/proc/sys/net/ipv4/conf/*/arp_announce", Take::Whole),
    ("/proc/sys/net/ipv4/conf/*/arp_filter", Take::Whole),
    ("/proc/sys/net/ipv4/conf/*/arp_ignore", Take::Whole),
    ("/proc/sys/net/ipv4/conf/*/rp_filter", Take::Whole),
];

/// Written here.
pub const OWNS: Owns = Owns {
    files: &["/etc/sysctl.d/zz-bedplate.conf"],
    attributes: &["/proc/sys/**"],
    ..Owns::NONE
};

/// The directory of the file, and the running values: programs write to both.
pub fn watch(profile: &dyn Declared, _: &Facts) -> Watch {
    let mut watch = Watch::directories(&["/etc/sysctl.d"]);
    let wanted = profile.get::<Sysctl>().into_iter().flat_map(|section| &section.set);
    watch.attributes = wanted.map(|setting| setting.key.path()).collect();
    watch
}
