//! "Did you mean": the nearest known word.

/// The known word that was probably meant, if one is near enough to be worth saying.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    let distance = |known: &str| strsim::damerau_levenshtein(&folded, &fold(known));
    // A third of the word may be wrong; one slip is always forgiven.
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

/// `a`, `b` or `c`.
pub(super) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    bedplate_base::joined(&quoted, "or")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        let known = ["policy", "persistence", "root_port"];
        assert_eq!(nearest("polciy", known), Some("policy"));
        assert_eq!(nearest("root-port", known), Some("root_port"));
        assert_eq!(nearest("Policy", known), Some("policy"));
        assert_eq!(nearest("mode", known), None);
    }

    #[test]
    fn the_same_distance_gives_the_same_answer_in_any_order() {
        assert_eq!(nearest("ax", ["ab", "aa"]), nearest("ax", ["aa", "ab"]));
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(alternatives(["a"]), "`a`");
    }
}
