//! Numbers and lists in displayed sentences.

/// Formats a count with its noun: `1 GPU`, `8 GPUs`.
pub fn counted(count: usize, one: &str) -> String {
    counted_as(count, one, &format!("{one}s"))
}

/// Formats a count with an irregular plural: `1 switch`, `2 switches`.
pub fn counted_as(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Joins a list: `a`, `a or b`, `a, b or c`; `word` precedes the last item.
pub fn joined(all: &[String], word: &str) -> String {
    match all {
        [first @ .., last] if !first.is_empty() => format!("{} {word} {last}", first.join(", ")),
        all => all.concat(),
    }
}

/// Lists the first few items and counts the rest: `a, b and 3 more functions`.
pub fn some_of(all: impl ExactSizeIterator<Item = String>, few: usize, what: &str) -> String {
    let more = all.len().saturating_sub(few);
    let first: Vec<String> = all.take(few).collect();
    match more {
        0 => first.join(", "),
        _ => format!("{} and {more} more {what}", first.join(", ")),
    }
}

/// Formats ascending numbers as ranges: `0-3`, `5`.
pub fn ranges(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => found.push((number, number)),
        }
    }
    let range = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    found.into_iter().map(range).collect()
}
