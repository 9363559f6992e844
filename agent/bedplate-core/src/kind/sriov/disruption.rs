//! Effect of creating or removing VFs on the PF's own traffic (handbook §14.5), and whether the default route depends on
//! that traffic.

use std::collections::BTreeSet;

use super::attributes::names_of;
use super::{NAME, Need, Pf, VfDifference, usage};
use crate::kind::some_of;
use crate::plan::KindPlan;
use bedplate_base::value::vf::VfAttributes;
use bedplate_base::{OptionalRead as _, ReadError, Reading};
use bedplate_host::Reader;

const NET: &str = "/sys/class/net";
/// IPv4 routes of the main table, one next hop per route; for snapshots made before all next hops were recorded.
const ROUTES: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
/// `RTF_UP` and `RTF_REJECT` of include/uapi/linux/route.h.
const RTF_UP: u32 = 0x0001;
const RTF_REJECT: u32 = 0x0200;

/// The master of every Open vSwitch port. Routes name its internal ports, which have no link to it or to other ports: only
/// flow tables show which port carries their traffic (net/openvswitch/vport-netdev.c, vport-internal_dev.c).
const OPEN_VSWITCH: &str = "ovs-system";

/// Path from a PF to the default route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DefaultRoute {
    /// The PF's own interface.
    interface: String,
    /// Interface named by the route: the PF's own, a bond, bridge or VLAN on it, or a possible internal port of Open
    /// vSwitch.
    through: String,
    /// Whether Open vSwitch is in between, so that the path is only assumed.
    switched: bool,
}

/// The default route through a PF, if there is one.
pub(super) type RouteReading = Result<Option<DefaultRoute>, ReadError>;

impl std::fmt::Display for DefaultRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DefaultRoute { interface, through, switched } = self;
        if *switched {
            return write!(
                f,
                "the default route may go through {interface} (it names {through}; only Open vSwitch's flow tables \
                 show its port)"
            );
        }
        match interface == through {
            true => write!(f, "the default route goes through {interface}"),
            false => write!(f, "the default route goes through {through}, which is on {interface}"),
        }
    }
}

impl Pf<'_> {
    /// Returns the default route that the needed work may interrupt.
    pub(super) fn route_at_stake(&self, need: Need, differing: &[VfDifference]) -> RouteReading {
        if makes_or_removes(need) || self.switch.is_some() {
            return self.default_route(&self.function.net);
        }
        let of_vfs = self.cut_by_attributes(differing);
        if of_vfs.is_empty() { Ok(None) } else { self.default_route(&of_vfs) }
    }

    /// Returns interfaces of VFs that may lose traffic with the new attributes. Trust permits more, and a rate limit passes
    /// some.
    fn cut_by_attributes(&self, differing: &[VfDifference]) -> Vec<String> {
        let cuts = |differs: &&VfDifference| {
            let after = differs.after;
            let harmless = VfAttributes {
                trust: after.trust,
                min_tx_rate: after.min_tx_rate,
                max_tx_rate: after.max_tx_rate,
                ..VfAttributes::default()
            };
            !after.without(&harmless).is_empty()
        };
        let vf = |differs: &VfDifference| self.sriov.vfs.get(usize::from(differs.number));
        let vfs = differing.iter().filter(cuts).filter_map(vf);
        vfs.filter_map(|vf| self.tree.get(*vf)).flat_map(|vf| vf.net.clone()).collect()
    }

    fn default_route(&self, interfaces: &[String]) -> RouteReading {
        let reader = self.context.reader;
        let routed = default_route_interfaces(reader)?;
        if routed.is_empty() {
            return Ok(None);
        }
        let route = |interface: &String, through: &String, switched| DefaultRoute {
            interface: interface.clone(),
            through: through.clone(),
            switched,
        };
        let mut supposed = None;
        for interface in interfaces {
            let above = linked(interface, ABOVE, reader)?;
            let mut stack = std::iter::once(interface).chain(&above);
            if let Some(through) = stack.find(|name| routed.contains(*name)) {
                return Ok(Some(route(interface, through, false)));
            }
            if above.iter().any(|name| name == OPEN_VSWITCH) && supposed.is_none() {
                let through = self.on_no_device(&routed)?;
                supposed = through.map(|through| route(interface, through, true));
            }
        }
        Ok(supposed)
    }

    /// Returns the first of these interfaces that is on one without a device, as internal ports of Open vSwitch are.
    fn on_no_device<'r>(
        &self,
        routed: &'r BTreeSet<String>,
    ) -> Result<Option<&'r String>, ReadError> {
        let reader = self.context.reader;
        let is_of_pci = |name: &String| {
            self.tree.functions.values().any(|function| function.net.contains(name))
        };
        for through in routed {
            let below = linked(through, BELOW, reader)?;
            for name in std::iter::once(through).chain(&below).filter(|name| !is_of_pci(name)) {
                let entries = entries(name, reader)?;
                let has_device = |entry: &String| entry == "device" || entry.starts_with(BELOW);
                if !entries.iter().any(has_device) {
                    return Ok(Some(through));
                }
            }
        }
        Ok(None)
    }

    /// Whether the change may disturb the PF's own traffic; if not, reports the reason in `section`.
    pub(super) fn may_disturb(
        &self,
        need: Need,
        differing: &[VfDifference],
        route: &RouteReading,
        section: &mut KindPlan,
    ) -> bool {
        if self.wanted.rule.allow_disruption {
            return true;
        }
        let (what, out, how_long) = match (makes_or_removes(need), self.switch) {
            (true, _) => ("creating or removing VFs".to_owned(), "", " briefly"),
            (false, Some(_)) => ("changing the eswitch mode".to_owned(), "", " briefly"),
            (false, None) => {
                let names = names_of(differing).join(", ");
                (format!("setting {names} on that VF"), "remove it from `vf`, ", "")
            }
        };
        match route {
            // Plans for snapshots may continue: bedplate never writes to a recorded host.
            Ok(None) | Err(ReadError::NotRecorded { .. }) => true,
            Ok(Some(route)) => {
                let rule = &self.wanted.rule.name;
                section.blockers.push(NAME.blocker(
                    self.subject(),
                    format!("{route}: {what} may cut this host off from the network"),
                    format!(
                        "{out}exclude this port with `select` in rule {rule}, or set `allow_disruption = true` there \
                         if the host may be cut off{how_long}"
                    ),
                ));
                false
            }
            Err(error) => {
                self.unknown(unknown_route(error), section);
                false
            }
        }
    }

    /// Describes the effects on the PF's own traffic while VFs are created or removed, one sentence per effect.
    pub(super) fn disturbs(&self) -> Vec<String> {
        let reader = self.context.reader;
        // An interface that is down has no traffic. Unknown counts as up.
        let up: Vec<&String> = self
            .function
            .net
            .iter()
            .filter(|name| usage::is_up(name, reader) != Reading::Known(false))
            .collect();
        let Some(first) = up.first() else { return Vec::new() };
        let driver = self.function.driver.as_deref().unwrap_or_default();
        match driver {
            // ixgbe_sriov.c ixgbe_pci_sriov_enable; igb_main.c igb_sriov_reinit.
            "ixgbe" | "igb" => {
                vec![format!("{first} loses its link for some seconds: {driver} resets the port")]
            }
            "ice" | "bnxt_en" => {
                vec![format!("traffic of {first} pauses: {driver} stops and restarts its queues")]
            }
            "mlx5_core" => up.iter().flat_map(|name| self.hardware_lag(name)).collect(),
            _ => Vec::new(),
        }
    }

    /// Describes the effect on LAG. mlx5 takes hardware LAG down around SR-IOV, and RoCE LAG stays off while there are VFs
    /// (mlx5 eswitch.c, lag/lag.c).
    fn hardware_lag(&self, interface: &str) -> Vec<String> {
        let reader = self.context.reader;
        let bonds = linked(interface, ABOVE, reader).unwrap_or_default();
        let slaves = |bond: &String| {
            let slaves = reader.text(&format!("{NET}/{bond}/bonding/slaves")).ok()?;
            Some((bond.clone(), slaves.split_whitespace().map(str::to_owned).collect::<Vec<_>>()))
        };
        let Some((bond, slaves)) = bonds.iter().find_map(slaves) else { return Vec::new() };
        let mut out =
            vec![format!("traffic of {bond} pauses: mlx5_core rebuilds its hardware LAG")];
        let of_bond = |name: &&String| slaves.contains(name);
        let functions = self.tree.functions.values();
        let rdma: Vec<String> = functions
            .filter(|function| function.net.iter().any(|name| of_bond(&name)))
            .flat_map(|function| function.infiniband.iter())
            .filter(|device| device.starts_with("mlx5_bond"))
            .cloned()
            .collect();
        if !rdma.is_empty() && self.wanted.count > 0 {
            let devices = some_of(rdma.into_iter(), 4, "RDMA devices");
            out.push(format!(
                "{devices}, the RDMA device of {bond}, disappears: RoCE LAG and VFs exclude each other"
            ));
        }
        out
    }
}

fn makes_or_removes(need: Need) -> bool {
    matches!(need, Need::Create | Need::Destroy)
}

/// Warns that the host itself may be cut off. An unknown route may be this one.
pub(super) fn cut_off(route: &RouteReading) -> Option<String> {
    let reason = match route {
        Ok(route) => route.as_ref()?.to_string(),
        Err(error) => unknown_route(error),
    };
    Some(format!("{reason}: this host may be unreachable during the change"))
}

fn unknown_route(error: &ReadError) -> String {
    format!("cannot tell whether the default route goes through this port ({error})")
}

/// Prefixes of the links from an interface to those above and below it.
const ABOVE: &str = "upper_";
const BELOW: &str = "lower_";

/// Lists an interface's directory in sysfs.
fn entries(interface: &str, reader: &dyn Reader) -> Result<Vec<String>, ReadError> {
    Ok(reader.list(&format!("{NET}/{interface}")).optional()?.unwrap_or_default())
}

/// Returns the interfaces above ([`ABOVE`]: bonds, bridges, VLANs, recursively) or below another one, nearest first.
fn linked(interface: &str, way: &str, reader: &dyn Reader) -> Result<Vec<String>, ReadError> {
    let mut found: Vec<String> = Vec::new();
    let mut next = 0;
    let mut at = interface.to_owned();
    loop {
        for name in entries(&at, reader)? {
            if let Some(other) = name.strip_prefix(way)
                && !found.iter().any(|known| known == other)
            {
                found.push(other.to_owned());
            }
        }
        match found.get(next) {
            Some(other) => at.clone_from(other),
            None => return Ok(found),
        }
        next += 1;
    }
}

/// Returns the interfaces of default routes of both families. Routes known only to policy routing are not included.
fn default_route_interfaces(reader: &dyn Reader) -> Result<BTreeSet<String>, ReadError> {
    match reader.default_routes() {
        Err(ReadError::NotRecorded { .. }) => of_tables(reader),
        other => other,
    }
}

fn of_tables(reader: &dyn Reader) -> Result<BTreeSet<String>, ReadError> {
    // A kernel without the family has no routes of it.
    let text = |path| reader.text(path).optional().map(Option::unwrap_or_default);
    let flags_good = |flags: &str| {
        u32::from_str_radix(flags, 16)
            .is_ok_and(|flags| flags & RTF_UP != 0 && flags & RTF_REJECT == 0)
    };
    let mut found = BTreeSet::new();
    for line in text(ROUTES)?.lines() {
        // Iface Destination Gateway Flags RefCnt Use Metric Mask …
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [interface, "00000000", _, flags, _, _, _, "00000000", ..] = words.as_slice()
            && flags_good(flags)
        {
            found.insert((*interface).to_owned());
        }
    }
    for line in text(ROUTES_V6)?.lines() {
        // Destination, its prefix length, source, its prefix length, next hop, metric, references, use, flags, interface.
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [to, "00", _, _, _, _, _, _, flags, interface] = words.as_slice()
            && to.bytes().all(|digit| digit == b'0')
            && flags_good(flags)
        {
            found.insert((*interface).to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::fixture::Files;

    const V4: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                      eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                      eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                      *\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n\
                      eth2\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000080\t0\t0\t0\n";
    const V6: &str = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     br0\n\
                      00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n\
                      fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1\n";

    #[test]
    fn default_routes_of_both_families_are_found() {
        let files = Files::new(&[(ROUTES, V4), (ROUTES_V6, V6)]);
        let found = default_route_interfaces(&files).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["br0", "eth0"]);
        assert_eq!(default_route_interfaces(&Files::default()).unwrap(), BTreeSet::new());
        let mut denied = Files::new(&[(ROUTES, V4)]);
        denied.denied.insert(ROUTES_V6.into());
        assert!(default_route_interfaces(&denied).is_err());
    }

    #[test]
    fn linked_interfaces_are_followed_without_looping() {
        let mut files = Files::new(&[
            ("/sys/class/net/eth0/upper_bond0", ""),
            ("/sys/class/net/eth0/flags", "0x1003"),
            ("/sys/class/net/bond0/upper_br0", ""),
            ("/sys/class/net/bond0/upper_bond0.7", ""),
            ("/sys/class/net/bond0.7/lower_bond0", ""),
            // A loop must not hang the walk.
            ("/sys/class/net/br0/upper_bond0", ""),
        ]);
        let mut found = linked("eth0", ABOVE, &files).unwrap();
        found.sort();
        assert_eq!(found, ["bond0", "bond0.7", "br0"]);
        files.denied.insert("/sys/class/net/bond0".into());
        assert!(linked("eth0", ABOVE, &files).is_err());
    }
}
