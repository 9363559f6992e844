//! Grouping of changes that differ only in their subject (twenty ports, eight PFs).

use super::super::grouping::{by_frequency, grouped};
use super::super::names;
use super::super::style::{FAINT, HEAD, WARN, paint};
use super::{Block, Detail, counted_list, deferred, item_line, transition, when};
use bedplate_core::plan::{Change, Device, DeviceRole, Item};
use bedplate_facts::names::Names;

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
    format!("{}{between}… and {} more (-v)", list[..SUBJECTS].join(between), list.len() - SUBJECTS)
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
pub(super) fn block(group: &[&Change], names: Option<&Names>) -> Block {
    let devices: Vec<&Device> =
        group.iter().filter_map(|change| change.subject.device.as_deref()).collect();
    // A group has at least one member, and members have devices (`same`).
    let (Some(first), Some(device)) = (group.first(), devices.first()) else {
        return Block { title: String::new(), lines: Vec::new() };
    };
    let takes_effect = paint(HEAD, when(first.effect));
    let count = format!("{} {}s", devices.len(), device.role);
    let (title, items) = match first.items.as_slice() {
        [item] if item.before.is_some() && item.after.is_some() => (
            format!("{takes_effect}: {} on {count}", transition(item, counted_list)),
            [].as_slice(),
        ),
        items => (format!("{takes_effect}: {count}"), items),
    };
    let mut lines = models(&devices, device.role, names);
    lines.extend(items.iter().map(|item| item_line(item, Detail::default())));
    let reasons = group
        .iter()
        .flat_map(|change| &change.items)
        .flat_map(|item| &item.why)
        .map(|why| why.reason.as_str());
    lines.extend(
        first_and_count(&by_frequency(reasons)).map(|text| format!("why: {}", paint(FAINT, &text))),
    );
    lines.extend(disruptions(group));
    lines.extend(first.deferred.as_ref().map(deferred));
    Block { title, lines }
}

/// Lists a few disruptions in full: the rarest may be the worst, such as a port with the default route. More are counted
/// behind the most frequent one.
fn disruptions(group: &[&Change]) -> Vec<String> {
    let all = by_frequency(group.iter().flat_map(|change| &change.disrupts));
    let shown: Vec<String> = match all.len() <= SUBJECTS {
        true => all.into_iter().cloned().collect(),
        false => first_and_count(&all).into_iter().collect(),
    };
    shown.iter().map(|text| format!("{} {text}", paint(WARN, "disrupts:"))).collect()
}

/// Lists addresses by model: `16 Broadcom PEX890xx  0000:17:00.0 …`.
fn models(devices: &[&Device], role: DeviceRole, names: Option<&Names>) -> Vec<String> {
    let model = |device: &Device| {
        let names = names?;
        names::name(names, names.function(device.address)?)
    };
    let models = grouped(devices, |device| model(device));
    let labels = models.iter().map(|(model, members)| match model {
        Some(model) => format!("{} {model}", members.len()),
        None if models.len() > 1 => format!("{} {role}s", members.len()),
        None => String::new(),
    });
    let labels: Vec<String> = labels.collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or_default();
    let rows = models.iter().zip(labels).map(|((_, members), label)| {
        let addresses: Vec<String> = members.iter().map(|device| device.name()).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let label = format!("{label:<width$}");
        let gap = if width > 0 { "  " } else { "" };
        format!("{}{gap}{}", paint(FAINT, &label), folded(&addresses, " "))
    });
    rows.collect()
}

/// Returns the first text, with the number of the others.
fn first_and_count(texts: &[impl AsRef<str>]) -> Option<String> {
    let (first, others) = texts.split_first()?;
    Some(match others.len() {
        0 => first.as_ref().to_owned(),
        more => format!("{} ({more} more: -v)", first.as_ref()),
    })
}
