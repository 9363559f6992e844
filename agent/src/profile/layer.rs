//! What one file says, checked and typed, and how two layers become one.
//!
//! Merging is associative, and merging a layer with itself changes nothing: that is why everything here is a value on
//! which the later layer has the last word, or an ordered map of such values in which the first mention gives the place.

use std::collections::BTreeMap;

use super::model::{
    AcsPersist, AcsPolicy, AgentMode, GpuDirect, IommuMode, MatchPci, ModuleLoad, PfSelector,
    RebootMethod, RebootPolicy, SriovCount, SriovManaged, VfDriver,
};
use super::source::Place;
use crate::facts::{Arch, CpuVendor};
use crate::value::ModuleName;

/// Joining an earlier and a later layer.
pub(super) trait Overlay {
    /// The two as one; the later one has the last word.
    fn overlay(self, later: Self) -> Self;
}

/// A value, where it stands and why.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: Place,
    /// The profile's reason.
    pub why: Option<String>,
    /// The profile's source for the reason.
    pub source: Option<String>,
}

impl<T> Leaf<T> {
    /// A value without a reason of its own.
    pub fn bare(value: T, place: Place) -> Self {
        Leaf { value, place, why: None, source: None }
    }
}

impl<T> Overlay for Leaf<T> {
    fn overlay(self, later: Self) -> Self {
        later
    }
}

impl<T: Overlay> Overlay for Option<T> {
    fn overlay(self, later: Self) -> Self {
        match (self, later) {
            (Some(earlier), Some(later)) => Some(earlier.overlay(later)),
            (earlier, later) => later.or(earlier),
        }
    }
}

/// An ordered map: entries keep the place of their first mention.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Keyed<V>(pub Vec<(String, V)>);

impl<V> Default for Keyed<V> {
    fn default() -> Self {
        Keyed(Vec::new())
    }
}

impl<V> Keyed<V> {
    /// The entry of this name.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| value)
    }

    /// The entry of this name, made when it is not there.
    pub fn entry(&mut self, key: &str) -> &mut V
    where
        V: Default,
    {
        let at = self.0.iter().position(|(own, _)| own == key).unwrap_or_else(|| {
            self.0.push((key.to_owned(), V::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// The values in order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<V: Overlay> Overlay for Keyed<V> {
    fn overlay(self, later: Self) -> Self {
        let mut out: Vec<(String, Option<V>)> =
            self.0.into_iter().map(|(k, v)| (k, Some(v))).collect();
        for (key, value) in later.0 {
            match out.iter_mut().find(|(own, _)| *own == key) {
                Some((_, slot)) => *slot = slot.take().overlay(Some(value)),
                None => out.push((key, Some(value))),
            }
        }
        Keyed(out.into_iter().filter_map(|(key, value)| value.map(|value| (key, value))).collect())
    }
}

/// Implements [`Overlay`] field by field.
macro_rules! overlay_fields {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl Overlay for $name {
            fn overlay(self, later: Self) -> Self {
                $name { $($field: self.$field.overlay(later.$field)),* }
            }
        }
    };
}

/// One file, or several merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Layer {
    pub name: Option<Leaf<String>>,
    pub description: Option<Leaf<String>>,
    pub matching: MatchLayer,
    pub iommu: Option<Leaf<IommuMode>>,
    pub cmdline: Keyed<ParamLayer>,
    pub modules: ModulesLayer,
    pub acs: AcsLayer,
    pub sriov: SriovLayer,
    pub reboot: RebootLayer,
    pub agent: AgentLayer,
}
overlay_fields!(Layer {
    name,
    description,
    matching,
    iommu,
    cmdline,
    modules,
    acs,
    sriov,
    reboot,
    agent
});

/// `[match]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MatchLayer {
    pub cpu_vendor: Option<Leaf<CpuVendor>>,
    pub arch: Option<Leaf<Arch>>,
    pub sys_vendor: Option<Leaf<String>>,
    pub product_name: Option<Leaf<String>>,
    pub pci: Option<Leaf<Vec<MatchPci>>>,
}
overlay_fields!(MatchLayer { cpu_vendor, arch, sys_vendor, product_name, pci });

/// What is said of one kernel parameter.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ParamLayer {
    /// The whole parameter is to be absent, whatever its value.
    pub cleared: Option<Leaf<String>>,
    /// By what the argument owns: the parameter itself, or one of its options.
    pub arguments: Keyed<Option<Leaf<Argument>>>,
}

/// What is said of one parameter or option: the last layer that speaks of it decides.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Argument {
    /// These tokens, in order: several when they only make sense together (`hugepagesz=`, `hugepages=`).
    Set(Vec<Leaf<String>>),
    /// None of these.
    Absent(Vec<Leaf<String>>),
}

impl ParamLayer {
    /// Whether any token of the parameter is wanted. Then an earlier wish to clear the whole parameter is over.
    pub fn sets_something(&self) -> bool {
        self.arguments.values().flatten().any(|argument| matches!(argument.value, Argument::Set(_)))
    }

    /// The tokens wanted, in order.
    pub fn set(&self) -> impl Iterator<Item = &Leaf<String>> {
        self.arguments.values().flatten().flat_map(|argument| match &argument.value {
            Argument::Set(tokens) => tokens.as_slice(),
            Argument::Absent(_) => &[],
        })
    }

    /// The tokens unwanted, the cleared parameter first.
    pub fn absent(&self) -> impl Iterator<Item = &Leaf<String>> {
        let cleared = self.cleared.as_ref().filter(|_| !self.sets_something());
        let parts = self.arguments.values().flatten().flat_map(|argument| match &argument.value {
            Argument::Absent(tokens) => tokens.as_slice(),
            Argument::Set(_) => &[],
        });
        cleared.into_iter().chain(parts)
    }
}

impl Overlay for ParamLayer {
    fn overlay(self, later: Self) -> Self {
        // A layer that wants the parameter gone has spoken of all its options.
        if later.cleared.is_some() {
            return later;
        }
        ParamLayer { cleared: self.cleared, arguments: self.arguments.overlay(later.arguments) }
    }
}

/// `[modules]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ModulesLayer {
    pub load_default: Option<Leaf<ModuleLoad>>,
    pub gpudirect: Option<Leaf<GpuDirect>>,
    pub names: Keyed<ModuleLayer>,
    /// Sorted by module and parameter.
    pub options: Options,
}
overlay_fields!(ModulesLayer { load_default, gpudirect, names, options });

/// Parameters by module and name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Options(pub BTreeMap<(ModuleName, String), Leaf<String>>);

impl Overlay for Options {
    fn overlay(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

/// What is said of one module; `Leaf<None>` and `Leaf<false>`: a layer has said that it is not so.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ModuleLayer {
    pub load: Option<Leaf<Option<Loading>>>,
    pub blacklist: Option<Leaf<bool>>,
    pub unload: Option<Leaf<bool>>,
}
overlay_fields!(ModuleLayer { load, blacklist, unload });

/// A module is wanted loaded; `None`: when the section's default says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Loading(pub Option<ModuleLoad>);

/// `[acs]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AcsLayer {
    pub policy: Option<Leaf<AcsPolicy>>,
    pub persistence: Option<Leaf<AcsPersist>>,
    pub root_port: Option<Leaf<bool>>,
}
overlay_fields!(AcsLayer { policy, persistence, root_port });

/// `[sriov]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SriovLayer {
    pub managed: Option<Leaf<SriovManaged>>,
    pub devices: Keyed<Leaf<Device>>,
}
overlay_fields!(SriovLayer { managed, devices });

/// One rule, without its name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Device {
    pub select: PfSelector,
    pub vfs: SriovCount,
    pub vf_driver: VfDriver,
}

/// `[reboot]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RebootLayer {
    pub policy: Option<Leaf<RebootPolicy>>,
    pub methods: Option<Leaf<Vec<RebootMethod>>>,
    pub windows: Option<Leaf<Vec<String>>>,
    pub attempts: Option<Leaf<u8>>,
    /// Seconds.
    pub delay: Option<Leaf<u32>>,
    /// Seconds.
    pub jitter: Option<Leaf<u32>>,
    /// Seconds.
    pub inhibitor_wait: Option<Leaf<u32>>,
    pub busy_devices: Option<Leaf<bool>>,
    pub busy_command: Option<Leaf<Vec<String>>>,
    pub command: Option<Leaf<Vec<String>>>,
    pub rtc_wakes: Option<Leaf<bool>>,
    pub rehearse: Option<Leaf<bool>>,
    pub fleetlock_url: Option<Leaf<String>>,
    pub fleetlock_group: Option<Leaf<String>>,
}
overlay_fields!(RebootLayer {
    policy,
    methods,
    windows,
    attempts,
    delay,
    jitter,
    inhibitor_wait,
    busy_devices,
    busy_command,
    command,
    rtc_wakes,
    rehearse,
    fleetlock_url,
    fleetlock_group
});

/// `[agent]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AgentLayer {
    pub mode: Option<Leaf<AgentMode>>,
    /// Seconds.
    pub interval: Option<Leaf<u32>>,
    /// Seconds.
    pub boot_timeout: Option<Leaf<u32>>,
    pub ready_timeout: Option<Leaf<u32>>,
}
overlay_fields!(AgentLayer { mode, interval, boot_timeout, ready_timeout });
