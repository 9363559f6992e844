//! Evidence of a check in few lines: items with the same value and source share a line.

use crate::report::style::{FAINT, paint};
use bedplate_base::terminal::one_line;
use bedplate_core::verify::Evidence;

/// Formats evidence: `RR CR on [config 0x186]: 0000:17:00.0, 0000:17:01.0 and 14 more ports (-v)`. Up to `most`
/// items or subjects are listed by name. With no limit each item has its own line.
pub(super) fn lines(all: &[Evidence], most: usize) -> Vec<String> {
    let source = |seen: &Evidence| paint(FAINT, &format!("[{}]", one_line(&seen.at)));
    let single = |seen: &Evidence| format!("{} {}", one_line(&seen.what), source(seen));
    if most == usize::MAX {
        return all.iter().map(single).collect();
    }
    let parts = |seen: &Evidence| match seen.what.split_once(": ") {
        Some((subject, state)) => (subject.to_owned(), state.to_owned(), seen.at.clone()),
        None => (String::new(), seen.what.clone(), seen.at.clone()),
    };
    let mut groups: Vec<Vec<&Evidence>> = Vec::new();
    for seen in all {
        let (subject, state, at) = parts(seen);
        let fits = |group: &Vec<&Evidence>| {
            let known = group.first().map(|first| parts(first));
            known.is_some_and(|known| {
                !known.0.is_empty() && !subject.is_empty() && known.1 == state && known.2 == at
            })
        };
        match groups.iter_mut().find(|group| fits(group)) {
            Some(group) => group.push(seen),
            None => groups.push(vec![seen]),
        }
    }
    let lines = groups.iter().take(most).map(|group| match group.as_slice() {
        [only] => single(only),
        several => {
            let subjects: Vec<String> = several.iter().map(|seen| parts(seen).0).collect();
            let state = several.first().map(|seen| parts(seen).1).unwrap_or_default();
            let at = several.first().map(|seen| source(seen)).unwrap_or_default();
            format!("{} {at}: {}", one_line(&state), one_line(&subject_list(&subjects, most)))
        }
    });
    let mut lines: Vec<String> = lines.collect();
    let rest: usize = groups.iter().skip(most).map(Vec::len).sum();
    if rest > 0 {
        lines.push(format!("{rest} more (-v)"));
    }
    lines
}

/// Lists up to `most` subjects, and one more rather than "and 1 more": `A, B, C and 13 more ports (-v)`. A first word that
/// all share is printed once, with the number of the rest.
fn subject_list(subjects: &[String], most: usize) -> String {
    let words = subjects.iter().map(|subject| subject.split_once(' '));
    let words: Option<Vec<(&str, &str)>> = words.collect();
    let shared = words.filter(|words| words.windows(2).all(|two| two[0].0 == two[1].0));
    let (noun, names): (&str, Vec<&str>) = match &shared {
        Some(words) => {
            (words.first().map_or("", |word| word.0), words.iter().map(|word| word.1).collect())
        }
        None => ("", subjects.iter().map(String::as_str).collect()),
    };
    if names.len() <= most + 1 {
        return names.join(", ");
    }
    let (listed, more) = (names[..most].join(", "), names.len() - most);
    match noun {
        "" => format!("{listed} and {more} more (-v)"),
        noun => format!("{listed} and {more} more {noun}s (-v)"),
    }
}
