//! Points in time as operators read them. Pure.

use jiff::Timestamp;

/// For people, in UTC: a log is read in other places than it is written.
pub fn shown(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
