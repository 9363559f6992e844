//! Evidence of a check in few lines: items with the same value and source share a line.

use crate::report::grouping::grouped;
use crate::report::style::{FAINT, paint};
use bedplate_base::terminal::one_line;
use bedplate_core::verify::Evidence;

/// Formats evidence: `RR CR on [config 0x186]: 0000:17:00.0, 0000:17:01.0 and 14 more ports (-v)`. At most `most` items or
/// subjects are listed by name. `None`: each item has its own line.
pub(super) fn lines(all: &[Evidence], most: Option<usize>) -> Vec<String> {
    let source = |seen: &Evidence| paint(FAINT, &format!("[{}]", one_line(&seen.source)));
    let single = |seen: &Evidence| format!("{} {}", one_line(&seen.value), source(seen));
    let Some(most) = most else { return all.iter().map(single).collect() };
    // Evidence without a subject is a group of its own.
    let state = |(at, seen): &(usize, &Evidence)| match seen.value.split_once(": ") {
        Some((_, state)) => (state.to_owned(), seen.source.clone(), None),
        None => (seen.value.clone(), seen.source.clone(), Some(*at)),
    };
    let groups = grouped(all.iter().enumerate(), state);
    let mut lines = Vec::new();
    for ((state, _, _), group) in groups.iter().take(most) {
        lines.push(match group.as_slice() {
            [(_, only)] => single(only),
            [(_, first), ..] => {
                let subjects = group.iter().filter_map(|(_, seen)| seen.value.split_once(": "));
                let subjects: Vec<&str> = subjects.map(|(subject, _)| subject).collect();
                let listed = one_line(&subject_list(&subjects, most));
                format!("{} {}: {listed}", one_line(state), source(first))
            }
            [] => continue,
        });
    }
    let rest: usize = groups.iter().skip(most).map(|(_, group)| group.len()).sum();
    if rest > 0 {
        lines.push(format!("{rest} more (-v)"));
    }
    lines
}

/// Lists up to `most` subjects, and one more rather than "and 1 more": `A, B, C and 13 more ports (-v)`. A noun before all
/// of them (`port A`) is printed once.
fn subject_list(subjects: &[&str], most: usize) -> String {
    let noun =
        subjects.first().and_then(|first| first.split_once(' ')).map_or("", |(noun, _)| noun);
    let without = |subject: &&str| subject.strip_prefix(noun)?.strip_prefix(' ').map(str::to_owned);
    let (noun, names) = match subjects.iter().map(without).collect::<Option<Vec<String>>>() {
        Some(names) => (format!(" {noun}s"), names),
        None => (String::new(), subjects.iter().map(|subject| (*subject).to_owned()).collect()),
    };
    if names.len() <= most + 1 {
        return names.join(", ");
    }
    format!("{} and {} more{noun} (-v)", names[..most].join(", "), names.len() - most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::style::strip_marks;

    fn shown(all: &[(&str, &str)], most: Option<usize>) -> Vec<String> {
        let evidence = |(value, source): &(&str, &str)| Evidence {
            value: (*value).into(),
            source: (*source).into(),
        };
        let all: Vec<Evidence> = all.iter().map(evidence).collect();
        lines(&all, most).iter().map(|line| strip_marks(line)).collect()
    }

    #[test]
    fn items_of_one_value_and_source_share_a_line() {
        let ports =
            [("port a: on", "x"), ("port b: on", "x"), ("port c: off", "x"), ("port d: on", "y")];
        let expected = ["on [x]: a, b", "port c: off [x]", "port d: on [y]"];
        assert_eq!(shown(&ports, Some(3)), expected);
        assert_eq!(shown(&ports, Some(2)), ["on [x]: a, b", "port c: off [x]", "1 more (-v)"]);
        assert_eq!(shown(&ports, None).len(), 4);
        assert_eq!(shown(&[("1", "x"), ("1", "x")], Some(3)), ["1 [x]", "1 [x]"]);
    }

    #[test]
    fn long_lists_are_counted_by_their_noun() {
        assert_eq!(subject_list(&["port a", "port b", "port c"], 2), "a, b, c");
        assert_eq!(
            subject_list(&["port a", "port b", "port c", "port d"], 2),
            "a, b and 2 more ports (-v)"
        );
        assert_eq!(subject_list(&["a", "port b", "c", "d"], 2), "a, port b and 2 more (-v)");
    }
}
