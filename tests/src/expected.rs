//! Expected texts: files with printed output, updated by `BLESS=1`. In texts and diffs, shared sentences are references
//! to a table ([`wording`]).

use std::path::Path;

use crate::wording;

/// Whether to update expected texts instead of comparing them.
pub fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// Compares a file with the actual text, or updates it. `test`: test binary to name in the hint.
///
/// # Errors
/// The difference, or the reason that the file cannot be written.
pub fn file(path: &Path, actual: &str, test: &str) -> Result<(), String> {
    if is_blessing() {
        let text =
            if wording::applies_to(path) { wording::shorten(actual) } else { actual.to_owned() };
        return std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    let mut expected = std::fs::read_to_string(path).unwrap_or_default();
    if wording::applies_to(path) {
        expected =
            wording::expand(&expected).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if expected == actual {
        return Ok(());
    }
    let difference =
        bedplate_base::unified_diff(&expected, actual, &path.display().to_string(), "now");
    Err(format!(
        "{difference}\nif that is right: BLESS=1 cargo test -p bedplate-tests --test {test}\n\
         if many files have the sentence: edit tests/data/wording.txt"
    ))
}
