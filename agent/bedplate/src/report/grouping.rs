//! Grouping of equal entries, which reports list once. Keeps the order of first occurrence.

use std::cmp::Reverse;

/// Groups values by key.
pub(super) fn grouped<T, K: PartialEq>(
    all: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for one in all {
        let key = key(&one);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups
}

/// Returns the distinct values, the most frequent ones first.
pub(super) fn by_frequency<T: PartialEq + Copy>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut groups = grouped(all, |one| *one);
    // Stable sort: equally frequent values stay in order.
    groups.sort_by_key(|(_, group)| Reverse(group.len()));
    groups.into_iter().map(|(one, _)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_equally_frequent_values_stay_in_order() {
        let groups = grouped(["b1", "a1", "b2"], |text| text.as_bytes()[0]);
        assert_eq!(groups, [(b'b', vec!["b1", "b2"]), (b'a', vec!["a1"])]);
        assert_eq!(by_frequency(["a", "b", "c", "b"]), ["b", "a", "c"]);
    }
}
