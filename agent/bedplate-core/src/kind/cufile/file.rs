//! The profile's keys in /etc/cufile.json, compared by value.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::{Document, JsonValue, NotEditable};
use super::owned_keys::{self, OwnedKey};
use super::section::{Key, Setting};
use super::{NAME, splice};
use crate::kind::{Context, TargetFile, dropped};
use crate::plan::{Blocker, Item, KindPlan, Rationale};
use bedplate_facts::cufile::{self, PATH};

/// Compares the file with `wanted`.
pub(super) fn plan(context: &Context, wanted: &[Setting], out: &mut KindPlan) {
    let earlier = OwnedKey::read(context.ledger.owned.get(&NAME).map_or(&[], Vec::as_slice));
    if wanted.is_empty() && earlier.is_empty() {
        return;
    }
    let Some(file) = TargetFile::read(context, NAME, PATH, !wanted.is_empty(), out) else { return };
    let document = match file.before.as_deref().map(read) {
        None => Document::new(&context.profile.name),
        Some(Ok(document)) => document,
        Some(Err(blocker)) => return out.blockers.push(blocker),
    };
    let found = document.text().to_owned();
    let mut work = Work { document, earlier: &earlier, own: Vec::new(), items: Vec::new(), out };
    work.set(wanted);
    work.restore_originals(wanted);
    let Work { document, own, items, .. } = work;
    if !out.blockers.is_empty() {
        return;
    }
    let after = (!document.is_only_heading()).then(|| document.text().as_bytes().to_vec());
    let is_edited = file.before != after;
    if after.is_some()
        && (is_edited || !wanted.is_empty())
        && let Err(blocker) = readable(&found, document.text())
    {
        return out.blockers.push(blocker);
    }
    if items.is_empty() {
        return;
    }
    let mut change = file.change(after, items);
    if !is_edited {
        // Only the ledger needs an update.
        change.actions.clear();
    }
    change.owns = Some(own.iter().filter_map(OwnedKey::write).collect());
    out.changes.push(change);
}

fn read(bytes: &[u8]) -> Result<Document, Blocker> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        NAME.blocker(
            PATH,
            format!("{PATH} is not UTF-8 text"),
            "correct the file; GPUDirect Storage cannot read it either",
        )
    })?;
    Document::parse(text).map_err(|error| refused(&error))
}

fn refused(error: &NotEditable) -> Blocker {
    NAME.blocker(PATH, error.to_string(), error.fix())
}

/// Rejects an edit that the library could not read.
fn readable(before: &str, after: &str) -> Result<(), Blocker> {
    let Err(wrong) = cufile::parse(after) else { return Ok(()) };
    if let Err(wrong) = cufile::parse(before) {
        return Err(refused(&wrong.into()));
    }
    let error = NotEditable::from(wrong);
    Err(Blocker {
        reason: format!("with the profile's keys, the library could not read the file: {error}"),
        fix: "remove the key from the profile, or correct it".to_owned(),
        ..refused(&error)
    })
}

/// State of an edit.
struct Work<'a> {
    document: Document,
    earlier: &'a [OwnedKey],
    own: Vec<OwnedKey>,
    items: Vec<Item>,
    out: &'a mut KindPlan,
}

impl<'a> Work<'a> {
    /// Sets the differing keys.
    fn set(&mut self, wanted: &[Setting]) {
        for setting in wanted {
            if let Err(error) = self.set_one(setting) {
                self.out.blockers.push(refused(&error));
            }
        }
    }

    fn set_one(&mut self, setting: &Setting) -> Result<(), NotEditable> {
        let now = self.document.get(&setting.key)?;
        let key = setting.key.to_string();
        let mut earlier = self.earlier.iter().filter(|one| one.key == key);
        if let Some(now) = now.as_ref().filter(|now| now.value == setting.value) {
            match self.unchanged_own(&key, Some(now)) {
                Some(ours) => self.own.push(ours.clone()),
                None => self.forget(earlier.next(), "another tool has set the same value since"),
            }
            self.out.unchanged.push(NAME.up_to_date(key, format!("{}, in {PATH}", setting.value)));
            return Ok(());
        }
        let known: Vec<&OwnedKey> = self.earlier.iter().chain(&self.own).collect();
        let made = owned_keys::count_made_objects(&setting.key, &self.document, &known)?;
        self.document.set(&setting.key, &splice::source(&setting.value))?;
        let (before, text) = match earlier.next() {
            Some(ours) => (ours.before.clone(), ours.text.clone()),
            None => now.clone().map(|now| (now.value, now.source)).unzip(),
        };
        self.own.push(OwnedKey {
            key: key.clone(),
            ours: setting.value.clone(),
            before,
            text,
            made,
        });
        self.items.push(Item {
            subject: key,
            before: now.map(|now| format_value(&now.value, &now.source)),
            after: Some(setting.value.to_string()),
            why: setting.why.clone(),
        });
        Ok(())
    }

    /// Restores the original values of bedplate's keys that the profile no longer names.
    fn restore_originals(&mut self, wanted: &[Setting]) {
        let wanted: Vec<String> = wanted.iter().map(|setting| setting.key.to_string()).collect();
        let keys: BTreeSet<&str> = self.earlier.iter().map(|one| one.key.as_str()).collect();
        for name in keys.into_iter().filter(|name| !wanted.iter().any(|key| key == name)) {
            let Ok(key) = name.parse::<Key>() else { continue };
            if let Err(error) = self.restore_original(&key) {
                self.out.blockers.push(refused(&error));
            }
        }
    }

    fn restore_original(&mut self, key: &Key) -> Result<(), NotEditable> {
        let now = match self.document.get(key) {
            // An unmanaged value has replaced the object.
            Err(NotEditable::NotAnObject { .. }) => None,
            now => now?,
        };
        let name = key.to_string();
        let Some((ours, now)) = self.unchanged_own(&name, now.as_ref()).zip(now.as_ref()) else {
            let last = self.earlier.iter().find(|one| one.key == name);
            let why = match now {
                Some(now) => format!("changed to {} since, and stays", now.source),
                None => "already removed".to_owned(),
            };
            self.forget(last, &format!("no longer set by the profile; {why}"));
            return Ok(());
        };
        let source = ours.source();
        match &source {
            Some(source) => self.document.set(key, source)?,
            None => self.document.remove(key, ours.made)?,
        }
        self.items.push(Item {
            subject: name,
            before: Some(format_value(&now.value, &now.source)),
            after: ours
                .before
                .as_ref()
                .zip(source)
                .map(|(value, source)| format_value(value, &source)),
            why: vec![dropped()],
        });
        Ok(())
    }

    /// Returns the ledger entry of a key if the file still has bedplate's value.
    fn unchanged_own(&self, key: &str, now: Option<&JsonValue>) -> Option<&'a OwnedKey> {
        let now = now?;
        self.earlier.iter().find(|one| one.key == key && one.ours == now.value)
    }

    /// Drops an outdated entry: if the same value returns later, it is not bedplate's.
    fn forget(&mut self, entry: Option<&OwnedKey>, why: &str) {
        self.items.extend(entry.map(|entry| Item {
            subject: format!("record of {}", entry.key),
            before: Some(entry.ours.to_string()),
            after: None,
            why: vec![Rationale::because(why)],
        }));
    }
}

/// Formats a value on one line, with numbers verbatim.
fn format_value(value: &Value, source: &str) -> String {
    match value {
        Value::Number(_) => source.to_owned(),
        other => other.to_string(),
    }
}
