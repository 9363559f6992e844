//! `vf = { … }` of a `[[sriov.devices]]`: attributes of the rule's VFs.

use serde::{Deserialize, Serialize};

use crate::section::{Checker, Spanned};
use bedplate_base::value::vf::{VfAttributes, VfLinkState, Vlan, VlanProtocol};

/// Desired attributes of every VF of a PF.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WantedAttributes {
    /// Ethernet address derived from the PF's.
    pub mac: bool,
    /// GUIDs derived from the GUID of the PF's port.
    pub guid: bool,
    /// The rest, equal for all VFs.
    pub set: VfAttributes,
}

impl WantedAttributes {
    /// Returns `MAC address derived, VLAN 100`, or `None` if no attribute is set.
    pub fn description(&self) -> Option<String> {
        let derived = [(self.mac, "MAC address derived"), (self.guid, "GUIDs derived")];
        let set = (!self.set.is_empty()).then(|| self.set.to_string());
        let texts: Vec<String> = derived
            .into_iter()
            .filter(|(on, _)| *on)
            .map(|(_, text)| text.to_owned())
            .chain(set)
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

/// Address derived from the PF's.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Derived {
    /// From the PF's permanent address and the number of the virtual function: the same after every boot.
    Derived,
}

/// `vf` of a `[[sriov.devices]]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VfTable {
    /// Ethernet address: the PF's permanent address made local, with the number of the VF in bytes 2 and 3. Without it, a
    /// VF gets a random address at every boot. No effect on InfiniBand.
    #[cfg_attr(feature = "schemars", schemars(extend("x-source" = "net/core/rtnetlink.c do_setvfinfo (IFLA_VF_MAC)")))]
    pub mac: Option<Derived>,

    /// InfiniBand node and port GUID, derived from the GUID of the PF's port. Without it, the VF's port stays down. No
    /// effect on Ethernet.
    #[cfg_attr(feature = "schemars", schemars(extend("x-source" = "include/uapi/linux/if_link.h IFLA_VF_IB_NODE_GUID, IFLA_VF_IB_PORT_GUID")))]
    pub guid: Option<Derived>,

    /// VLAN that the NIC assigns to the VF's traffic, invisible to the VF; 0 for no VLAN. 4095 is reserved (IEEE 802.1Q).
    #[cfg_attr(feature = "schemars", schemars(range(max = 4094), example = 100, extend("x-source" = "include/uapi/linux/if_link.h IFLA_VF_VLAN")))]
    pub vlan: Option<u16>,

    /// Priority of the VLAN tag; needs `vlan`.
    #[cfg_attr(feature = "schemars", schemars(range(max = 7), extend("default" = 0)))]
    pub vlan_qos: Option<Spanned<u8>>,

    /// Tag of the VLAN: `802.1ad` for the outer tag of two, which few drivers support; needs `vlan`.
    #[cfg_attr(feature = "schemars", schemars(extend("default" = "802.1q", "x-source" = "include/uapi/linux/if_link.h IFLA_VF_VLAN_LIST")))]
    pub vlan_protocol: Option<Spanned<VlanProtocol>>,

    /// Whether the VF is trusted: it may change its address and see all traffic, among other things.
    #[cfg_attr(feature = "schemars", schemars(extend("x-source" = "include/uapi/linux/if_link.h IFLA_VF_TRUST")))]
    pub trust: Option<bool>,

    /// Whether the NIC drops frames that the VF sends from an address other than its own.
    #[cfg_attr(feature = "schemars", schemars(extend("x-source" = "include/uapi/linux/if_link.h IFLA_VF_SPOOFCHK")))]
    pub spoof_check: Option<bool>,

    /// Link state of the VF: the PF's (`auto`), always up (`enable`) or down (`disable`).
    #[cfg_attr(feature = "schemars", schemars(extend("x-source" = "include/uapi/linux/if_link.h IFLA_VF_LINK_STATE")))]
    pub link_state: Option<VfLinkState>,

    /// Guaranteed transmit rate of the VF in Mbit/s; 0 for no guarantee.
    #[cfg_attr(feature = "schemars", schemars(example = 1000, extend("x-source" = "include/uapi/linux/if_link.h IFLA_VF_RATE")))]
    pub min_tx_rate: Option<Spanned<u32>>,

    /// Maximum transmit rate of the VF in Mbit/s; 0 for no limit.
    #[cfg_attr(feature = "schemars", schemars(example = 10000, extend("x-source" = "include/uapi/linux/if_link.h IFLA_VF_RATE")))]
    pub max_tx_rate: Option<u32>,
}

/// Returns the checked attributes, or `None` after an error.
pub(super) fn attributes(
    checker: &mut Checker<'_>,
    given: Option<VfTable>,
) -> Option<WantedAttributes> {
    let given = given.unwrap_or_default();
    let before = checker.errors();
    let vlan = vlan(checker, &given);
    if let (Some(min), Some(max)) = (&given.min_tx_rate, given.max_tx_rate)
        && max > 0
        && min.value > max
    {
        let message = "`min_tx_rate` is above `max_tx_rate`";
        checker.error(min.place, "bad-rate", message, "more than the VF may send", None);
    }
    let wanted = WantedAttributes {
        mac: given.mac.is_some(),
        guid: given.guid.is_some(),
        set: VfAttributes {
            vlan,
            trust: given.trust,
            spoof_check: given.spoof_check,
            link_state: given.link_state,
            min_tx_rate: given.min_tx_rate.map(|at| at.value),
            max_tx_rate: given.max_tx_rate,
            ..VfAttributes::default()
        },
    };
    (checker.errors() == before).then_some(wanted)
}

fn vlan(checker: &mut Checker<'_>, given: &VfTable) -> Option<Vlan> {
    let Some(id) = given.vlan else {
        let qos = given.vlan_qos.as_ref().map(|at| ("vlan_qos", at.place));
        let protocol = given.vlan_protocol.as_ref().map(|at| ("vlan_protocol", at.place));
        for (key, place) in [qos, protocol].into_iter().flatten() {
            let message = format!("`{key}` without `vlan`");
            checker.error(place, "bad-vlan", message, "no effect by itself", None);
        }
        return None;
    };
    Some(Vlan {
        id,
        qos: given.vlan_qos.as_ref().map_or(0, |at| at.value),
        protocol: given.vlan_protocol.as_ref().map_or(VlanProtocol::Dot1q, |at| at.value),
    })
}

/// Prints the attributes as TOML; `None` if there are no attributes.
pub(super) fn to_toml(wanted: &WantedAttributes) -> Option<String> {
    let set = &wanted.set;
    let quoted = |value: &dyn std::fmt::Display| format!("\"{value}\"");
    let vlan = set.vlan.unwrap_or_default();
    let all = [
        wanted.mac.then(|| "mac = \"derived\"".to_owned()),
        wanted.guid.then(|| "guid = \"derived\"".to_owned()),
        set.vlan.map(|vlan| format!("vlan = {}", vlan.id)),
        (vlan.qos > 0).then(|| format!("vlan_qos = {}", vlan.qos)),
        (vlan.protocol == VlanProtocol::Dot1ad).then(|| "vlan_protocol = \"802.1ad\"".to_owned()),
        set.trust.map(|on| format!("trust = {on}")),
        set.spoof_check.map(|on| format!("spoof_check = {on}")),
        set.link_state.map(|state| format!("link_state = {}", quoted(&state))),
        set.min_tx_rate.map(|mbit| format!("min_tx_rate = {mbit}")),
        set.max_tx_rate.map(|mbit| format!("max_tx_rate = {mbit}")),
    ];
    let keys: Vec<String> = all.into_iter().flatten().collect();
    (!keys.is_empty()).then(|| format!("vf = {{ {} }}", keys.join(", ")))
}
