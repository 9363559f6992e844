//! What several targets share: the kernel arguments as one merged list, the configuration files, and the words for what
//! only a running host can take.

use crate::boot::grub_quote::grub_token;
use crate::cmdline::{Edit, Token};
use crate::desired::{Desired, WantedVfs};
use crate::facts::Arch;
use crate::kind::contribution::{Contributions, LiveOnly, Setting};
use crate::kind::some_of;
use crate::modules_conf;
use crate::profile::model::VfDriver;

use super::{Inexpressible, Options, OutFile, RenderError, udev};

/// The wanted arguments in order, with every `pci=` merged into one argument: tools that edit by key keep only one of
/// several (handbook §1.2, §10.3).
///
/// # Errors
/// [`RenderError::Cmdline`], [`RenderError::Line`], [`RenderError::BadArgument`].
pub(super) fn kernel_arguments(
    build: &Contributions,
    arch: Arch,
) -> Result<Vec<Token>, RenderError> {
    let set: Vec<&str> = build.arguments.iter().map(|wanted| wanted.token.as_str()).collect();
    let absent: Vec<&str> = build.absent.iter().map(|unwanted| unwanted.token.as_str()).collect();
    let line = Edit::new(arch, &set, &absent)?.rendered()?;
    for token in line.tokens() {
        // A file's encoding and a loader's need not be the same.
        if !token.as_str().is_ascii() {
            let reason = "only ASCII survives every tool between here and the kernel".to_owned();
            return Err(RenderError::BadArgument { token: token.to_string(), reason });
        }
    }
    Ok(line.tokens().cloned().collect())
}

/// All arguments as words of GRUB's language: grub.cfg, and BLS `options`, which GRUB reads as script too.
pub(super) fn grub_words(tokens: &[Token]) -> Result<Vec<String>, RenderError> {
    Ok(tokens.iter().map(grub_token).collect::<Result<_, _>>()?)
}

/// The heading: profile, digest, version. Each line behind `mark`.
pub(super) fn heading(build: &Contributions, mark: &str) -> String {
    let stamp = build.stamp.as_ref().map(|stamp| format!("{mark}{stamp}\n"));
    format!("{mark}{}{}", modules_conf::heading(&build.profile), stamp.unwrap_or_default())
}

/// The heading and the reasons of all kernel arguments, each line behind `mark` and naming its argument.
pub(super) fn preamble(build: &Contributions, mark: &str) -> String {
    let line = |token: &str, why| modules_conf::reasons(&format!("{mark}{token}:"), why);
    let reasons = build.arguments.iter().map(|wanted| line(&wanted.token, &wanted.why));
    std::iter::once(heading(build, mark)).chain(reasons).collect()
}

/// The configuration files, at the paths they have in an image.
pub(super) fn files(build: &Contributions) -> impl Iterator<Item = OutFile> {
    build.files.iter().map(|file| OutFile::new(file.path.trim_start_matches('/'), &*file.text))
}

/// What stays when a target's images take arguments and files, and [`udev`] makes the VFs.
pub(super) fn image_leftovers(build: &Contributions) -> Vec<Inexpressible> {
    udev::driver_choices(build)
        .chain(vf_attributes(build, "run `bedplate apply` at every boot of the host"))
        .chain(live_only(build, |live| &live.with_agent))
        .collect()
}

/// The files of an image: configuration, rules that make VFs, and the profile where only bedplate itself can do the rest.
pub(super) fn image_files(build: &Contributions, options: &Options) -> Vec<OutFile> {
    files(build).chain(udev::rules(build)).chain(agent_profile(build, options)).collect()
}

/// The unit that does at boot what no file holds. Enabling one that is not there does no harm.
pub(super) const AGENT_UNIT: &str = "bedplate-boot.service";

/// What to say where [`AGENT_UNIT`] is enabled.
pub(super) const AGENT_NOTE: &str = "where bedplate is installed in the image, bedplate-boot.service does at every boot what no \
                                     file holds: the profile is in /etc/bedplate/profile.toml for it";

/// The profile, for [`AGENT_UNIT`], where something is left for it.
pub(super) fn agent_profile(build: &Contributions, options: &Options) -> Option<OutFile> {
    let text = options.profile_text.as_ref()?;
    let text = format!("{}{text}", heading(build, "# "));
    let left = !image_leftovers(build).is_empty();
    left.then(|| OutFile::new("etc/bedplate/profile.toml", text))
}

/// What a target has no place for.
pub(super) struct Elsewhere {
    /// Why.
    pub why: &'static str,
    /// Where it goes instead.
    pub instead: &'static str,
}

impl Elsewhere {
    fn item(&self, what: String) -> Inexpressible {
        Inexpressible { what, why: self.why.to_owned(), instead: self.instead.to_owned() }
    }

    /// One argument.
    pub fn argument(&self, token: &Token) -> Inexpressible {
        self.item(format!("kernel argument `{token}`"))
    }

    /// All arguments, and those that must not be there.
    pub fn arguments(
        &self,
        build: &Contributions,
        arch: Arch,
    ) -> Result<Vec<Inexpressible>, RenderError> {
        let set = kernel_arguments(build, arch)?;
        Ok(set.iter().map(|token| self.argument(token)).chain(self.absent(build)).collect())
    }

    /// Arguments that must not be there.
    pub fn absent(&self, build: &Contributions) -> Vec<Inexpressible> {
        let item = |token: &str| self.item(format!("kernel argument `{token}` absent"));
        build.absent.iter().map(|unwanted| item(&unwanted.token)).collect()
    }

    /// Settings that `carried` does not know, and files that can only be had as such.
    pub fn settings(
        &self,
        build: &Contributions,
        carried: impl Fn(&Setting) -> bool,
    ) -> Vec<Inexpressible> {
        let settings = build.settings().filter(|setting| !carried(setting)).map(words);
        let whole = build.files.iter().filter(|file| file.settings.is_empty());
        settings.chain(whole.map(|file| file.path.to_owned())).map(|what| self.item(what)).collect()
    }
}

/// A setting in the words of a report.
fn words(setting: &Setting) -> String {
    match setting {
        Setting::LoadModule(module) => format!("module {module} loaded at boot"),
        Setting::ModuleOption { module, parameter, value } => {
            format!("option {parameter}={value} of module {module}")
        }
        Setting::BlacklistModule(module) => format!("blacklist module {module}"),
        Setting::Sysctl { key, value } => format!("kernel parameter {key} = {value}"),
    }
}

/// Arguments to take away by a tool that takes whole arguments only, and those that are a part of one.
pub(super) fn removals(build: &Contributions) -> (Vec<String>, Vec<Inexpressible>) {
    let (parts, whole): (Vec<_>, Vec<_>) =
        build.absent.iter().partition(|unwanted| unwanted.token.starts_with("pci="));
    let elsewhere = Elsewhere {
        why: "whole arguments only are removed, not a part of `pci=`",
        instead: "take it out by hand where it is set, or run `bedplate apply --root` on the image",
    };
    let listed = parts
        .iter()
        .map(|unwanted| elsewhere.item(format!("kernel argument `{}` absent", unwanted.token)));
    (whole.iter().map(|unwanted| unwanted.token.clone()).collect(), listed.collect())
}

/// A text as one word of a shell.
pub(super) fn in_shell_single_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// What only a running host can take, for a target of which `instead` says what its hosts can do.
pub(super) fn live_only(
    build: &Contributions,
    instead: fn(&LiveOnly) -> &String,
) -> impl Iterator<Item = Inexpressible> {
    build.live_only.iter().map(move |live| Inexpressible {
        what: live.what.clone(),
        why: live.why.clone(),
        instead: instead(live).clone(),
    })
}

/// VF counts, for targets without words for them.
pub(super) fn vfs(build: &Contributions, instead: &str) -> Vec<Inexpressible> {
    let item = |wanted: &WantedVfs| {
        Inexpressible {
        what: format!("{} VFs on {}{}", wanted.count, wanted.pf, vf_driver(&wanted.vf_driver)),
        why: "sriov_numvfs is a sysfs attribute and starts at 0 with every boot (Linux drivers/pci/iov.c; handbook §5.1)"
            .to_owned(),
        instead: instead.to_owned(),
    }
    };
    build.vfs.iter().map(item).collect()
}

/// What sets attributes of VFs where bedplate does not run.
pub(super) const BY_OPERATOR: &str = "let the SR-IOV network operator set it: `eSwitchMode` of a SriovNetworkNodePolicy; `vlan`, \
                                      `trust`, `spoofChk`, `linkState` and `maxTxRate` of a SriovNetwork";

/// Attributes of VFs and modes of eswitches, which no file sets.
pub(super) fn vf_attributes(build: &Contributions, instead: &str) -> Vec<Inexpressible> {
    let item = |wanted: &WantedVfs| {
        let words = wanted.vf.words().map(|words| format!("VFs of {}: {words}", wanted.pf));
        let mode = wanted.eswitch.map(|mode| format!("eswitch of {}: {mode}", wanted.pf));
        let what: Vec<String> = words.into_iter().chain(mode).collect();
        (!what.is_empty()).then(|| Inexpressible {
            what: what.join("; "),
            why: "rtnetlink and devlink set it, and it is gone with every boot (Linux net/core/rtnetlink.c; handbook §5.2)"
                .to_owned(),
            instead: instead.to_owned(),
        })
    };
    build.vfs.iter().filter_map(item).collect()
}

/// That bedplate makes no VFs on the port of the default route unless `allow_disruption` is set, for targets that do;
/// `other` is a target or tool that does not.
pub(super) fn unguarded_vfs(
    build: &Contributions,
    why: &str,
    other: &str,
) -> Option<Inexpressible> {
    let guarded = build.vfs.iter().filter(|wanted| !wanted.allow_disruption);
    let ports: Vec<String> = guarded.map(|wanted| wanted.pf.to_string()).collect();
    (!ports.is_empty()).then(|| Inexpressible {
        what: format!("no VFs on the port of the default route ({})", some_of(ports.into_iter(), 4, "ports")),
        why: format!("an image cannot know which port that is, and {why}"),
        instead: format!(
            "exclude that port with `select`; or set `allow_disruption = true` if it may lose its traffic for a moment; or {other}"
        ),
    })
}

/// ` with driver vfio-pci`, or nothing when the kernel chooses.
pub(super) fn vf_driver(driver: &VfDriver) -> String {
    match driver {
        VfDriver::Auto => String::new(),
        VfDriver::None => " without a driver".to_owned(),
        VfDriver::Named(name) => format!(" with driver {name}"),
    }
}

/// Whether modprobe.d has a part in it: options and blacklists.
pub(super) fn uses_modprobe(build: &Contributions) -> bool {
    let in_modprobe = |setting: &Setting| {
        matches!(setting, Setting::ModuleOption { .. } | Setting::BlacklistModule(_))
    };
    build.settings().any(in_modprobe)
}

/// Whether there are NVIDIA modules, which may live in a container or an extension instead of the host.
pub(super) fn names_nvidia_modules(build: &Contributions) -> bool {
    build.settings().any(|setting| match setting {
        Setting::LoadModule(module) | Setting::ModuleOption { module, .. } => {
            module.as_str().starts_with("nvidia")
        }
        Setting::BlacklistModule(_) | Setting::Sysctl { .. } => false,
    })
}

/// Remarks of the desired state itself.
pub(super) fn open_questions(desired: &Desired) -> Vec<String> {
    let blocked = desired
        .blockers
        .iter()
        .map(|b| format!("{}: {}: {}; {}", b.kind, b.subject, b.reason, b.remedy));
    let unknown = desired
        .unknowns
        .iter()
        .map(|u| format!("{}: {}: not known: {}", u.kind, u.subject, u.reason));
    let notes = desired.notes.iter().map(|n| format!("{}: {}: {}", n.kind, n.subject, n.text));
    blocked.chain(unknown).chain(notes).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::desired::{
        AcsPersistence, DesiredAcs, DesiredCmdline, DesiredModules, UnwantedArg, WantedAcs,
        WantedArg, WantedAttributes, WantedModule, WantedOption,
    };
    use crate::kind;
    use crate::plan::Why;
    use crate::profile::model::{AcsPolicy, ModuleLoad, SriovCount};
    use crate::profile::of_text;
    use crate::value::{AcsBits, ModuleName};

    fn why() -> Vec<Why> {
        vec![Why::new("a reason", "handbook §1")]
    }

    pub fn arg(token: &str, from: &'static str) -> WantedArg {
        WantedArg { token: token.to_owned(), why: why(), from }
    }

    pub fn unwanted(token: &str) -> UnwantedArg {
        UnwantedArg { token: token.to_owned(), why: why() }
    }

    fn module(name: &str) -> ModuleName {
        name.parse().unwrap()
    }

    /// Something of everything: live ACS, an ACS list, VFs, options, a blacklist, an unload, absent arguments.
    pub fn desired() -> Desired {
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
                set: vec![
                    arg("iommu=pt", "iommu"),
                    arg("pci=realloc", "cmdline"),
                    arg("hugepages=64", "cmdline"),
                    arg(acs, "acs"),
                ],
                absent: vec![unwanted("nomodeset"), unwanted("iommu=off")],
                keep: Vec::new(),
                settled: Vec::new(),
            },
            modules: DesiredModules {
                load: vec![load("ib_uverbs"), load("nvidia_peermem")],
                options: vec![
                    option("ib_core", "netns_mode", "1"),
                    option("nvidia_peermem", "peerdirect_support", "1"),
                ],
                blacklist: vec![(module("nouveau"), why())],
                unload: vec![(module("nouveau"), why())],
            },
            acs: DesiredAcs {
                policy: AcsPolicy::DirectP2p,
                ports: vec![WantedAcs {
                    port: "0000:17:01.0".parse().unwrap(),
                    mask: AcsBits::REDIRECT,
                    value: AcsBits(0),
                    why: why(),
                    vfio_below: Vec::new(),
                }],
                persistence: AcsPersistence::Live,
            },
            sriov: vec![WantedVfs {
                pf: "0000:18:00.0".parse().unwrap(),
                asked: SriovCount::Number(8),
                count: 8,
                vf_driver: VfDriver::Auto,
                vf: WantedAttributes::default(),
                eswitch: None,
                allow_disruption: false,
                rule: "compute".to_owned(),
                why: why(),
            }],
            ..Desired::default()
        }
    }

    pub fn nothing() -> Desired {
        Desired::default()
    }

    /// What the kinds make of it, under the profile name `hgx`.
    pub fn build(desired: &Desired) -> Contributions {
        with_profile("", desired)
    }

    /// The same with more in the profile.
    pub fn with_profile(sections: &str, desired: &Desired) -> Contributions {
        let profile = of_text(&format!("schema = 1\nname = \"hgx\"\n{sections}"));
        kind::contributions(&profile, desired).unwrap()
    }

    fn rendered(desired: &Desired) -> Result<Vec<String>, RenderError> {
        Ok(kernel_arguments(&build(desired), Arch::X86_64)?.iter().map(Token::to_string).collect())
    }

    #[test]
    fn pci_becomes_one_argument_where_the_first_stood() {
        let pci = "pci=realloc,config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0";
        assert_eq!(rendered(&desired()).unwrap(), ["iommu=pt", pci, "hugepages=64"]);
    }

    #[test]
    fn arguments_that_are_not_one_are_refused() {
        for token in ["", "a b", "a=\"b", "--", "a=\u{f6}", "a\nb"] {
            let mut desired = nothing();
            desired.cmdline.set.push(arg(token, "cmdline"));
            assert!(rendered(&desired).is_err(), "{token:?}");
        }
        let mut desired = nothing();
        desired.cmdline.set.push(arg("dyndbg=\"file a.c +p\"", "cmdline"));
        assert_eq!(rendered(&desired).unwrap(), ["dyndbg=\"file a.c +p\""]);
    }

    #[test]
    fn what_the_kernel_would_cut_off_is_refused() {
        let mut desired = nothing();
        desired.cmdline.set.push(arg(&format!("a={}", "x".repeat(2045)), "cmdline"));
        assert!(rendered(&desired).is_ok());
        desired.cmdline.set.push(arg("b", "cmdline"));
        assert!(matches!(rendered(&desired), Err(RenderError::Line(_))));
    }
}
