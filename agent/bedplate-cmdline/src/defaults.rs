//! Built-in defaults that apply when the kernel command line sets nothing. Read from the few lines of the build
//! configuration (`/boot/config-RELEASE`) that can make an argument unnecessary.

use std::collections::BTreeMap;

use serde::Serialize;

/// Build-time defaults. [`Default`] leaves every field unknown, for an unreadable configuration: then no default
/// satisfies an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KernelDefaults {
    /// `CONFIG_IOMMU_DEFAULT_PASSTHROUGH` (`drivers/iommu/Kconfig`).
    pub passthrough: Option<bool>,
    /// `CONFIG_INTEL_IOMMU_DEFAULT_ON` (`drivers/iommu/intel/Kconfig`), or Debian's
    /// `CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF`, which differs only for integrated graphics.
    pub intel_iommu: Option<bool>,
    /// Whether `intel_iommu` comes from Debian's option instead of the upstream one.
    pub spares_integrated_graphics: bool,
    /// `CONFIG_AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT`: memory encryption drops a built-in passthrough default
    /// (`drivers/iommu/iommu.c` `iommu_subsys_init`; handbook §1.3).
    pub memory_encryption: Option<bool>,
    /// `CONFIG_CMDLINE`: arguments that the kernel puts in front of the loader's line, or uses instead of it.
    pub built_in: Option<String>,
    /// `CONFIG_CMDLINE_OVERRIDE` (x86), `CONFIG_CMDLINE_FORCE` (arm64): the kernel discards the loader's line.
    pub overrides: bool,
}

impl KernelDefaults {
    /// Parses a build configuration. Text without any `CONFIG_` line gives [`KernelDefaults::default`].
    pub fn parse(config: &str) -> KernelDefaults {
        let settings: BTreeMap<&str, &str> = config
            .lines()
            .filter_map(|line| line.trim().strip_prefix("CONFIG_")?.split_once('='))
            .collect();
        if settings.is_empty() {
            return KernelDefaults::default();
        }
        let yes = |name: &str| settings.get(name) == Some(&"y");
        let text = settings
            .get("CMDLINE")
            .map(|value| unquote(value))
            .filter(|text| !text.trim().is_empty());
        let overrides = text.is_some() && (yes("CMDLINE_OVERRIDE") || yes("CMDLINE_FORCE"));
        KernelDefaults {
            passthrough: Some(yes("IOMMU_DEFAULT_PASSTHROUGH")),
            intel_iommu: Some(
                yes("INTEL_IOMMU_DEFAULT_ON") || yes("INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF"),
            ),
            spares_integrated_graphics: yes("INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF"),
            memory_encryption: Some(yes("AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT")),
            // arm64 has no CMDLINE_BOOL: there the text is used only when the loader passes no line at all.
            built_in: text.filter(|_| yes("CMDLINE_BOOL") || overrides),
            overrides,
        }
    }
}

/// Unquotes a Kconfig string: enclosing double quotes, and a backslash before each inner quote or backslash.
fn unquote(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}
