//! Values that bedplate wrote to the running kernel, and that the profile no longer sets.

use super::Context;
use crate::ledger::SettingRecord;
use crate::plan::{KindId, Note};
use crate::register;
use crate::setting::{SetConfigBits, SettingChange as _, read_attribute};
use bedplate_base::value::RegisterBits;
use bedplate_host::boot_id;

/// Notes the values that a resource type wrote in this boot, except those that the profile still sets. They stay until the
/// next boot.
pub(crate) fn still_set(
    context: &Context,
    kind: KindId,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<Note> {
    let written = left_behind(context, kind).filter(|(path, _)| !is_wanted(path));
    written.map(|(path, before)| kind.note(path, text(Some(before)))).collect()
}

/// Returns the attributes that a resource type wrote in this boot and that still have its value, with the value before.
pub(crate) fn left_behind<'a>(
    context: &Context<'a>,
    kind: KindId,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let boot = boot_id::read(context.reader).ok();
    let reader = context.reader;
    context.ledger.attributes.iter().filter_map(move |(path, record)| {
        let stays = record.kind == kind
            && boot.as_ref() == Some(&record.boot)
            && read_attribute(reader, path).is_ok_and(|now| record.is_ours(&now));
        stays.then_some((path.as_str(), record.action.before.as_str()))
    })
}

/// Notes the registers that a resource type wrote in this boot and that still have its bits, except those that the profile
/// still sets.
pub(crate) fn registers_still_set(
    context: &Context,
    kind: KindId,
    is_wanted: impl Fn(&SetConfigBits) -> bool,
) -> Vec<Note> {
    let boot = boot_id::read(context.reader).ok();
    let stays = |record: &&SettingRecord<SetConfigBits>| {
        let read = || register::read(context.reader, &record.action).map(RegisterBits::whole);
        record.kind == kind
            && boot.as_ref() == Some(&record.boot)
            && !is_wanted(&record.action)
            && read().is_ok_and(|now| {
                record.reversed(&now).is_some_and(|action| record.is_ours(&action.before()))
            })
    };
    let records = context.ledger.registers.values().filter(stays);
    records.map(|record| kind.note(record.action.name(), text(None))).collect()
}

/// Returns the text of the note.
pub(crate) fn text(before: Option<&str>) -> String {
    let before = before.map(|before| format!(" (previously {before})")).unwrap_or_default();
    format!("the running value stays until the next boot; the profile no longer sets it{before}")
}
