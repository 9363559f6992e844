//! Redacts profiles: keys and values that planning uses stay; commands, servers, reasons, and comments are masked. Line
//! numbers are preserved, since plans contain them. Pure.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::masker::{Masker, Style};
use super::nccl;
use crate::profile;
use bedplate_base::mask;

/// Redacts the text of a profile. Text that is not TOML is masked as a whole, and stays invalid.
pub(super) fn redact(text: &str, words: &mut Masker) -> String {
    let Ok(table) = DeTable::parse(text) else { return words.mask(text) + "\n" };
    let mut found = Vec::new();
    let mut strings = Vec::new();
    gather(table.get_ref(), &mut Vec::new(), words, &mut found, &mut strings);
    found.extend(comments(text, &strings));
    found.sort_by_key(|(place, _)| place.start);
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for (place, new) in found {
        if place.start < from {
            continue;
        }
        clean.push_str(&text[from..place.start]);
        clean.push_str(&new);
        // Later lines keep their numbers.
        clean.extend(text[place.clone()].chars().filter(|c| *c == '\n'));
        from = place.end;
    }
    clean.push_str(&text[from..]);
    clean
}

/// Returns the bare names in `absent` of `[cmdline]`.
pub(super) fn absent(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let list = table.get("cmdline").and_then(|section| section.get("absent"));
    let names = list.and_then(toml::Value::as_array).into_iter().flatten();
    let names = names.filter_map(|one| one.as_str().or_else(|| one.get("arg")?.as_str()));
    names.filter(|name| mask::is_name(name)).map(str::to_owned).collect()
}

type Found = Vec<(Range<usize>, String)>;

fn gather(
    table: &DeTable<'_>,
    keys: &mut Vec<String>,
    words: &mut Masker,
    found: &mut Found,
    strings: &mut Vec<Range<usize>>,
) {
    for (key, value) in table {
        strings.push(key.span());
        keys.push(key.get_ref().to_string());
        redact_value(value, keys, words, found, strings);
        keys.pop();
    }
}

fn redact_value(
    value: &Spanned<DeValue<'_>>,
    keys: &mut Vec<String>,
    words: &mut Masker,
    found: &mut Found,
    strings: &mut Vec<Range<usize>>,
) {
    match value.get_ref() {
        DeValue::String(text) => {
            strings.push(value.span());
            let new = string(keys, text, words);
            if new != **text {
                found.push((value.span(), toml::Value::String(new).to_string()));
            }
        }
        DeValue::Array(values) => {
            values.iter().for_each(|value| redact_value(value, keys, words, found, strings))
        }
        DeValue::Table(table) => gather(table, keys, words, found, strings),
        _ => {}
    }
}

/// Redacts a string, depending on its keys.
fn string(keys: &[String], text: &str, words: &mut Masker) -> String {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let last = keys.last().copied().unwrap_or_default();
    match keys.as_slice() {
        [.., "why" | "reason" | "source" | "description" | "idle_holders" | "group"]
        | ["lints", ..] => words.mask(text).replace('_', if last == "group" { "-" } else { "_" }),
        ["reboot", "busy_command" | "command", ..] => format!("/{}", words.mask(text)),
        [.., "url"] => format!("http://{}/", words.mask(text).replace('_', "-")),
        ["cmdline", ..] => words.text(text, Style::Line),
        ["modules", "options", .., parameter] if *parameter != "value" => {
            words.value(parameter, text, Style::Setting)
        }
        ["sysctl", "set", key, ..] => words.value(key, text, Style::Setting),
        ["nccl", "set", name, ..] => nccl::value(name, text, words),
        ["nccl", "socket_interface"] => nccl::value("NCCL_SOCKET_IFNAME", text, words),
        ["reboot" | "agent", ..] => {
            text.split_inclusive(' ').map(|word| timed(word, words)).collect()
        }
        ["match", ..] | ["sriov", ..] | [.., "select", _] | [_, "devices", "name"] => {
            match listed(text) {
                true => words.identities(text),
                false => words.mask(text),
            }
        }
        ["limits", "shm_size"] if text.strip_suffix('%').is_some_and(mask::is_numeric) => {
            text.to_owned()
        }
        _ if mask::is_name(text) || profile::is_schema_word(text) => text.to_owned(),
        _ => words.mask(text),
    }
}

fn listed(text: &str) -> bool {
    text.len() <= 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " _.:;,*/()+-".contains(c))
}

/// Redacts a word of a time: `15m`, `Sat,Sun`, `02:00-05:00`, `Europe/Amsterdam`.
fn timed(word: &str, words: &mut Masker) -> String {
    const DAYS: [&str; 8] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "daily"];
    let own = word.trim_end();
    let clock = own.bytes().all(|c| c.is_ascii_digit() || b":-.".contains(&c)) && own.len() <= 11;
    let length = own.trim_end_matches(|c: char| "smhdw".contains(c));
    let length =
        length.len() <= 6 && !length.is_empty() && length.bytes().all(|c| c.is_ascii_digit());
    let days =
        own.split([',', '-', '.']).filter(|day| !day.is_empty()).all(|day| DAYS.contains(&day));
    let known = clock
        || length
        || days
        || profile::is_schema_word(own)
        || own == profile::NEVER
        || jiff::tz::TimeZone::get(own).is_ok();
    if known { word.to_owned() } else { words.mask(own) + &word[own.len()..] }
}

/// Finds comments: a `#` outside of strings and keys.
fn comments(text: &str, strings: &[Range<usize>]) -> Found {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find('#') {
        let start = at + next;
        let end = start + text[start..].find('\n').unwrap_or(text.len() - start);
        match strings.iter().find(|string| string.contains(&start)) {
            Some(string) => at = string.end.max(start + 1),
            None => {
                found.push((start..end, "#".to_owned()));
                at = end;
            }
        }
    }
    found
}
