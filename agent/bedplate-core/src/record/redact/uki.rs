//! Redacts a unified kernel image: keeps the headers, the kernel's release, and the command line, and zeroes the rest.
//! Pure.

use super::masker::{Masker, Style};

/// Maximum size of headers and section table.
const HEADERS: usize = 4096;

/// Returns the redacted image; `None`: not an image, or there is no space for the masked command line.
pub(super) fn redact(bytes: &[u8], words: &mut Masker) -> Option<Vec<u8>> {
    let number = |at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_le_bytes(four.try_into().ok()?)).ok()
    };
    let header = number(0x3c).filter(|_| bytes.starts_with(b"MZ"))?;
    let count =
        usize::from(u16::from_le_bytes(bytes.get(header + 6..header + 8)?.try_into().ok()?));
    let optional =
        usize::from(u16::from_le_bytes(bytes.get(header + 20..header + 22)?.try_into().ok()?));
    let table = header + 24 + optional;
    let end = table + count * 40;
    let mut clean = bytes.get(..end).filter(|_| end <= HEADERS)?.to_vec();
    for at in (table..end).step_by(40) {
        let name = &bytes[at..at + 8];
        let (size, raw, offset) = (number(at + 8)?, number(at + 16)?, number(at + 20)?);
        let style = match name {
            b".cmdline" => Style::Line,
            b".uname\0\0" => Style::Entry,
            _ => continue,
        };
        let content = bytes.get(offset..offset.checked_add(size.min(raw))?)?;
        let text = std::str::from_utf8(content).ok()?.trim_end_matches('\0');
        let text = words.text(text, style);
        let room = raw.max(size.min(raw));
        if text.len() > room || offset < end {
            return None;
        }
        clean.resize(clean.len().max(offset + room), 0);
        clean[offset..offset + text.len()].copy_from_slice(text.as_bytes());
        let size = u32::try_from(text.len().max(1)).ok()?;
        clean[at + 8..at + 12].copy_from_slice(&size.to_le_bytes());
    }
    Some(clean)
}
