//! Grouping of changes that differ only in their subject (twenty ports, eight PFs).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::names;
use super::super::style::{FAINT, WARN, paint};
use super::{Detail, item_line, when};
use bedplate_core::plan::{Change, Device, Item};
use bedplate_facts::names::Names;

/// Reasons or disruptions to show before the rest is counted.
const SHOWN: usize = 2;
/// Entries of a long list to show before the rest is counted.
const SUBJECTS: usize = 3;
/// Maximum length of a list that is shown in full.
pub(crate) const FEW: usize = 6;

/// Groups changes that differ only in subject, reasons and disruptions, in order of their first member.
pub(crate) fn group_changes<'a>(changes: &[&'a Change]) -> Vec<Vec<&'a Change>> {
    let mut groups: Vec<Vec<&Change>> = Vec::new();
    for change in changes {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| same(first, change)))
        {
            Some(group) => group.push(change),
            None => groups.push(vec![change]),
        }
    }
    groups
}

/// Joins a list; counts the rest of a long list.
pub(crate) fn folded(list: &[&str], between: &str) -> String {
    if list.len() <= FEW {
        return list.join(between);
    }
    format!("{}{between}… and {} more; -v", list[..SUBJECTS].join(between), list.len() - SUBJECTS)
}

fn same(one: &Change, other: &Change) -> bool {
    let shape = |item: &Item| (item.subject.clone(), item.before.clone(), item.after.clone());
    let items = |change: &Change| change.items.iter().map(shape).collect::<Vec<_>>();
    let role = |change: &Change| change.subject.device.as_ref().map(|device| device.role);
    one.effect == other.effect
        && one.deferred == other.deferred
        && role(one).is_some()
        && role(one) == role(other)
        && items(one) == items(other)
}

/// Formats a group of at least two changes.
pub(crate) fn show(out: &mut String, group: &[&Change], names: Option<&Names>) {
    let devices: Vec<&Device> =
        group.iter().filter_map(|change| change.subject.device.as_deref()).collect();
    let (Some(first), Some(device)) = (group.first(), devices.first()) else { return };
    let _ = writeln!(
        out,
        "  {} {}s  {}",
        group.len(),
        device.role,
        paint(FAINT, &format!("[{}]", when(first.effect)))
    );
    let subjects: Vec<String> = devices.iter().map(|device| device.name()).collect();
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let _ = writeln!(out, "    {}", folded(&subjects, "  "));
    if let Some(names) = names {
        let functions = devices.iter().filter_map(|device| names.function(device.address));
        for line in names::models(names, functions) {
            let _ = writeln!(out, "    {}", paint(FAINT, &line));
        }
    }
    for item in &first.items {
        let _ = writeln!(out, "    {}", item_line(item, Detail::default()));
    }
    let reasons = group
        .iter()
        .flat_map(|change| &change.items)
        .flat_map(|item| &item.why)
        .map(|why| why.reason.as_str());
    some(out, reasons, "", "reasons");
    let disrupts = group.iter().flat_map(|change| change.disrupts.iter().map(String::as_str));
    some(out, disrupts, "disrupts: ", "disruptions");
    if let Some(deferred) = &first.deferred {
        let _ = writeln!(out, "      {} until {}", paint(WARN, "deferred"), deferred.until);
    }
}

/// Formats the first few distinct texts, most frequent first, and counts the rest.
fn some<'a>(out: &mut String, texts: impl Iterator<Item = &'a str>, label: &str, many: &str) {
    let texts: Vec<&str> = texts.collect();
    let mut seen = BTreeSet::new();
    let mut distinct: Vec<&str> = texts.iter().copied().filter(|text| seen.insert(*text)).collect();
    distinct
        .sort_by_key(|text| std::cmp::Reverse(texts.iter().filter(|other| *other == text).count()));
    for text in distinct.iter().take(SHOWN) {
        let line = if label.is_empty() {
            paint(FAINT, text)
        } else {
            format!("{}{text}", paint(WARN, label))
        };
        let _ = writeln!(out, "        {line}");
    }
    if distinct.len() > SHOWN {
        let _ = writeln!(
            out,
            "        {}",
            paint(FAINT, &format!("… and {} more {many}; -v", distinct.len() - SHOWN))
        );
    }
}
