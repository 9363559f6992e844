//! Finds every occurrence of a key on a line: each argument, option or item that sets it, in the kernel's order.

use bedplate_base::Arch;

use super::key::{Key, Meaning, bool_meaning, option_key};
use super::line::CommandLine;
use super::shape::{ItemList, OptionList, PASSTHROUGH, Shape, shape_of};

/// One place on the line that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Occurrence {
    /// Index of the argument.
    pub token: usize,
    /// Index of the option or item in the argument's value, not counting empty ones. `None` for the whole argument.
    pub part: Option<usize>,
    /// The option or item as written, or the whole argument.
    pub text: String,
    /// Its effect.
    pub meaning: Meaning,
    /// Whether the kernel reads it; false behind an option that stops the reading.
    pub heard: bool,
}

/// Returns every occurrence of `key`, in order.
pub(super) fn occurrences(line: &CommandLine, key: &Key, arch: Arch) -> Vec<Occurrence> {
    let mut all = Vec::new();
    for (at, token) in line.tokens().enumerate() {
        let name = token.folded_name();
        let value = token.value();
        let whole = |meaning| Occurrence {
            token: at,
            part: None,
            text: token.as_str().to_owned(),
            meaning,
            heard: true,
        };
        match (shape_of(&name, arch), value.as_deref()) {
            (Shape::Options(list), Some(value)) if can_affect(key, list.param) => {
                all.extend(
                    of_options(list, value, at)
                        .into_iter()
                        .filter_map(|(of, speaker)| (of == *key).then_some(speaker)),
                );
            }
            (Shape::Items(list), Some(value)) => {
                all.extend(of_items(list, value, at, key));
            }
            (Shape::Bool, value) if *key == Key::Param(name.clone()) => {
                all.push(whole(bool_meaning(value)))
            }
            (_, value) if *key == Key::Param(name.clone()) => {
                all.push(whole(Meaning::Text(value.map(str::to_owned))));
            }
            _ => {}
        }
    }
    if let Key::Item { param, .. } = key {
        forget_overridden(line, param, arch, &mut all);
    }
    all
}

/// Whether options of `param` can affect `key` at all.
fn can_affect(key: &Key, param: &str) -> bool {
    match key {
        Key::Option { param: owner, .. } => owner == param,
        Key::Param(name) => name == PASSTHROUGH && param == "iommu",
        _ => false,
    }
}

fn of_options(list: &OptionList, value: &str, token: usize) -> Vec<(Key, Occurrence)> {
    let mut heard = true;
    let mut found = Vec::new();
    for (part, option) in OptionList::options(value).enumerate() {
        let (key, meaning) = option_key(list, option);
        found.push((
            key,
            Occurrence { token, part: Some(part), text: option.to_owned(), meaning, heard },
        ));
        heard = heard && !list.stops_at(option);
    }
    found
}

fn of_items(list: &ItemList, value: &str, token: usize, key: &Key) -> Vec<Occurrence> {
    let Key::Item { param, item: wanted } = key else {
        return Vec::new();
    };
    let parts = list.items(value).into_iter().enumerate();
    parts
        .filter(|(_, item)| list.param == param && list.meaning(item) == *wanted)
        .map(|(part, item)| Occurrence {
            token,
            part: Some(part),
            text: item.to_owned(),
            meaning: Meaning::Text(Some(wanted.clone())),
            heard: true,
        })
        .collect()
}

/// Marks the items of all but the last occurrence as unread, if only the last occurrence takes effect.
fn forget_overridden(line: &CommandLine, param: &str, arch: Arch, all: &mut [Occurrence]) {
    let Shape::Items(ItemList { last_wins: true, .. }) = shape_of(param, arch) else {
        return;
    };
    let last =
        line.tokens().rposition(|token| token.folded_name() == param && token.value().is_some());
    for speaker in all {
        speaker.heard = Some(speaker.token) == last;
    }
}
