//! What a PF's driver keeps of each of its VFs, and the mode of its eswitch: as profiles name it, as rtnetlink and devlink
//! carry it, and as snapshots record it. Addresses that are derived from the PF's come from here. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::NotAValue;

/// The part of an address that tells cards of one maker apart: it stays in every derived address.
const CARD_BITS: u32 = 24;

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of VF `number` of the PF that has this one: locally administered, unicast, the same in every run.
    /// The number is put over bytes 2 and 3 by exclusive or, so that no two VFs of a PF get the same address, none gets
    /// the PF's, and PFs of one maker differ in the last three bytes as before.
    pub fn derived(self, number: u16) -> Mac {
        let [a, b, c, d, e, f] = self.0;
        let own = derive(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), number).to_be_bytes();
        // Locally administered and not a group (IEEE 802, bits 1 and 0 of the first byte).
        Mac([own[2] & !1 | 2, own[3], own[4], own[5], own[6], own[7]])
    }

    /// Whether the driver was given none: it, or the guest, makes one up.
    pub fn is_unset(self) -> bool {
        self.0 == [0; 6]
    }
}

/// An InfiniBand GUID (EUI-64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl Guid {
    /// The GUID of VF `number` of the PF whose port has this one, made as [`Mac::derived`] makes addresses.
    pub fn derived(self, number: u16) -> Guid {
        Guid(derive(self.0, number) | 2 << 56)
    }

    /// Whether the VF has none: its port stays down.
    pub fn is_unset(self) -> bool {
        self.0 == 0
    }
}

fn derive(base: u64, number: u16) -> u64 {
    // From 1 on: a PF whose address is locally administered already keeps it to itself. There are fewer than 65,535 VFs.
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

/// The VLAN that the NIC puts a VF into; 0 = none.
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
        /// As the PF's.
        Auto = "auto",
        /// Up, whatever the PF's is.
        Enable = "enable",
        /// Down.
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
        /// Each VF has a representor on the host, and the host's bridge or tc decides.
        Switchdev = "switchdev",
    }
}

macro_rules! attributes {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty, $name:literal, |$value:ident| $text:expr;)+) => {
        /// Attributes of one VF. `None`: the driver does not report it, or nobody asked for it.
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
            /// The same attributes without those that `other` has with the same value.
            pub fn without(&self, other: &Self) -> Self {
                VfAttributes { $($field: self.$field.filter(|own| other.$field != Some(*own)),)+ }
            }

            /// Those of `self` that `other` has, too, whatever their values.
            pub fn intersect(&self, other: &Self) -> Self {
                VfAttributes { $($field: self.$field.filter(|_| other.$field.is_some()),)+ }
            }

            /// Those of `self`, and those of `other` that `self` has not.
            pub fn or(&self, other: &Self) -> Self {
                VfAttributes { $($field: self.$field.or(other.$field),)+ }
            }

            /// Each by itself, in the order of this table.
            pub fn each(&self) -> Vec<Self> {
                let all = [$(VfAttributes {
                    $field: self.$field,
                    ..VfAttributes::default()
                },)+];
                all.into_iter().filter(|one| !one.is_empty()).collect()
            }

            /// Name and value of each, for people.
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
    /// Whether the VF may change its address, be promiscuous and the like.
    trust: bool, "trust", |on| on_off(on);
    /// Whether frames with another source address are dropped.
    spoof_check: bool, "spoof check", |on| on_off(on);
    /// Link.
    link_state: VfLinkState, "link state", |state| state.to_string();
    /// Mbit/s that the VF is to get at least; 0 = nothing is promised.
    min_tx_rate: u32, "min tx rate", |mbit| if mbit == 0 { "none".to_owned() } else { rate(mbit) };
    /// Mbit/s that the VF may send at most; 0 = no limit.
    max_tx_rate: u32, "max tx rate", |mbit| rate(mbit);
}

impl VfAttributes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == VfAttributes::default()
    }

    /// Whether one of them is read by the VF's driver only when it starts.
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

/// What the kernel says of a PF's interface and its VFs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VfTable {
    /// The PF's permanent Ethernet address; none on InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// The GUID of the PF's port, from its permanent address; none on Ethernet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<Guid>,
    /// VFs by number.
    #[serde(default)]
    pub vfs: BTreeMap<u16, VfAttributes>,
}

impl VfTable {
    /// The same without the card's addresses. What was derived from them stays derived: a snapshot gives the same plan.
    pub fn masked(&self) -> Self {
        let (no_mac, no_guid) = (Mac([0; 6]), Guid(0));
        let mac = |own: Mac, number| match self.mac {
            _ if own.is_unset() => own,
            Some(base) if own == base.derived(number) => no_mac.derived(number),
            // Locally administered as well, and derived from nothing.
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
