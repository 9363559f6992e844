//! Expected texts: files that hold what is printed, written again with `BLESS=1`.

use std::path::Path;

/// Whether expected texts are to be written, not compared.
pub fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// Compares a file with what is there now, or writes it. `test`: the binary that does, for the hint.
///
/// # Errors
/// The difference, or why the file cannot be written.
pub fn file(path: &Path, actual: &str, test: &str) -> Result<(), String> {
    if is_blessing() {
        return std::fs::write(path, actual)
            .map_err(|error| format!("{}: {error}", path.display()));
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == actual {
        return Ok(());
    }
    let difference = similar::TextDiff::from_lines(expected.as_str(), actual)
        .unified_diff()
        .header(&path.display().to_string(), "now")
        .to_string();
    Err(format!(
        "{difference}\nif that is right: BLESS=1 cargo test -p bedplate-tests --test {test}"
    ))
}
