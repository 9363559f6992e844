//! Effective capabilities of a root process: a unit's sandbox may drop some (capabilities(7),
//! include/uapi/linux/capability.h).

/// Status file of the reading process, inside the host.
pub const STATUS: &str = "/proc/self/status";
/// Required to set attributes of VFs and modes of eswitches (net/core/rtnetlink.c, net/devlink/netlink_gen.c).
pub const NET_ADMIN: u32 = 12;
/// Required to choose how the machine resets. The kernel checks it at the write, not at the open (kernel/reboot.c).
pub const SYS_BOOT: u32 = 22;

/// Whether the capability is in effect, according to this [`STATUS`] text. `None` if the text does not list it.
pub fn in_effect(status: &str, capability: u32) -> Option<bool> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(hex.trim(), 16).ok()?;
    Some(bits & (1 << capability) != 0)
}

/// Whether the process of this [`STATUS`] text has root as its effective user.
pub fn is_root(status: &str) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_and_root_are_read_from_status() {
        let shipped = "Name:\tbedplate\nUid:\t0\t0\t0\t0\nCapEff:\t000000000029000a\n";
        assert_eq!(in_effect(shipped, NET_ADMIN), Some(false));
        assert_eq!(in_effect("CapEff:\t0000000000001000\n", NET_ADMIN), Some(true));
        assert_eq!(in_effect("Name:\tbedplate\n", NET_ADMIN), None);
        assert!(is_root(shipped) && !is_root("Uid:\t0\t1000\t0\t0\n"));
        let own = std::fs::read_to_string(STATUS).unwrap();
        assert!(in_effect(&own, SYS_BOOT).is_some(), "{own}");
    }
}
