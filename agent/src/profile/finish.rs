//! Merged layer → [`Profile`]: what was not said gets its neutral default, and every value that was said its origin.

use std::collections::BTreeMap;

use serde::Serialize;

use super::layer::{Keyed, Layer, Leaf, ModuleLayer, ParamLayer};
use super::model::{
    Acs, AcsPersist, AcsPolicy, Agent, AgentMode, Cmdline, CmdlineArg, FleetLock, GpuDirect, Iommu,
    IommuMode, Match, Module, ModuleLoad, ModuleOption, Modules, Profile, Reboot, RebootMethod,
    RebootPolicy, Sriov, SriovManaged, SriovRule,
};
use super::source::Sources;
use crate::plan::Why;
use crate::value::ModuleName;

/// Where a value of the merged profile was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The file, as it was named to `load`; `shipped:NAME.toml` for a shipped profile.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
}

/// What a value is there for when the profile gives no reason.
const ASKED: &str = "asked for by the profile";

/// Seconds between comparisons when the profile does not say.
const INTERVAL_S: u32 = 15 * 60;
/// Seconds after which the units that wait for `bedplate-ready.target` are let go, when the profile does not say.
const BOOT_TIMEOUT_S: u32 = 2 * 60;
const READY_TIMEOUT_S: u32 = 10 * 60;
/// Seconds between announcement and reboot when the profile does not say: logind's own warning starts at five minutes.
const DELAY_S: u32 = 5 * 60;
/// Seconds for which block inhibitors are waited for when the profile does not say.
const INHIBITOR_WAIT_S: u32 = 60 * 60;

/// When modules are loaded whose entry does not say, and neither does the section.
pub(super) const DEFAULT_LOAD: ModuleLoad = ModuleLoad::Now;

/// Profile and origins of a merged layer. `stem` names it when no file does.
pub(super) fn finish(
    layer: &Layer,
    sources: &Sources,
    stem: &str,
) -> (Profile, BTreeMap<String, Origin>) {
    let mut finisher = Finisher { sources, origins: BTreeMap::new() };
    let profile = Profile {
        name: finisher.or("name", &layer.name, stem.to_owned()),
        description: finisher.or("description", &layer.description, String::new()),
        matching: finisher.matching(layer),
        iommu: Iommu {
            mode: finisher.or("iommu.mode", &layer.iommu, IommuMode::Keep),
            why: finisher.whys(&layer.iommu),
        },
        cmdline: finisher.cmdline(&layer.cmdline),
        modules: finisher.modules(layer),
        acs: finisher.acs(layer),
        sriov: finisher.sriov(layer),
        reboot: Reboot {
            policy: finisher.or("reboot.policy", &layer.reboot.policy, RebootPolicy::Never),
            methods: finisher.or(
                "reboot.methods",
                &layer.reboot.methods,
                vec![RebootMethod::Ordinary],
            ),
            windows: finisher.or("reboot.windows", &layer.reboot.windows, Vec::new()),
            attempts: finisher.or("reboot.attempts", &layer.reboot.attempts, 1),
            delay_s: finisher.or("reboot.delay", &layer.reboot.delay, DELAY_S),
            jitter_s: finisher.or("reboot.jitter", &layer.reboot.jitter, 0),
            inhibitor_wait_s: finisher.or(
                "reboot.inhibitor_wait",
                &layer.reboot.inhibitor_wait,
                INHIBITOR_WAIT_S,
            ),
            busy_devices: finisher.or("reboot.busy_devices", &layer.reboot.busy_devices, true),
            busy_command: finisher.or(
                "reboot.busy_command",
                &layer.reboot.busy_command,
                Vec::new(),
            ),
            command: finisher.or("reboot.command", &layer.reboot.command, Vec::new()),
            rtc_wakes: finisher.or("reboot.rtc_wakes", &layer.reboot.rtc_wakes, false),
            rehearse: finisher.or("reboot.rehearse", &layer.reboot.rehearse, false),
            fleetlock: finisher.fleetlock(layer),
        },
        agent: Agent {
            mode: finisher.or("agent.mode", &layer.agent.mode, AgentMode::Enforce),
            interval_s: finisher.or("agent.interval", &layer.agent.interval, INTERVAL_S),
            boot_timeout_s: finisher.or(
                "agent.boot_timeout",
                &layer.agent.boot_timeout,
                BOOT_TIMEOUT_S,
            ),
            ready_timeout_s: finisher.or(
                "agent.ready_timeout",
                &layer.agent.ready_timeout,
                READY_TIMEOUT_S,
            ),
        },
    };
    (profile, finisher.origins)
}

struct Finisher<'a> {
    sources: &'a Sources,
    origins: BTreeMap<String, Origin>,
}

impl Finisher<'_> {
    fn fleetlock(&mut self, layer: &Layer) -> Option<FleetLock> {
        let url = self.maybe("reboot.fleetlock.url", &layer.reboot.fleetlock_url)?;
        let group =
            self.or("reboot.fleetlock.group", &layer.reboot.fleetlock_group, "default".to_owned());
        Some(FleetLock { url, group })
    }

    fn or<T: Clone>(&mut self, key: &str, leaf: &Option<Leaf<T>>, default: T) -> T {
        self.maybe(key, leaf).unwrap_or(default)
    }

    fn maybe<T: Clone>(&mut self, key: &str, leaf: &Option<Leaf<T>>) -> Option<T> {
        let leaf = leaf.as_ref()?;
        self.note(key.to_owned(), leaf);
        Some(leaf.value.clone())
    }

    fn note<T>(&mut self, key: String, leaf: &Leaf<T>) {
        let file = self.sources.file(leaf.place.file);
        let line = file.line_column(leaf.place.start).0;
        self.origins.insert(key, Origin { file: file.path().to_owned(), line });
    }

    fn why<T>(&self, leaf: &Leaf<T>) -> Vec<Why> {
        let line = self.sources.file_line(leaf.place);
        let reason = leaf.why.clone().unwrap_or_else(|| ASKED.to_owned());
        vec![Why::new(reason, leaf.source.clone().unwrap_or(line))]
    }

    fn whys<T>(&self, leaf: &Option<Leaf<T>>) -> Vec<Why> {
        leaf.as_ref().map(|leaf| self.why(leaf)).unwrap_or_default()
    }

    fn matching(&mut self, layer: &Layer) -> Match {
        let section = &layer.matching;
        Match {
            cpu_vendor: self.maybe("match.cpu_vendor", &section.cpu_vendor),
            arch: self.maybe("match.arch", &section.arch),
            sys_vendor: self.maybe("match.sys_vendor", &section.sys_vendor),
            product_name: self.maybe("match.product_name", &section.product_name),
            pci: self.or("match.pci", &section.pci, Vec::new()),
        }
    }

    fn cmdline(&mut self, params: &Keyed<ParamLayer>) -> Cmdline {
        let mut out = Cmdline::default();
        for param in params.values() {
            out.args.extend(param.set().map(|leaf| self.argument("cmdline.args", leaf)));
            out.absent.extend(param.absent().map(|leaf| self.argument("cmdline.absent", leaf)));
        }
        out
    }

    fn argument(&mut self, list: &str, leaf: &Leaf<String>) -> CmdlineArg {
        self.note(key_of(list, &leaf.value), leaf);
        CmdlineArg { arg: leaf.value.clone(), why: self.why(leaf) }
    }

    fn modules(&mut self, layer: &Layer) -> Modules {
        let section = &layer.modules;
        let default = self.or("modules.load_default", &section.load_default, DEFAULT_LOAD);
        let names: Vec<(ModuleName, &ModuleLayer)> = section
            .names
            .0
            .iter()
            .filter_map(|(name, module)| Some((name.parse().ok()?, module)))
            .collect();
        let mut out = Modules {
            load: Vec::new(),
            options: Vec::new(),
            blacklist: Vec::new(),
            unload: Vec::new(),
            gpudirect: self.or("modules.gpudirect", &section.gpudirect, GpuDirect::None),
        };
        for (name, module) in names {
            if let Some(leaf) = &module.load
                && let Some(loading) = leaf.value
            {
                self.note(key_of("modules.load", name.as_str()), leaf);
                let load = loading.0.unwrap_or(default);
                out.load.push(Module { name: name.clone(), load, why: self.why(leaf) });
            }
            let lists = [
                ("modules.blacklist", &module.blacklist, &mut out.blacklist),
                ("modules.unload", &module.unload, &mut out.unload),
            ];
            for (key, leaf, list) in lists {
                let Some(leaf) = leaf.as_ref().filter(|leaf| leaf.value) else { continue };
                self.note(key_of(key, name.as_str()), leaf);
                list.push(Module { name: name.clone(), load: default, why: self.why(leaf) });
            }
        }
        for ((module, parameter), leaf) in &section.options.0 {
            self.note(format!("modules.options.{module}.{}", quoted(parameter)), leaf);
            out.options.push(ModuleOption {
                module: module.clone(),
                parameter: parameter.clone(),
                value: leaf.value.clone(),
                why: self.why(leaf),
            });
        }
        out
    }

    fn acs(&mut self, layer: &Layer) -> Acs {
        let section = &layer.acs;
        Acs {
            policy: self.or("acs.policy", &section.policy, AcsPolicy::Keep),
            persistence: self.or("acs.persistence", &section.persistence, AcsPersist::Auto),
            root_port: self.or("acs.root_port", &section.root_port, true),
            why: self.whys(&section.policy),
        }
    }

    fn sriov(&mut self, layer: &Layer) -> Sriov {
        let managed = self.or("sriov.managed", &layer.sriov.managed, SriovManaged::Bedplate);
        let mut rules = Vec::new();
        for (name, leaf) in &layer.sriov.devices.0 {
            self.note(key_of("sriov.devices", name), leaf);
            rules.push(SriovRule {
                name: name.clone(),
                select: leaf.value.select.clone(),
                vfs: leaf.value.vfs,
                vf_driver: leaf.value.vf_driver.clone(),
                why: self.why(leaf),
            });
        }
        Sriov { managed, rules }
    }
}

/// The dotted key of a list entry, by its name.
pub(super) fn key_of(list: &str, name: &str) -> String {
    format!("{list}.{}", quoted(name))
}

/// A name as TOML writes it in a dotted key.
pub(super) fn quoted(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => toml::Value::String(name.to_owned()).to_string(),
    }
}
