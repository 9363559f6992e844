//! Shared by several targets: the merged list of kernel arguments, the configuration files, and items that only a
//! running host can apply.

use bedplate_base::Arch;
use bedplate_cmdline::boot::grub_quote::grub_token;
use bedplate_cmdline::{Edit, Token};
use bedplate_core::desired::Desired;
use bedplate_core::file_heading;
use bedplate_core::image_config::{ConfigFile, ImageConfig, LiveOnly, Setting};
use bedplate_core::kind::{cmdline, modules, sriov, sysctl};

use super::{Inexpressible, OutFile, RenderError, RenderResult};

/// Returns the required arguments in order, with every `pci=` merged into one: tools that edit by key keep only one of
/// several (handbook §1.2, §10.3).
///
/// # Errors
/// [`RenderError::Cmdline`], [`RenderError::Line`], and an error for an argument that is not ASCII.
pub(super) fn kernel_arguments(build: &ImageConfig, arch: Arch) -> Result<Vec<Token>, RenderError> {
    let line = Edit::new(arch, &build.arguments)?.without(&build.absent)?.rendered()?;
    for token in line.tokens() {
        // The encodings of a file and a loader may differ.
        if !token.as_str().is_ascii() {
            let why = "only ASCII reaches the kernel unchanged through every tool";
            return Err(RenderError::bad_argument(token.as_str(), why));
        }
    }
    Ok(line.tokens().cloned().collect())
}

/// Quotes all arguments as words of GRUB's language: grub.cfg, and BLS `options`, which GRUB also reads as script.
pub(super) fn grub_words(tokens: &[Token]) -> Result<Vec<String>, RenderError> {
    Ok(tokens.iter().map(grub_token).collect::<Result<_, _>>()?)
}

/// Returns the heading: profile, digest, version. Each line starts with `mark`.
pub(super) fn heading(build: &ImageConfig, mark: &str) -> String {
    let stamp = build.stamp.as_ref().map(|stamp| format!("{mark}{stamp}\n"));
    format!("{mark}{}{}", file_heading::heading(&build.profile), stamp.unwrap_or_default())
}

/// Returns the heading and the reasons of all kernel arguments. Each line starts with `mark` and names its argument.
pub(super) fn preamble(build: &ImageConfig, mark: &str) -> String {
    let reasons = build
        .arguments
        .iter()
        .map(|arg| file_heading::reasons(&format!("{mark}{}:", arg.token), &arg.why));
    std::iter::once(heading(build, mark)).chain(reasons).collect()
}

/// Returns the configuration files, at their paths in the image.
pub(super) fn files(build: &ImageConfig) -> impl Iterator<Item = OutFile> {
    build.files.iter().map(|file| OutFile::new(file.path.trim_start_matches('/'), &*file.text))
}

/// Reason and alternative for items that a target cannot express.
pub(super) struct Unsupported {
    /// Why the target cannot express it.
    pub why: &'static str,
    /// Alternative.
    pub instead: &'static str,
}

impl Unsupported {
    fn item(&self, id: String, what: String) -> Inexpressible {
        Inexpressible { id, what, why: self.why.to_owned(), instead: self.instead.to_owned() }
    }

    /// Creates the item for one argument.
    pub(crate) fn argument(&self, token: &Token) -> Inexpressible {
        self.item(argument_id(token), format!("kernel argument `{token}`"))
    }

    /// Adds all arguments, and all settings that `carried` rejects, as inexpressible items. Does not handle VFs and
    /// items that need a running host.
    ///
    /// # Errors
    /// Errors of [`kernel_arguments`].
    pub(crate) fn leave(
        &self,
        build: &ImageConfig,
        arch: Arch,
        carried: impl Fn(&Setting) -> bool,
        rendered: &mut RenderResult,
    ) -> Result<(), RenderError> {
        let set = kernel_arguments(build, arch)?;
        rendered.inexpressible.extend(set.iter().map(|token| self.argument(token)));
        rendered.inexpressible.extend(self.settings(build, carried));
        rendered.notes.extend(self.not_removed(build.absent_tokens()));
        Ok(())
    }

    /// Returns a note that forbidden arguments are not removed. Only a note, because hardly any image has them.
    pub(crate) fn not_removed<'a>(&self, absent: impl Iterator<Item = &'a str>) -> Option<String> {
        let absent: Vec<String> = absent.map(|token| format!("`{token}`")).collect();
        (!absent.is_empty()).then(|| {
            format!(
                "kernel arguments that the profile forbids are not removed from the image: {} ({}); {}",
                absent.join(", "),
                self.why,
                self.instead
            )
        })
    }

    /// Returns items for the settings that `carried` rejects, and for files without settings.
    pub(crate) fn settings(
        &self,
        build: &ImageConfig,
        carried: impl Fn(&Setting) -> bool,
    ) -> Vec<Inexpressible> {
        let settings = build.settings().filter(|setting| !carried(setting));
        let settings =
            settings.map(|setting| self.item(setting_id(setting), describe_setting(setting)));
        let whole = build.files.iter().filter(|file| file.settings.is_empty());
        let whole = whole.map(|file| self.item(file_id(file), file.path.to_owned()));
        settings.chain(whole).collect()
    }
}

/// Returns the [`Inexpressible::id`] of an argument: `cmdline/iommu`.
pub(super) fn argument_id(token: &Token) -> String {
    format!("{}/{}", cmdline::NAME, token.name())
}

/// Returns the [`Inexpressible::id`] of a setting: `modules/nouveau`, `modules/ib_core.netns_mode`,
/// `sysctl/vm.zone_reclaim_mode`.
pub(super) fn setting_id(setting: &Setting) -> String {
    match setting {
        Setting::LoadModule(module) | Setting::BlacklistModule(module) => {
            format!("{}/{module}", modules::NAME)
        }
        Setting::ModuleOption { module, parameter, .. } => {
            format!("{}/{module}.{parameter}", modules::NAME)
        }
        Setting::Sysctl { key, .. } => format!("{}/{key}", sysctl::NAME),
    }
}

/// Returns the [`Inexpressible::id`] of a file: `file/etc/nccl.conf`.
pub(super) fn file_id(file: &ConfigFile) -> String {
    format!("file{}", file.path)
}

/// Returns the description of a setting for reports.
fn describe_setting(setting: &Setting) -> String {
    match setting {
        Setting::LoadModule(module) => format!("module {module} loaded at boot"),
        Setting::ModuleOption { module, parameter, value } => {
            format!("option {parameter}={value} of module {module}")
        }
        Setting::BlacklistModule(module) => format!("blacklist module {module}"),
        Setting::Sysctl { key, value } => format!("kernel parameter {key} = {value}"),
    }
}

/// Returns the arguments for a tool that removes only whole arguments, and a note about those that are part of one.
pub(super) fn removals(build: &ImageConfig) -> (Vec<String>, Option<String>) {
    let (parts, whole): (Vec<&str>, Vec<&str>) =
        build.absent_tokens().partition(|token| token.starts_with("pci="));
    let elsewhere = Unsupported {
        why: "only whole arguments are removed, not parts of `pci=`",
        instead: "remove it by hand, or run `bedplate apply --root` on the image",
    };
    (whole.into_iter().map(str::to_owned).collect(), elsewhere.not_removed(parts.into_iter()))
}

/// Quotes a text as one word of a shell.
pub(super) fn in_shell_single_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns items that only a running host can apply. `instead` selects the alternative that the target's hosts support.
pub(super) fn live_only(
    build: &ImageConfig,
    instead: fn(&LiveOnly) -> &String,
) -> impl Iterator<Item = Inexpressible> {
    build.live_only.iter().map(move |live| Inexpressible {
        id: live.id.clone(),
        what: live.what.clone(),
        why: live.why.clone(),
        instead: instead(live).clone(),
    })
}

/// Whether modprobe.d is used: options and blacklists.
pub(super) fn uses_modprobe(build: &ImageConfig) -> bool {
    let in_modprobe = |setting: &Setting| {
        matches!(setting, Setting::ModuleOption { .. } | Setting::BlacklistModule(_))
    };
    build.settings().any(in_modprobe)
}

/// Whether NVIDIA modules are used, which may be in a container or an extension instead of the host.
pub(super) fn names_nvidia_modules(build: &ImageConfig) -> bool {
    build.settings().any(|setting| match setting {
        Setting::LoadModule(module) | Setting::ModuleOption { module, .. } => {
            module.as_str().starts_with("nvidia")
        }
        Setting::BlacklistModule(_) | Setting::Sysctl { .. } => false,
    })
}

/// Returns the notes of the desired state. Skips notes about VFs if no devices are visible: targets have their own.
pub(super) fn remarks(desired: &Desired, sees_devices: bool) -> impl Iterator<Item = String> {
    let notes = desired.notes.iter().filter(move |note| sees_devices || note.kind != sriov::NAME);
    notes.map(|note| format!("{}: {}: {}", note.kind, note.subject, note.text))
}

/// Returns blockers and unknowns of the host: parts of the profile that are in no file because of them.
pub(super) fn unresolved(desired: &Desired) -> impl Iterator<Item = Inexpressible> {
    let item = |kind: &str, what: String, why: &str, instead: &str| Inexpressible {
        id: kind.to_owned(),
        what: format!("{kind}: {what}"),
        why: why.to_owned(),
        instead: instead.to_owned(),
    };
    let blocked = desired.blockers.iter();
    let blocked =
        blocked.map(move |b| item(b.kind.name(), b.subject.to_string(), &b.reason, &b.fix));
    let unknown = desired.unknowns.iter().map(move |u| {
        let why = format!("unknown: {}", u.reason);
        item(
            u.kind.name(),
            u.subject.to_string(),
            &why,
            "render for a host where it is known (--snapshot FILE), or at least set the CPU vendor (--cpu)",
        )
    });
    blocked.chain(unknown)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bedplate_base::value::{AcsBits, ModuleName, RegisterBits};
    use bedplate_base::{CpuVendor, Reading};
    use bedplate_core::desired::{
        AcsPersistence, ArgSource, DesiredAcs, DesiredCmdline, DesiredModules, FunctionSelector,
        KernelArg, SriovRule, WantedAcs, WantedModule, WantedOption, WantedVfs,
    };
    use bedplate_core::kind;
    use bedplate_core::plan::Rationale;
    use bedplate_core::profile::model::Profile;
    use bedplate_core::profile::model::{AcsPolicy, ModuleLoad, SriovCount};
    use bedplate_core::profile::{LayerText, load};
    use bedplate_facts::Facts;
    use bedplate_testhosts::fixture::Machine;

    /// Loads a profile with this text, named `test`.
    pub(crate) fn of_text(text: &str) -> Profile {
        load(&[LayerText { path: "test.toml", text }], &[]).unwrap().profile
    }

    fn why() -> Vec<Rationale> {
        vec![Rationale::new("a reason", "handbook §1")]
    }

    pub(crate) fn arg(token: &str) -> KernelArg {
        let from = match token.starts_with("pci=config_acs") {
            true => ArgSource::Acs,
            false => ArgSource::Cmdline,
        };
        KernelArg { token: Token::new(token).unwrap(), why: why(), from }
    }

    fn module(name: &str) -> ModuleName {
        name.parse().unwrap()
    }

    /// One of each: live ACS, an ACS list, VFs, options, a blacklist, an unload, absent arguments.
    pub(crate) fn desired() -> Desired {
        let acs = "pci=config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0";
        let load = |name| WantedModule { name: module(name), load: ModuleLoad::Boot, why: why() };
        let option = |module_name, parameter: &str, value: &str| WantedOption {
            module: module(module_name),
            parameter: parameter.to_owned(),
            value: value.to_owned(),
            why: why(),
        };
        Desired {
            cmdline: DesiredCmdline {
                set: vec![arg("iommu=pt"), arg("pci=realloc"), arg("hugepages=64"), arg(acs)],
                absent: vec![arg("nomodeset"), arg("iommu=off")],
                keep: Vec::new(),
                unchanged: Vec::new(),
            },
            modules: DesiredModules {
                load: vec![load("ib_uverbs"), load("nvidia_peermem")],
                options: vec![
                    option("ib_core", "netns_mode", "1"),
                    option("nvidia_peermem", "peerdirect_support", "1"),
                ],
                blacklist: vec![load("nouveau")],
                unload: vec![load("nouveau")],
            },
            acs: DesiredAcs {
                policy: AcsPolicy::DirectP2p,
                ports: vec![WantedAcs {
                    port: "0000:17:01.0".parse().unwrap(),
                    bits: RegisterBits { mask: AcsBits::REDIRECT.0, value: 0 },
                    why: why(),
                    vfio_below: Vec::new(),
                }],
                persistence: AcsPersistence::Live,
            },
            sriov: vec![WantedVfs {
                pf: "0000:18:00.0".parse().unwrap(),
                count: 8,
                rule: SriovRule { name: "compute".to_owned(), ..SriovRule::default() },
                why: why(),
            }],
            ..Desired::default()
        }
    }

    pub(crate) fn empty_desired() -> Desired {
        Desired::default()
    }

    /// Contributions of all resource types, under the profile name `hgx`.
    pub(crate) fn build(desired: &Desired) -> ImageConfig {
        with_profile("", desired)
    }

    /// Contributions with additional profile sections; adds a rule for each PF of `desired`, by its address.
    pub(crate) fn with_profile(sections: &str, desired: &Desired) -> ImageConfig {
        let profile = of_text(&format!("schema = 1\nname = \"hgx\"\n{sections}"));
        let mut build = kind::contributions(&profile, &machine(), desired).unwrap();
        build.vfs.extend(desired.sriov.iter().map(|wanted| SriovRule {
            select: FunctionSelector { address: Some(wanted.pf), ..FunctionSelector::default() },
            vfs: SriovCount::Number(wanted.count),
            ..wanted.rule.clone()
        }));
        build
    }

    /// A machine whose devices are known.
    fn machine() -> Facts {
        let mut machine = Machine::default();
        machine.add("0000:00:00.0", None, 0x06_0000, (0x8086, 0x09a2));
        Facts { pci: Reading::Known(machine.tree), ..Facts::of_vendor(CpuVendor::Intel) }
    }

    fn rendered(desired: &Desired) -> Result<Vec<String>, RenderError> {
        Ok(kernel_arguments(&build(desired), Arch::X86_64)?.iter().map(Token::to_string).collect())
    }

    #[test]
    fn pci_arguments_are_merged_at_first_position() {
        let pci = "pci=realloc,config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0";
        assert_eq!(rendered(&desired()).unwrap(), ["iommu=pt", pci, "hugepages=64"]);
    }

    #[test]
    fn non_ascii_argument_is_rejected() {
        let mut desired = empty_desired();
        desired.cmdline.set.push(arg("a=\u{f6}"));
        assert!(rendered(&desired).is_err());
        let mut desired = empty_desired();
        desired.cmdline.set.push(arg("dyndbg=\"file a.c +p\""));
        assert_eq!(rendered(&desired).unwrap(), ["dyndbg=\"file a.c +p\""]);
    }

    #[test]
    fn too_long_command_line_is_rejected() {
        let mut desired = empty_desired();
        desired.cmdline.set.push(arg(&format!("a={}", "x".repeat(2045))));
        assert!(rendered(&desired).is_ok());
        desired.cmdline.set.push(arg("b"));
        assert!(matches!(rendered(&desired), Err(RenderError::Line(_))));
    }
}
