//! bedplate's two files: modules-load.d/bedplate.conf and modprobe.d/zz-bedplate.conf. Compared by their settings, not by
//! their bytes: a reworded comment is not a difference.

use std::collections::{BTreeMap, BTreeSet};

use super::NAME;
use super::conf::{self, Modprobe};
use super::{initramfs, pending};
use crate::desired::{DesiredModules, WantedModule, WantedOption};
use crate::kind::cmdline::Obstacle;
use crate::kind::drop_in::{self, ConfFile};
use crate::kind::{Context, TargetFile, removed};
use crate::ledger::Sha;
use crate::modules_conf::{self, MODPROBE_PATH, MODULES_LOAD_PATH};
use crate::plan::{Effect, Item, KindPlan, Overridden, Pending, Rationale};
use bedplate_host::HostKind;

/// Modules in the boot load lists.
struct Lists<'f> {
    /// Path of bedplate's file that is in force.
    place: &'f str,
    /// Modules in it.
    ours: BTreeSet<String>,
    /// Modules in other files, with the file's path.
    elsewhere: BTreeMap<String, String>,
}

impl<'f> Lists<'f> {
    fn read(files: &'f [ConfFile]) -> Self {
        let mut lists =
            Lists { place: MODULES_LOAD_PATH, ours: BTreeSet::new(), elsewhere: BTreeMap::new() };
        for file in files {
            let loads = conf::loads(&file.text);
            // bedplate's list in /etc replaces an image's list as a whole.
            if file.path == MODULES_LOAD_PATH
                || drop_in::is_vendor_file(&file.path, MODULES_LOAD_PATH)
            {
                (lists.place, lists.ours) = (&file.path, loads);
            } else {
                let listed = loads.into_iter().map(|module| (module, file.path.clone()));
                lists.elsewhere.extend(listed);
            }
        }
        lists
    }
}

/// Compares the boot load list.
pub(crate) fn load_list(context: &Context, section: &mut KindPlan) {
    let files = match drop_in::files(context.reader, "modules-load.d") {
        Ok(files) => files,
        Err(error) => return drop_in::unknown(NAME, section, MODULES_LOAD_PATH, &error),
    };
    let Lists { place, ours, elsewhere } = Lists::read(&files);
    let mut wanted =
        DesiredModules { load: context.desired.modules.load.clone(), ..DesiredModules::default() };
    wanted.load.retain(|module| match elsewhere.get(module.name.as_str()) {
        Some(path) => {
            let subject = format!("{} at boot", module.name);
            section.unchanged.push(NAME.up_to_date(subject, format!("listed in {path}")));
            false
        }
        None => true,
    });
    let names: BTreeSet<String> =
        wanted.load.iter().map(|module| module.name.to_string()).collect();
    if names.is_empty() && !ours.is_empty() && place != MODULES_LOAD_PATH {
        section.notes.push(drop_in::left_in_image(NAME, place));
        return;
    }
    if names == ours {
        let unchanged = names
            .into_iter()
            .map(|name| NAME.up_to_date(format!("{name} at boot"), format!("listed in {place}")));
        section.unchanged.extend(unchanged);
        return;
    }
    let mut items: Vec<Item> = wanted
        .load
        .iter()
        .filter(|module| !ours.contains(module.name.as_str()))
        .map(|module| Item::new(module.name.as_str(), None, Some("loaded at boot"), &module.why))
        .collect();
    items.extend(ours.difference(&names).map(|name| removed(name, "loaded at boot")));
    let text = modules_conf::modules_load(&wanted, &context.profile.name);
    if let Some(file) = TargetFile::read(context, NAME, MODULES_LOAD_PATH, true, section) {
        section.changes.push(file.change(text, items));
    }
}

/// Compares options and blacklist.
pub(crate) fn modprobe(context: &Context, section: &mut KindPlan) {
    let wanted = &context.desired.modules;
    let text = match modules_conf::modprobe(wanted, &context.profile.name) {
        Ok(text) => text,
        Err(error) => {
            section.blockers.push(NAME.blocker(
                MODPROBE_PATH,
                error.to_string(),
                "correct the option in the profile",
            ));
            return;
        }
    };
    let files = match drop_in::files(context.reader, "modprobe.d") {
        Ok(files) => files,
        Err(error) => return drop_in::unknown(NAME, section, MODPROBE_PATH, &error),
    };
    let target = text.as_deref().map(conf::modprobe).unwrap_or_default();
    let own = files.iter().find(|file| file.path == MODPROBE_PATH);
    let vendor = drop_in::vendor_file(&files, MODPROBE_PATH);
    if let Some(file) = vendor.filter(|_| text.is_none()) {
        section.notes.push(drop_in::left_in_image(NAME, &file.path));
        return;
    }
    let own = own.or(vendor);
    let ours = own.map(|file| conf::modprobe(&file.text)).unwrap_or_default();
    overridden(context, &files, section);
    if ours == target {
        push_unchanged(&ours, own.map_or(MODPROBE_PATH, |file| &file.path), section);
        initramfs::pending_rebuild(context, section);
        pending_options(context, section);
        pending::pending(context, &[], section);
        return;
    }
    let rebuild = match initramfs::rebuild(context, section) {
        Ok(actions) => actions,
        Err(Obstacle { reason, fix }) => {
            section.blockers.push(NAME.blocker(MODPROBE_PATH, reason, fix));
            return;
        }
    };
    let items = items(wanted, &ours, &target);
    let content = text.as_ref().map(|text| Sha::digest(text.as_bytes()));
    let waiting = pending::waiting(context, &ours, &target, content.as_ref());
    pending::pending(context, &items, section);
    let Some(file) = TargetFile::read(context, NAME, MODPROBE_PATH, true, section) else { return };
    let mut change = file.change(text, items);
    if waiting.iter().any(pending::Wait::is_due) {
        change.effect = Effect::NextBoot;
    }
    section
        .pending_until_boot
        .extend(waiting.into_iter().filter_map(|wait| wait.pending_until_boot(&change.id)));
    change.actions.extend(rebuild);
    section.changes.push(change);
}

fn items(wanted: &DesiredModules, ours: &Modprobe, target: &Modprobe) -> Vec<Item> {
    let mut items = Vec::new();
    let why_of = |module: &str, parameter: &str| -> Vec<Rationale> {
        let is = |option: &&WantedOption| {
            option.module.as_str() == module && option.parameter.replace('-', "_") == parameter
        };
        wanted.options.iter().find(is).map(|option| option.why.clone()).unwrap_or_default()
    };
    for ((module, parameter), value) in &target.options {
        let before = ours.options.get(&(module.clone(), parameter.clone()));
        if before != Some(value) {
            let subject = format!("options {module} {parameter}");
            items.push(Item::new(
                &subject,
                before.map(String::as_str),
                Some(value),
                &why_of(module, parameter),
            ));
        }
    }
    for ((module, parameter), value) in &ours.options {
        if !target.options.contains_key(&(module.clone(), parameter.clone())) {
            items.push(removed(format!("options {module} {parameter}"), value));
        }
    }
    for WantedModule { name, why, .. } in
        wanted.blacklist.iter().filter(|module| !ours.blacklist.contains(module.name.as_str()))
    {
        let subject = format!("blacklist {name}");
        items.push(Item::new(&subject, None, Some("alias loading stopped"), why));
    }
    for module in ours.blacklist.difference(&target.blacklist) {
        items.push(removed(format!("blacklist {module}"), "alias loading stopped"));
    }
    items
}

/// Notes files that sort after bedplate's and set another value: they win when the module is loaded.
fn overridden(context: &Context, files: &[ConfFile], section: &mut KindPlan) {
    for file in drop_in::after(files, MODPROBE_PATH) {
        let theirs = conf::modprobe(&file.text);
        for option in &context.desired.modules.options {
            let key = (option.module.to_string(), option.parameter.replace('-', "_"));
            if theirs.options.get(&key).is_some_and(|value| *value != option.value) {
                let setting = format!("options {} {}", option.module, option.parameter);
                let (subject, path) = (setting.clone(), file.path.clone());
                let text = format!("overridden by {path}, which sorts after bedplate's file");
                section.notes.push(NAME.note(subject, text));
                section.overridden.push(Overridden { kind: NAME, setting, path });
            }
        }
    }
}

fn push_unchanged(ours: &Modprobe, path: &str, section: &mut KindPlan) {
    for ((module, parameter), value) in &ours.options {
        let subject = format!("options {module} {parameter}");
        section.unchanged.push(NAME.up_to_date(subject, format!("{value}, in {path}")));
    }
    for module in &ours.blacklist {
        let subject = format!("blacklist {module}");
        section.unchanged.push(NAME.up_to_date(subject, format!("in {path}")));
    }
}

/// Reports options in the file that the loaded module does not have yet: they take effect on a reload or a boot.
fn pending_options(context: &Context, section: &mut KindPlan) {
    if context.facts.host == HostKind::Image {
        return;
    }
    for option in &context.desired.modules.options {
        let path = format!(
            "/sys/module/{}/parameters/{}",
            option.module,
            option.parameter.replace('-', "_")
        );
        // Skips modules that are not loaded and parameters that sysfs does not show.
        let Ok(running) = context.reader.attribute(&path) else { continue };
        if !conf::same_value(&running, &option.value) {
            section.pending.push(Pending {
                kind: NAME,
                subject: format!("options {} {}", option.module, option.parameter),
                running: Some(running),
                next: Some(option.value.clone()),
                effect: Effect::NextBoot,
            });
        }
    }
}
