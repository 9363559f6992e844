//! What the kernel answers by netlink and /dev/kmsg, where there is no kernel to ask: snapshots and made-up hosts keep the
//! answers as files of JSON, at paths that no host has.

use bedplate_base::value::PciAddress;

/// Below it are the answers.
pub const ANSWERS: &str = "/.bedplate";

/// Where the answer to [`Reader::vfs`](crate::Reader::vfs) is kept.
pub fn vfs_at(interface: &str) -> String {
    format!("{ANSWERS}/vfs/{interface}")
}

/// Where the answer to [`Reader::eswitch`](crate::Reader::eswitch) is kept.
pub fn eswitch_at(pf: PciAddress) -> String {
    format!("{ANSWERS}/eswitch/{pf}")
}

/// Where the answer to [`Reader::flow_control`](crate::Reader::flow_control) is kept.
pub fn flow_control_at(interface: &str) -> String {
    format!("{ANSWERS}/dcb/{interface}")
}

/// Where the answer to [`Reader::default_routes`](crate::Reader::default_routes) is kept.
pub const ROUTES: &str = "/.bedplate/default-routes";

/// What [`Reader::default_routes`](crate::Reader::default_routes) is about, for people.
pub(super) const ROUTES_NAMED: &str = "the list of default routes";

/// Where the answer to [`Reader::kernel_log`](crate::Reader::kernel_log) is kept.
pub const KERNEL_LOG: &str = "/.bedplate/kernel-log";

/// What [`Reader::kernel_log`](crate::Reader::kernel_log) is about, for people.
pub(super) const KERNEL_LOG_NAMED: &str = super::kmsg::PATH;

/// What [`Reader::vfs`](crate::Reader::vfs) is about, for people.
pub(super) fn vfs_named(interface: &str) -> String {
    format!("the VF list of {interface}")
}

/// What [`Reader::eswitch`](crate::Reader::eswitch) is about, for people.
pub(super) fn eswitch_named(pf: PciAddress) -> String {
    format!("the eswitch mode of {pf}")
}

/// What [`Reader::flow_control`](crate::Reader::flow_control) is about, for people.
pub(super) fn flow_control_named(interface: &str) -> String {
    format!("the flow control of {interface}")
}
