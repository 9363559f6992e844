//! `[modules]`: modules to load, blacklist and unload, and their parameters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::desired::{ModuleLoad, WantedModule, WantedOption};
use crate::section::{Entry, Scalar, ScalarEntry, Spanned, section};

mod lists;

pub(crate) use lists::option_key;

/// Path for registering GPU memory (handbook §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GpuDirect {
    /// DMA-BUF if its prerequisites are met, else nvidia_peermem if the stack exports its symbols, else a blocker.
    Auto,
    /// DMA-BUF; no module to load.
    Dmabuf,
    /// nvidia_peermem.
    Peermem,
    /// No check.
    None,
}

section! {
    /// `[modules]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "modules" Modules, ModulesFile {
        /// When to load modules that have no `load` of their own.
        load_default: ModuleLoad = ModuleLoad::Now;

        /// How the NIC driver accesses GPU memory.
        #[schemars(
            example = &"auto",
            extend("x-source" = "NVIDIA GPU Operator, GPUDirect RDMA; nccl src/transport/net_ib/gdr.cc; handbook §6.3")
        )]
        gpudirect: GpuDirect = GpuDirect::None;
    }
    special lists::read {
        /// Modules that must be loaded, now or from the next boot on. A built-in module counts as loaded.
        #[schemars(
            extend("default" = [] as [&str; 0]),
            example = vec!["ib_umad"],
            extend("x-source" = "modules-load.d(5)")
        )]
        load: Vec<ModuleEntry>;

        /// Modules that must not be loaded by alias. Loading by name still works.
        #[schemars(
            extend("default" = [] as [&str; 0]),
            example = vec!["nouveau"],
            extend("x-source" = "modprobe.d(5); kmod libkmod/libkmod-config.c")
        )]
        blacklist: Vec<ModuleEntry>;

        /// Modules to unload now if they are loaded. Modules not in this list are never unloaded.
        #[schemars(
            extend("default" = [] as [&str; 0]),
            example = vec!["nouveau"],
            extend("x-source" = "modprobe(8)")
        )]
        unload: Vec<ModuleEntry>;

        /// Module parameters, `options.MODULE = { PARAMETER = value }`. They take effect when the module is next loaded.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "nvidia": { "NVreg_EnableStreamMemOPs": 1 } }]),
            extend("x-source" = "modprobe.d(5); /sys/module/MODULE/parameters")
        )]
        options: BTreeMap<Spanned<String>, Parameters>;
    }
    before {
        /// In profile order.
        load: Vec<WantedModule>;
        /// Sorted by module, then parameter.
        options: Vec<WantedOption>;
        /// Blacklisted: not loaded by alias (handbook §9).
        blacklist: Vec<WantedModule>;
        /// Unloaded now if loaded.
        unload: Vec<WantedModule>;
    }
    show lists::show;
}

/// A module name.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ModuleText(
    /// Name of a kernel module; `-` and `_` are equivalent.
    // 55 = MODULE_NAME_LEN on 64-bit kernels less the NUL (include/linux/moduleparam.h).
    #[cfg_attr(
        feature = "schemars",
        schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,54}$"))
    )]
    pub String,
);

/// A module with its reason.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModuleTable {
    /// Name of the module; `-` and `_` are equivalent.
    pub name: Spanned<ModuleText>,
    /// When to load it. Default: `modules.load_default`. Only for `modules.load`.
    pub load: Option<Spanned<ModuleLoad>>,
    /// Reason, shown in plans.
    #[cfg_attr(feature = "schemars", schemars(example = &"user-space verbs need /dev/infiniband/uverbsN"))]
    pub why: Option<Spanned<String>>,
    /// Source of the fact.
    #[cfg_attr(feature = "schemars", schemars(example = &"rdma-core kernel-boot/modules/rdma.conf"))]
    pub source: Option<Spanned<String>>,
}

/// An entry of the module lists.
pub(crate) type ModuleEntry = Spanned<Entry<ModuleText, ModuleTable>>;

/// `[modules.options.MODULE]`.
pub(crate) type Parameters = BTreeMap<Spanned<String>, ScalarEntry>;
