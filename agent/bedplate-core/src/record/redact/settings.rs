//! Redaction of lines of configuration files.

use super::masker::{Masker, Style};
use bedplate_base::mask;
use bedplate_facts::superchip::SMMU_SVA;

/// Keeps the required settings of a kernel's build, including its command line.
pub(super) fn kernel_setting(line: &str, words: &mut Masker) -> Option<String> {
    const READ: [&str; 14] = [
        SMMU_SVA,
        "CONFIG_ARM64_4K_PAGES",
        "CONFIG_ARM64_16K_PAGES",
        "CONFIG_ARM64_64K_PAGES",
        "CONFIG_CMDLINE_BOOL",
        "CONFIG_CMDLINE_OVERRIDE",
        "CONFIG_CMDLINE_FORCE",
        "CONFIG_IOMMU_DEFAULT_PASSTHROUGH",
        "CONFIG_INTEL_IOMMU_DEFAULT_ON",
        "CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF",
        "CONFIG_AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT",
        "CONFIG_DMABUF_MOVE_NOTIFY",
        "CONFIG_PCI_P2PDMA",
        "CONFIG_PCIE_BUS_PERFORMANCE",
    ];
    // This line proves that the option is off. Without any line, the option is unknown.
    let off = line.trim().strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set"));
    if off == Some(SMMU_SVA) {
        return Some(line.to_owned());
    }
    let (name, value) = line.trim().split_once('=')?;
    if name == "CONFIG_CMDLINE" {
        return Some(format!("{name}={}", words.text(value, Style::Line)));
    }
    let plain = ["y", "m", "n"].contains(&value);
    // Matched by name, these are options of IOMMUs and no free text.
    (plain && (READ.contains(&name) || name.contains("IOMMU"))).then(|| line.to_owned())
}

/// Redacts a line of modules-load.d: keeps module names.
pub(super) fn listed_module(line: &str, words: &mut Masker) -> String {
    let name = line.trim();
    if name.starts_with(['#', ';']) {
        return "#".to_owned();
    }
    if name.is_empty() || mask::is_name(name) {
        line.to_owned()
    } else {
        words.text(line, Style::Line)
    }
}

/// Redacts a line of modprobe.d: keeps the module's name and masks option values; commands are omitted.
pub(super) fn module_option(line: &str, words: &mut Masker) -> String {
    if line.trim_start().starts_with(['#', ';']) {
        return "#".to_owned();
    }
    let mut clean = String::new();
    let mut rest = line;
    let mut command = "";
    for index in 0..2 {
        let start = rest.len() - rest.trim_start().len();
        let end = rest[start..].find(char::is_whitespace).map_or(rest.len(), |end| start + end);
        let word = &rest[start..end];
        if index == 0 {
            command = word;
            if !["options", "blacklist", "install", "remove", "softdep", "alias"].contains(&word) {
                break;
            }
        } else if !mask::is_name(word) {
            break;
        }
        clean.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    let named = ["softdep", "alias"].contains(&command)
        && rest.split_whitespace().all(|word| mask::is_name(word.trim_end_matches(':')));
    if named { clean + rest } else { clean + &words.text(rest, Style::Line) }
}

/// Redacts a line of sysctl.d: keys contain dots, slashes, and patterns.
pub(super) fn sysctl(line: &str, words: &mut Masker) -> String {
    if line.trim_start().starts_with(['#', ';']) {
        return "#".to_owned();
    }
    let plain =
        |key: &str| key.bytes().all(|c| c.is_ascii_alphanumeric() || b"_./*?:@- ".contains(&c));
    match line.split_once('=') {
        Some((key, value)) if plain(key) => {
            let key = words.identities(key);
            let value = words.value(key.trim(), value, Style::Setting);
            format!("{key}={value}")
        }
        _ => words.text(line, Style::Line),
    }
}

/// Keeps the number of VFs in systemd's .link files.
pub(super) fn link_setting(line: &str) -> Option<String> {
    let trimmed = line.trim();
    let count = trimmed.strip_prefix("SR-IOVVirtualFunctions=");
    (trimmed == "[SR-IOV]" || count.is_some_and(mask::is_numeric)).then(|| line.to_owned())
}
