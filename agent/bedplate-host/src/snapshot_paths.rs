//! Recorded answers of netlink and /dev/kmsg: snapshots and fake hosts store them as JSON files at paths that no real
//! host has.

use bedplate_base::value::PciAddress;

/// Directory of the answers.
pub const ANSWERS: &str = "/.bedplate";

/// Returns the path of the recorded answer to [`Reader::vfs`](crate::Reader::vfs).
pub fn vfs_at(interface: &str) -> String {
    format!("{ANSWERS}/vfs/{interface}")
}

/// Returns the path of the recorded answer to [`Reader::eswitch`](crate::Reader::eswitch).
pub fn eswitch_at(pf: PciAddress) -> String {
    format!("{ANSWERS}/eswitch/{pf}")
}

/// Returns the path of the recorded answer to [`Reader::flow_control`](crate::Reader::flow_control).
pub fn flow_control_at(interface: &str) -> String {
    format!("{ANSWERS}/dcb/{interface}")
}

/// Path of the recorded answer to [`Reader::default_routes`](crate::Reader::default_routes).
pub const ROUTES: &str = "/.bedplate/default-routes";

/// Display name of [`Reader::default_routes`](crate::Reader::default_routes).
pub(super) const ROUTES_NAMED: &str = "the list of default routes";

/// Path of the recorded answer to [`Reader::kernel_log`](crate::Reader::kernel_log).
pub const KERNEL_LOG: &str = "/.bedplate/kernel-log";

/// Display name of [`Reader::kernel_log`](crate::Reader::kernel_log).
pub(super) const KERNEL_LOG_NAMED: &str = super::kmsg::PATH;

/// Path of the recorded answer to [`Reader::grub_header_block`](crate::Reader::grub_header_block).
pub const GRUB_HEADER_BLOCK: &str = "/.bedplate/grub-header-block";

/// Display name of [`Reader::grub_header_block`](crate::Reader::grub_header_block).
pub(super) const GRUB_HEADER_BLOCK_NAMED: &str = "GRUB's environment block in the Btrfs header";

/// Returns the display name of [`Reader::vfs`](crate::Reader::vfs).
pub(super) fn vfs_named(interface: &str) -> String {
    format!("the VF list of {interface}")
}

/// Returns the display name of [`Reader::eswitch`](crate::Reader::eswitch).
pub(super) fn eswitch_named(pf: PciAddress) -> String {
    format!("the eswitch mode of {pf}")
}

/// Returns the display name of [`Reader::flow_control`](crate::Reader::flow_control).
pub(super) fn flow_control_named(interface: &str) -> String {
    format!("the flow control of {interface}")
}
