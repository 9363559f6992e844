//! Resolves `[modules]` for a machine and for an image. Pure.

use super::section::GpuDirect;
use super::{NAME, gpudirect, rccl};
use crate::desired::Desired;
use crate::image_config::{
    ConfigFile, ContributeError, GpuDirectWay, ImageConfig, LiveOnly, Registration, Setting,
};
use crate::ledger::Ledger;
use crate::modules_conf::{self, MODPROBE_PATH, MODULES_LOAD_PATH};
use crate::profile::model::Profile;
use bedplate_base::value::{ModuleName, PciId};
use bedplate_facts::Facts;

/// The legacy module (handbook §6.3).
const PEERMEM: &str = "nvidia_peermem";
const NVIDIA: PciId = PciId(0x10de);

/// Adds the profile's modules, and the module that GPUDirect needs here, if any.
pub(super) fn resolve(profile: &Profile, facts: &Facts, _: &Ledger, desired: &mut Desired) {
    let section = &profile.modules;
    let peermem = gpudirect::resolve(section.gpudirect, facts, desired);
    rccl::resolve(section.gpudirect, profile, facts, desired);
    let modules = &mut desired.modules;
    modules.load.extend(section.load.iter().cloned());
    if let Some(peermem) = peermem
        && !modules.load.iter().any(|module| module.name == peermem.name)
    {
        modules.load.push(peermem);
    }
    modules.options.extend(section.options.iter().cloned());
    modules.blacklist.extend(section.blacklist.iter().cloned());
    modules.unload.extend(section.unload.iter().cloned());
}

/// Contributes the two files, byte for byte as on hosts.
pub(crate) fn contribute(
    profile: &Profile,
    facts: &Facts,
    desired: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let modules = &desired.modules;
    out.gpudirect = registration(profile, facts, desired);
    if let Some(text) = modules_conf::modules_load(modules, &profile.name) {
        let loads = modules.load.iter().map(|module| Setting::LoadModule(module.name.clone()));
        out.files.push(ConfigFile { path: MODULES_LOAD_PATH, text, settings: loads.collect() });
    }
    let modprobe = modules_conf::modprobe(modules, &profile.name);
    if let Some(text) = modprobe.map_err(|error| ContributeError::new("the module files", error))? {
        let options = modules.options.iter().map(|option| Setting::ModuleOption {
            module: option.module.clone(),
            parameter: option.parameter.clone(),
            value: option.value.clone(),
        });
        let blacklist = modules.blacklist.iter();
        let blacklist = blacklist.map(|module| Setting::BlacklistModule(module.name.clone()));
        let settings = options.chain(blacklist).collect();
        out.files.push(ConfigFile { path: MODPROBE_PATH, text, settings });
    }
    out.live_only.extend(modules.unload.iter().map(|module| unload(&module.name)));
    Ok(())
}

/// Returns the resolved `modules.gpudirect`. A profile that names only other vendors' devices has no NVIDIA GPU to
/// register.
fn registration(profile: &Profile, facts: &Facts, desired: &Desired) -> Option<GpuDirectWay> {
    let vendors = profile.vendors();
    let other_makers = !vendors.is_empty() && !vendors.contains(&NVIDIA);
    let way = match profile.modules.gpudirect {
        _ if desired.modules.load.iter().any(|module| module.name.as_str() == PEERMEM) => {
            Registration::Peermem
        }
        GpuDirect::Auto | GpuDirect::Dmabuf if !other_makers => Registration::DmaBuf,
        _ => return None,
    };
    let is_decided = profile.modules.gpudirect != GpuDirect::Auto
        || way == Registration::Peermem
        || facts.sees_devices();
    Some(GpuDirectWay { way, is_decided })
}

fn unload(module: &ModuleName) -> LiveOnly {
    LiveOnly {
        id: format!("{NAME}/{module}"),
        what: format!("unload module {module}"),
        why: "only a running kernel has modules to unload".to_owned(),
        with_agent: format!(
            "run `bedplate apply` on the host; `blacklist` in [modules] prevents auto-loading of {module}"
        ),
        without_agent: format!(
            "add `module_blacklist={module}` to [cmdline] and reboot (Linux kernel/module/main.c; handbook §1.6)"
        ),
    }
}
