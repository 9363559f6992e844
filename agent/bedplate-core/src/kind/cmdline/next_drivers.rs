//! Checks that the next kernel has drivers for the GPUs and NICs that the running kernel drives. Out-of-tree drivers
//! (NVIDIA's, DOCA-OFED's) are built separately for each kernel, so a new kernel may lack them.

use super::entry_fault::{Fault, Soundness};
use crate::kind::modules::installed::{ModuleAvailability, installed_for};
use bedplate_base::ReadError;
use bedplate_base::value::ModuleName;
use bedplate_facts::pci::Function;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Reports the drivers that the next kernel lacks.
pub(crate) fn judge(reader: &dyn Reader, facts: &Facts, found: &mut Soundness) {
    let (Some(next), Some(running)) = (facts.os.next_kernel.known(), facts.os.kernel.known())
    else {
        return;
    };
    // The modules of another deployment are in another tree.
    let elsewhere = matches!(facts.boot, BootLoader::RpmOstree | BootLoader::Bootc);
    let Some(tree) = facts.pci.known().filter(|_| next != running && !elsewhere) else { return };
    let mut missing: Vec<(ModuleName, Vec<&Function>)> = Vec::new();
    let devices = tree
        .functions
        .values()
        .filter(|function| (function.is_gpu() || function.is_nic()) && !function.is_vf());
    for function in devices {
        let Some(module) = module_of(reader, function) else { continue };
        match missing.iter_mut().find(|(known, _)| *known == module) {
            Some((_, functions)) => functions.push(function),
            None => missing.push((module, vec![function])),
        }
    }
    missing.retain(|(module, _)| is_lost(reader, running, next, module, found));
    for (module, functions) in missing {
        let functions: Vec<&Function> =
            functions.into_iter().filter(|function| !has_other(reader, next, function)).collect();
        let Some(first) = functions.first() else { continue };
        let sort = if first.is_gpu() { "GPU" } else { "NIC" };
        let more = match functions.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        found.faults.push(Fault {
            reason: format!(
                "the default boot entry starts Linux {next}, which has no driver for {sort} {}{more}: module {module} is \
                 installed for Linux {running} only",
                first.address
            ),
            fix: format!(
                "install module {module} for Linux {next} (a DKMS driver: `dkms autoinstall -k {next}`), or choose the entry \
                 of Linux {running}"
            ),
        });
    }
}

/// Returns the module of the function's current driver. `None`: no driver, or one that assigns the function to a VM.
fn module_of(reader: &dyn Reader, function: &Function) -> Option<ModuleName> {
    let driver = function.driver.as_deref().filter(|driver| !driver.contains("vfio"))?;
    let link = reader.link(&format!("/sys/bus/pci/drivers/{driver}/module"));
    let module = link.ok().and_then(|target| target.rsplit('/').next().map(str::to_owned));
    module.unwrap_or_else(|| driver.to_owned()).parse().ok()
}

/// Whether the running kernel has the module installed and the next one does not. A module that was loaded from
/// elsewhere, as GPU operators do from a container, will be loaded from there again.
fn is_lost(
    reader: &dyn Reader,
    running: &str,
    next: &str,
    module: &ModuleName,
    found: &mut Soundness,
) -> bool {
    if !matches!(
        installed_for(reader, running, module),
        ModuleAvailability::Yes | ModuleAvailability::BuiltIn
    ) {
        return false;
    }
    match installed_for(reader, next, module) {
        ModuleAvailability::No { .. } => true,
        ModuleAvailability::Unknown(why) => {
            // Missing modules are a fault of their own.
            let is_reported = !found.faults.is_empty() || !found.unknown.is_empty();
            if !is_reported {
                found.unknown.push(why.into());
            }
            false
        }
        ModuleAvailability::Yes | ModuleAvailability::BuiltIn | ModuleAvailability::NoKernel => {
            false
        }
    }
}

/// Whether the kernel has another module for the function, by its alias.
fn has_other(reader: &dyn Reader, release: &str, function: &Function) -> bool {
    let modalias = reader.attribute(&format!("/sys/bus/pci/devices/{}/modalias", function.address));
    let Ok(modalias) = modalias else { return false };
    let aliases: Result<String, ReadError> =
        reader.text(&format!("/lib/modules/{release}/modules.alias"));
    let fits = |line: &str| {
        let pattern = line.strip_prefix("alias ")?.split(' ').next()?;
        let pattern = pattern.starts_with("pci:").then(|| glob::Pattern::new(pattern).ok())??;
        pattern.matches(&modalias).then_some(())
    };
    aliases.is_ok_and(|text| text.lines().any(|line| fits(line).is_some()))
}
