//! The table is unambiguous, fully used, and contains every sentence that many files share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{applies_to, expand, shorten, table};

/// Words that make a line prose, and the number of files that may repeat it.
const WORDS: usize = 7;
const FILES: usize = 10;

/// Expected files that refer to the table, with their texts.
fn files() -> Vec<(PathBuf, String)> {
    let paths = glob::glob(crate::data("*/**/*.*").to_str().expect("UTF-8")).expect("a pattern");
    let paths = paths.map(|path| path.expect("a path")).filter(|path| applies_to(path));
    paths.map(|path| (path.clone(), std::fs::read_to_string(path).expect("a text"))).collect()
}

/// Words of a line without references, numbers, addresses and paths. `None` unless it is prose.
fn prose(line: &str) -> Option<String> {
    let pieces = line.split('«').map(|piece| piece.split_once('»').map_or(piece, |(_, rest)| rest));
    let is_word = |word: &&str| {
        word.contains(char::is_alphabetic)
            && !word.contains(|c: char| c.is_ascii_digit() || c == '/')
    };
    let words: Vec<&str> = pieces.flat_map(str::split_whitespace).filter(is_word).collect();
    (words.len() >= WORDS).then(|| words.join(" "))
}

#[test]
fn files_refer_to_shared_sentences() {
    let mut unused: BTreeSet<&str> = table().iter().map(|sentence| sentence.id).collect();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in files() {
        let name = path.display();
        let full = expand(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let short = shorten(&full);
        assert_eq!(expand(&short), Ok(full), "{name}");
        if crate::expected::is_blessing() {
            std::fs::write(&path, &short).expect("it can be written");
        } else {
            assert_eq!(text, short, "{name}: BLESS=1");
        }
        for reference in short.split('«').skip(1) {
            unused.remove(reference.split([' ', '»']).next().unwrap_or_default());
        }
        let lines: BTreeSet<String> = short.lines().filter_map(prose).collect();
        lines.into_iter().for_each(|line| *seen.entry(line).or_default() += 1);
    }
    assert!(unused.is_empty(), "in no expected file: {unused:?}");
    seen.retain(|_, files| *files > FILES);
    assert!(seen.is_empty(), "to be put into wording.txt, with numbers of files: {seen:#?}");
}

#[test]
fn sentences_are_unambiguous() {
    for one in table() {
        let is_kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(one.id.chars().all(is_kebab), "{}", one.id);
        assert!(one.longest.len() >= 10 && one.longest.contains(' '), "{}: too short", one.id);
        let ends = [one.fixed.first(), one.fixed.last()].map(Option::unwrap);
        assert!(ends.iter().all(|end| !end.trim().is_empty()), "{}: {{}} at an end", one.id);
        let text = one.fixed.join("1");
        let matching = table().iter().filter(|other| other.find(&text).is_some());
        assert_eq!(matching.map(|other| other.id).collect::<Vec<_>>(), [one.id], "{text}");
    }
}

#[test]
fn references_hold_varying_parts() {
    let full = "  ✓ bit 3 is [0] [config space, device control]; No reboot needed.\n";
    assert_eq!(shorten(full), "  ✓ «pcie-bit-read 3 | [0]»; «reboot-none»\n");
    assert_eq!(expand(&shorten(full)).as_deref(), Ok(full));
    for other in ["bit 3 | 4 is 1 [config space, device control]", "bit 3 is"] {
        assert_eq!(shorten(other), other);
    }
    for wrong in ["«none»", "«reboot-none 1»", "«pcie-bit-read 3»", "«reboot-none"] {
        assert!(expand(wrong).is_err(), "{wrong}");
    }
}
