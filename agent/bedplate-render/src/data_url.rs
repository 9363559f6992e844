//! Text as a `data:` URL (RFC 2397), the form in which Ignition carries file contents.

/// Percent-encodes all but the unreserved characters (RFC 3986 §2.3), so that the text stays readable in a review and
/// no parser finds special characters in it.
pub(super) fn data_url(text: &str) -> String {
    let unreserved = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let encode = |b: u8| match unreserved(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    let body: String = text.bytes().map(encode).collect();
    format!("data:,{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bytes_are_percent_encoded() {
        assert_eq!(data_url("# a§b\nx=1"), "data:,%23%20a%C2%A7b%0Ax%3D1");
    }
}
