//! CPU sets in the kernel's formats: lists (`0-3,8`) and masks (`ff,0000000f`). Pure.

use std::collections::BTreeSet;

/// Maximum number of CPUs in Linux (NR_CPUS); larger sets are invalid.
const MOST: u32 = 8192;

/// Parses a list, if valid.
pub fn of_list(list: &str) -> Option<BTreeSet<u32>> {
    let (mut found, mut named) = (BTreeSet::new(), 0);
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // Overlapping ranges must not cost more than the maximum number of CPUs.
        named = last.saturating_sub(first).saturating_add(1).saturating_add(named);
        if last >= MOST || named > MOST {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found)
}

/// Parses a mask: groups of 32 bits in hexadecimal digits, highest first.
pub fn of_mask(mask: &str) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for (nth, group) in mask.rsplit(',').enumerate() {
        let first = u32::try_from(nth).ok()?.checked_mul(32).filter(|first| *first < MOST)?;
        let bits = u32::from_str_radix(group, 16).ok().filter(|_| group.len() <= 8)?;
        found.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
    }
    Some(found)
}

/// Converts a list to a mask in the format of `cpumap`, for CPUs up to `last` (lib/vsprintf.c, bitmap_string).
pub fn mask(list: &str, last: u32) -> Option<String> {
    let members = of_list(list)?;
    let last = last.max(*members.last()?).min(MOST - 1);
    let mut groups = vec![0_u32; (last / 32 + 1) as usize];
    members.iter().for_each(|cpu| groups[(cpu / 32) as usize] |= 1 << (cpu % 32));
    let digits = (last % 32 / 4 + 1) as usize;
    let groups = groups.iter().rev().enumerate().map(|(nth, group)| match nth {
        0 => format!("{group:0digits$x}"),
        _ => format!("{group:08x}"),
    });
    Some(groups.collect::<Vec<String>>().join(","))
}

/// Formats a set as a list.
pub fn list(cpus: &BTreeSet<u32>) -> String {
    bedplate_base::ranges(cpus.iter().copied()).join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn excessive_overlapping_ranges_are_rejected() {
        assert_eq!(of_list("0-8191,0"), None);
        assert_eq!(of_list("5-3"), Some(BTreeSet::new()));
    }

    #[test]
    fn masks_match_kernel_format() {
        assert_eq!(mask("0-3", 3).as_deref(), Some("f"));
        assert_eq!(mask("4-7,12", 19).as_deref(), Some("010f0"));
        assert_eq!(
            mask("0-55,112-167", 223).as_deref(),
            Some("00000000,000000ff,ffffffff,ffff0000,00000000,00ffffff,ffffffff")
        );
        assert_eq!(mask("", 3), None);
        for nonsense in ["x", "0-", "0-99999", "3-1x", "-1"] {
            assert_eq!(mask(nonsense, 3), None, "{nonsense}");
            assert_eq!(of_mask(nonsense).filter(|_| nonsense != "-1"), None, "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn lists_and_masks_round_trip(cpus in prop::collection::btree_set(0..300_u32, 1..40)) {
            let text = list(&cpus);
            prop_assert_eq!(of_list(&text), Some(cpus.clone()));
            prop_assert_eq!(of_mask(&mask(&text, 299).unwrap()), Some(cpus));
        }
    }
}
