//! Damaged input for tests of parsers.

use proptest::prelude::*;
use proptest::sample::Index;

/// Fragments with a meaning for some parser, and fragments without any.
pub const PIECES: [&str; 44] = [
    "\"",
    "'",
    "\\",
    "\n",
    "\r\n",
    "\t",
    " ",
    "$",
    "`",
    "=",
    "{",
    "}",
    "(",
    ")",
    "-",
    "--",
    ",",
    ";",
    ";;",
    ":",
    ".",
    "#",
    "\0",
    "\u{1b}",
    "\u{feff}",
    "é",
    "日",
    "menuentry '",
    "submenu x {",
    "if ",
    "fi",
    "function f {",
    "${x",
    "$(",
    "[[",
    "pci=",
    "iommu=",
    "hugepages=",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"",
    "set default=",
    "saved_entry=",
    "99999999999999999999999",
    "-1",
    "options ",
];

/// One kind of damage.
#[derive(Debug, Clone)]
pub enum Damage {
    /// Truncation.
    Cut(Index),
    /// Insertion of a fragment.
    Insert(Index, usize),
    /// Replacement of a byte.
    Byte(Index, u8),
    /// Removal of bytes.
    Drop(Index, usize),
    /// Duplication of bytes.
    Repeat(Index, usize),
}

/// Generates any damage.
pub fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), 0..PIECES.len()).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        (any::<Index>(), 1..20_usize).prop_map(|(at, length)| Damage::Drop(at, length)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

/// Applies damage to bytes.
pub fn hurt(bytes: &mut Vec<u8>, damage: &Damage) {
    let length = bytes.len();
    match damage {
        Damage::Cut(at) => bytes.truncate(at.index(length + 1)),
        Damage::Insert(at, piece) => {
            let at = at.index(length + 1);
            bytes.splice(at..at, PIECES[*piece].bytes());
        }
        Damage::Byte(at, byte) if length > 0 => bytes[at.index(length)] = *byte,
        Damage::Byte(..) => {}
        Damage::Drop(at, count) => {
            let at = at.index(length + 1);
            bytes.drain(at..(at + count).min(length));
        }
        Damage::Repeat(at, count) => {
            let at = at.index(length + 1);
            let again = bytes[at..(at + count).min(length)].to_vec();
            bytes.splice(at..at, again);
        }
    }
}
