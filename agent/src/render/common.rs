//! What several targets share: the kernel arguments as one merged list, the module files, and the words for what
//! only a running host can take.

use crate::boot::grub_quote::grub_token;
use crate::cmdline::{Edit, Token};
use crate::desired::{AcsPersistence, Desired, WantedAcs, WantedVfs};
use crate::facts::Arch;
use crate::modules_conf::{self, MODPROBE_PATH, MODULES_LOAD_PATH};
use crate::profile::model::VfDriver;

use super::{Inexpressible, OutFile, RenderError};

/// The wanted arguments in order, with every `pci=` merged into one argument: tools that edit by key keep only one of
/// several (handbook §1.2, §10.3).
///
/// # Errors
/// [`RenderError::Cmdline`], [`RenderError::Line`], [`RenderError::BadArgument`].
pub(super) fn kernel_arguments(desired: &Desired, arch: Arch) -> Result<Vec<Token>, RenderError> {
    let set: Vec<&str> = desired.cmdline.set.iter().map(|wanted| wanted.token.as_str()).collect();
    let absent: Vec<&str> =
        desired.cmdline.absent.iter().map(|unwanted| unwanted.token.as_str()).collect();
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

/// The heading and the reasons of all kernel arguments, each line behind `mark` and naming its argument.
pub(super) fn preamble(desired: &Desired, profile: &str, mark: &str) -> String {
    let line = |token: &str, why| modules_conf::reasons(&format!("{mark}{token}:"), why);
    let reasons = desired.cmdline.set.iter().map(|wanted| line(&wanted.token, &wanted.why));
    std::iter::once(format!("{mark}{}", modules_conf::heading(profile))).chain(reasons).collect()
}

/// The two module files, at the paths they have in an image.
pub(super) fn module_files(desired: &Desired, profile: &str) -> Result<Vec<OutFile>, RenderError> {
    let load = modules_conf::modules_load(&desired.modules, profile);
    let modprobe = modules_conf::modprobe(&desired.modules, profile)?;
    let both = [(MODULES_LOAD_PATH, load), (MODPROBE_PATH, modprobe)];
    let file = |(path, text): (&str, Option<String>)| {
        text.map(|text| OutFile::new(path.trim_start_matches('/'), text))
    };
    Ok(both.into_iter().filter_map(file).collect())
}

/// What to do about live ACS on a host that bedplate can run on.
pub(super) const ACS_BY_AGENT: &str = "run bedplate on the host at every boot, or set [acs] persistence = \"cmdline\" where the kernel is known good";

/// ACS bits that nothing but live writes will set. Those in the kernel arguments are rendered with them.
pub(super) fn live_acs(desired: &Desired, instead: &str) -> Vec<Inexpressible> {
    if desired.acs.persistence != AcsPersistence::Live {
        return Vec::new();
    }
    let item = |wanted: &WantedAcs| {
        Inexpressible {
        what: format!("ACS control of port {}: {}", wanted.port, acs_bits(wanted)),
        why: "a config-space write lasts until the next reset; no file holds it (Linux drivers/pci/pci.c; handbook §3.4)"
            .to_owned(),
        instead: instead.to_owned(),
    }
    };
    desired.acs.ports.iter().map(item).collect()
}

/// `clear RR CR EC`, `set DT, clear RR`.
fn acs_bits(wanted: &WantedAcs) -> String {
    let (set, clear) = (wanted.mask.and(wanted.value), wanted.mask.without(wanted.value));
    let parts = [("set", set), ("clear", clear)];
    let named = parts
        .iter()
        .filter(|(_, bits)| !bits.is_empty())
        .map(|(verb, bits)| format!("{verb} {bits}"));
    named.collect::<Vec<_>>().join(", ")
}

/// VF counts, for targets without words for them.
pub(super) fn vfs(desired: &Desired, instead: &str) -> Vec<Inexpressible> {
    let item = |wanted: &WantedVfs| {
        Inexpressible {
        what: format!("{} VFs on {}{}", wanted.count, wanted.pf, vf_driver(&wanted.vf_driver)),
        why: "sriov_numvfs is a sysfs attribute and starts at 0 with every boot (Linux drivers/pci/iov.c; handbook §5.1)"
            .to_owned(),
        instead: instead.to_owned(),
    }
    };
    desired.sriov.iter().map(item).collect()
}

/// Attributes of VFs and modes of eswitches, which no file sets.
pub(super) fn vf_attributes(desired: &Desired) -> Vec<Inexpressible> {
    let item = |wanted: &WantedVfs| {
        let words = wanted.vf.words().map(|words| format!("VFs of {}: {words}", wanted.pf));
        let mode = wanted.eswitch.map(|mode| format!("eswitch of {}: {mode}", wanted.pf));
        let what: Vec<String> = words.into_iter().chain(mode).collect();
        (!what.is_empty()).then(|| Inexpressible {
            what: what.join("; "),
            why: "rtnetlink and devlink set it, and it is gone with every boot (Linux net/core/rtnetlink.c; handbook §5.2)"
                .to_owned(),
            instead: "run bedplate on the host, or let the SR-IOV network operator set it".to_owned(),
        })
    };
    desired.sriov.iter().filter_map(item).collect()
}

/// ` with driver vfio-pci`, or nothing when the kernel chooses.
pub(super) fn vf_driver(driver: &VfDriver) -> String {
    match driver {
        VfDriver::Auto => String::new(),
        VfDriver::None => " without a driver".to_owned(),
        VfDriver::Named(name) => format!(" with driver {name}"),
    }
}

/// What to do about a module to unload on a host that bedplate can run on.
pub(super) fn unload_by_agent(module: &str) -> String {
    format!(
        "run `bedplate apply` on the host; `blacklist` in [modules] keeps {module} from auto-loading"
    )
}

/// Modules to unload.
pub(super) fn unloads(desired: &Desired, instead: fn(&str) -> String) -> Vec<Inexpressible> {
    let item = |name: &str| Inexpressible {
        what: format!("unload module {name}"),
        why: "only a running kernel has modules to unload".to_owned(),
        instead: instead(name),
    };
    desired.modules.unload.iter().map(|(module, _)| item(module.as_str())).collect()
}

/// A note for arguments that name ports of one machine.
pub(super) fn address_note(desired: &Desired) -> Option<String> {
    let named = desired.cmdline.set.iter().any(|wanted| wanted.from == "acs");
    named.then(|| {
        "the ACS list in `pci=` names ports by address: it fits only machines with the PCI numbering it was made \
         from (Linux kernel-parameters.txt; handbook §1.4)"
            .to_owned()
    })
}

/// A note for NVIDIA modules, where they may live in a container or an extension instead of the host.
pub(super) fn names_nvidia_modules(desired: &Desired) -> bool {
    let modules = &desired.modules;
    let loaded = modules.load.iter().map(|wanted| &wanted.name);
    loaded
        .chain(modules.options.iter().map(|option| &option.module))
        .any(|name| name.as_str().starts_with("nvidia"))
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
        DesiredAcs, DesiredCmdline, DesiredModules, UnwantedArg, WantedArg, WantedAttributes,
        WantedModule, WantedOption,
    };
    use crate::plan::Why;
    use crate::profile::model::{AcsPolicy, ModuleLoad, SriovCount};
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
                rule: "compute".to_owned(),
                why: why(),
            }],
            blockers: Vec::new(),
            unknowns: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn nothing() -> Desired {
        let mut desired = desired();
        desired.cmdline = DesiredCmdline::default();
        desired.modules = DesiredModules::default();
        desired.acs.ports.clear();
        desired.sriov.clear();
        desired
    }

    fn rendered(desired: &Desired) -> Result<Vec<String>, RenderError> {
        Ok(kernel_arguments(desired, Arch::X86_64)?.iter().map(Token::to_string).collect())
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

    #[test]
    fn acs_in_the_arguments_is_not_listed_as_lost() {
        let mut desired = desired();
        desired.acs.persistence = AcsPersistence::ConfigAcs;
        assert_eq!(live_acs(&desired, ACS_BY_AGENT), []);
        assert!(address_note(&desired).is_some());
        assert!(address_note(&nothing()).is_none());
    }

    #[test]
    fn live_acs_names_the_bits() {
        let mut desired = desired();
        desired.acs.ports[0].mask = AcsBits::REDIRECT.or(AcsBits::DT);
        desired.acs.ports[0].value = AcsBits::DT;
        let what = &live_acs(&desired, ACS_BY_AGENT)[0].what;
        assert_eq!(what, "ACS control of port 0000:17:01.0: set DT, clear RR CR EC");
    }
}
