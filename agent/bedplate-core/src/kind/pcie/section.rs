//! `[pcie]`: device control of GPUs and NICs.

use serde::{Deserialize, Serialize};

use crate::kind::selector::{FunctionRule, FunctionSelector, SelectTable, read_rules};
use crate::plan::Rationale;
use crate::section::{
    Check, Checked, Checker, Fault, Printer, Reason, Rule as _, Spanned, key_of, section, toml_text,
};

section! {
    /// `[pcie]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "pcie" Pcie, PcieFile {
        /// Largest read request of RDMA NICs near GPUs, in bytes: 128, 256, 512, 1024, 2048 or 4096. Without the key, and
        /// with `auto`, it stays as the firmware and the driver set it. Only for NICs whose vendor names a value (ConnectX
        /// and BlueField); other functions need a rule. Large requests speed up a NIC's reads and let it hold the path to
        /// memory longer; measure before and after.
        #[schemars(
            example = 4096,
            extend("x-source" = "DPDK doc/guides/nics/mlx5.rst; PCI Express Base Specification 7.5.3.4; handbook §7")
        )]
        max_read_request: ReadRequest as Checked<ReadRequestSize>;

        /// Whether GPUs, and RDMA NICs near GPUs, may use relaxed ordering. Without the key, and with `auto`, this stays as
        /// the firmware and the driver set it. It is a permission: each driver decides whether to use it. Refused below
        /// root ports for which Linux disables it.
        #[schemars(
            example = &true,
            extend("x-source" = "drivers/pci/probe.c pci_configure_relaxed_ordering; handbook §7")
        )]
        relaxed_ordering: Permission;
    }
    special read_devices {
        /// Rules for single functions; a function belongs to the first one that selects it, and ignores `max_read_request`
        /// and `relaxed_ordering` of `[pcie]`. A later file's rule replaces the whole rule with the same name, in its place.
        #[schemars(extend("default" = [] as [&str; 0]))]
        devices: Vec<PcieEntry>;
    }
    after {
        /// In order; a function belongs to the first rule that selects it.
        rules: Vec<PcieRule>;
    }
    show show_rules;
}

/// The word `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AutoWord {
    /// As the firmware and the driver set it.
    Auto,
}

/// Max_Read_Request_Size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ReadRequest {
    /// Unchanged.
    Unchanged(AutoWord),
    /// Size in bytes.
    Bytes(#[cfg_attr(feature = "schemars", schemars(range(min = 128, max = 4096)))] u16),
}

/// Enable Relaxed Ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Permission {
    /// Unchanged.
    Unchanged(AutoWord),
    /// Whether it is granted.
    Granted(bool),
}

impl ReadRequest {
    /// Leaves the register unchanged.
    pub const AUTO: Self = ReadRequest::Unchanged(AutoWord::Auto);

    /// Returns the size in bytes; `None`: unchanged.
    pub fn bytes(self) -> Option<u16> {
        match self {
            ReadRequest::Unchanged(_) => None,
            ReadRequest::Bytes(bytes) => Some(bytes),
        }
    }
}

impl Permission {
    /// Leaves the register unchanged.
    pub const AUTO: Self = Permission::Unchanged(AutoWord::Auto);

    /// Returns the value; `None`: unchanged.
    pub fn granted(self) -> Option<bool> {
        match self {
            Permission::Unchanged(_) => None,
            Permission::Granted(granted) => Some(granted),
        }
    }
}

/// A size that the register can hold (PCI Express Base Specification, 7.5.3.4).
pub struct ReadRequestSize;

impl Check for ReadRequestSize {
    type Value = ReadRequest;
    const ID: &'static str = "bad-read-request";

    fn fault(_: &str, value: &ReadRequest) -> Option<Fault> {
        let bytes = value.bytes()?;
        let good = bytes.is_power_of_two() && (128..=4096).contains(&bytes);
        (!good).then(|| {
            let message = format!("`{bytes}` is not a size of read requests");
            let label = "expected 128, 256, 512, 1024, 2048, 4096 or \"auto\"";
            (message, label.to_owned(), None)
        })
    }
}

/// One `[[pcie.devices]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PcieRule {
    /// Name, unique in the profile; a later file replaces the rule by it.
    pub name: String,
    /// Selected functions.
    pub select: FunctionSelector,
    /// Max_Read_Request_Size.
    pub max_read_request: ReadRequest,
    /// Enable Relaxed Ordering.
    pub relaxed_ordering: Permission,
    /// Location in the profile, and reason.
    pub why: Vec<Rationale>,
}

/// One `[[pcie.devices]]`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PcieEntry {
    /// Name of the rule, unique in the profile.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1), example = &"storage"))]
    pub name: Spanned<String>,

    /// Selected functions, by at least one condition; every condition must hold. Virtual functions and bridges are never
    /// selected. Functions of VMs and functions without a driver are refused if `address` names them, and skipped
    /// otherwise.
    pub select: Option<SelectTable>,

    /// Largest read request in bytes, as under `[pcie]`.
    #[cfg_attr(feature = "schemars", schemars(extend("default" = "auto"), example = 512))]
    pub max_read_request: Option<Spanned<ReadRequest>>,

    /// Whether the functions may use relaxed ordering, as under `[pcie]`.
    #[cfg_attr(feature = "schemars", schemars(extend("default" = "auto"), example = &false))]
    pub relaxed_ordering: Option<Permission>,

    /// Reason, shown in plans.
    pub why: Option<Spanned<String>>,

    /// Source of the fact.
    pub source: Option<Spanned<String>>,
}

impl Pcie {
    /// Returns the size of read requests in bytes, if the section's own key sets it.
    pub fn read_request_bytes(&self) -> Option<u16> {
        self.max_read_request.and_then(ReadRequest::bytes)
    }

    /// Returns whether relaxed ordering is permitted, if the section's own key sets it.
    pub fn ordering(&self) -> Option<bool> {
        self.relaxed_ordering.and_then(Permission::granted)
    }

    /// Whether the profile sets no register.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.read_request_bytes().is_none() && self.ordering().is_none()
    }
}

impl FunctionRule for PcieRule {
    type Entry = PcieEntry;

    fn name_of(entry: &PcieEntry) -> &Spanned<String> {
        &entry.name
    }

    fn read(checker: &mut Checker<'_>, entry: PcieEntry) -> Option<Self> {
        let select = FunctionSelector::read(checker, "pcie.devices", entry.select);
        if select == Some(FunctionSelector::default()) {
            let message = format!("rule `{}` selects every function of the host", entry.name.value);
            let help = "add conditions, `select = { vendor = \"15b3\" }`; a later file's rule replaces the whole rule, \
                        `select` included";
            checker.error(
                entry.name.place,
                "missing-select",
                message,
                "no `select` here",
                Some(help),
            );
            return None;
        }
        let size = match entry.max_read_request {
            Some(at) => Checked::<ReadRequestSize>::read(checker, "max_read_request", at),
            None => Some(ReadRequest::AUTO),
        };
        let reason = Reason { why: entry.why, source: entry.source };
        let key = key_of("pcie.devices", &entry.name.value);
        Some(PcieRule {
            select: select?,
            max_read_request: size?,
            relaxed_ordering: entry.relaxed_ordering.unwrap_or(Permission::AUTO),
            why: checker.note(&key, entry.name.place, reason),
            name: entry.name.value,
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn select(&self) -> &FunctionSelector {
        &self.select
    }
}

fn read_devices(section: &mut Pcie, files: Vec<PcieFile>, checker: &mut Checker<'_>) {
    for file in files {
        read_rules(&mut section.rules, file.devices.unwrap_or_default(), checker);
    }
}

fn show_rules(section: &Pcie, out: &mut Printer<'_>) {
    for rule in &section.rules {
        out.entry("pcie.devices");
        let key = key_of("pcie.devices", &rule.name);
        out.line(&format!("name = {}", toml_text(&rule.name)), Some(&key));
        if let Some(line) = rule.select.to_toml() {
            out.line(&line, None);
        }
        out.line(&format!("max_read_request = {}", toml_text(&rule.max_read_request)), None);
        out.line(&format!("relaxed_ordering = {}", toml_text(&rule.relaxed_ordering)), None);
        out.reason(&key);
    }
}
