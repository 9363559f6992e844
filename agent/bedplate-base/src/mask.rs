//! Masking of text that comes from a host's files. Works from a list of harmless content, never from a list of secrets:
//! only names of kernel arguments and values that bedplate understands are shown. Everything else is masked. Pure.

mod harmless_words;
pub mod identity;
pub mod tool_output;

use std::fmt::Write as _;

/// Replacement for a masked value in displayed text.
pub const MASKED: &str = "…";

/// Maximum length of an argument name that is shown; longer text is not a name.
const LONGEST_NAME: usize = 64;

/// Whether `value` may be shown as the value of a kernel argument of this name.
pub fn is_harmless(name: &str, value: &str) -> bool {
    if is_plain(value) {
        return !sounds_secret(name);
    }
    let name = name.replace('-', "_");
    let known = harmless_words::ARGUMENTS.binary_search(&name.as_str()).is_ok();
    // Kernel paths reveal only which kernel is booted.
    let image = name == "BOOT_IMAGE" && is_kernel_image(value);
    (known && is_list(value)) || image
}

/// Whether the argument is complete without a value (`quiet`, `nosmt`).
pub fn is_flag(word: &str) -> bool {
    harmless_words::FLAGS.contains(&word)
        || harmless_words::ARGUMENTS.contains(&word.replace('-', "_").as_str())
}

/// Whether a text can be the name of an argument, a variable or a module. Names are shown, unless they identify a
/// machine.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_NAME
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.-".contains(&c))
        && identity::places(text).is_empty()
}

/// Whether a value cannot be a secret by itself: empty, a small number, or a keyword of the kernel (truth values
/// included).
pub fn is_plain(value: &str) -> bool {
    let number = |text: &str| {
        !text.is_empty() && text.len() <= 3 && text.bytes().all(|c| c.is_ascii_digit())
    };
    value.is_empty()
        || number(value)
        || harmless_words::VALUES.contains(&value.to_ascii_lowercase().as_str())
}

/// Whether a value consists of numbers of any size, as the kernel counts.
pub fn is_numeric(value: &str) -> bool {
    let number = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text.strip_prefix('-').unwrap_or(text));
        !digits.is_empty()
            && digits.len() <= 20
            && digits.bytes().all(|c| c.is_ascii_hexdigit())
            && (text.starts_with("0x") || digits.bytes().all(|c| c.is_ascii_digit()))
    };
    value.split([' ', '\t', ',']).filter(|part| !part.is_empty()).all(number)
}

/// Whether a value consists of options, numbers, addresses of PCI functions and separators.
fn is_list(value: &str) -> bool {
    value.len() <= 2048
        && value.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.,:;/@+-*|=~!()<>".contains(&c))
        && identity::places(value).is_empty()
}

/// Whether a value is a kernel path (`/vmlinuz-6.8.0-45-generic`) below a directory that boot loaders use: `/boot`, or
/// its btrfs subvolume on Debian (`@`) or Fedora (`root`).
fn is_kernel_image(value: &str) -> bool {
    let path =
        value.split_once(')').filter(|_| value.starts_with('(')).map_or(value, |(_, path)| path);
    let Some(path) = path.strip_prefix('/') else { return false };
    let name = path.rsplit('/').next().unwrap_or_default();
    let directory = &path[..path.len() - name.len()];
    ["", "boot/", "@/boot/", "root/boot/"].contains(&directory)
        && ["vmlinuz", "vmlinux", "Image", "bzImage", "linux"]
            .iter()
            .any(|image| name.starts_with(image))
        && is_list(name)
        && name.bytes().any(|c| c == b'-' || c == b'.')
}

/// Whether the name suggests that the value is a secret, even a numeric one.
pub fn sounds_secret(name: &str) -> bool {
    const WORDS: [&str; 13] = [
        "pass", "pin", "pw", "pwd", "key", "otp", "seed", "salt", "user", "auth", "cookie", "psk",
        "sig",
    ];
    const BEGINNINGS: [&str; 6] = ["passw", "passp", "secret", "token", "cred", "apikey"];
    let name = name.to_ascii_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| WORDS.contains(&word) || BEGINNINGS.iter().any(|start| word.starts_with(start)))
}

/// Masks every `name=value` in a sentence, unless the value is known to be harmless.
pub fn mask_message(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('=') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        clean.push_str(before);
        clean.push('=');
        let start = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || "_.-".contains(c)));
        let name = &before
            [start.map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))..];
        let end = value_end(after);
        let value = &after[..end];
        // `+=` and similar operators have no value; `=word` in a quotation is entirely a value.
        let none = name.is_empty() && (!before.ends_with(['`', ' ']) || value.starts_with('='));
        if none || value.is_empty() || (!name.is_empty() && is_shown(name, value)) {
            clean.push_str(value);
            rest = &after[end..];
            continue;
        }
        let _ = write!(clean, "{MASKED}");
        // Text that follows within the same quotation may belong to the value.
        let quoted = text[..text.len() - after.len()].matches('`').count() % 2 == 1;
        let end = after.find('`').filter(|_| quoted).unwrap_or(end).max(end);
        rest = &after[end..];
    }
    clean.push_str(rest);
    userinfo(&clean)
}

/// Assignments in commands that bedplate tells operators to run. They are constants of its source and hold no secret.
const OWN: [(&str, &str); 1] = [("d", "/etc/systemd/system/bedplate-$unit@.service.d")];

fn is_shown(name: &str, value: &str) -> bool {
    let bare = value.trim_matches(|c| matches!(c, '"' | '\'' | '.' | ',' | ';' | ':' | ')' | ']'));
    // A password may look like a variable.
    (is_template(bare) && !(bare.starts_with('$') && sounds_secret(name)))
        || OWN.contains(&(name, bare))
        || is_harmless(name.trim_start_matches('-'), bare)
}

/// Whether a value is only a placeholder in a fix that bedplate prints: `…`, `REASON`, `$GRUB_CMDLINE_LINUX …`.
fn is_template(value: &str) -> bool {
    let stands_for_others = |word: &str| {
        let variable = word.strip_prefix('$').unwrap_or_default();
        let is_variable = variable.starts_with(|c: char| c.is_ascii_uppercase())
            && variable.bytes().all(|c| c.is_ascii_uppercase() || c == b'_');
        word == MASKED || word == "REASON" || is_variable
    };
    !value.is_empty() && value.split(' ').all(stands_for_others)
}

/// Returns the end of a value: an unquoted blank, or the end of the enclosing quotation.
fn value_end(text: &str) -> usize {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if at == 0 || quoted => quoted = !quoted,
            '`' => return at,
            c if c.is_whitespace() && !quoted => return at,
            '"' => quoted = true,
            _ => {}
        }
    }
    text.len()
}

/// Masks the user information in URLs (`scheme://user:password@host`).
fn userinfo(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end =
            after.find(|c: char| c.is_whitespace() || "/`\"'".contains(c)).unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(at) => {
                let _ = write!(clean, "{MASKED}{}", &after[at..end]);
            }
            None => clean.push_str(&after[..end]),
        }
        rest = &after[end..];
    }
    clean + rest
}

/// Masks quoted text in a message, unless `is_ours` accepts it.
pub fn quotations(message: &str, is_ours: &dyn Fn(&str) -> bool) -> String {
    let mut clean = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(['`', '"']) {
        let mark = &rest[at..=at];
        clean.push_str(&rest[..=at]);
        let after = &rest[at + 1..];
        let Some(end) = after.find(mark) else {
            clean.push_str(MASKED);
            return clean;
        };
        let quoted = &after[..end];
        clean.push_str(if is_ours(quoted) { quoted } else { MASKED });
        clean.push_str(mark);
        rest = &after[end + 1..];
    }
    clean + rest
}

/// Reduces a URL to its server: removes user, password and path.
pub fn server(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return MASKED.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if !authority.contains('@') && ["", "/"].contains(&&rest[authority.len()..]) {
        return url.to_owned();
    }
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/")
}

#[cfg(test)]
mod tests;
