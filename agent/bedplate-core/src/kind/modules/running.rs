//! Loaded modules, and changes that load and unload them.

use super::NAME;
use super::installed::{ModuleAvailability, installed};
use crate::desired::ModuleLoad;
use crate::desired::WantedModule;
use crate::kind::Context;
use crate::plan::{Action, Blocker, Change, Check, Effect, Item, KindPlan, Rationale};
use bedplate_base::Reading;
use bedplate_base::value::ModuleName;
use bedplate_host::HostKind;
use bedplate_host::module::is_live;

/// Plans modules to load now, and blocks on those that no boot can load.
pub(super) fn load(context: &Context, section: &mut KindPlan) {
    for module in &context.desired.modules.load {
        match module.load {
            ModuleLoad::Now => load_one(context, module, section),
            ModuleLoad::Boot => at_boot(context, module, section),
        }
    }
}

/// Blocks on a module that is not installed: systemd-modules-load skips it without failing (handbook §9).
fn at_boot(context: &Context, module: &WantedModule, section: &mut KindPlan) {
    if is_live(context.reader, &module.name) == Reading::Known(true) {
        return;
    }
    if let ModuleAvailability::No { release } =
        installed(context.reader, context.facts, &module.name)
    {
        section.blockers.push(not_installed(&module.name, &release));
    }
}

fn not_installed(module: &ModuleName, release: &str) -> Blocker {
    NAME.blocker(
        format!("module {module}"),
        format!("not installed for kernel {release}"),
        fix(module),
    )
}

fn load_one(context: &Context, module: &WantedModule, section: &mut KindPlan) {
    let subject = format!("module {}", module.name);
    let live = if context.facts.host == HostKind::Image {
        Reading::Known(false)
    } else {
        is_live(context.reader, &module.name)
    };
    match live {
        Reading::Known(true) => {
            section.unchanged.push(NAME.up_to_date(subject, "loaded"));
            return;
        }
        Reading::Known(false) | Reading::Absent => {}
        Reading::Unknown(reason) => {
            section.unknowns.push(NAME.unknown(subject, reason));
            return;
        }
    }
    match installed(context.reader, context.facts, &module.name) {
        ModuleAvailability::BuiltIn => {
            section.unchanged.push(NAME.up_to_date(subject, "built into the kernel"));
        }
        ModuleAvailability::No { release } => {
            section.blockers.push(not_installed(&module.name, &release))
        }
        ModuleAvailability::NoKernel => section.notes.push(NAME.note(
            subject,
            "the image has no kernel in /lib/modules yet; availability is checked on the machine",
        )),
        ModuleAvailability::Unknown(reason) => section.unknowns.push(NAME.unknown(subject, reason)),
        ModuleAvailability::Yes => section.changes.push(load_change(module, section)),
    }
}

fn load_change(module: &WantedModule, section: &KindPlan) -> Change {
    let name = module.name.to_string();
    // Options take effect when the module is loaded, so the file that holds them must be written first.
    let needs = section
        .changes
        .iter()
        .filter(|change| change.subject.text == crate::modules_conf::MODPROBE_PATH)
        .map(|change| change.id.clone());
    let (id, subject) = (format!("load/{name}"), format!("module {name}"));
    let items = vec![Item::new(&name, Some("not loaded"), Some("loaded"), &module.why)];
    let actions = vec![
        Action::LoadModule { module: name.clone() },
        Action::Verify(Check::ModuleLive { module: name }),
    ];
    Change { needs: needs.collect(), ..NAME.change(&id, subject, items, Effect::Now, actions) }
}

fn fix(module: &ModuleName) -> String {
    match module.as_str() {
        "nvidia_peermem" => {
            "install the NVIDIA driver (R470 or later ships nvidia_peermem), or set modules.gpudirect = \"dmabuf\""
                .into()
        }
        // The only module with that prefix that the driver does not ship (handbook §6.4).
        "nvidia_fs" => "install GPUDirect Storage (package nvidia-fs-dkms or nvidia-gds; not part of the NVIDIA \
                        driver), or remove nvidia_fs from modules.load: cuFile does not need it with the kernel's own \
                        P2PDMA for NVMe (`use_pci_p2pdma` in cufile.json, open kernel modules)"
            .into(),
        name if name.starts_with("nvidia") => {
            format!("install the NVIDIA driver for this kernel. GPU Operator host? Remove {name} from modules.load \
                     (the driver container loads it)")
        }
        name => format!("install the package with {name}.ko for this kernel, or remove {name} from modules.load"),
    }
}

/// Plans the unloading of the profile's `unload` list.
pub(crate) fn unload(context: &Context, section: &mut KindPlan) {
    if context.facts.host == HostKind::Image {
        return;
    }
    for WantedModule { name: module, why, .. } in &context.desired.modules.unload {
        unload_one(context, module, why, section);
    }
}

fn unload_one(context: &Context, module: &ModuleName, why: &[Rationale], section: &mut KindPlan) {
    let subject = format!("module {module}");
    match is_live(context.reader, module) {
        Reading::Known(true) => {}
        Reading::Known(false) | Reading::Absent => {
            section.unchanged.push(NAME.up_to_date(subject, "not loaded"));
            return;
        }
        Reading::Unknown(reason) => {
            section.unknowns.push(NAME.unknown(subject, reason));
            return;
        }
    }
    let uses =
        context.reader.attribute(&format!("/sys/module/{module}/refcnt")).unwrap_or_default();
    let holders = context.reader.list(&format!("/sys/module/{module}/holders")).unwrap_or_default();
    if uses != "0" || !holders.is_empty() {
        let by = if holders.is_empty() { "open devices".to_owned() } else { holders.join(", ") };
        section.blockers.push(NAME.blocker(
            subject,
            format!("in use (by {by}), not unloaded"),
            "stop its users, or blacklist it and wait for the next boot",
        ));
        return;
    }
    let items = vec![Item::new(module.as_str(), Some("loaded"), Some("not loaded"), why)];
    let actions = vec![Action::UnloadModule { module: module.to_string() }];
    section.changes.push(Change {
        disrupts: vec![format!("devices driven by {module} lose their driver")],
        ..NAME.change(&format!("unload/{module}"), subject, items, Effect::Now, actions)
    });
}
