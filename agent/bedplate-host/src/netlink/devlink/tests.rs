//! Tests with devlink's messages, as sent by `devlink dev eswitch show|set pci/0000:08:00.0`.

use super::super::HEADER;
use super::*;

fn parts(request: &[u8]) -> (u16, u8, Vec<(u16, Vec<u8>)>) {
    let family = u16::from_ne_bytes([request[4], request[5]]);
    let body = &request[HEADER..];
    assert_eq!(body[1..GENL_HEADER], [1, 0, 0], "version 1");
    let all = attributes(&body[GENL_HEADER..]).map(|one| (one.kind(), one.value().to_vec()));
    (family, body[0], all.collect())
}

fn pf() -> PciAddress {
    "0000:08:00.0".parse().unwrap()
}

#[test]
fn family_request_uses_name() {
    assert_eq!(parts(&family_request()), (16, 3, vec![(2, b"devlink\0".to_vec())]));
}

#[test]
fn mode_requests_use_function_address() {
    let handle = [(1, b"pci\0".to_vec()), (2, b"0000:08:00.0\0".to_vec())];
    assert_eq!(parts(&get_request(21, pf())), (21, 29, handle.to_vec()));
    for (mode, number) in [(EswitchMode::Legacy, 0u16), (EswitchMode::Switchdev, 1)] {
        let mut all = handle.to_vec();
        all.push((25, number.to_ne_bytes().to_vec()));
        assert_eq!(parts(&set_request(21, pf(), mode)), (21, 30, all));
        // The kernel's answer has the same attributes, and more (devlink_nl_eswitch_fill).
        let answer = [&handle_of(&set_request(21, pf(), mode)), &attribute(26, &[1])[..]].concat();
        assert_eq!(super::mode(&answer), Some(mode));
    }
    assert_eq!(super::mode(&handle_of(&get_request(21, pf()))), None);
}

fn handle_of(request: &[u8]) -> Vec<u8> {
    request[HEADER..].to_vec()
}

#[test]
fn missing_eswitch_differs_from_missing_permission() {
    for (errno, none) in [
        (Errno::ENODEV, true),
        (Errno::EOPNOTSUPP, true),
        (Errno::ENOENT, true),
        (Errno::EPERM, false),
        (Errno::EBUSY, false),
    ] {
        assert_eq!(has_none(&Refusal { errno, words: None }), none, "{errno}");
    }
}
