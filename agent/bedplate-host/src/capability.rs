//! What the kernel lets a process do that runs as root: a unit's sandbox may have taken some of it (capabilities(7),
//! include/uapi/linux/capability.h).

/// Where a process finds its own, inside the host.
pub const STATUS: &str = "/proc/self/status";
/// Setting attributes of VFs and modes of eswitches (net/core/rtnetlink.c, net/devlink/netlink_gen.c).
pub const NET_ADMIN: u32 = 12;
/// Choosing how the machine is reset; asked for at the write, not when the file is opened (kernel/reboot.c).
pub const SYS_BOOT: u32 = 22;

/// Whether a process with this [`STATUS`] has the capability in effect; `None` = it does not say.
pub fn in_effect(status: &str, capability: u32) -> Option<bool> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(hex.trim(), 16).ok()?;
    Some(bits & (1 << capability) != 0)
}

/// Whether a process with this [`STATUS`] runs as root, by its effective user.
pub fn is_root(status: &str) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let shipped = "Name:\tbedplate\nUid:\t0\t0\t0\t0\nCapEff:\t000000000029000a\n";
        assert_eq!(in_effect(shipped, NET_ADMIN), Some(false));
        assert_eq!(in_effect("CapEff:\t0000000000001000\n", NET_ADMIN), Some(true));
        assert_eq!(in_effect("Name:\tbedplate\n", NET_ADMIN), None);
        assert!(is_root(shipped) && !is_root("Uid:\t0\t1000\t0\t0\n"));
        let own = std::fs::read_to_string(STATUS).unwrap();
        assert!(in_effect(&own, SYS_BOOT).is_some(), "{own}");
    }
}
