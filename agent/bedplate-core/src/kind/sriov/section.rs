//! `[sriov]`: virtual functions of network cards.

use serde::{Deserialize, Serialize};

use crate::kind::selector::{FunctionRule, FunctionSelector, SelectTable, read_rules};
use crate::plan::Rationale;
use crate::section::{Checker, Printer, Reason, Spanned, key_of, section, toml_text};
use bedplate_base::value::vf::EswitchMode;

mod attributes;

pub use attributes::WantedAttributes;

/// Creator of VFs on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SriovManaged {
    /// bedplate, unless another program or an operator creates them.
    Bedplate,
    /// Another program or an operator; bedplate only reports that it skips them.
    External,
}

section! {
    /// `[sriov]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "sriov" Sriov, SriovFile {
        /// Creator of virtual functions on this host.
        managed: SriovManaged = SriovManaged::Bedplate;
    }
    special read_devices {
        /// Rules; a physical function belongs to the first one that selects it. A later file's rule replaces the one with
        /// the same name, in its place.
        #[schemars(extend("default" = [] as [&str; 0]))]
        devices: Vec<DeviceEntry>;
    }
    after {
        /// In order; a PF belongs to the first rule that selects it.
        rules: Vec<SriovRule>;
    }
    show show_rules;
}

/// Requested number of VFs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SriovCount {
    /// This many.
    Number(u16),
    /// As many as sriov_totalvfs.
    Max,
    /// As many as there are GPUs nearest to this PF.
    PerGpu,
}

impl Default for SriovCount {
    fn default() -> Self {
        SriovCount::Number(0)
    }
}

/// Driver of new VFs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VfDriver {
    /// The kernel's choice.
    #[default]
    Auto,
    /// Unbound: sriov_drivers_autoprobe=0.
    None,
    /// A driver set through driver_override (`vfio-pci`).
    Named(String),
}

/// One `[[sriov.devices]]`; creates no VFs by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SriovRule {
    /// Name, unique in the profile; a later file replaces the rule by it.
    pub name: String,
    /// Selected PFs.
    pub select: FunctionSelector,
    /// Number of VFs.
    pub vfs: SriovCount,
    /// VF driver.
    pub vf_driver: VfDriver,
    /// Attributes of its VFs.
    pub vf: WantedAttributes,
    /// Mode of the eswitch; `None` leaves it unchanged.
    pub eswitch: Option<EswitchMode>,
    /// Whether VFs may be created although the default route goes through the PF.
    pub allow_disruption: bool,
    /// Location in the profile, and reason.
    pub why: Vec<Rationale>,
}

/// One `[[sriov.devices]]`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceEntry {
    /// Name of the rule, unique in the profile.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1), example = &"compute"))]
    pub name: Spanned<String>,

    /// Selected physical functions; every condition must hold.
    pub select: Option<SelectTable>,

    /// Number of virtual functions for each of them. A number above the firmware's limit is reported, with the command that
    /// raises the limit.
    #[cfg_attr(feature = "schemars", schemars(
        example = 8,
        example = &"max",
        extend("x-source" = "drivers/pci/iov.c; Documentation/ABI/testing/sysfs-bus-pci")
    ))]
    pub vfs: Vfs,

    /// Driver of the virtual functions: `auto` is the kernel's choice, `none` leaves them unbound, any other word names a
    /// driver (`vfio-pci`).
    #[cfg_attr(feature = "schemars", schemars(
        extend("default" = "auto"),
        example = &"vfio-pci",
        regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"),
        extend("x-source" = "Documentation/ABI/testing/sysfs-bus-pci driver_override, sriov_drivers_autoprobe")
    ))]
    pub vf_driver: Option<Spanned<String>>,

    /// Attributes of each virtual function; attributes not listed stay unchanged.
    pub vf: Option<attributes::VfTable>,

    /// Mode of the physical function's eswitch: `legacy` forwards by MAC address and VLAN; with `switchdev` each virtual
    /// function has a representor on the host. Changed only while there are no virtual functions.
    #[cfg_attr(feature = "schemars", schemars(
        example = &"switchdev",
        extend("x-source" = "Documentation/networking/devlink/devlink-eswitch-attr.rst")
    ))]
    pub eswitch: Option<EswitchMode>,
    /// Whether to create and remove virtual functions, and change the eswitch mode, even if this may cut off the host. That
    /// is the case if the default route goes through the physical function, directly or by a bond, bridge or VLAN on it, or
    /// possibly by Open vSwitch: some drivers reset the port (ixgbe, igb) or stop its queues (ice, bnxt_en). Also whether
    /// to set attributes that may cut off a virtual function with the default route (address, VLAN, spoof check, link
    /// state).
    #[cfg_attr(feature = "schemars", schemars(
        extend("default" = false),
        extend("x-source" = "drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.c; drivers/net/ethernet/intel/igb/igb_main.c")
    ))]
    pub allow_disruption: Option<bool>,

    /// Reason, shown in plans.
    pub why: Option<Spanned<String>>,

    /// Source of the fact.
    pub source: Option<Spanned<String>>,
}

/// Number of virtual functions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Vfs {
    /// Exactly this many.
    Number(u16),
    /// Determined on the host.
    Word(VfsWord),
}

/// Number of virtual functions, determined on the host.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VfsWord {
    /// As many as the firmware and the driver allow (`sriov_totalvfs`).
    Max,
    /// As many as there are GPUs nearest to the physical function.
    PerGpu,
}

fn read_devices(section: &mut Sriov, files: Vec<SriovFile>, checker: &mut Checker<'_>) {
    for file in files {
        read_rules(&mut section.rules, file.devices.unwrap_or_default(), checker);
    }
}

impl FunctionRule for SriovRule {
    type Entry = DeviceEntry;

    fn name_of(entry: &DeviceEntry) -> &Spanned<String> {
        &entry.name
    }

    fn read(checker: &mut Checker<'_>, entry: DeviceEntry) -> Option<Self> {
        rule(checker, entry)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn select(&self) -> &FunctionSelector {
        &self.select
    }
}

fn rule(checker: &mut Checker<'_>, entry: DeviceEntry) -> Option<SriovRule> {
    let select = FunctionSelector::read(checker, "sriov.devices", entry.select);
    let vfs = match entry.vfs {
        Vfs::Number(number) => SriovCount::Number(number),
        Vfs::Word(VfsWord::Max) => SriovCount::Max,
        Vfs::Word(VfsWord::PerGpu) => SriovCount::PerGpu,
    };
    let vf_driver = match entry.vf_driver {
        Some(text) => vf_driver(checker, text),
        None => Some(VfDriver::Auto),
    };
    let vf = attributes::attributes(checker, entry.vf);
    let reason = Reason { why: entry.why, source: entry.source };
    Some(SriovRule {
        select: select?,
        vfs,
        vf_driver: vf_driver?,
        vf: vf?,
        eswitch: entry.eswitch,
        allow_disruption: entry.allow_disruption.unwrap_or_default(),
        why: checker.note(&key_of("sriov.devices", &entry.name.value), entry.name.place, reason),
        name: entry.name.value,
    })
}

fn vf_driver(checker: &mut Checker<'_>, text: Spanned<String>) -> Option<VfDriver> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match text.value.as_str() {
        "auto" => Some(VfDriver::Auto),
        "none" => Some(VfDriver::None),
        driver if !driver.is_empty() && driver.chars().all(good) => {
            Some(VfDriver::Named(driver.to_owned()))
        }
        other => {
            let message = format!("`{other}` is not a valid driver name");
            let label = "expected `auto`, `none` or a driver such as `vfio-pci`";
            checker.error(text.place, "bad-driver", message, label, None);
            None
        }
    }
}

fn show_rules(section: &Sriov, out: &mut Printer<'_>) {
    for rule in &section.rules {
        show_rule(rule, out);
        out.reason(&key_of("sriov.devices", &rule.name));
    }
}

fn show_rule(rule: &SriovRule, out: &mut Printer<'_>) {
    out.entry("sriov.devices");
    let key = key_of("sriov.devices", &rule.name);
    out.line(&format!("name = {}", toml_text(&rule.name)), Some(&key));
    if let Some(line) = rule.select.to_toml() {
        out.line(&line, None);
    }
    let vfs = match rule.vfs {
        SriovCount::Number(number) => number.to_string(),
        SriovCount::Max => toml_text("max"),
        SriovCount::PerGpu => toml_text("per-gpu"),
    };
    out.line(&format!("vfs = {vfs}"), None);
    let driver = match &rule.vf_driver {
        VfDriver::Auto => "auto",
        VfDriver::None => "none",
        VfDriver::Named(driver) => driver,
    };
    out.line(&format!("vf_driver = {}", toml_text(driver)), None);
    if let Some(line) = attributes::to_toml(&rule.vf) {
        out.line(&line, None);
    }
    if let Some(mode) = rule.eswitch {
        out.line(&format!("eswitch = {}", toml_text(&mode)), None);
    }
    if rule.allow_disruption {
        out.line("allow_disruption = true", None);
    }
}
