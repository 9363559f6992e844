//! What NCCL is told: the names of variables stay, numbers, switches and the names of devices. Pure.

use super::words::{Style, Words};

/// The marks of bedplate's block stay, and the devices that a variable names: the recorded tree names them, too.
pub(super) fn line(line: &str, words: &mut Words) -> String {
    if line.starts_with('#') {
        let mark =
            ["# BEGIN bedplate", "# END bedplate"].into_iter().find(|mark| line.starts_with(mark));
        return mark.unwrap_or("#").to_owned();
    }
    match line.split_once('=') {
        Some((name, value)) if name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') => {
            format!("{name}={}", self::value(name, value, words))
        }
        _ => words.text(line, Style::Line),
    }
}

/// The value of a variable of NCCL's.
pub(super) fn value(name: &str, value: &str, words: &mut Words) -> String {
    let device = |c: u8| c.is_ascii_alphanumeric() || b"_=:,^.-".contains(&c);
    match matches!(name, "NCCL_IB_HCA" | "NCCL_SOCKET_IFNAME") && value.bytes().all(device) {
        true => words.identities(value),
        false => words.value(name, value, Style::Setting),
    }
}
