//! The profile's keys in /etc/cufile.json, compared by value.

use serde_json::Value;

use super::NAME;
use super::document::{Document, NotEditable};
use super::owned::Own;
use super::section::Setting;
use crate::facts::cufile::PATH;
use crate::host::ReadError;
use crate::kind::{Context, drop_in, dropped};
use crate::plan::{Action, Blocker, Change, Effect, FileContent, Item, KindPlan, Note, Settled};

/// Compares the file.
pub fn plan(context: &Context, wanted: &[Setting], out: &mut KindPlan) {
    let earlier = Own::read(context.ledger.owned.get(NAME).map_or(&[], Vec::as_slice));
    if wanted.is_empty() && earlier.is_empty() {
        return;
    }
    let before = match context.reader.read(PATH) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.is_absent() => None,
        Err(ReadError::NotRecorded { .. }) if wanted.is_empty() => return,
        Err(error) => return drop_in::unknown(NAME, out, PATH, &error),
    };
    let document = match before.as_deref().map(read) {
        None => Document::new(context.profile.name()).map_err(|error| error.to_string()),
        Some(read) => read,
    };
    let document = match document {
        Ok(document) => document,
        Err(reason) => {
            return out.blockers.push(Blocker {
                kind: NAME,
                subject: PATH.to_owned(),
                reason,
                remedy: "correct the file: GPUDirect Storage does not read it either".to_owned(),
            });
        }
    };
    let mut own = Vec::new();
    let mut items = set(&document, wanted, &earlier, &mut own, out);
    items.extend(give_back(&document, wanted, &earlier, &mut own, out));
    if items.is_empty() {
        return;
    }
    let after = (!document.is_empty()).then(|| FileContent::new(document.text().into_bytes()));
    out.changes.push(Change {
        id: format!("{NAME}{PATH}"),
        kind: NAME,
        subject: PATH.into(),
        items,
        effect: Effect::Now,
        actions: vec![Action::ReplaceFile {
            path: PATH.into(),
            before: before.map(FileContent::new),
            after,
        }],
        disrupts: Vec::new(),
        needs: Vec::new(),
        owns: Some(own.iter().filter_map(Own::write).collect()),
        deferred: None,
    });
}

fn read(bytes: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{PATH} is not UTF-8 text"))?;
    Document::parse(text).map_err(|error: NotEditable| error.to_string())
}

/// Sets what is wanted and not so.
fn set(
    document: &Document,
    wanted: &[Setting],
    earlier: &[Own],
    own: &mut Vec<Own>,
    out: &mut KindPlan,
) -> Vec<Item> {
    let mut items = Vec::new();
    for setting in wanted {
        let now = document.get(&setting.key);
        let name = setting.key.to_string();
        let ours = earlier.iter().find(|one| one.key == name);
        if now.as_ref() == Some(&setting.value) {
            own.extend(ours.cloned());
            out.settled.push(Settled {
                kind: NAME,
                subject: name,
                state: format!("{}, in {PATH}", setting.value),
            });
            continue;
        }
        document.set(&setting.key, &setting.value);
        let before = ours.map_or_else(|| now.clone(), |ours| ours.before.clone());
        own.push(Own { key: name.clone(), ours: setting.value.clone(), before });
        items.push(Item {
            subject: name,
            before: now.map(|value| value.to_string()),
            after: Some(setting.value.to_string()),
            why: setting.why.clone(),
        });
    }
    items
}

/// Puts back what stood there before bedplate's values that the profile no longer names.
fn give_back(
    document: &Document,
    wanted: &[Setting],
    earlier: &[Own],
    own: &mut Vec<Own>,
    out: &mut KindPlan,
) -> Vec<Item> {
    let mut items = Vec::new();
    let is_wanted = |name: &str| wanted.iter().any(|setting| setting.key.to_string() == name);
    for one in earlier.iter().filter(|one| !is_wanted(&one.key)) {
        let Some(key) = one.key() else { continue };
        let Some(now) = document.get(&key) else { continue };
        if now != one.ours {
            own.push(one.clone());
            out.notes.push(Note {
                kind: NAME,
                subject: one.key.clone(),
                text: format!(
                    "the profile no longer sets it, and it was changed to {now} since: it stays"
                ),
            });
            continue;
        }
        match &one.before {
            Some(value) => document.set(&key, value),
            None => document.remove(&key),
        }
        items.push(Item {
            subject: one.key.clone(),
            before: Some(now.to_string()),
            after: one.before.as_ref().map(Value::to_string),
            why: vec![dropped()],
        });
    }
    items
}
