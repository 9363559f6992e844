//! Identity of a host towards servers: systemd's application-specific machine id, which identifies the host without disclosing
//! its machine id (machine-id(5) requires that one to stay confidential). Pure; the caller reads `/etc/machine-id`.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The id of the application "FleetLock" (coreos/zincati, `src/identity/mod.rs`). poseidon/fleetlock uses the same one
/// to find the node to drain.
pub(crate) const FLEETLOCK_APP_ID: [u8; 16] = [
    0xde, 0x35, 0x10, 0x6b, 0x6e, 0xc2, 0x46, 0x88, 0xb6, 0x3a, 0xfd, 0xda, 0xa1, 0x56, 0x67, 0x9b,
];

const SHAPE: &str = "not a machine id: expected 32 hexadecimal digits";
/// The first boot has not created one yet (machine-id(5), `uninitialized`).
const UNINITIALIZED: &str = "this host has no machine id yet";
/// systemd refuses it as well: all hosts with it would share one id.
const ZERO: &str = "the machine id is all zeros";

/// Parses the content of `/etc/machine-id`: 32 hexadecimal digits and at most one line end.
///
/// # Errors
/// The reason, if the text is not a machine id.
pub(crate) fn parse_machine_id(text: &str) -> Result<[u8; 16], &'static str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() || text == "uninitialized" {
        return Err(UNINITIALIZED);
    }
    // A sign before the digits would be accepted as part of a number.
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(SHAPE);
    }
    match u128::from_str_radix(text, 16) {
        Ok(0) => Err(ZERO),
        Ok(id) => Ok(id.to_be_bytes()),
        Err(_) => Err(SHAPE),
    }
}

/// Returns the id of this host for one application: `sd_id128_get_machine_app_specific(3)`. HMAC-SHA256 of the application's
/// id, keyed with the machine id, cut to 16 bytes and marked as a random UUID (version 4, variant 1).
pub(crate) fn app_specific(machine_id: [u8; 16], app: [u8; 16]) -> [u8; 16] {
    // A key shorter than SHA-256's block of 64 bytes is padded with zeros (RFC 2104, section 2); padding it here uses
    // the infallible constructor.
    let mut key = [0; 64];
    key[..16].copy_from_slice(&machine_id);
    let mut mac = Hmac::<Sha256>::new(&key.into());
    mac.update(&app);
    let digest = mac.finalize().into_bytes();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    id
}

/// Formats an id like systemd: 32 lower-case hexadecimal digits.
pub(crate) fn hex(id: [u8; 16]) -> String {
    id.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First case: output of `systemd-id128 machine-id --app-specific=APP` (systemd 252) with a made-up machine id. The rest
    /// are from Python's `hmac`.
    #[test]
    fn app_specific_ids_match_systemd() {
        let fleetlock = hex(FLEETLOCK_APP_ID);
        assert_eq!(fleetlock, "de35106b6ec24688b63afddaa156679b");
        for (machine, app, expected) in [
            (
                "0123456789abcdef0123456789abcdef",
                fleetlock.as_str(),
                "583627a932274834a8ebd99f4ed41c0d",
            ),
            (
                "b08dfa6083e7567a1921a715000001fb",
                fleetlock.as_str(),
                "94c92cab203b4f87b2d8216ef72bea06",
            ),
            (
                "b08dfa6083e7567a1921a715000001fb",
                "0123456789abcdeffedcba9876543210",
                "1d2de26f006a4367aa90e469e4c29830",
            ),
        ] {
            let ids = (parse_machine_id(machine).unwrap(), parse_machine_id(app).unwrap());
            assert_eq!(hex(app_specific(ids.0, ids.1)), expected, "{machine} {app}");
        }
    }

    #[test]
    fn app_specific_id_is_a_random_uuid() {
        for seed in 0..=255 {
            let machine = [seed; 16];
            let id = app_specific(machine, FLEETLOCK_APP_ID);
            assert_eq!((id[6] >> 4, id[8] >> 6), (4, 0b10), "{seed}");
            assert_ne!(id, machine);
        }
    }

    #[test]
    fn machine_id_is_parsed_as_systemd_writes_it() {
        let id = parse_machine_id("0123456789ABCDEF0123456789abcdef\n").unwrap();
        assert_eq!(hex(id), "0123456789abcdef0123456789abcdef");
        for bad in [
            "0123456789abcdef0123456789abcde",
            "0123456789abcdef0123456789abcdef0",
            "0123456789abcdef0123456789abcdef\n\n",
            " 123456789abcdef0123456789abcdef",
            "+123456789abcdef0123456789abcdef",
            "01234567-89ab-cdef-0123-456789abcdef",
            "g123456789abcdef0123456789abcdef",
            "éééééééééééééééé",
        ] {
            assert_eq!(parse_machine_id(bad), Err(SHAPE), "{bad:?}");
        }
        assert_eq!(parse_machine_id("uninitialized\n"), Err(UNINITIALIZED));
        assert_eq!(parse_machine_id(""), Err(UNINITIALIZED));
        assert_eq!(parse_machine_id(&"0".repeat(32)), Err(ZERO));
    }
}
