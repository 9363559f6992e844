//! Which symptom is meant by what people type.

use super::{SYMPTOMS, Symptom};

/// Longest text that is looked at.
const LONGEST: usize = 4096;

/// A symptom by its id.
pub fn find(id: &str) -> Option<&'static Symptom> {
    SYMPTOMS.iter().find(|symptom| symptom.id == id)
}

/// Symptoms of which a phrase is in the text. Where a phrase holds another's, only the longer one counts.
pub fn matching(text: &str) -> Vec<&'static Symptom> {
    let text = plain(text);
    let said = |symptom: &Symptom| -> Vec<&'static str> {
        symptom.phrases.iter().copied().filter(|phrase| text.contains(&plain(phrase))).collect()
    };
    let all: Vec<(&Symptom, Vec<&str>)> =
        SYMPTOMS.iter().map(|symptom| (symptom, said(symptom))).collect();
    let is_part = |phrase: &str| {
        let mut others = all.iter().flat_map(|(_, phrases)| phrases);
        others.any(|other| other.len() > phrase.len() && other.contains(phrase))
    };
    let meant = all.iter().filter(|(_, phrases)| phrases.iter().any(|phrase| !is_part(phrase)));
    meant.map(|(symptom, _)| *symptom).collect()
}

/// Words that say nothing of what is meant.
const COMMON: [&str; 10] =
    ["the", "not", "does", "doesnt", "only", "with", "and", "for", "after", "was"];

/// Symptoms that share a word with the text, those that share the most first; none where none does.
pub fn nearest(text: &str) -> Vec<&'static Symptom> {
    let text = plain(text);
    let words: Vec<&str> =
        text.split(' ').filter(|word| word.len() > 2 && !COMMON.contains(word)).collect();
    let shared = |symptom: &Symptom| {
        let phrases = symptom.phrases.iter().map(|phrase| plain(phrase)).collect::<String>();
        words.iter().filter(|word| phrases.contains(&format!(" {word} "))).count()
    };
    let mut found: Vec<(usize, &Symptom)> =
        SYMPTOMS.iter().map(|symptom| (shared(symptom), symptom)).collect();
    found.retain(|(count, _)| *count > 0);
    found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    found.into_iter().map(|(_, symptom)| symptom).take(3).collect()
}

/// Small letters and digits, in words between single blanks, so that a phrase is found as whole words.
fn plain(text: &str) -> String {
    let text: String = text.chars().take(LONGEST).collect::<String>().to_lowercase();
    let words = text.replace(['\'', '’'], "");
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    format!(" {} ", words.collect::<Vec<_>>().join(" "))
}
