//! What several targets share: the kernel arguments as one merged list, the configuration files, and the words for what
//! only a running host can take.

use crate::boot::grub_quote::grub_token;
use crate::cmdline::{Edit, Token};
use crate::desired::{Desired, WantedVfs};
use crate::facts::Arch;
use crate::kind::contribution::{Contributions, LiveOnly, Setting};
use crate::modules_conf;
use crate::profile::model::VfDriver;

use super::{Inexpressible, OutFile, RenderError};

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
