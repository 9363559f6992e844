//! VF attributes and the eswitch mode of their PF: the desired values for each VF on this machine, compared with the
//! kernel's. Attributes that cannot be read back are refused, not tried.

use super::unstarted_vfs::starting;
use super::vf_diff::{VfDifference, ranges};
use super::{Pf, usage};
use crate::desired::{VfDriver, WantedAttributes};
use crate::kind::some_of;
use crate::plan::{Action, Item, Rationale};
use crate::setting::{SetEswitch, SetVf, VfKey};
use bedplate_base::ReadError;
use bedplate_base::value::vf::{EswitchMode, VfAttributes, VfTable};
use bedplate_facts::uplink;
use bedplate_host::HostKind;

/// Time limit in seconds for one attribute, or for the driver of one VF to start: some query firmware (handbook §5.2).
const LIMIT_S: u32 = 60;
/// Time limit in seconds for an eswitch: the driver removes its RDMA device and builds tables for every VF.
const ESWITCH_LIMIT_S: u32 = 300;

/// Reason for planning nothing.
pub(super) enum Stop {
    Unknown(String),
    Blocked { reason: String, fix: String },
}

impl Pf<'_> {
    fn is_infiniband(&self) -> bool {
        self.function.class >> 8 == 0x0207
    }

    fn driver(&self) -> &str {
        self.function.driver.as_deref().unwrap_or("none")
    }

    /// Returns the attributes that apply to this port type: Ethernet has no GUIDs, InfiniBand no MAC addresses.
    fn wanted_attributes(&self) -> WantedAttributes {
        let infiniband = self.is_infiniband();
        let wanted = self.wanted.rule.vf;
        WantedAttributes {
            mac: wanted.mac && !infiniband,
            guid: wanted.guid && infiniband,
            set: wanted.set,
        }
    }

    /// Returns the VFs with differing attributes, or all of them if they are created `fresh`.
    pub(super) fn differing(&self, fresh: bool) -> Result<Vec<VfDifference>, Stop> {
        let wanted = self.wanted_attributes();
        if self.wanted.count == 0 {
            return Ok(Vec::new());
        }
        if wanted == WantedAttributes::default() {
            return Ok(if fresh { Vec::new() } else { self.pending_starts() });
        }
        self.can_be_set(&wanted)?;
        let table = match fresh && !wanted.mac && !wanted.guid {
            true => VfTable::default(),
            false => self.table()?,
        };
        let all = (0..self.wanted.count).map(|number| {
            let after = attributes_of(&wanted, &table, number).ok_or_else(|| {
                Stop::Unknown(format!(
                    "the kernel does not report the permanent address of {}, from which VF addresses are derived",
                    self.interface().unwrap_or_default()
                ))
            })?;
            if fresh {
                let start = self.wanted.rule.vf_driver == VfDriver::Auto && self.is_to_probe();
                let before = VfAttributes::default();
                return Ok(Some(VfDifference { number, before, after, start, owed: false }));
            }
            self.compare(number, &after, &table)
        });
        Ok(all.collect::<Result<Vec<_>, Stop>>()?.into_iter().flatten().collect())
    }

    /// Whether the kernel probes drivers for new VFs, or did until bedplate suspended probing.
    pub(super) fn is_to_probe(&self) -> bool {
        let path = self.function.attribute("sriov_drivers_autoprobe");
        let found =
            self.context.ledger.attributes.get(&path).map(|record| record.action.before.trim());
        self.probes() || found == Some("1")
    }

    /// Rejects attributes that the port type or a missing interface rules out. IPoIB supports only link state and GUIDs of
    /// VFs (drivers/infiniband/ulp/ipoib/ipoib_main.c, ipoib_netdev_ops_pf).
    fn can_be_set(&self, wanted: &WantedAttributes) -> Result<(), Stop> {
        let ethernet = VfAttributes { link_state: None, ..wanted.set };
        if self.is_infiniband() && !ethernet.is_empty() {
            return Err(Stop::Blocked {
                reason: format!(
                    "InfiniBand VFs have only GUIDs and a link state; the profile sets {}",
                    names(&ethernet)
                ),
                fix: "add a separate rule for InfiniBand PFs in [[sriov.devices]]".to_owned(),
            });
        }
        if self.interface().is_none() {
            return Err(Stop::Blocked {
                reason: "VF attributes need the PF's network interface, which is missing here".to_owned(),
                fix: "load its network driver (ib_ipoib for InfiniBand), or move the interface back from its \
                         network namespace"
                    .to_owned(),
            });
        }
        Ok(())
    }

    fn interface(&self) -> Option<&str> {
        uplink::uplink(self.context.reader, &self.function.net)
    }

    fn table(&self) -> Result<VfTable, Stop> {
        let interface = self.interface().unwrap_or_default();
        let table = self.context.reader.vfs(self.wanted.pf, interface);
        table.map_err(|error| Stop::Unknown(error.to_string()))
    }

    /// Compares one existing VF.
    fn compare(
        &self,
        number: u16,
        wanted: &VfAttributes,
        table: &VfTable,
    ) -> Result<Option<VfDifference>, Stop> {
        let Some(found) = table.vfs.get(&number) else {
            return Err(Stop::Unknown(format!(
                "the kernel lists {} of its {} VFs: VF {number} is missing",
                table.vfs.len(),
                self.wanted.count
            )));
        };
        let vf = self.sriov.vfs.get(usize::from(number)).and_then(|vf| self.tree.get(*vf));
        let owed = self.is_owed_start(number);
        if owed && self.is_made_by_bedplate(number) {
            let before = VfAttributes::default();
            return Ok(Some(VfDifference { number, before, after: *wanted, start: true, owed }));
        }
        let after = wanted.without(found);
        let before = found.intersect(&after);
        let silent = after.without(&after.intersect(&before));
        if !silent.is_empty() {
            return Err(Stop::Blocked {
                reason: format!(
                    "driver {} does not report {} of its VFs; bedplate sets only what it can read back",
                    self.driver(),
                    names(&silent)
                ),
                fix:
                    "remove it from `vf` in the profile, or set it by hand (ip link set PF vf N …)"
                        .to_owned(),
            });
        }
        if owed {
            return Ok(Some(VfDifference { number, before, after, start: true, owed }));
        }
        if after.is_empty() {
            return Ok(None);
        }
        let start = after.need_restart()
            && vf.is_some_and(|vf| vf.driver.is_some() || self.driver_is_unread(vf.address));
        if let Some(vf) = vf.filter(|_| start)
            && let Some(user) = usage::use_of(vf, self.tree, self.context.reader)
        {
            return Err(Stop::Blocked {
                reason: format!(
                    "VF {} is in use ({user}); its driver reads a new {} only at start",
                    vf.address,
                    names(&VfAttributes {
                        mac: after.mac,
                        node_guid: after.node_guid,
                        ..VfAttributes::default()
                    })
                ),
                fix: "stop its user (drain the node), then run again".to_owned(),
            });
        }
        Ok(Some(VfDifference { number, before, after, start, owed }))
    }

    /// Returns the current and desired eswitch mode, if they differ.
    pub(super) fn switching(&self) -> Result<Option<(EswitchMode, EswitchMode)>, Stop> {
        let Some(wanted) = self.wanted.rule.eswitch else { return Ok(None) };
        match self.context.reader.eswitch(self.wanted.pf) {
            Ok(Some(mode)) => Ok((mode != wanted).then_some((mode, wanted))),
            // A NIC without a switchable eswitch forwards as in legacy mode.
            Ok(None) if wanted == EswitchMode::Legacy => Ok(None),
            Ok(None) => Err(Stop::Blocked {
                reason: format!("driver {} has no switchdev mode (no eswitch in devlink)", self.driver()),
                fix: "remove `eswitch` from its rule, or use a NIC with an eswitch driver (mlx5_core, ice, bnxt_en)"
                    .to_owned(),
            }),
            Err(error @ ReadError::Denied { .. }) => Err(Stop::Unknown(format!(
                "{error}: run as root; the daemon's bedplate-observer@.service needs vf-attributes.conf (README)"
            ))),
            Err(error) => Err(Stop::Unknown(error.to_string())),
        }
    }

    pub(super) fn switch_action(&self) -> Option<Action> {
        let (before, after) = self.switch?;
        let pf = self.wanted.pf;
        Some(Action::SetEswitch(SetEswitch { pf, before, after, limit_s: ESWITCH_LIMIT_S }))
    }

    pub(super) fn vf_actions<'a>(
        &'a self,
        differing: &'a [VfDifference],
    ) -> impl Iterator<Item = Action> + 'a {
        let interface = self.interface().unwrap_or_default();
        differing.iter().map(move |vf| {
            Action::SetVf(SetVf {
                key: VfKey { pf: self.wanted.pf, interface: interface.to_owned(), vf: vf.number },
                before: vf.before,
                after: vf.after,
                start: vf.start,
                limit_s: LIMIT_S,
            })
        })
    }

    /// Lists the differences: the eswitch, then each attribute with its VFs.
    pub(super) fn attribute_items(&self, differing: &[VfDifference]) -> Vec<Item> {
        let asked = Rationale::because(format!("requested by rule {}", self.wanted.rule.name));
        let why: Vec<Rationale> =
            std::iter::once(asked).chain(self.wanted.why.iter().skip(1).cloned()).collect();
        let item = |subject: String, before: Option<String>, after: String| {
            Item::new(subject, before.as_deref(), Some(&after), &why)
        };
        let switch = self
            .switch
            .map(|(from, to)| item("eswitch mode".into(), Some(from.to_string()), to.to_string()));
        let mut items: Vec<Item> = switch.into_iter().collect();
        for name in names_of(differing) {
            for (before, after, numbers) in group_by_values(differing, name) {
                let before = before.map(|before| self.display_value(before, "another address"));
                let after =
                    self.display_value(after, "derived from the PF's address (not in snapshots)");
                items.push(item(format!("{name} of {}", ranges(&numbers)), before, after));
            }
        }
        items.extend(starting(differing));
        items
    }

    /// Returns a value for display. Snapshots carry no card addresses, so an address in one is not the host's.
    fn display_value(&self, value: String, address: &str) -> String {
        let hidden = self.context.facts.host == HostKind::Snapshot && value.contains(':');
        if hidden { address.to_owned() } else { value }
    }

    /// Describes the effects on current users of VFs.
    pub(super) fn attribute_disruptions(&self, differing: &[VfDifference]) -> Vec<String> {
        let address = |vf: &VfDifference| self.sriov.vfs.get(usize::from(vf.number)).copied();
        let there = || differing.iter().filter(|vf| !vf.before.is_empty());
        let restarted: Vec<String> = there()
            .filter(|vf| vf.start && !vf.owed)
            .filter_map(|vf| Some(address(vf)?.to_string()))
            .collect();
        let used: Vec<String> = there()
            .filter(|vf| !vf.start)
            .filter_map(|vf| self.tree.get(address(vf)?))
            .filter(|vf| usage::use_of(vf, self.tree, self.context.reader).is_some())
            .map(|vf| vf.address.to_string())
            .collect();
        let mut lines = Vec::new();
        if !restarted.is_empty() {
            lines.push(format!(
                "the driver of {} restarts; their interfaces disappear and return",
                some_of(restarted.into_iter(), 8, "VFs")
            ));
        }
        if !used.is_empty() {
            lines.push(format!(
                "users of {} get the new {} at once",
                some_of(used.into_iter(), 8, "VFs"),
                names_of(differing).join(", ")
            ));
        }
        if self.switch.is_some() {
            lines.push(
                "the eswitch change removes and re-creates the PF's RDMA device, and its link may flap"
                    .to_owned(),
            );
        }
        lines
    }

    /// Returns `; MAC address derived, VLAN 100`, to follow the unchanged count.
    pub(super) fn attributes_settled(&self) -> String {
        let wanted = self.wanted_attributes().description().filter(|_| self.wanted.count > 0);
        let mode = self.wanted.rule.eswitch.map(|mode| format!("eswitch {mode}"));
        let texts: Vec<String> = wanted.into_iter().chain(mode).collect();
        if texts.is_empty() { String::new() } else { format!("; {}", texts.join(", ")) }
    }
}

/// Returns the desired attributes of VF `number`; `None` if the PF's address, their base, is unknown.
fn attributes_of(wanted: &WantedAttributes, table: &VfTable, number: u16) -> Option<VfAttributes> {
    let mut all = wanted.set;
    if wanted.mac {
        all.mac = Some(table.mac?.derived(number));
    }
    if wanted.guid {
        let guid = table.guid?.derived(number);
        (all.node_guid, all.port_guid) = (Some(guid), Some(guid));
    }
    Some(all)
}

/// Formats the names: `VLAN, trust`.
fn names(attributes: &VfAttributes) -> String {
    attributes.named().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// Returns the names of all differing attributes, without duplicates.
pub(super) fn names_of(differing: &[VfDifference]) -> Vec<&'static str> {
    let all = differing.iter().fold(VfAttributes::default(), |all, vf| all.or(&vf.after));
    all.named().into_iter().map(|(name, _)| name).collect()
}

/// Groups VFs by an attribute's values before and after. Addresses differ on every VF, so they form one group with the
/// first and the last.
fn group_by_values(
    differing: &[VfDifference],
    name: &str,
) -> Vec<(Option<String>, String, Vec<u16>)> {
    let value = |attributes: &VfAttributes| {
        attributes.named().into_iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    };
    let mut groups: Vec<(Option<String>, String, Vec<u16>)> = Vec::new();
    for vf in differing {
        let Some(after) = value(&vf.after) else { continue };
        let before = value(&vf.before);
        let address = after.contains(':');
        let known =
            groups.iter_mut().find(|group| address || (&group.0, &group.1) == (&before, &after));
        match known {
            Some((known, last, numbers)) => {
                if address {
                    let first = last.split(" … ").next().unwrap_or_default().to_owned();
                    *last = format!("{first} … {after}");
                    if *known != before {
                        *known = known.as_ref().map(|_| "others".to_owned());
                    }
                }
                numbers.push(vf.number);
            }
            None => groups.push((before, after, vec![vf.number])),
        }
    }
    groups
}
