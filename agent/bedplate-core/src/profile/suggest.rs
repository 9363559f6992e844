//! "Did you mean": the nearest known word.

/// Returns the probable intended word, if one is similar enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    let distance = |known: &str| strsim::damerau_levenshtein(&folded, &fold(known));
    // A third of the word may be wrong, and always one letter.
    let limit = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|known| (distance(known), known))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, known)| known)
}

fn fold(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

/// Joins words: `a`, `b` or `c`.
pub(super) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    bedplate_base::joined(&quoted, "or")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_words_are_suggested() {
        let known = ["policy", "persistence", "root_port"];
        assert_eq!(nearest("polciy", known), Some("policy"));
        assert_eq!(nearest("root-port", known), Some("root_port"));
        assert_eq!(nearest("Policy", known), Some("policy"));
        assert_eq!(nearest("mode", known), None);
    }

    #[test]
    fn equal_distance_suggestion_is_order_independent() {
        assert_eq!(nearest("ax", ["ab", "aa"]), nearest("ax", ["aa", "ab"]));
    }

    #[test]
    fn alternatives_are_joined_with_or() {
        assert_eq!(alternatives(["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(alternatives(["a"]), "`a`");
    }
}
