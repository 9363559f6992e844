//! bedplate's file in sysctl.d, compared by its values: a reworded comment is not a difference.

use std::collections::BTreeMap;

use super::NAME;
use super::conf::{self, PATH};
use super::key::Key;
use super::running;
use super::section::Setting;
use crate::kind::drop_in::{self, ConfFile};
use crate::kind::{Context, TargetFile, removed};
use crate::plan::{Item, KindPlan, Note, Overridden};
use bedplate_base::OptionalRead as _;
use bedplate_host::HostKind;

/// Path of the same file in an image of `render bootc`; a file in /etc hides it.
const OF_IMAGE: &str = "/usr/lib/sysctl.d/zz-bedplate.conf";

/// File that procps applies in addition to sysctl.d. systemd-sysctl reads it only through a link in sysctl.d, as on Debian.
const SYSCTL_CONF: &str = "/etc/sysctl.conf";

/// Compares the file with `wanted`, and notes files that override it.
pub(super) fn plan(context: &Context, wanted: &[Setting], section: &mut KindPlan) {
    let Some(file) = TargetFile::read(context, NAME, PATH, !wanted.is_empty(), section) else {
        return;
    };
    if !wanted.is_empty() {
        overridden(context, wanted, section);
    }
    let ours = file.before.as_deref().map(|bytes| conf::values(&String::from_utf8_lossy(bytes)));
    let target: BTreeMap<_, _> =
        wanted.iter().map(|setting| (setting.key.clone(), setting.value.clone())).collect();
    let vendor = if ours.is_none() { vendor_settings(context) } else { None };
    let (place, vendor) = vendor.unwrap_or((PATH, BTreeMap::new()));
    if target.is_empty() && !vendor.is_empty() {
        section.notes.push(drop_in::left_in_image(NAME, place));
        return;
    }
    let ours = ours.unwrap_or(vendor);
    if context.facts.host != HostKind::Image {
        running::left_behind(context, wanted, &ours, section);
    }
    if ours == target {
        push_unchanged(&ours, place, section);
        return;
    }
    let after = conf::text(wanted, &context.profile.name);
    section.changes.push(file.change(after, items(wanted, &ours, &target)));
}

/// Returns the image's file and its values.
fn vendor_settings(context: &Context) -> Option<(&'static str, BTreeMap<Key, String>)> {
    let text = context.reader.text(OF_IMAGE).ok()?;
    Some((OF_IMAGE, conf::values(&text)))
}

fn push_unchanged(ours: &BTreeMap<Key, String>, path: &str, section: &mut KindPlan) {
    section.unchanged.extend(ours.iter().map(|(key, value)| {
        NAME.up_to_date(format!("{key} at boot"), format!("{value}, in {path}"))
    }));
}

fn items(
    wanted: &[Setting],
    ours: &BTreeMap<Key, String>,
    target: &BTreeMap<Key, String>,
) -> Vec<Item> {
    let differs = |setting: &&Setting| ours.get(&setting.key) != Some(&setting.value);
    let set = wanted.iter().filter(differs).map(|setting| {
        let before = ours.get(&setting.key).map(String::as_str);
        Item::new(setting.key.to_string(), before, Some(&setting.value), &setting.why)
    });
    let dropped = ours.iter().filter(|(key, _)| !target.contains_key(*key));
    set.chain(dropped.map(|(key, value)| removed(key.to_string(), value))).collect()
}

/// Notes files that override bedplate's values: a file that sorts later wins at every boot.
fn overridden(context: &Context, wanted: &[Setting], section: &mut KindPlan) {
    let files = match drop_in::files(context.reader, "sysctl.d") {
        Ok(files) => files,
        Err(error) => return drop_in::unknown(NAME, section, "sysctl.d", &error),
    };
    for file in drop_in::after(&files, PATH) {
        let text = format!("overridden at boot by {}, which sorts after {PATH}", file.path);
        let notes = contradictions(file, wanted, &text);
        section.overridden.extend(notes.iter().map(|note| Overridden {
            kind: NAME,
            setting: note.subject.clone(),
            path: file.path.clone(),
        }));
        section.notes.extend(notes);
    }
    match context.reader.text(SYSCTL_CONF).optional() {
        Ok(None) => {}
        Ok(Some(text)) => {
            let file = ConfFile { path: SYSCTL_CONF.into(), text };
            let text = format!(
                "{SYSCTL_CONF} sets another value, which `sysctl --system` and `sysctl -p` apply"
            );
            section.notes.extend(contradictions(&file, wanted, &text));
        }
        Err(error) => drop_in::unknown(NAME, section, SYSCTL_CONF, &error),
    }
}

fn contradictions(file: &ConfFile, wanted: &[Setting], text: &str) -> Vec<Note> {
    let theirs = conf::values(&file.text);
    let other =
        |setting: &&Setting| theirs.get(&setting.key).is_some_and(|value| *value != setting.value);
    let note = |setting: &Setting| NAME.note(setting.key.to_string(), text.to_owned());
    wanted.iter().filter(other).map(note).collect()
}
