//! The two orders of version strings that decide which boot entry is first.

use std::cmp::Ordering;

/// Compares in RPM's order, by which Red Hat's GRUB sorts entry files (`grub-core/commands/blscfg.c`, `vercmp`): by
/// segments of digits or letters, which all other characters separate; digits beat letters, `~` sorts before everything.
pub(crate) fn rpm_order(left: &str, right: &str) -> Ordering {
    let separates = |c: char| !c.is_ascii_alphanumeric() && c != '~';
    let (mut a, mut b) = (left, right);
    loop {
        a = a.trim_start_matches(separates);
        b = b.trim_start_matches(separates);
        match (a.strip_prefix('~'), b.strip_prefix('~')) {
            (Some(rest_a), Some(rest_b)) => (a, b) = (rest_a, rest_b),
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {
                if a.is_empty() || b.is_empty() {
                    return a.len().cmp(&b.len());
                }
                let digits = a.starts_with(|c: char| c.is_ascii_digit());
                let belongs =
                    |c: char| if digits { c.is_ascii_digit() } else { c.is_ascii_alphabetic() };
                let (segment_a, rest_a) = cut(a, belongs);
                let (segment_b, rest_b) = cut(b, belongs);
                if segment_b.is_empty() {
                    return if digits { Ordering::Greater } else { Ordering::Less };
                }
                let order =
                    if digits { numbers(segment_a, segment_b) } else { segment_a.cmp(segment_b) };
                if order.is_ne() {
                    return order;
                }
                (a, b) = (rest_a, rest_b);
            }
        }
    }
}

/// Compares file names (without `.conf`) in the order of Red Hat's GRUB: name, version and release separately, split at the
/// last two dashes (`split_cmp`).
pub(crate) fn rpm_file_order(left: &str, right: &str) -> Ordering {
    let (a, b) = (name_version_release(left), name_version_release(right));
    rpm_order(a.0, b.0).then_with(|| rpm_order(a.1, b.1)).then_with(|| rpm_order(a.2, b.2))
}

/// Splits a file name. Missing parts are empty: a single part is the name, two are name and version.
fn name_version_release(text: &str) -> (&str, &str, &str) {
    match text.rsplit_once('-') {
        None => (text, "", ""),
        Some((rest, last)) => match rest.rsplit_once('-') {
            None => (rest, last, ""),
            Some((name, version)) => (name, version, last),
        },
    }
}

/// Compares in the order of the UAPI group's version format specification, by which systemd-boot sorts entries (systemd
/// `strverscmp_improved`).
pub fn uapi_order(left: &str, right: &str) -> Ordering {
    let ignored = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '~' | '-' | '^' | '.'));
    let (mut a, mut b) = (left, right);
    loop {
        a = a.trim_start_matches(ignored);
        b = b.trim_start_matches(ignored);
        if let Some(order) = mark('~', &mut a, &mut b) {
            return order;
        }
        if a.is_empty() || b.is_empty() {
            return a.len().min(1).cmp(&b.len().min(1));
        }
        for separator in ['-', '^', '.'] {
            if let Some(order) = mark(separator, &mut a, &mut b) {
                return order;
            }
        }
        let is_digit = |c: char| c.is_ascii_digit();
        let digits = a.starts_with(is_digit) || b.starts_with(is_digit);
        let belongs = |c: char| if digits { c.is_ascii_digit() } else { c.is_ascii_alphabetic() };
        let (segment_a, rest_a) = cut(a, belongs);
        let (segment_b, rest_b) = cut(b, belongs);
        let order = match digits {
            true => (!segment_a.is_empty())
                .cmp(&!segment_b.is_empty())
                .then_with(|| numbers(segment_a, segment_b)),
            false => segment_a.cmp(segment_b),
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// Compares by a character that makes a version older than one without it at this place. Skips it if both have it.
fn mark(c: char, a: &mut &str, b: &mut &str) -> Option<Ordering> {
    match (a.strip_prefix(c), b.strip_prefix(c)) {
        (Some(rest_a), Some(rest_b)) => {
            (*a, *b) = (rest_a, rest_b);
            None
        }
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (None, None) => None,
    }
}

fn cut(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Compares numbers of any length.
fn numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}
