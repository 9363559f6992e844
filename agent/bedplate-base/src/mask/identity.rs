//! Identifiers of a machine or of hardware: MAC addresses and GUIDs in every spelling, UUIDs, machine ids. Detected by
//! form, also inside words (`enxaabbccddeeff`). Pure.

use std::ops::Range;

/// Minimum number of consecutive hexadecimal digits in an identifier: a MAC has 12, a GUID 16, a machine id 32.
const LONG: usize = 12;
/// Bytes searched for groups from one position. The longest address, of an IPoIB interface, has 59.
const LONGEST: usize = 64;
/// Number of leading zeros by which a masked identifier is recognized; its number is at the end.
const ZEROS: usize = 8;

/// Returns the ranges of the identifiers in a text, from left to right.
pub fn places(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        // Longer chains are searched again after this part. The limit keeps an endless chain of groups from costing
        // quadratic time.
        let rest = &bytes[at..bytes.len().min(at + LONGEST)];
        let length = uuid(rest).or_else(|| groups(rest)).or_else(|| run(&bytes[at..]));
        match length {
            Some(length) => {
                if !is_masked(&bytes[at..at + length]) {
                    found.push(at..at + length);
                }
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// Returns the text with each identifier replaced.
pub fn replaced(text: &str, mut with: impl FnMut(&str) -> String) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for place in places(text) {
        clean.push_str(&text[from..place.start]);
        clean.push_str(&with(&text[place.clone()]));
        from = place.end;
    }
    clean + &text[from..]
}

/// Returns the replacement for the identifier with this number, in the same spelling.
pub fn mask(spelling: &str, number: usize) -> String {
    let digits = spelling.bytes().filter(u8::is_ascii_hexdigit).count();
    let number = number.to_string();
    let mut number = number.bytes().rev();
    let mut left = digits;
    let masked: Vec<u8> = spelling
        .bytes()
        .rev()
        .map(|c| match c.is_ascii_hexdigit() {
            true => {
                left -= 1;
                number.next().unwrap_or(b'0')
            }
            false => c,
        })
        .collect();
    // Identifiers are ASCII, and so are their replacements.
    masked.into_iter().rev().map(char::from).collect()
}

/// Whether the identifier is masked already; such an identifier is left unchanged.
fn is_masked(text: &[u8]) -> bool {
    text.iter().filter(|c| c.is_ascii_hexdigit()).take(ZEROS).all(|c| *c == b'0')
}

fn hex(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|c| c.is_ascii_hexdigit()).count()
}

/// Returns the length of a UUID (8-4-4-4-12 digits).
fn uuid(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for (index, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            if bytes.get(at) != Some(&b'-') {
                return None;
            }
            at += 1;
        }
        if hex(bytes.get(at..at + digits)?) < digits {
            return None;
        }
        at += digits;
    }
    Some(at)
}

/// Returns the length of six or more pairs, or three or more groups of four, with one separator between them.
fn groups(bytes: &[u8]) -> Option<usize> {
    for (size, least) in [(2, 6), (4, 3)] {
        let Some(separator) = bytes.get(size).filter(|c| b":-.".contains(c)) else { continue };
        let mut at = 0;
        let mut count = 0;
        while bytes.get(at..at + size).is_some_and(|group| hex(group) == size) {
            count += 1;
            at += size;
            if bytes.get(at) != Some(separator) {
                break;
            }
            at += 1;
        }
        let end = if bytes.get(at.wrapping_sub(1)) == Some(separator) { at - 1 } else { at };
        // Years and versions are also groups of digits (`2026.1103.0001`). Addresses with groups of four contain
        // letters.
        let letters = bytes[..end].iter().any(u8::is_ascii_alphabetic);
        if count >= least && (size == 2 || letters) {
            return Some(end);
        }
    }
    None
}

fn run(bytes: &[u8]) -> Option<usize> {
    let digits = hex(bytes);
    (digits >= LONG).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chain_of_groups_takes_linear_time() {
        let chain = "1234.".repeat(100_000);
        assert!(places(&chain).is_empty());
        let digits = "ab".repeat(1000);
        assert_eq!(places(&digits), vec![0..2000]);
    }

    #[test]
    fn every_spelling_is_found() {
        for given in [
            "52:54:00:12:34:56",
            "52-54-00-12-34-56",
            "52.54.00.12.34.56",
            "5254.00ab.3456",
            "525400123456",
            "01-52-54-00-12-34-56",
            "506b:4b03:00c9:8a2c",
            "50:6b:4b:03:00:c9:8a:2c",
            "506B4B0300C98A2C",
            "5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f50",
            "6a4d3b2c-1f0e-4d5c-8b7a-990011223344",
            "6A4D3B2C-1F0E-4D5C-8B7A-990011223344",
        ] {
            for (before, after) in [("", ""), ("enx", ""), ("word", "word"), ("a=", ",b")] {
                let text = format!("{before}{given}{after}");
                let clean = replaced(&text, |found| mask(found, 7));
                assert!(!clean.to_lowercase().contains(&given.to_lowercase()), "{text}: {clean}");
                assert_eq!(clean.len(), text.len());
                assert_eq!(replaced(&clean, |_| "again".into()), clean, "masked for good");
            }
        }
    }

    #[test]
    fn pci_addresses_and_versions_are_not_identifiers() {
        for kept in [
            "pci=config_acs=xx000x0@0000:17:00.0;xx000x0@0000:18:00.0",
            "6.8.0-45-generic",
            "fe80::1",
            "20250807",
            "2026.1103.0001",
            "0000:0000:00:00.0",
        ] {
            assert!(places(kept).is_empty(), "{kept}");
        }
    }
}
