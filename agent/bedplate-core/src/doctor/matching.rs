//! Matching of free text to symptoms.

use super::{SYMPTOMS, Symptom};

/// Characters of a text that are examined.
const LONGEST: usize = 4096;
/// Maximum number of GPUs in a host: `only 6 gpus` means that some are missing.
const MOST_GPUS: u8 = 16;

/// Returns the symptom with this id.
pub fn find(id: &str) -> Option<&'static Symptom> {
    SYMPTOMS.iter().find(|symptom| symptom.id == id)
}

/// Returns the symptoms with a phrase in the text. If one phrase contains another, only the longer one matches.
pub fn matching(text: &str) -> Vec<&'static Symptom> {
    let text = normalized(text);
    let lacks_gpus = lacks_gpus(&text);
    let said = |symptom: &Symptom| -> Vec<&'static str> {
        let of_count = (lacks_gpus && symptom.id == "gpu-lost").then_some("only gpus");
        let phrases = symptom.phrases.iter().copied();
        phrases.filter(|phrase| text.contains(&normalized(phrase))).chain(of_count).collect()
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

/// Whether the text, enclosed in blanks, reports too few GPUs: `only 6 gpus`, `nvidia smi shows 7 gpus`.
fn lacks_gpus(text: &str) -> bool {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let is_low = |few: &str, many: &str| match (few.parse::<u8>(), many.parse::<u8>()) {
        (Ok(few), Ok(many)) => few < many && many <= MOST_GPUS,
        _ => false,
    };
    let of_all = |four: &[&str]| {
        four[1] == "of" && matches!(four[3], "gpu" | "gpus") && is_low(four[0], four[2])
    };
    words.windows(4).any(of_all)
        || words.windows(3).any(|three| {
            let is_count = three[1].parse().is_ok_and(|count: u8| count < MOST_GPUS);
            let is_gpus = matches!(three[2], "gpu" | "gpus");
            is_count
                && is_gpus
                && matches!(three[0], "only" | "just" | "shows" | "sees" | "finds" | "lists")
        })
}

/// Words without meaning for a match.
const COMMON: [&str; 10] =
    ["the", "not", "does", "doesnt", "only", "with", "and", "for", "after", "was"];

/// Shortest word that may have two wrong letters; a shorter one may have one.
const LONG: usize = 8;

/// Whether a word equals a known one, or is a misspelling of it.
fn is_similar(word: &str, known: &str) -> bool {
    let (short, long) = (word.len().min(known.len()), word.len().max(known.len()));
    let wrong = match short {
        0..=3 => 0,
        4..LONG => 1,
        _ => 2,
    };
    word == known || long - short <= wrong && strsim::damerau_levenshtein(word, known) <= wrong
}

/// Returns the symptoms that share the most words with the text, also misspelt ones, in the order of the table.
pub fn nearest(text: &str) -> Vec<&'static Symptom> {
    let text = normalized(text);
    let words: Vec<&str> =
        text.split(' ').filter(|word| word.len() > 2 && !COMMON.contains(word)).collect();
    let shared = |symptom: &Symptom| {
        let phrases = symptom.phrases.iter().map(|phrase| normalized(phrase)).collect::<String>();
        let known = |word: &&&str| phrases.split(' ').any(|known| is_similar(word, known));
        words.iter().filter(known).count()
    };
    let mut found: Vec<(usize, &Symptom)> =
        SYMPTOMS.iter().map(|symptom| (shared(symptom), symptom)).collect();
    found.retain(|(count, _)| *count > 0);
    found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let most = found.first().map_or(0, |(count, _)| *count);
    found
        .into_iter()
        .filter(|(count, _)| *count == most)
        .map(|(_, symptom)| symptom)
        .take(3)
        .collect()
}

/// Converts the text to lower-case words between single blanks, so that a phrase matches whole words only.
fn normalized(text: &str) -> String {
    let text: String = text.chars().take(LONGEST).collect::<String>().to_lowercase();
    let words = text.replace(['\'', '’'], "");
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    format!(" {} ", words.collect::<Vec<_>>().join(" "))
}
