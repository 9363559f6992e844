//! Text of an errno.

use nix::errno::Errno;

/// Returns the system's text, without the number.
pub(super) fn error_message(errno: Errno) -> String {
    let words = std::io::Error::from(errno).to_string();
    words.split(" (os error").next().unwrap_or(&words).to_owned()
}
