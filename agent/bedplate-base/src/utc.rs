//! Times as operators read them. Pure.

use jiff::Timestamp;

/// Formats a time in UTC, because logs are read in other time zones than they are written in.
pub fn format_utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats a time that files hold as RFC 3339. Returns any other text unchanged.
pub fn format_utc_text(at: &str) -> String {
    at.parse().map_or_else(|_| at.to_owned(), format_utc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_timestamps_are_formatted_as_utc() {
        assert_eq!(format_utc_text("2026-03-01T12:00:00.9Z"), "2026-03-01 12:00:00 UTC");
        assert_eq!(format_utc_text("yesterday"), "yesterday");
    }
}
