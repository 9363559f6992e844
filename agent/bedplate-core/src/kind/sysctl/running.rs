//! Values in the running kernel.

use std::collections::BTreeMap;

use super::NAME;
use super::conf::PATH;
use super::key::{Key, folded};
use super::section::Setting;
use crate::kind::{Context, WRITE_LIMIT_S, still_set};
use crate::plan::{Action, Change, Effect, Item, KindPlan};
use crate::setting::WriteAttribute;

/// Compares the running values with `wanted`.
pub(super) fn plan(context: &Context, wanted: &[Setting], section: &mut KindPlan) {
    for setting in wanted {
        let subject = setting.key.to_string();
        match context.reader.attribute(&setting.key.path()) {
            Ok(now) if folded(&now) == setting.value => {
                let state = format!("{}, running", setting.value);
                section.unchanged.push(NAME.up_to_date(subject, state));
            }
            Ok(now) => section.changes.push(change(setting, now)),
            Err(error) if error.is_absent() => section.blockers.push(NAME.blocker(
                subject.as_str(),
                format!("the running kernel has no {}", setting.key.path()),
                format!(
                    "{}, or correct or remove `{subject}` in [sysctl] set",
                    provider(context, setting)
                ),
            )),
            Err(error) => {
                section.unknowns.push(NAME.unknown(subject, error.to_string()));
            }
        }
    }
}

/// Returns the step after which the kernel has the missing parameter.
fn provider(context: &Context, setting: &Setting) -> String {
    match setting.key.interface() {
        // udev has the file applied to an interface when it appears (systemd rules.d/99-systemd.rules).
        Some((name, directory)) if context.reader.exists(&directory) == Ok(false) => {
            format!("set up network interface {name}: {PATH} is applied when it appears")
        }
        _ => "load the module that provides it ([modules] load)".to_owned(),
    }
}

/// Notes running values that persist until the next boot: keys still in the file, and keys that bedplate wrote in this boot
/// and that are no longer in the file.
pub(crate) fn left_behind(
    context: &Context,
    wanted: &[Setting],
    file: &BTreeMap<Key, String>,
    section: &mut KindPlan,
) {
    let in_file = file.keys().map(|key| (key.clone(), None));
    let written = still_set::left_behind(context, NAME)
        .filter_map(|(path, before)| Some((Key::of_path(path)?, Some(folded(before)))));
    let mut stays: BTreeMap<Key, Option<String>> = in_file.collect();
    stays.extend(written);
    stays.retain(|key, _| wanted.iter().all(|setting| setting.key != *key));
    section.notes.extend(
        stays
            .into_iter()
            .map(|(key, before)| NAME.note(key.to_string(), still_set::text(before.as_deref()))),
    );
}

fn change(setting: &Setting, now: String) -> Change {
    let subject = setting.key.to_string();
    // The kernel shows lists of numbers with tabs (kernel/sysctl.c, proc_dointvec); writing tabs makes the read-back match.
    let after = match now.contains('\t') {
        true => setting.value.replace(' ', "\t"),
        false => setting.value.clone(),
    };
    let item = Item::new("running", Some(&folded(&now)), Some(&setting.value), &setting.why);
    let path = setting.key.path();
    let write = WriteAttribute { path, before: now, after, limit_s: WRITE_LIMIT_S };
    let actions = vec![Action::WriteAttribute(write)];
    NAME.change(&subject, subject.as_str(), vec![item], Effect::Now, actions)
}
