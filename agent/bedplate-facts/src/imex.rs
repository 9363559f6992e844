//! IMEX: the daemon that lets compute trays of an NVL72 rack share GPU memory over NVLink (NVIDIA IMEX Service guide;
//! handbook §6.5).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::pci::PciTree;
use super::process::Daemon;
use super::superchip::is_rack_gpu;
use bedplate_base::Reading;
use bedplate_host::Reader;

/// Path of the daemon.
pub const PROGRAM: &str = "/usr/bin/nvidia-imex";
/// Path of the configuration.
pub const CONFIG: &str = "/etc/nvidia-imex/config.cfg";
/// Default path of the list of trays that share memory; the configuration can name another file.
pub const NODES: &str = "/etc/nvidia-imex/nodes_config.cfg";
/// Device nodes through which jobs enter a domain (open-gpu-kernel-modules kernel-open/nvidia/nv-caps-imex.c).
pub const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";
/// Configuration key for the tray list.
pub const NODES_KEY: &str = "IMEX_NODE_CONFIG_FILE=";
/// Source of this host's IPv4 addresses: its routing tree.
pub const FIB_TRIE: &str = "/proc/net/fib_trie";
/// Source of this host's IPv6 addresses.
pub const IF_INET6: &str = "/proc/net/if_inet6";
/// Line below an address of this host in [`FIB_TRIE`] (net/ipv4/fib_trie.c).
pub const LOCAL: &str = "/32 host LOCAL";
const DAEMON: Daemon = Daemon {
    unit: "nvidia-imex",
    pid_file: "/run/nvidia-imex.pid",
    program: "nvidia-imex",
    is_main: true,
};

/// State of a configured IMEX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imex {
    /// Whether the daemon runs.
    pub runs: Reading<bool>,
    /// The list of trays.
    pub nodes: Reading<Nodes>,
    /// Number of channels.
    pub channels: Reading<usize>,
}

/// The list of trays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Path of the list.
    pub path: String,
    /// Number of lines with an address of this host; `None`: no match, but some lines hold names, which are not
    /// resolved.
    pub own: Option<usize>,
}

/// Observes IMEX. `None`: no rack GPU, or IMEX is not set up. Jobs within one tray do not need it, and under Kubernetes
/// it runs in pods.
pub fn observe(reader: &dyn Reader, tree: Option<&PciTree>) -> Option<Imex> {
    if !is_set_up(reader, tree) {
        return None;
    }
    let channels = match Reading::from_result(reader.list(CHANNELS)) {
        Reading::Absent => Reading::Known(0),
        names => names.map(|names| names.len()),
    };
    Some(Imex { runs: DAEMON.runs(reader), nodes: nodes(reader), channels })
}

/// Reads the same files as [`observe`], except a list at a configured path, which is site-specific.
pub fn record(reader: &dyn Reader, tree: Option<&PciTree>) {
    if is_set_up(reader, tree) {
        DAEMON.runs(reader);
        let _ = reader.list(CHANNELS);
        [CONFIG, NODES, FIB_TRIE, IF_INET6].iter().for_each(|path| drop(reader.read(path)));
    }
}

fn is_set_up(reader: &dyn Reader, tree: Option<&PciTree>) -> bool {
    let is_tray = |tree: &PciTree| {
        let mut all = tree.functions.values();
        all.any(|gpu| is_rack_gpu(gpu) && !gpu.vfio)
    };
    let is_there = |path: &str| reader.exists(path).is_ok_and(|there| there);
    tree.is_some_and(is_tray) && is_there(PROGRAM) && is_there(CONFIG)
}

fn nodes(reader: &dyn Reader) -> Reading<Nodes> {
    let config = match Reading::from_result(reader.text(CONFIG)) {
        Reading::Known(text) => text,
        Reading::Absent => String::new(),
        Reading::Unknown(why) => return Reading::Unknown(why),
    };
    let set = config.lines().filter_map(|line| line.trim().strip_prefix(NODES_KEY)).next_back();
    let path = set.map(str::trim).filter(|path| !path.is_empty()).unwrap_or(NODES).to_owned();
    let text = match Reading::from_result(reader.text(&path)) {
        Reading::Known(text) => text,
        Reading::Absent => return Reading::Absent,
        Reading::Unknown(why) => return Reading::Unknown(why),
    };
    let own = match own_addresses(reader) {
        Reading::Known(own) => own,
        Reading::Absent => return Reading::unknown("this host's addresses are not visible here"),
        Reading::Unknown(why) => return Reading::Unknown(why),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !is_comment(line)).collect();
    let addresses: Vec<IpAddr> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    let count = addresses.iter().filter(|address| own.contains(address)).count();
    let own = (count > 0 || addresses.len() == lines.len()).then_some(count);
    Reading::Known(Nodes { path, own })
}

/// Reads this host's addresses. `Absent`: only loopback, as in a private network namespace.
fn own_addresses(reader: &dyn Reader) -> Reading<BTreeSet<IpAddr>> {
    let mut own = BTreeSet::new();
    for (path, parse) in [(FIB_TRIE, ipv4 as fn(&str) -> Vec<IpAddr>), (IF_INET6, ipv6)] {
        match Reading::from_result(reader.text(path)) {
            Reading::Known(text) => own.extend(parse(&text)),
            Reading::Absent => {}
            Reading::Unknown(why) => return Reading::Unknown(why),
        }
    }
    own.retain(|address| !address.is_loopback());
    match own.is_empty() {
        true => Reading::Absent,
        false => Reading::Known(own),
    }
}

/// Whether a line of the list is blank or a comment.
pub fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.trim().starts_with('#')
}

/// Parses local leaves of the routing tree: an address with [`LOCAL`] below it.
pub fn ipv4(text: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("|-- ") {
            Some(address) => leaf = address.parse().ok(),
            None if line == LOCAL => found.extend(leaf.map(IpAddr::from)),
            None => {}
        }
    }
    found
}

/// Parses addresses of 32 hexadecimal digits in the first column (net/ipv6/addrconf.c, `if6_seq_show`).
pub fn ipv6(text: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let digits = line.split(' ').next().filter(|digits| digits.len() == 32)?;
        Some(IpAddr::from(Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?)))
    };
    text.lines().filter_map(address).collect()
}
