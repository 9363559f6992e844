//! Numbers and lists in sentences for people.

/// `1 GPU`, `8 GPUs`.
pub fn counted(count: usize, one: &str) -> String {
    counted_as(count, one, &format!("{one}s"))
}

/// `1 switch`, `2 switches`.
pub fn counted_as(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `a`, `a or b`, `a, b or c`; `word` stands before the last one.
pub fn joined(all: &[String], word: &str) -> String {
    match all {
        [first @ .., last] if !first.is_empty() => format!("{} {word} {last}", first.join(", ")),
        all => all.concat(),
    }
}

/// The first few of a list, and how many more there are: `a, b and 3 more functions`.
pub fn some_of(all: impl ExactSizeIterator<Item = String>, few: usize, what: &str) -> String {
    let more = all.len().saturating_sub(few);
    let first: Vec<String> = all.take(few).collect();
    match more {
        0 => first.join(", "),
        _ => format!("{} and {more} more {what}", first.join(", ")),
    }
}

/// Numbers in ascending order as ranges: `0-3`, `5`.
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
