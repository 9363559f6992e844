//! Unified kernel images: the embedded command line and kernel release, from the PE sections `.cmdline` and `.uname`.
//! Layout: Microsoft PE/COFF specification §3 (headers) and §4 (section table); section names: UAPI UKI specification.

/// Length of the file prefix that holds the headers and, in images made by ukify and dracut, the small sections before
/// the kernel.
pub const PREFIX_BYTES: usize = 4 << 20;

/// Reason why the command line could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UkiError(&'static str);

const NOT_PE: UkiError = UkiError("not a PE image");
const TOO_FAR: UkiError = UkiError("sections are too far into the file");
const NOT_TEXT: UkiError = UkiError(".cmdline or .uname section is not UTF-8 text");

/// Returns the embedded command line. `None` if the image has none (then the loader's options apply).
///
/// # Errors
/// [`UkiError`] if the prefix is not a PE image or does not reach the section.
pub fn cmdline(prefix: &[u8]) -> Result<Option<String>, UkiError> {
    section(prefix, b".cmdline")
}

/// Returns the release of the embedded kernel (`uname -r`), if the image has it.
///
/// # Errors
/// As [`cmdline`].
pub fn release(prefix: &[u8]) -> Result<Option<String>, UkiError> {
    section(prefix, b".uname\0\0")
}

fn section(prefix: &[u8], wanted: &[u8; 8]) -> Result<Option<String>, UkiError> {
    let header = u32_at(prefix, 0x3c).ok_or(NOT_PE)? as usize;
    if prefix.get(..2) != Some(b"MZ")
        || prefix.get(header..header.saturating_add(4)) != Some(b"PE\0\0")
    {
        return Err(NOT_PE);
    }
    let sections = u16_at(prefix, header + 6).ok_or(NOT_PE)?;
    let optional = usize::from(u16_at(prefix, header + 20).ok_or(NOT_PE)?);
    let table = header + 24 + optional;
    for index in 0..usize::from(sections) {
        let at = table + index * 40;
        let name = prefix.get(at..at + 8).ok_or(TOO_FAR)?;
        if name != wanted {
            continue;
        }
        let virtual_size = u32_at(prefix, at + 8).ok_or(TOO_FAR)? as usize;
        let raw_size = u32_at(prefix, at + 16).ok_or(TOO_FAR)? as usize;
        let offset = u32_at(prefix, at + 20).ok_or(TOO_FAR)? as usize;
        let length = virtual_size.min(raw_size);
        let bytes = prefix.get(offset..offset.saturating_add(length)).ok_or(TOO_FAR)?;
        let text = std::str::from_utf8(bytes).map_err(|_| NOT_TEXT)?;
        return Ok(Some(text.trim_end_matches('\0').trim().to_owned()));
    }
    Ok(None)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a PE header with one section of this name at this offset.
    fn image(name: &[u8; 8], content: &[u8], offset: u32) -> Vec<u8> {
        let mut bytes = vec![0; 0x200];
        bytes[..2].copy_from_slice(b"MZ");
        bytes[0x3c] = 0x80;
        bytes[0x80..0x84].copy_from_slice(b"PE\0\0");
        bytes[0x86] = 1;
        let table = 0x80 + 24;
        bytes[table..table + 8].copy_from_slice(name);
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        bytes[table + 8..table + 12].copy_from_slice(&length);
        bytes[table + 16..table + 20].copy_from_slice(&0x200u32.to_le_bytes());
        bytes[table + 20..table + 24].copy_from_slice(&offset.to_le_bytes());
        bytes.resize(0x200, 0);
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn cmdline_and_release_sections_are_read() {
        let bytes = image(b".cmdline", b"root=UUID=1 iommu=pt\n\0", 0x200);
        assert_eq!(cmdline(&bytes), Ok(Some("root=UUID=1 iommu=pt".into())));
        assert_eq!(release(&bytes), Ok(None));
        let bytes = image(b".uname\0\0", b"6.12.117+deb13-amd64", 0x200);
        assert_eq!(release(&bytes), Ok(Some("6.12.117+deb13-amd64".into())));
    }

    #[test]
    fn image_without_cmdline_returns_none() {
        assert_eq!(cmdline(&image(b".osrel\0\0", b"x", 0x200)), Ok(None));
    }

    #[test]
    fn invalid_image_is_rejected() {
        assert_eq!(cmdline(b"#!/bin/sh"), Err(NOT_PE));
        assert_eq!(cmdline(&image(b".cmdline", b"x", 0x7fff_ffff)), Err(TOO_FAR));
        let whole = image(b".cmdline", b"iommu=pt", 0x200);
        for length in 0..whole.len() {
            // No prefix may panic or invent a line.
            let _ = cmdline(&whole[..length]);
        }
        assert_eq!(cmdline(&image(b".cmdline", &[0xff, 0xfe], 0x200)), Err(NOT_TEXT));
    }
}
