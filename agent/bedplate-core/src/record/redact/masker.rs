//! Texts of boot loaders, modules and sysctls, word by word: names and harmless values stay, every other word becomes `masked_N`,
//! the same for the same word, so that what was equal still is. What is between words (quotes, brackets, `$`) stays: the
//! redacted file says as much, or as little, as the one it was made from. Pure.

mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::script::SCRIPT;
use bedplate_base::lossless_text;
use bedplate_base::mask::{self, identity};
use scan::Scan;

/// What stands in the place of a word, with a number behind it. No character of it means anything to shells or GRUB.
const MASK: &str = "masked_";
/// The same where the word is too short for it.
const SHORT_MASK: &str = "m_";
/// Behind the number, until the mask is as long as the word: the kernel takes command lines up to a length.
const FILLER: char = '_';

/// What of the words stays, and what was made of the others.
pub(super) struct Masker {
    /// Names that the snapshot shows anyway: of files and directories.
    names: BTreeSet<String>,
    numbers: BTreeMap<String, usize>,
    identities: BTreeMap<String, usize>,
    with_identifiers: bool,
    /// Words masked so far, and identities.
    pub masked: usize,
    pub identified: usize,
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A command line, or words of one.
    Line,
    /// A shell's or GRUB's script: comments begin behind a blank, too.
    Script,
    /// Lines of `key value`, comments at the start of a line.
    Entry,
    /// `key = value`, with numbers of any size.
    Setting,
}

impl Masker {
    pub(super) fn new(with_identifiers: bool) -> Self {
        Masker {
            names: BTreeSet::new(),
            numbers: BTreeMap::new(),
            identities: BTreeMap::new(),
            with_identifiers,
            masked: 0,
            identified: 0,
        }
    }

    /// A path that the snapshot shows: its parts are no secrets any more, nor is the id of a boot entry.
    pub(super) fn show(&mut self, path: &str) {
        for part in path.split('/').filter(|part| part.len() > 1) {
            self.names.insert(part.to_owned());
            self.names.extend(part.strip_suffix(".conf").map(str::to_owned));
        }
    }

    /// Addresses, GUIDs, UUIDs and machine ids replaced, each by one of its own in the same spelling.
    pub(super) fn identities(&mut self, text: &str) -> String {
        if self.with_identifiers {
            return text.to_owned();
        }
        identity::replaced(text, |found| {
            let digits = found.bytes().filter(u8::is_ascii_hexdigit).map(char::from);
            let key = digits.map(|c| c.to_ascii_lowercase()).collect();
            self.numbered(found, key)
        })
    }

    /// The same in the text of a version: pairs with dots and decimal digits in a row are its own (`01.02.03.04.05.0b`,
    /// `SE5C620.86B.02.01.0008.031920191559`).
    pub(super) fn version(&mut self, text: &str) -> String {
        if self.with_identifiers {
            return text.to_owned();
        }
        identity::replaced(text, |found| {
            let is_dotted = found.split('.').all(|part| part.len() == 2);
            match is_dotted || found.bytes().all(|c| c.is_ascii_digit()) {
                true => found.to_owned(),
                false => self.identities(found),
            }
        })
    }

    /// A text that is one of them, digits without a letter too.
    pub(super) fn identity(&mut self, text: &str) -> String {
        let digits = || text.bytes().filter(u8::is_ascii_hexdigit);
        if self.with_identifiers || digits().take(8).all(|digit| digit == b'0') {
            return text.to_owned();
        }
        let key: String = digits().map(|c| char::from(c.to_ascii_lowercase())).collect();
        self.numbered(text, key)
    }

    /// An address of a host replaced by one that no host has: IPv4 below 0.0.0.0/16, IPv6 below ::/32.
    pub(super) fn address(&mut self, address: IpAddr) -> IpAddr {
        let is_masked = match address {
            IpAddr::V4(four) => four.octets()[..2] == [0, 0],
            IpAddr::V6(six) => six.segments()[..2] == [0, 0],
        };
        if self.with_identifiers || is_masked {
            return address;
        }
        let next = self.identities.len() + 1;
        self.identified += 1;
        let number = *self.identities.entry(address.to_string()).or_insert(next) as u16;
        match address {
            IpAddr::V4(_) => Ipv4Addr::from(u32::from(number)).into(),
            IpAddr::V6(_) => Ipv6Addr::from(u128::from(number) << 64).into(),
        }
    }

    fn numbered(&mut self, text: &str, key: String) -> String {
        let next = self.identities.len() + 1;
        self.identified += 1;
        identity::mask(text, *self.identities.entry(key).or_insert(next))
    }

    /// The mask of a word.
    pub(super) fn mask(&mut self, word: &str) -> String {
        if is_mask(word) {
            return word.to_owned();
        }
        // A byte that is no text makes a line what it is: one stays.
        let raw = word.chars().find(|c| lossless_text::is_raw(*c));
        let mut mask = format!("{MASK}{}", self.number(word));
        mask.extend(raw);
        mask
    }

    fn number(&mut self, word: &str) -> usize {
        self.masked += 1;
        let next = self.numbers.len() + 1;
        *self.numbers.entry(word.to_owned()).or_insert(next)
    }

    /// The mask of a word of a text: as long as the word, where its number leaves room for that.
    fn mask_of_length(&mut self, word: &str) -> String {
        if is_mask(word) {
            return word.to_owned();
        }
        let raw = word.chars().find(|c| lossless_text::is_raw(*c));
        let room = lossless_text::encode(word).len() - usize::from(raw.is_some());
        let number = self.number(word).to_string();
        let fits = MASK.len() + number.len() <= room;
        let mut mask = format!("{}{number}", if fits { MASK } else { SHORT_MASK });
        mask.extend(std::iter::repeat_n(FILLER, room.saturating_sub(mask.len())));
        mask.extend(raw);
        mask
    }

    /// A text.
    pub(super) fn text(&mut self, text: &str, style: Style) -> String {
        let text = self.identities(text);
        Scan { words: self, text: &text, at: 0, out: String::new(), name: None, quote: None, style }
            .run()
    }

    /// The value of something of this name.
    pub(super) fn value(&mut self, name: &str, text: &str, style: Style) -> String {
        let text = self.identities(text);
        let name = Some(name.to_owned());
        Scan { words: self, text: &text, at: 0, out: String::new(), name, quote: None, style }.run()
    }

    /// Whether a word may stay that stands by itself.
    fn is_shown(&self, word: &str) -> bool {
        mask::is_flag(word)
            || mask::is_plain(word)
            || SCRIPT.contains(&word)
            || self.names.contains(word)
            || is_image(word)
            || is_identity(word)
            || (word.starts_with("GRUB_") && is_variable(word))
    }

    /// Whether a value may stay.
    fn is_harmless(&self, name: &str, value: &str, style: Style) -> bool {
        let path = value.starts_with('/')
            && value.split('/').all(|part| part.is_empty() || self.is_shown(part));
        mask::is_harmless(name, value)
            || (style == Style::Setting && mask::is_numeric(value))
            || (path && name == "BOOT_IMAGE")
            || self.names.contains(value)
            || SCRIPT.contains(&value)
            || is_identity(value)
            || (self.with_identifiers && names_identifier(name, value) && is_identifier(value))
    }
}

/// What a word was masked to before.
fn is_mask(word: &str) -> bool {
    let number = word.strip_prefix(MASK).or_else(|| word.strip_prefix(SHORT_MASK));
    let number = number.map(|number| number.trim_end_matches(FILLER));
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
}

fn is_variable(word: &str) -> bool {
    word.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_')
}

/// `vmlinuz-6.8.0-45-generic`, `6.8.0-45-generic`: names of kernels.
fn is_image(word: &str) -> bool {
    const IMAGES: [&str; 7] =
        ["vmlinuz-", "vmlinux-", "Image-", "initrd.img-", "initramfs-", "initrd-", ""];
    let version = |text: &str| {
        let mut parts = text.splitn(3, '.');
        let number = |part: Option<&str>| {
            part.is_some_and(|part| {
                !part.is_empty() && part.len() <= 3 && part.bytes().all(|c| c.is_ascii_digit())
            })
        };
        // `6.8.0-45-generic`; no address (`10.20.30.40`), nor anything else that begins with numbers.
        let patch =
            |part: Option<&str>| part.is_none_or(|part| number(part.split(['-', '+', '~']).next()));
        number(parts.next())
            && number(parts.next())
            && patch(parts.next())
            && text.len() <= 64
            && mask::is_name(&text.replace(['+', '~'], "-"))
    };
    IMAGES.iter().filter_map(|image| word.strip_prefix(image)).any(version)
}

/// What stands for an identity, and nothing else.
fn is_identity(word: &str) -> bool {
    let rest =
        word.strip_prefix("UUID=").or_else(|| word.strip_prefix("PARTUUID=")).unwrap_or(word);
    let digits = rest.bytes().filter(u8::is_ascii_hexdigit).count();
    digits >= 12
        && rest.bytes().all(|c| c.is_ascii_digit() || b":-.".contains(&c))
        && rest.bytes().filter(u8::is_ascii_digit).take(8).all(|c| c == b'0')
}

/// Whether the value is an identifier by its place and not by its form alone, which tokens and hashes share (dracut.cmdline(7),
/// kernel-command-line(7), pxelinux: `BOOTIF`).
fn names_identifier(name: &str, value: &str) -> bool {
    const NAMES: [&str; 9] = [
        "root",
        "rootflags",
        "resume",
        "boot",
        "BOOTIF",
        "rd.luks.uuid",
        "rd.md.uuid",
        "luks.uuid",
        "systemd.machine_id",
    ];
    NAMES.contains(&name) || value.starts_with("UUID=") || value.starts_with("PARTUUID=")
}

fn is_identifier(value: &str) -> bool {
    let rest = identity::replaced(value, |_| String::new());
    rest != value && ["", "UUID=", "PARTUUID=", "0x"].contains(&rest.as_str())
}
