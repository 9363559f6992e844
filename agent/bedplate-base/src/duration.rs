//! Lengths of time as operators write and read them: one grammar for the profile and for every option. Pure.

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// A length of time such as `90s`, `30m`, `1h 30m`, `1d12h`: jiff's friendly format, where a day has 24 hours. Months and
/// years are refused, as their length depends on the day, and so is what has a sign or lies in the past (`4h ago`).
pub fn parse(text: &str) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let signed = text.starts_with(['-', '+']) || length.is_negative();
    // jiff passes over blanks behind a unit.
    (!signed && text.trim_end() == text).then_some(length)
}

/// `2d 3h`, `1h 30m`, `5m`: the two largest units. At least a minute, as `0m left` reads as none.
pub fn format_rounded(length: SignedDuration) -> String {
    let minutes = length.as_mins().max(1);
    let (days, hours, minutes) = (minutes / (24 * 60), minutes / 60 % 24, minutes % 60);
    let parts = [(days, 'd'), (hours, 'h'), (minutes, 'm')];
    let named = parts.iter().filter(|(count, _)| *count > 0).take(2);
    named.map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (text, seconds) in [
            ("0s", 0),
            ("40s", 40),
            ("30m", 1800),
            ("4h", 14_400),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            ("1.5h", 5400),
            ("2d", 172_800),
            ("1d12h", 129_600),
            ("1 day 12 hours", 129_600),
            ("PT4H", 14_400),
        ] {
            assert_eq!(parse(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_of_time() {
        for text in [
            "",
            "4",
            "h",
            " 4h",
            "4h ",
            "-4h",
            "+4h",
            "30m1h",
            "1h1h",
            "1y",
            "2mo",
            "4h ago",
            "٤h",
            "1h30",
            "hh",
            "1é",
            "soon",
            "9223372036854775807d",
            "99999999999999999999m",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn people_read_the_two_largest_units() {
        let says = |minutes| format_rounded(SignedDuration::from_mins(minutes));
        assert_eq!([says(0), says(90), says(1440), says(3061)], ["1m", "1h 30m", "1d", "2d 3h"]);
    }
}
