//! Lossless text of files that may contain invalid UTF-8. Each invalid byte is decoded to a placeholder character and
//! encoded back unchanged, so a comment in Latin-1 neither prevents reading a file nor changes in it. Pure.

/// Placeholders are the last characters of the last private-use plane, which real text does not use.
const FIRST: u32 = 0x10_FF80;

/// Decodes `bytes`, with a placeholder for every byte that is not part of a character.
pub fn decode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_raw(character) {
                // A placeholder in the file itself is decoded bytewise; otherwise it would be encoded as a different
                // character.
                out.extend(character.encode_utf8(&mut [0; 4]).bytes().map(private_use_char));
            } else {
                out.push(character);
            }
        }
        out.extend(chunk.invalid().iter().copied().map(private_use_char));
    }
    out
}

/// Encodes `text`, with the original byte for every placeholder.
pub fn encode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for character in text.chars() {
        match u8::try_from(u32::from(character).wrapping_sub(FIRST).wrapping_add(0x80)) {
            Ok(byte) if is_raw(character) => out.push(byte),
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// Whether a character is a placeholder.
pub fn is_raw(character: char) -> bool {
    u32::from(character) >= FIRST
}

/// Whether the text contains a placeholder.
pub fn has_raw(text: &str) -> bool {
    text.chars().any(is_raw)
}

/// Returns the text for display, with a replacement character for every placeholder.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_raw(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn private_use_char(byte: u8) -> char {
    // Bytes that are not part of a character, and bytes of a character beyond ASCII, are 0x80 and above.
    char::from_u32(FIRST + u32::from(byte & 0x7f)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_bytes_have_placeholders() {
        let text = decode(b"gr\xfc\xdfe \xc3\xbc");
        assert_eq!((has_raw(&text), text.chars().count()), (true, 7));
        assert_eq!(printable(&text), "gr\u{fffd}\u{fffd}e ü");
        assert!(!has_raw(&decode("grüße".as_bytes())));
    }

    proptest! {
        #[test]
        fn every_byte_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..40), odd in "[a\u{10ff7f}-\u{10ffff}]{0,4}") {
            let bytes = [bytes, odd.into_bytes()].concat();
            prop_assert_eq!(encode(&decode(&bytes)), bytes);
        }
    }
}
