//! Names of kernel parameters, by the rule of sysctl.d(5): the first separator decides the meaning of dots and slashes.

use std::fmt;

use serde::{Serialize, Serializer};

use bedplate_base::value::NotAValue;

/// A kernel parameter, as its path below /proc/sys (`net/ipv4/conf/eth0.100/rp_filter`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// Parses a key as written in sysctl.d. If the first separator is a dot, dots separate and slashes represent dots. If
    /// it is a slash, both are literal (systemd src/basic/sysctl-util.c, sysctl_normalize).
    ///
    /// # Errors
    /// If the key could lead out of /proc/sys, or a line of sysctl.d could not carry it.
    pub fn new(text: &str) -> Result<Self, NotAValue> {
        let path = match text.find(['.', '/']).map(|at| &text[at..=at]) {
            Some(".") => text.chars().map(swap).collect(),
            _ => text.to_owned(),
        };
        // Rejects patterns too: their matches change while the host runs.
        let good = |c: char| c.is_ascii_alphanumeric() || "_-.:@+,~".contains(c);
        let whole =
            |part: &str| !part.is_empty() && part != "." && part != ".." && part.chars().all(good);
        // sysctl.d reads a leading `-` as "ignore errors".
        let fits = path.contains('/') && !path.starts_with('-') && path.split('/').all(whole);
        match fits {
            true => Ok(Key(path)),
            false => Err(NotAValue {
                text: text.to_owned(),
                expected: "a sysctl key like `kernel.numa_balancing`",
            }),
        }
    }

    /// Returns the key for a path below /proc/sys.
    pub fn of_path(path: &str) -> Option<Self> {
        Key::new(path.strip_prefix("/proc/sys/")?).ok()
    }

    /// Whether its value names a program that the kernel runs as root, or limits those programs (kernel/umh.c,
    /// kernel/reboot.c, kernel/module/kmod.c, lib/kobject_uevent.c, fs/coredump.c, fs/binfmt_misc.c, fs/ocfs2/stackglue.c).
    /// Profiles cannot set these keys, so a ledger must not contain them.
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

    /// Returns the network interface that the parameter belongs to, and the directory that the kernel creates with that
    /// interface (net/ipv4/devinet.c, net/ipv6/addrconf.c, net/core/neighbour.c).
    pub fn interface(&self) -> Option<(&str, String)> {
        let mut parts = self.0.split('/');
        let (net, family, table) = (parts.next()?, parts.next()?, parts.next()?);
        let (name, _parameter) = (parts.next()?, parts.next()?);
        let each = net == "net" && ["conf", "neigh"].contains(&table);
        each.then(|| (name, format!("/proc/sys/net/{family}/{table}/{name}")))
    }

    /// Returns the parameter's path in /proc/sys.
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
    /// The usual form: with dots, unless a component contains a dot.
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

/// Replaces each run of blanks or tabs by one blank.
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
    fn interface_is_parsed_from_conf_and_neigh_keys() {
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
    fn first_separator_decides_meaning_of_dots() {
        assert_eq!(path("kernel.numa_balancing"), "/proc/sys/kernel/numa_balancing");
        assert_eq!(path("kernel/numa_balancing"), path("kernel.numa_balancing"));
        let vlan = "/proc/sys/net/ipv4/conf/eth0.100/rp_filter";
        assert_eq!(path("net/ipv4/conf/eth0.100/rp_filter"), vlan);
        assert_eq!(path("net.ipv4.conf.eth0/100.rp_filter"), vlan);
    }

    #[test]
    fn displayed_key_parses_to_itself() {
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
    fn unsafe_or_pattern_keys_are_rejected() {
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
    fn blanks_are_normalized() {
        assert_eq!(folded("4096\t131072  6291456\n"), "4096 131072 6291456");
    }
}
