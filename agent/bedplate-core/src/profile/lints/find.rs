//! Matchers of lints that need more than one line, one function each.

use super::{Arg, LintMatch, Parameter, View, lint_ids};
use crate::desired::{FunctionSelector, SriovRule};
use crate::kind::sriov::section::SriovManaged;
use crate::profile::model::{AcsPolicy, IommuMode, PciIdPair, RebootPolicy, VfDriver};
use crate::profile::sections::reboot::is_open;
use crate::section::key_of;
use bedplate_base::value::PciId;
use bedplate_base::value::vf::EswitchMode;
use bedplate_base::{Arch, CpuVendor};
use bedplate_cmdline::only_on;
use bedplate_nccl::Library;
use bedplate_nccl::switches::{Off, switches_off};
use bedplate_nccl::variables::{names, own};

pub(super) fn args(view: &View<'_>, test: impl Fn(&Arg) -> bool) -> Vec<LintMatch> {
    let found = view.args.iter().filter(|arg| test(arg));
    found.map(|arg| LintMatch { place: arg.place, subject: arg.text.clone() }).collect()
}

pub(super) fn parameters(view: &View<'_>, test: fn(&Parameter) -> bool) -> Vec<LintMatch> {
    let found = view.parameters.iter().filter(|parameter| test(parameter));
    found.map(|one| LintMatch { place: one.place, subject: one.text.clone() }).collect()
}

pub(super) fn unknown_lint(view: &View<'_>) -> Vec<LintMatch> {
    let known = lint_ids();
    let allowed = view.profile.lints.allow.iter();
    let unknown = allowed.filter(|allowed| !known.contains(&allowed.id.as_str()));
    unknown.filter_map(|one| view.hit(&key_of("lints.allow", &one.id), &one.id)).collect()
}

fn is_for_arm(view: &View<'_>) -> bool {
    let conditions = &view.profile.matching;
    conditions.arch == Some(Arch::Aarch64) || conditions.cpu_vendor == Some(CpuVendor::Arm)
}

pub(super) fn iommu_on_arm(view: &View<'_>) -> Vec<LintMatch> {
    let x86_only = ["iommu", "intel_iommu", "amd_iommu"];
    args(view, |arg| is_for_arm(view) && x86_only.contains(&arg.name.as_str()))
}

pub(super) fn x86_only_on_arm(view: &View<'_>) -> Vec<LintMatch> {
    of_other_arch(view, Arch::X86_64, is_for_arm(view))
}

pub(super) fn arm_only_on_x86(view: &View<'_>) -> Vec<LintMatch> {
    let conditions = &view.profile.matching;
    let vendor = matches!(conditions.cpu_vendor, Some(CpuVendor::Intel | CpuVendor::Amd));
    of_other_arch(view, Arch::Aarch64, vendor || conditions.arch == Some(Arch::X86_64))
}

fn of_other_arch(view: &View<'_>, arch: Arch, is_other: bool) -> Vec<LintMatch> {
    args(view, |arg| is_other && only_on(&arg.text) == Some(arch))
}

pub(super) fn other_vendors_iommu(view: &View<'_>) -> Vec<LintMatch> {
    let inert = match view.profile.matching.cpu_vendor {
        Some(CpuVendor::Amd) => "intel_iommu",
        Some(CpuVendor::Intel) => "amd_iommu",
        _ => return Vec::new(),
    };
    args(view, |arg| arg.name == inert)
}

/// Effect of a single argument on the IOMMU's mode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IommuMeaning {
    /// Passthrough for host drivers.
    Passthrough,
    /// Translation for host drivers.
    Translated,
    /// The IOMMU is off.
    Off,
    /// The IOMMU is on, in any mode.
    On,
}

fn says(arg: &Arg) -> Option<IommuMeaning> {
    match (arg.name.as_str(), arg.value.as_str()) {
        ("iommu", "pt") | ("iommu.passthrough", "1" | "on" | "y" | "Y") => {
            Some(IommuMeaning::Passthrough)
        }
        ("iommu", "nopt") | ("iommu.passthrough", "0" | "off" | "n" | "N") => {
            Some(IommuMeaning::Translated)
        }
        ("iommu" | "intel_iommu" | "amd_iommu", "off") => Some(IommuMeaning::Off),
        ("intel_iommu", "on") => Some(IommuMeaning::On),
        _ => None,
    }
}

fn agrees(says: IommuMeaning, mode: IommuMode) -> bool {
    match mode {
        IommuMode::Passthrough | IommuMode::PassthroughRequired => {
            matches!(says, IommuMeaning::Passthrough | IommuMeaning::On)
        }
        IommuMode::Translated => matches!(says, IommuMeaning::Translated | IommuMeaning::On),
        IommuMode::Off => says == IommuMeaning::Off,
        IommuMode::Keep | IommuMode::Auto => true,
    }
}

/// Returns the arguments that repeat the profile's mode, or those that contradict it.
pub(super) fn iommu_args(view: &View<'_>, agreeing: bool) -> Vec<LintMatch> {
    let mode = view.profile.iommu.mode;
    let decided = !matches!(mode, IommuMode::Keep | IommuMode::Auto);
    args(view, |arg| decided && says(arg).is_some_and(|says| agrees(says, mode) == agreeing))
}

pub(super) fn two_spellings(view: &View<'_>) -> Vec<LintMatch> {
    // Both names of the parameter, where they own the same value.
    let is_passthrough = |arg: &&Arg| match arg.name.as_str() {
        "iommu.passthrough" => true,
        "iommu" => matches!(says(arg), Some(IommuMeaning::Passthrough | IommuMeaning::Translated)),
        _ => false,
    };
    let Some(first) = view.args.iter().find(is_passthrough) else { return Vec::new() };
    args(view, |arg| is_passthrough(&arg) && arg.name != first.name)
}

/// Finds flags separated by a comma: the kernel parses `pci=config_acs=A@X,B@Y` as the options `config_acs=A@X` and `B@Y`.
pub(super) fn config_acs_commas(view: &View<'_>) -> Vec<LintMatch> {
    let is_flags =
        |text: &str| !text.is_empty() && text.bytes().all(|b| matches!(b, b'0' | b'1' | b'x'));
    args(view, |arg| {
        arg.name == "pci" && arg.value.split_once('@').is_some_and(|(flags, _)| is_flags(flags))
    })
}

/// Finds options named after ACS that no kernel reads, with or without `pci=`: `pci=noacs`, `pcie_acs=off`.
pub(super) fn acs_invented(view: &View<'_>) -> Vec<LintMatch> {
    let names_acs = |name: &str| {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| ["acs", "noacs"].contains(&word.to_ascii_lowercase().as_str()))
    };
    args(view, |arg| {
        let option = if arg.name == "pci" { arg.value.as_str() } else { arg.name.as_str() };
        let name = option.split('=').next().unwrap_or_default();
        let is_known = match arg.name.as_str() {
            "pci" => ["config_acs", "disable_acs_redir"].contains(&name),
            // `pcie_acs_override` has a lint of its own, and modules may choose their parameter names freely.
            other => other == "pcie_acs_override" || other.contains('.'),
        };
        !is_known && names_acs(name)
    })
}

pub(super) fn acs_by_hand(view: &View<'_>) -> Vec<LintMatch> {
    let options = ["config_acs=", "disable_acs_redir="];
    let decided = view.profile.acs.policy != AcsPolicy::Keep;
    args(view, |arg| {
        decided && arg.name == "pci" && options.iter().any(|name| arg.value.starts_with(name))
    })
}

/// Finds evidence that devices of this host are assigned to VMs.
fn vfio_signs(view: &View<'_>) -> Vec<LintMatch> {
    // Every driver that claims devices for VMs has this in its name (vfio-pci, mlx5_vfio_pci, xe-vfio-pci …).
    let is_vfio = |name: &str| name.replace('-', "_").contains("vfio_pci");
    let mut signs = modules(view, is_vfio);
    let is_for_guests =
        |rule: &SriovRule| matches!(&rule.vf_driver, VfDriver::Named(driver) if is_vfio(driver));
    signs.extend(rules(view, is_for_guests));
    signs
}

pub(super) fn acs_with_vfio(view: &View<'_>, policy: AcsPolicy) -> Vec<LintMatch> {
    let word = if policy == AcsPolicy::Clear { "clear" } else { "direct-p2p" };
    let is_both = view.profile.acs.policy == policy && !vfio_signs(view).is_empty();
    view.hit("acs.policy", word).filter(|_| is_both).into_iter().collect()
}

pub(super) fn vfio_without_iommu(view: &View<'_>) -> Vec<LintMatch> {
    if view.profile.iommu.mode == IommuMode::Off { vfio_signs(view) } else { Vec::new() }
}

/// Instinct MI300A, MI300X, MI308X, MI325X and MI300X HF (Aqua Vanjaram in pci.ids), MI350X and MI355X. Without their
/// VFs (74b5, 74b9 …): AMD's advice is for hosts without SR-IOV.
const INSTINCT: [u16; 7] = [0x74a0, 0x74a1, 0x74a2, 0x74a5, 0x74a9, 0x75a0, 0x75a3];

pub(super) fn realloc_on_mi300x(view: &View<'_>) -> Vec<LintMatch> {
    let is_instinct = |id: &PciIdPair| {
        id.vendor == PciId(0x1002) && id.device.is_some_and(|device| INSTINCT.contains(&device.0))
    };
    let conditions = &view.profile.matching.pci;
    if !conditions.iter().flat_map(|pci| &pci.ids).any(is_instinct) {
        return Vec::new();
    }
    args(view, |arg| arg.name == "pci" && matches!(arg.value.as_str(), "realloc" | "realloc=on"))
}

/// Parameters of the driver, which ignores spellings with another case.
const NVREG: &[&str] = &[
    "NVreg_EnablePCIERelaxedOrderingMode",
    "NVreg_GrdmaPciTopoCheckOverride",
    "NVreg_DmaRemapPeerMmio",
    "NVreg_EnableResizableBar",
    "NVreg_EnableStreamMemOPs",
    "NVreg_RegistryDwords",
];

pub(super) fn nvreg_case(view: &View<'_>) -> Vec<LintMatch> {
    parameters(view, |parameter| {
        NVREG
            .iter()
            .any(|real| real.eq_ignore_ascii_case(&parameter.name) && *real != parameter.name)
    })
}

/// Modules that are never built in on the hosts bedplate is for.
const LOADABLE: &[&str] = &[
    "nvidia",
    "nvidia_uvm",
    "nvidia_drm",
    "nvidia_modeset",
    "nvidia_peermem",
    "amdgpu",
    "mlx5_core",
    "mlx5_ib",
];

pub(super) fn module_option_on_cmdline(view: &View<'_>) -> Vec<LintMatch> {
    parameters(view, |parameter| {
        let rdma = parameter.module.starts_with("ib_") || parameter.module.starts_with("rdma_");
        parameter.on_cmdline && (rdma || LOADABLE.contains(&parameter.module.as_str()))
    })
}

/// Finds modules to load that pass a test.
fn modules(view: &View<'_>, test: impl Fn(&str) -> bool) -> Vec<LintMatch> {
    let wanted = view.profile.modules.load.iter().map(|module| module.name.as_str());
    let found = wanted.filter(|name| test(name));
    found.filter_map(|name| view.hit(&key_of("modules.load", name), name)).collect()
}

pub(super) fn loaded(view: &View<'_>, names: &[&str]) -> Vec<LintMatch> {
    modules(view, |name| names.contains(&name))
}

/// Finds rules for virtual functions that pass a test.
fn rules(view: &View<'_>, test: impl Fn(&SriovRule) -> bool) -> Vec<LintMatch> {
    let found = view.profile.sriov.rules.iter().filter(|rule| test(rule));
    found.filter_map(|rule| view.hit(&key_of("sriov.devices", &rule.name), &rule.name)).collect()
}

pub(super) fn vfs_everywhere(view: &View<'_>) -> Vec<LintMatch> {
    rules(view, |rule| rule.select == FunctionSelector::default())
}

pub(super) fn vf_in_switchdev(view: &View<'_>) -> Vec<LintMatch> {
    rules(view, |rule| {
        let set = &rule.vf.set;
        let asks = set.vlan.is_some_and(|vlan| vlan.id != 0)
            || set.trust.is_some()
            || set.spoof_check.is_some();
        rule.eswitch == Some(EswitchMode::Switchdev) && asks
    })
}

pub(super) fn rules_unused(view: &View<'_>) -> Vec<LintMatch> {
    rules(view, |_| view.profile.sriov.managed == SriovManaged::External)
}

/// Finds NCCL variables for which `subject` returns a text.
fn variables(view: &View<'_>, subject: impl Fn(&str, &str) -> Option<String>) -> Vec<LintMatch> {
    let set = view.profile.nccl.set.iter();
    set.filter_map(|one| view.hit(&key_of("nccl.set", &one.name), subject(&one.name, &one.value)?))
        .collect()
}

/// Variables whose right value depends on the site: a profile that sets them may be correct.
const SITE_DECIDES: [&str; 11] = [
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_OOO_RQ",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
];

/// Finds variables set to a commonly recommended value.
pub(super) fn nccl_folklore(view: &View<'_>) -> Vec<LintMatch> {
    variables(view, |name, value| {
        let known = |name: &str| !SITE_DECIDES.contains(&name);
        let row = own(Library::Nccl).into_iter().find(|row| row.name == name && known(name))?;
        let mut told = row.advice.as_ref()?.value.split(" or ");
        told.any(|told| told == value).then(|| format!("{name}={value}"))
    })
}

/// Finds variables that disable GPUDirect RDMA.
pub(super) fn nccl_switched_off(view: &View<'_>) -> Vec<LintMatch> {
    variables(view, |name, value| {
        let off = switches_off(name, value)?;
        matches!(off, Off::Rdma | Off::GpuDirect).then(|| format!("{name}={value}"))
    })
}

/// Finds names that are similar to those of variables.
pub(super) fn nccl_typos(view: &View<'_>) -> Vec<LintMatch> {
    variables(view, |name, _| Some(format!("{name} (did you mean {}?)", names::suggest(name)?)))
}

/// Finds a reboot schedule without a chosen window.
pub(super) fn no_window_yet(view: &View<'_>) -> Vec<LintMatch> {
    let reboot = &view.profile.reboot;
    let is_asked = reboot.policy == RebootPolicy::Schedule && is_open(&reboot.windows);
    let hit = view.hit("reboot.windows", "windows = [\"never\"]");
    hit.filter(|_| is_asked).into_iter().collect()
}

pub(super) fn windows_unused(view: &View<'_>) -> Vec<LintMatch> {
    let reboot = &view.profile.reboot;
    let is_unused = reboot.policy != RebootPolicy::Schedule && !reboot.windows.is_empty();
    view.hit("reboot.windows", "windows").filter(|_| is_unused).into_iter().collect()
}
