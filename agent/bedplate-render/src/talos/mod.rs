//! Target `talos`: a strategic-merge patch of the machine configuration, and the Image Factory schematic.

mod documents;
mod schematic;
mod version;

use std::collections::BTreeMap;

use serde::Serialize;

use bedplate_base::value::{ModuleName, PciAddress};
use bedplate_cmdline::Token;
use bedplate_core::desired::{FunctionSelector, SriovRule, VfDriver};
use bedplate_core::image_config::{ConfigFile, ImageConfig, Setting};

use super::agent::undecided_registration;
use super::common::{
    argument_id, file_id, kernel_arguments, live_only, names_nvidia_modules, preamble, setting_id,
};
use super::vf_rules::{BY_OPERATOR, Group, Pfs, groups, of_vfs, unguarded_vfs, vf_attributes};
use super::{Inexpressible, Options, OutFile, RenderError, RenderResult, Target, yaml};
use crate::go_yaml::GoYaml;
use schematic::Schematic;
use version::{Arguments, Version};

const PATCH: &str = "machine-patch.yaml";
const SCHEMATIC: &str = "schematic.yaml";
const SCHEMATIC_ID: &str = "schematic.id";

/// The part of the `v1alpha1` machine configuration that bedplate writes.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Patch {
    machine: Machine,
}

#[derive(Debug, Default, PartialEq, Serialize)]
struct Machine {
    #[serde(skip_serializing_if = "Option::is_none")]
    install: Option<Install>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<Kernel>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sysctls: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sysfs: BTreeMap<String, String>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Install {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extra_kernel_args: Vec<String>,
    #[serde(rename = "grubUseUKICmdline", skip_serializing_if = "Option::is_none")]
    grub_use_uki_cmdline: Option<bool>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Kernel {
    modules: Vec<KernelModule>,
}

#[derive(Debug, PartialEq, Serialize)]
struct KernelModule {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<String>,
}

pub(crate) const TARGET: Target = Target::new(
    "talos",
    "Talos machine configuration patch and Image Factory schematic",
    &[PATCH, SCHEMATIC, SCHEMATIC_ID],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let version = Version::find(options.talos_version.as_deref())?;
    let mut rendered = RenderResult::default();
    let arguments = arguments(build, options, &mut rendered)?;
    let (groups, items) = groups(build, build.own_vfs(), options, cannot);
    rendered.inexpressible.extend(items);
    let counts: BTreeMap<String, String> = groups.iter().flat_map(vf_counts).collect();
    let patch = Patch {
        machine: Machine {
            install: install(&arguments, version, &mut rendered.notes),
            kernel: kernel(build),
            sysctls: build.settings().filter_map(sysctl).collect(),
            sysfs: counts,
        },
    };
    if patch != Patch::default() {
        let body = match version.documents {
            true => documents::text(patch.machine)?,
            false => yaml::document(PATCH, &patch)?,
        };
        let text = format!("{}{body}", preamble(build, "# "));
        rendered.files.push(OutFile::new(PATCH, text));
    }
    let schematic = Schematic { arguments, extensions: options.talos_extensions.clone() };
    let text = schematic.text(GoYaml::V4)?;
    let id = schematic::id(&text);
    let earlier = schematic::id(&schematic.text(GoYaml::V3)?);
    if earlier != id {
        rendered.notes.push(format!(
            "an Image Factory before 1.5 quotes words like `on` differently; there the schematic has id {earlier}"
        ));
    }
    rendered.notes.push(format!(
        "post {SCHEMATIC} to the Image Factory and install or upgrade with the installer image of schematic {id}"
    ));
    rendered.files.push(OutFile::new(SCHEMATIC, text));
    rendered.files.push(OutFile::new(SCHEMATIC_ID, format!("{id}\n")));

    rendered.inexpressible.extend(build.settings().filter_map(|one| modprobe_only(one, build)));
    rendered.inexpressible.extend(build.files.iter().filter_map(only_a_file));
    rendered.inexpressible.extend(groups.iter().filter_map(|group| vf_driver_choice(group.rule)));
    rendered.inexpressible.extend(unguarded_vfs(
        &groups,
        "Talos's sysfs settings have no condition: it writes the count whenever it configures the machine",
        "use a separate profile for nodes reached through this port",
    ));
    rendered.inexpressible.extend(vf_attributes(build, BY_OPERATOR));
    rendered.inexpressible.extend(undecided_registration(build));
    // Talos has neither shell nor package manager, so no agent runs on its hosts.
    rendered.inexpressible.extend(live_only(build, |live| &live.without_agent));
    rendered.notes.extend(build.notes.iter().cloned());
    if names_nvidia_modules(build)
        && !options.talos_extensions.iter().any(|name| name.contains("nvidia"))
    {
        rendered.notes.push(
            "Talos has NVIDIA modules only in system extensions: add one to the schematic, e.g. \
            siderolabs/nvidia-open-gpu-kernel-modules-lts (docs.siderolabs.com; handbook §10.4)"
                .to_owned(),
        );
    }
    Ok(rendered)
}

/// Returns the arguments in Talos's syntax: `-name` or `-name=value` removes one, and comes first.
fn arguments(
    build: &ImageConfig,
    options: &Options,
    out: &mut RenderResult,
) -> Result<Vec<String>, RenderError> {
    let set = kernel_arguments(build, options.arch)?;
    // Talos splits the list at blanks and ignores quotes. It also groups arguments by name.
    let several_sizes = set.iter().filter(|token| token.folded_name() == "hugepagesz").count() > 1;
    let lost = |token: &Token| match token.folded_name().as_str() {
        _ if token.as_str().contains(' ') => {
            Some("Talos splits arguments at blanks, even quoted ones")
        }
        "hugepagesz" | "hugepages" if several_sizes => {
            Some("Talos sorts arguments by name, and each count belongs to the size before it")
        }
        _ => None,
    };
    let mut all: Vec<String> =
        build.absent.iter().map(|unwanted| format!("-{}", unwanted.token)).collect();
    for token in &set {
        match lost(token) {
            None => all.push(token.to_string()),
            Some(why) => out.inexpressible.push(Inexpressible {
                id: argument_id(token),
                what: format!("kernel argument `{token}`"),
                why: why.to_owned(),
                instead: "set it at runtime: machine.sysfs for huge pages, parameters of machine.kernel.modules for modules"
                    .to_owned(),
            }),
        }
    }
    Ok(all)
}

fn install(arguments: &[String], version: Version, notes: &mut Vec<String>) -> Option<Install> {
    if arguments.is_empty() {
        return None;
    }
    Some(match version.arguments {
        Arguments::Install => {
            notes.push(
                "machine.install.extraKernelArgs applies only on nodes booted by GRUB; with systemd-boot (UEFI \
                installs since 1.10) only the schematic applies: see bootedWithUKI in `talosctl get securitystate` \
                (docs.siderolabs.com; handbook §10.4)"
                    .to_owned(),
            );
            Install { extra_kernel_args: arguments.to_vec(), grub_use_uki_cmdline: None }
        }
        Arguments::Image => {
            notes.push(
                "kernel arguments come only from the schematic; grubUseUKICmdline applies them on nodes booted by \
                GRUB too. Talos rejects it together with extraKernelArgs: delete that first if an older release left \
                it"
                    .to_owned(),
            );
            Install { extra_kernel_args: Vec::new(), grub_use_uki_cmdline: Some(true) }
        }
        Arguments::Schematic => {
            notes.push("kernel arguments come only from the schematic".to_owned());
            return None;
        }
    })
}

fn kernel(build: &ImageConfig) -> Option<Kernel> {
    let parameters = |of: &ModuleName| {
        let of_it = build.settings().filter_map(move |setting| match setting {
            Setting::ModuleOption { module, parameter, value } if module == of => {
                Some(format!("{parameter}={value}"))
            }
            _ => None,
        });
        of_it.collect()
    };
    let modules: Vec<KernelModule> = loaded(build)
        .map(|name| KernelModule { name: name.to_string(), parameters: parameters(name) })
        .collect();
    (!modules.is_empty()).then_some(Kernel { modules })
}

fn loaded(build: &ImageConfig) -> impl Iterator<Item = &ModuleName> {
    build.settings().filter_map(|setting| match setting {
        Setting::LoadModule(module) => Some(module),
        _ => None,
    })
}

/// Talos parses the keys like sysctl.d(5) (siderolabs/talos pkg/machinery/kernel/kernel.go).
fn sysctl(setting: &Setting) -> Option<(String, String)> {
    match setting {
        Setting::Sysctl { key, value } => Some((key.clone(), value.clone())),
        _ => None,
    }
}

/// Talos writes machine.sysfs keys below /sys. Keys use slashes, because the address has dots.
fn vf_counts(group: &Group<'_>) -> Vec<(String, String)> {
    let Pfs::Addresses(addresses) = &group.pfs else { return Vec::new() };
    let key = |pf: &PciAddress| format!("bus/pci/devices/{pf}/sriov_numvfs");
    addresses.iter().map(|pf| (key(pf), group.count.to_string())).collect()
}

fn cannot(rule: &SriovRule) -> Option<&'static str> {
    let by_address =
        FunctionSelector { address: rule.select.address, ..FunctionSelector::default() };
    (rule.select.address.is_none() || rule.select != by_address)
        .then_some("machine.sysfs selects devices only by PCI address")
}

fn vf_driver_choice(rule: &SriovRule) -> Option<Inexpressible> {
    let instead = match &rule.vf_driver {
        VfDriver::Auto => return None,
        VfDriver::None => "let the SR-IOV network operator create the VFs".to_owned(),
        VfDriver::Named(driver) => format!(
            "add a PCIDriverRebindConfig (since 1.10) with targetDriver {driver} for each VF address, or let the SR-IOV network operator create the VFs"
        ),
    };
    let why = "machine.sysfs has no guaranteed write order, but autoprobe must be disabled before the VFs appear \
    (Linux Documentation/ABI/testing/sysfs-bus-pci; handbook §5.1)";
    Some(of_vfs(rule, "vf_driver", why, instead))
}

/// Talos has no modprobe.d: it passes parameters only to modules that it loads itself.
fn modprobe_only(setting: &Setting, build: &ImageConfig) -> Option<Inexpressible> {
    match setting {
        Setting::ModuleOption { module, parameter, value }
            if !loaded(build).any(|name| name == module) =>
        {
            let value = format!("{parameter}={value}");
            Some(Inexpressible {
                id: setting_id(setting),
                what: format!("option {value} of module {module}"),
                why: format!(
                    "Talos sets parameters only for modules in its own list, and the profile does not load {module}"
                ),
                instead: format!(
                    "add {module} to [modules] load, or `{module}.{value}` to [cmdline] (Linux kernel-parameters.rst; handbook §1.6)"
                ),
            })
        }
        Setting::BlacklistModule(module) => Some(Inexpressible {
            id: setting_id(setting),
            what: format!("blacklist module {module}"),
            why: "Talos has no modprobe.d".to_owned(),
            instead: format!(
                "add `module_blacklist={module}` to [cmdline]; the kernel then refuses the module altogether (Linux \
                kernel/module/main.c; handbook §1.6)"
            ),
        }),
        Setting::LoadModule(_) | Setting::ModuleOption { .. } | Setting::Sysctl { .. } => None,
    }
}

fn only_a_file(file: &ConfigFile) -> Option<Inexpressible> {
    file.settings.is_empty().then(|| Inexpressible {
        id: file_id(file),
        what: file.path.to_owned(),
        why: "Talos's root file system is read-only".to_owned(),
        instead: "use an equivalent key of the machine configuration".to_owned(),
    })
}

#[cfg(test)]
mod tests;
