//! Sizes of memory as the kernel reads them on its command line: `2M`, `1G`.

const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// Parses a size (`2M`, `1G`) in bytes as the kernel's memparse() does.
pub fn parse(text: &str) -> Option<u128> {
    let unit = text.chars().next_back()?.to_ascii_uppercase();
    let unit = UNITS.iter().find(|(letter, _)| *letter == unit);
    let (number, shift) = match unit {
        Some((_, shift)) => (&text[..text.len() - 1], *shift),
        None => (text, 0),
    };
    number.parse::<u32>().ok().map(|number| u128::from(number) << shift)
}

/// Formats a size of whole KiB in its largest unit: `2M`.
pub fn format(bytes: u128) -> String {
    let units = UNITS.iter().filter(|(letter, _)| *letter != 'T');
    let whole = |(_, shift): &&(char, u32)| bytes >> shift > 0 && bytes.is_multiple_of(1 << shift);
    match units.clone().find(whole) {
        Some((letter, shift)) => format!("{}{letter}", bytes >> shift),
        None => format!("{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip() {
        for text in ["64K", "2M", "512M", "1G", "16G", "3"] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
        assert_eq!(parse("2m"), Some(2 << 20));
        assert_eq!(parse("1048576K").map(format).as_deref(), Some("1G"));
        for text in ["", "M", "2MB", "-1", "1.5G", "ß"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
