//! Points in time as operators read them. Pure.

use jiff::Timestamp;

/// For people, in UTC: a log is read in other places than it is written.
pub fn format_utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The same, of a time as files hold it (RFC 3339). Any other text stays as it is.
pub fn format_utc_text(at: &str) -> String {
    at.parse().map_or_else(|_| at.to_owned(), format_utc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_files_become_the_one_form() {
        assert_eq!(format_utc_text("2026-03-01T12:00:00.9Z"), "2026-03-01 12:00:00 UTC");
        assert_eq!(format_utc_text("yesterday"), "yesterday");
    }
}
