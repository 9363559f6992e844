//! Masks texts of boot loaders, modules, and sysctls word by word. Names and harmless values stay, any other word is
//! replaced by `masked_N`, with equal masks for equal words. Characters between words (quotes, brackets, `$`) stay, so
//! that the redacted file parses like the original. Pure.

mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::script::SCRIPT;
use bedplate_base::lossless_text;
use bedplate_base::mask::{self, identity};
use scan::Scan;

/// Replacement of a word, followed by a number. Its characters have no meaning to shells or GRUB.
const MASK: &str = "masked_";
/// Replacement of a word too short for [`MASK`].
const SHORT_MASK: &str = "m_";
/// Pads the mask to the word's length: the kernel limits the length of command lines.
const FILLER: char = '_';

/// Words to preserve, and the replacements of all others.
pub(super) struct Masker {
    /// Names that the snapshot shows anyway: of files and directories.
    names: BTreeSet<String>,
    numbers: BTreeMap<String, usize>,
    identities: BTreeMap<String, usize>,
    with_identifiers: bool,
    /// Number of words masked so far, and of identities replaced.
    pub masked: usize,
    pub identified: usize,
}

/// Syntax of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A command line, or words of one.
    Line,
    /// A script of a shell or GRUB: comments also begin after a blank.
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

    /// Marks the parts of a path in the snapshot as visible, including the id of a boot entry.
    pub(super) fn show(&mut self, path: &str) {
        for part in path.split('/').filter(|part| part.len() > 1) {
            self.names.insert(part.to_owned());
            self.names.extend(part.strip_suffix(".conf").map(str::to_owned));
        }
    }

    /// Replaces addresses, GUIDs, UUIDs, and machine ids, each by a number of its own in the same spelling.
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

    /// Replaces identities in a version. Dotted pairs and runs of decimal digits are part of versions and stay
    /// (`01.02.03.04.05.0b`, `SE5C620.86B.02.01.0008.031920191559`).
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

    /// Replaces a text that is an identity as a whole, even if it has digits only.
    pub(super) fn identity(&mut self, text: &str) -> String {
        let digits = || text.bytes().filter(u8::is_ascii_hexdigit);
        if self.with_identifiers || digits().take(8).all(|digit| digit == b'0') {
            return text.to_owned();
        }
        let key: String = digits().map(|c| char::from(c.to_ascii_lowercase())).collect();
        self.numbered(text, key)
    }

    /// Replaces a host's address by one that no host has: IPv4 below 0.0.0.0/16, IPv6 below ::/32.
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

    /// Returns the mask of a word.
    pub(super) fn mask(&mut self, word: &str) -> String {
        if is_mask(word) {
            return word.to_owned();
        }
        // Readers treat a line with a non-text byte differently: one such byte stays.
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

    /// Returns the mask of a word in a text: as long as the word, if its number fits.
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

    /// Masks a text.
    pub(super) fn text(&mut self, text: &str, style: Style) -> String {
        let text = self.identities(text);
        Scan { words: self, text: &text, at: 0, out: String::new(), name: None, quote: None, style }
            .run()
    }

    /// Masks the value of a setting with this name.
    pub(super) fn value(&mut self, name: &str, text: &str, style: Style) -> String {
        let text = self.identities(text);
        let name = Some(name.to_owned());
        Scan { words: self, text: &text, at: 0, out: String::new(), name, quote: None, style }.run()
    }

    /// Whether a single word may stay.
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

/// Whether a word is a mask already.
fn is_mask(word: &str) -> bool {
    let number = word.strip_prefix(MASK).or_else(|| word.strip_prefix(SHORT_MASK));
    let number = number.map(|number| number.trim_end_matches(FILLER));
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
}

fn is_variable(word: &str) -> bool {
    word.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_')
}

/// Whether a word is the name of a kernel: `vmlinuz-6.8.0-45-generic`, `6.8.0-45-generic`.
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
        // `6.8.0-45-generic`; not an address (`10.20.30.40`), nor other text that begins with numbers.
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

/// Whether a word is a replaced identity and nothing else.
fn is_identity(word: &str) -> bool {
    let rest =
        word.strip_prefix("UUID=").or_else(|| word.strip_prefix("PARTUUID=")).unwrap_or(word);
    let digits = rest.bytes().filter(u8::is_ascii_hexdigit).count();
    digits >= 12
        && rest.bytes().all(|c| c.is_ascii_digit() || b":-.".contains(&c))
        && rest.bytes().filter(u8::is_ascii_digit).take(8).all(|c| c == b'0')
}

/// Whether the value is an identifier by its position, not only by its form, which tokens and hashes share
/// (dracut.cmdline(7), kernel-command-line(7), pxelinux: `BOOTIF`).
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
