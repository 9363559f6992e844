//! Parsers for modules-load.d and modprobe.d, as systemd and libkmod read them.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the modules listed in a modules-load.d text, with `-` normalized to `_`.
pub(crate) fn loads(text: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.map(|line| line.replace('-', "_")).collect()
}

/// The parts of a modprobe.d text that bedplate manages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Modprobe {
    /// (module, parameter) → value; the last one in the text wins.
    pub options: BTreeMap<(String, String), String>,
    /// Blacklisted modules.
    pub blacklist: BTreeSet<String>,
}

/// Compares a sysfs value with a desired one. sysfs shows a bool as Y or N, a number in decimal, and a string without its
/// quotes.
pub(crate) fn same_value(running: &str, wanted: &str) -> bool {
    let truth = |value: &str| match value {
        "1" | "Y" | "y" => Some(true),
        "0" | "N" | "n" => Some(false),
        _ => None,
    };
    let number = |value: &str| match value.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => value.parse::<i64>().ok(),
    };
    let bare = wanted.trim_matches('"');
    running == bare
        || (truth(running).is_some() && truth(running) == truth(bare))
        || (number(running).is_some() && number(running) == number(bare))
}

/// Parses `options` and `blacklist`; a backslash joins lines (libkmod libkmod-config.c, handbook §9).
pub(crate) fn modprobe(text: &str) -> Modprobe {
    let mut found = Modprobe::default();
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in joined.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("blacklist"), Some(module)) => {
                found.blacklist.insert(module.replace('-', "_"));
            }
            (Some("options"), Some(module)) => {
                for (parameter, value) in parameters(after_two_words(line)) {
                    found.options.insert((module.replace('-', "_"), parameter), value);
                }
            }
            _ => {}
        }
    }
    found
}

fn after_two_words(line: &str) -> &str {
    let mut rest = line.trim_start();
    for _ in 0..2 {
        rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest).trim_start();
    }
    rest
}

/// Parses `a=1 b="x y"` into pairs; the kernel splits at blanks outside double quotes.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let pair = |word: &String| {
        let (name, value) = word.split_once('=').unwrap_or((word.as_str(), ""));
        (name.replace('-', "_"), value.to_owned())
    };
    words.iter().filter(|word| !word.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_accumulate_and_quotes_keep_blanks() {
        let text = "# x\noptions nvidia-drm modeset=1 \\\n fbdev=1\noptions nvidia A=\"x; y=2\" B=3\nblacklist nouveau\n";
        let read = modprobe(text);
        let get = |module: &str, parameter: &str| {
            read.options.get(&(module.into(), parameter.into())).map(String::as_str)
        };
        assert_eq!(get("nvidia_drm", "modeset"), Some("1"));
        assert_eq!(get("nvidia_drm", "fbdev"), Some("1"));
        assert_eq!(get("nvidia", "A"), Some("\"x; y=2\""));
        assert_eq!(get("nvidia", "B"), Some("3"));
        assert!(read.blacklist.contains("nouveau"));
    }

    #[test]
    fn load_lists_skip_comments() {
        assert_eq!(loads("# a\n; b\n\n ib-uverbs \n"), BTreeSet::from(["ib_uverbs".to_owned()]));
    }
}
