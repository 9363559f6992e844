//! Attributes that a PF's driver stores for its VFs, and the mode of its eswitch: as profiles name them, rtnetlink and
//! devlink carry them, and snapshots record them. Also derives VF addresses from the PF's. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::NotAValue;

/// Width of the address part that distinguishes cards of one vendor. Every derived address contains this part.
const CARD_BITS: u32 = 24;

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Derives the address of VF `number` from this PF address: locally administered, unicast, the same in every run.
    /// XORs the number into bytes 2 and 3. So VFs of a PF differ from each other and from the PF, and PFs of one vendor
    /// still differ in the last three bytes.
    pub fn derived(self, number: u16) -> Mac {
        let [a, b, c, d, e, f] = self.0;
        let own = derive(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), number).to_be_bytes();
        // Locally administered and not a group address (IEEE 802, bits 1 and 0 of the first byte).
        Mac([own[2] & !1 | 2, own[3], own[4], own[5], own[6], own[7]])
    }

    /// Whether no address is configured. The driver or the guest then generates one.
    pub fn is_unset(self) -> bool {
        self.0 == [0; 6]
    }
}

/// An InfiniBand GUID (EUI-64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl Guid {
    /// Derives the GUID of VF `number` from this PF port GUID, in the same way as [`Mac::derived`].
    pub fn derived(self, number: u16) -> Guid {
        Guid(derive(self.0, number) | 2 << 56)
    }

    /// Whether no GUID is configured. The port of the VF then stays down.
    pub fn is_unset(self) -> bool {
        self.0 == 0
    }
}

fn derive(base: u64, number: u16) -> u64 {
    // Counts from 1, so that a PF whose address is already locally administered keeps it to itself. There are fewer
    // than 65,535 VFs.
    base ^ u64::from(number.saturating_add(1)) << CARD_BITS
}

fn pairs(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        write!(f, "{}{byte:02x}", if index == 0 { "" } else { ":" })?;
    }
    Ok(())
}

fn from_pairs<const N: usize>(text: &str) -> Option<[u8; N]> {
    let parts: Vec<&str> = text.split(':').collect();
    let mut bytes = [0; N];
    if parts.len() != N {
        return None;
    }
    for (byte, part) in bytes.iter_mut().zip(parts) {
        let hex = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = hex.then(|| u8::from_str_radix(part, 16).ok()).flatten()?;
    }
    Some(bytes)
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pairs(f, &self.0)
    }
}

impl FromStr for Mac {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let expected = "an Ethernet address such as 02:00:5e:10:00:01";
        from_pairs(text).map(Mac).ok_or_else(|| NotAValue { text: text.to_owned(), expected })
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pairs(f, &self.0.to_be_bytes())
    }
}

impl FromStr for Guid {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let expected = "a GUID of eight pairs such as 9c:63:c0:03:00:aa:bb:cc";
        let guid = from_pairs(text).map(|bytes| Guid(u64::from_be_bytes(bytes)));
        guid.ok_or_else(|| NotAValue { text: text.to_owned(), expected })
    }
}

/// Tag of a VLAN: 802.1Q, or 802.1ad for the outer one of two (include/uapi/linux/if_ether.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub enum VlanProtocol {
    /// 0x8100.
    #[default]
    #[serde(rename = "802.1q")]
    Dot1q,
    /// 0x88a8.
    #[serde(rename = "802.1ad")]
    Dot1ad,
}

/// VLAN that the NIC puts a VF into; 0 = no VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// 0–4095.
    pub id: u16,
    /// Priority, 0–7.
    #[serde(default)]
    pub qos: u8,
    /// Tag.
    #[serde(default)]
    pub protocol: VlanProtocol,
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            0 => f.write_str("none")?,
            id => write!(f, "{id}")?,
        }
        if self.qos > 0 {
            write!(f, " qos {}", self.qos)?;
        }
        match self.protocol {
            VlanProtocol::Dot1q => Ok(()),
            VlanProtocol::Dot1ad => f.write_str(" 802.1ad"),
        }
    }
}

crate::named! {
    /// Whether a VF's link follows the PF's (include/uapi/linux/if_link.h, IFLA_VF_LINK_STATE_*).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum VfLinkState {
        /// Follows the PF's link.
        Auto = "auto",
        /// Always up, independent of the PF's link.
        Enable = "enable",
        /// Always down.
        Disable = "disable",
    }
}

crate::named! {
    /// Mode of a PF's eswitch (include/uapi/linux/devlink.h, enum devlink_eswitch_mode).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum EswitchMode {
        /// The NIC forwards by MAC address and VLAN.
        Legacy = "legacy",
        /// Each VF has a representor on the host; the host's bridge or tc forwards.
        Switchdev = "switchdev",
    }
}

macro_rules! attributes {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty, $name:literal, |$value:ident| $text:expr;)+) => {
        /// Attributes of one VF. `None`: not reported by the driver, or not requested.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct VfAttributes {
            $(
                $(#[doc = $doc])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )+
        }

        impl VfAttributes {
            /// Returns these attributes without those that have the same value in `other`.
            pub fn without(&self, other: &Self) -> Self {
                VfAttributes { $($field: self.$field.filter(|own| other.$field != Some(*own)),)+ }
            }

            /// Returns those of these attributes that `other` also has, with any value.
            pub fn intersect(&self, other: &Self) -> Self {
                VfAttributes { $($field: self.$field.filter(|_| other.$field.is_some()),)+ }
            }

            /// Returns these attributes, and those of `other` that are missing here.
            pub fn or(&self, other: &Self) -> Self {
                VfAttributes { $($field: self.$field.or(other.$field),)+ }
            }

            /// Returns each attribute by itself, in the order of this table.
            pub fn each(&self) -> Vec<Self> {
                let all = [$(VfAttributes {
                    $field: self.$field,
                    ..VfAttributes::default()
                },)+];
                all.into_iter().filter(|one| !one.is_empty()).collect()
            }

            /// Returns name and value of each attribute, for display.
            pub fn named(&self) -> Vec<(&'static str, String)> {
                let all = [$(($name, self.$field.map(|$value| $text)),)+];
                all.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
            }
        }
    };
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn rate(mbit: u32) -> String {
    if mbit == 0 { "no limit".to_owned() } else { format!("{mbit} Mbit/s") }
}

attributes! {
    /// Ethernet address that the VF's driver finds.
    mac: Mac, "MAC address", |mac| if mac.is_unset() { "unset".to_owned() } else { mac.to_string() };
    /// InfiniBand node GUID.
    node_guid: Guid, "node GUID", |guid| if guid.is_unset() { "unset".to_owned() } else { guid.to_string() };
    /// InfiniBand port GUID.
    port_guid: Guid, "port GUID", |guid| if guid.is_unset() { "unset".to_owned() } else { guid.to_string() };
    /// VLAN.
    vlan: Vlan, "VLAN", |vlan| vlan.to_string();
    /// Whether the VF may change its address, enable promiscuous mode and so on.
    trust: bool, "trust", |on| on_off(on);
    /// Whether frames with another source address are dropped.
    spoof_check: bool, "spoof check", |on| on_off(on);
    /// Link state.
    link_state: VfLinkState, "link state", |state| state.to_string();
    /// Guaranteed minimum rate in Mbit/s; 0 = no guarantee.
    min_tx_rate: u32, "min tx rate", |mbit| if mbit == 0 { "none".to_owned() } else { rate(mbit) };
    /// Maximum rate in Mbit/s; 0 = no limit.
    max_tx_rate: u32, "max tx rate", |mbit| rate(mbit);
}

impl VfAttributes {
    /// Whether no attribute is set.
    pub fn is_empty(&self) -> bool {
        *self == VfAttributes::default()
    }

    /// Whether one of them is read by the VF's driver only at its start.
    pub fn need_restart(&self) -> bool {
        self.mac.is_some() || self.node_guid.is_some() || self.port_guid.is_some()
    }
}

impl fmt::Display for VfAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named();
        let texts: Vec<String> =
            named.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(&texts.join(", "))
    }
}

/// Kernel's report of a PF's interface and its VFs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VfTable {
    /// Permanent Ethernet address of the PF; `None` on InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// GUID of the PF's port, from its permanent address; `None` on Ethernet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<Guid>,
    /// VFs by number.
    #[serde(default)]
    pub vfs: BTreeMap<u16, VfAttributes>,
}

impl VfTable {
    /// Returns the table without the card's addresses. Derived addresses stay derived, so a snapshot gives the same
    /// plan.
    pub fn masked(&self) -> Self {
        let (no_mac, no_guid) = (Mac([0; 6]), Guid(0));
        let mac = |own: Mac, number| match self.mac {
            _ if own.is_unset() => own,
            Some(base) if own == base.derived(number) => no_mac.derived(number),
            // Also locally administered, but not a derived address.
            _ => Mac([6, 0, 0, 0, 0, 0]),
        };
        let guid = |own: Guid, number| match self.guid {
            _ if own.is_unset() => own,
            Some(base) if own == base.derived(number) => no_guid.derived(number),
            _ => Guid(6 << 56),
        };
        let vfs = self.vfs.iter().map(|(number, vf)| {
            let masked = VfAttributes {
                mac: vf.mac.map(|own| mac(own, *number)),
                node_guid: vf.node_guid.map(|own| guid(own, *number)),
                port_guid: vf.port_guid.map(|own| guid(own, *number)),
                ..*vf
            };
            (*number, masked)
        });
        VfTable {
            mac: self.mac.map(|_| no_mac),
            guid: self.guid.map(|_| no_guid),
            vfs: vfs.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
