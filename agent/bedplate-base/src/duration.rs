//! Durations as operators write and read them: one grammar for the profile and for every option. Pure.

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// Parses a duration (`90s`, `30m`, `1h 30m`, `1d12h`) in jiff's friendly format; a day has 24 hours. Rejects months
/// and years, whose length varies, and durations that are signed or in the past (`4h ago`).
pub fn parse(text: &str) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let signed = text.starts_with(['-', '+']) || length.is_negative();
    // jiff accepts blanks after a unit.
    (!signed && text.trim_end() == text).then_some(length)
}

/// Formats the two largest units: `2d 3h`, `1h 30m`, `5m`. Returns at least one minute, because `0m left` reads as "no
/// time left".
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
    fn valid_durations_are_parsed() {
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
    fn invalid_durations_are_rejected() {
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
    fn format_rounded_keeps_two_largest_units() {
        let says = |minutes| format_rounded(SignedDuration::from_mins(minutes));
        assert_eq!([says(0), says(90), says(1440), says(3061)], ["1m", "1h 30m", "1d", "2d 3h"]);
    }
}
