//! Text of files that are mostly text: bytes that are not UTF-8 stand in it as characters of their own and come out as
//! they went in. A comment in Latin-1 is no reason not to read a file, and none to change a byte of it. Pure.

/// Stand-ins are the last characters of the last private plane, which no text has a use for.
const FIRST: u32 = 0x10_FF80;

/// The text, with a stand-in for every byte that is part of no character.
pub fn decode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_raw(character) {
                // A stand-in in the file itself is taken for its bytes, or it would come out as another one.
                out.extend(character.encode_utf8(&mut [0; 4]).bytes().map(private_use_char));
            } else {
                out.push(character);
            }
        }
        out.extend(chunk.invalid().iter().copied().map(private_use_char));
    }
    out
}

/// The bytes of a text, with those that stand-ins are for.
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

/// Whether a character stands for a byte.
pub fn is_raw(character: char) -> bool {
    u32::from(character) >= FIRST
}

/// Whether a byte in the text is part of no character.
pub fn has_raw(text: &str) -> bool {
    text.chars().any(is_raw)
}

/// For people: a replacement character for every such byte.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_raw(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn private_use_char(byte: u8) -> char {
    // Bytes that are part of no character, and bytes of a character beyond ASCII, are 0x80 and above.
    char::from_u32(FIRST + u32::from(byte & 0x7f)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_that_are_no_text_have_stand_ins() {
        let text = decode(b"gr\xfc\xdfe \xc3\xbc");
        assert_eq!((has_raw(&text), text.chars().count()), (true, 7));
        assert_eq!(printable(&text), "gr\u{fffd}\u{fffd}e ü");
        assert!(!has_raw(&decode("grüße".as_bytes())));
    }

    proptest! {
        #[test]
        fn every_byte_comes_out_as_it_went_in(bytes in prop::collection::vec(any::<u8>(), 0..40), odd in "[a\u{10ff7f}-\u{10ffff}]{0,4}") {
            let bytes = [bytes, odd.into_bytes()].concat();
            prop_assert_eq!(encode(&decode(&bytes)), bytes);
        }
    }
}
