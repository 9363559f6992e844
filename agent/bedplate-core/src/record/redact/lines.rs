//! Line-by-line processing of files.

/// Returns the lines for which `keep` returns a text.
pub(super) fn lines(text: &str, mut keep: impl FnMut(&str) -> Option<String>) -> String {
    let mut clean = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (own, end) = line.strip_suffix('\n').map_or((line, ""), |own| (own, "\n"));
        if let Some(kept) = keep(own) {
            clean.push_str(&kept);
            clean.push_str(end);
        }
    }
    clean
}
