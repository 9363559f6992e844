//! Names of kernel parameters, by the rule of sysctl.d(5): the first separator decides what dots and slashes mean.

use std::fmt;

use serde::{Serialize, Serializer};

use bedplate_base::value::NotAValue;

/// A kernel parameter, as its path below /proc/sys (`net/ipv4/conf/eth0.100/rp_filter`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// A key as sysctl.d writes it. After a dot as first separator dots separate and slashes stand for dots; after a
    /// slash both are what they are (systemd src/basic/sysctl-util.c, sysctl_normalize).
    ///
    /// # Errors
    /// When it could lead out of /proc/sys, or a line of sysctl.d could not carry it.
    pub fn new(text: &str) -> Result<Self, NotAValue> {
        let path = match text.find(['.', '/']).map(|at| &text[at..=at]) {
            Some(".") => text.chars().map(swap).collect(),
            _ => text.to_owned(),
        };
        // Patterns too are refused: what they match changes while the host runs.
        let good = |c: char| c.is_ascii_alphanumeric() || "_-.:@+,~".contains(c);
        let whole =
            |part: &str| !part.is_empty() && part != "." && part != ".." && part.chars().all(good);
        // sysctl.d reads a `-` in front as "ignore errors".
        let fits = path.contains('/') && !path.starts_with('-') && path.split('/').all(whole);
        match fits {
            true => Ok(Key(path)),
            false => Err(NotAValue {
                text: text.to_owned(),
                expected: "a sysctl key like `kernel.numa_balancing`",
            }),
        }
    }

    /// The key of a path below /proc/sys.
    pub fn of_path(path: &str) -> Option<Self> {
        Key::new(path.strip_prefix("/proc/sys/")?).ok()
    }

    /// Whether its value names a program that the kernel runs as root, or limits those programs (kernel/umh.c, kernel/reboot.c,
    /// kernel/module/kmod.c, lib/kobject_uevent.c, fs/coredump.c, fs/binfmt_misc.c, fs/ocfs2/stackglue.c). No profile sets these,
    /// and so no ledger may have them.
    pub fn names_program(&self) -> bool {
        const KEYS: [&str; 5] = [
            "fs/ocfs2/nm/hb_ctl_path",
            "kernel/core_pattern",
            "kernel/hotplug",
            "kernel/modprobe",
            "kernel/poweroff_cmd",
        ];
        const BELOW: [&str; 2] = ["fs/binfmt_misc/", "kernel/usermodehelper/"];
        KEYS.contains(&self.0.as_str()) || BELOW.iter().any(|below| self.0.starts_with(below))
    }

    /// The network interface whose parameter it is, with the directory that the kernel makes when the interface comes
    /// (net/ipv4/devinet.c, net/ipv6/addrconf.c, net/core/neighbour.c).
    pub fn interface(&self) -> Option<(&str, String)> {
        let mut parts = self.0.split('/');
        let (net, family, table) = (parts.next()?, parts.next()?, parts.next()?);
        let (name, _parameter) = (parts.next()?, parts.next()?);
        let each = net == "net" && ["conf", "neigh"].contains(&table);
        each.then(|| (name, format!("/proc/sys/net/{family}/{table}/{name}")))
    }

    /// Where the kernel shows it.
    pub fn path(&self) -> String {
        format!("/proc/sys/{}", self.0)
    }
}

fn swap(c: char) -> char {
    match c {
        '.' => '/',
        '/' => '.',
        c => c,
    }
}

impl fmt::Display for Key {
    /// As people write it: with dots, unless a dot is part of a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.contains('.') {
            true => f.write_str(&self.0),
            false => f.write_str(&self.0.replace('/', ".")),
        }
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A value with one blank where the kernel or an operator has several, or a tab.
pub(crate) fn folded(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> String {
        Key::new(text).unwrap().path()
    }

    #[test]
    fn parameters_of_interfaces_are_known_by_their_place() {
        let of = |key: &str| Key::new(key).unwrap().interface().map(|(name, _)| name.to_owned());
        assert_eq!(of("net/ipv4/conf/eth0.100/rp_filter").as_deref(), Some("eth0.100"));
        assert_eq!(of("net.ipv6.neigh.eth1.gc_stale_time").as_deref(), Some("eth1"));
        for key in
            ["net.ipv4.tcp_rmem", "net.core.somaxconn", "kernel.a.conf.b.c", "net.ipv4.conf.a"]
        {
            assert_eq!(of(key), None, "{key}");
        }
    }

    #[test]
    fn the_first_separator_decides() {
        assert_eq!(path("kernel.numa_balancing"), "/proc/sys/kernel/numa_balancing");
        assert_eq!(path("kernel/numa_balancing"), path("kernel.numa_balancing"));
        let vlan = "/proc/sys/net/ipv4/conf/eth0.100/rp_filter";
        assert_eq!(path("net/ipv4/conf/eth0.100/rp_filter"), vlan);
        assert_eq!(path("net.ipv4.conf.eth0/100.rp_filter"), vlan);
    }

    #[test]
    fn a_key_is_written_so_that_it_reads_as_itself() {
        for (text, shown) in [
            ("kernel/numa_balancing", "kernel.numa_balancing"),
            ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
        ] {
            let key = Key::new(text).unwrap();
            assert_eq!(key.to_string(), shown);
            assert_eq!(Key::new(shown).unwrap(), key);
        }
    }

    #[test]
    fn what_leads_elsewhere_or_is_no_single_key_is_refused() {
        for text in [
            "",
            "kernel",
            "/kernel/x",
            ".kernel.x",
            "kernel..x",
            "kernel.",
            "kernel/../x",
            "kernel/./x",
            "../etc/passwd",
            "-kernel.x",
            "net.ipv4.conf.*.rp_filter",
            "kernel.a b",
            "kernel.a=1",
            "kernel.a\n",
            "kernel.#a",
            "kernel.//.x",
        ] {
            assert!(Key::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn blanks_are_folded() {
        assert_eq!(folded("4096\t131072  6291456\n"), "4096 131072 6291456");
    }
}
