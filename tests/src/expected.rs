//! Expected texts: files that hold what is printed, written again with `BLESS=1`. In texts and differences, references
//! to a table replace the sentences that many of them share ([`wording`]).

use std::path::Path;

use crate::wording;

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
