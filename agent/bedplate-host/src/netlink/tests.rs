//! Message frames, and parsing of refusals.

use super::*;
use crate::snapshot::{Node, Snapshot};

/// A kernel answer: number, flags, body.
fn datagram(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).unwrap();
    let mut bytes = [length.to_ne_bytes().to_vec(), kind.to_ne_bytes().to_vec()].concat();
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn refusal(flags: u16, errno: Errno, rest: &[u8]) -> Refusal {
    let number = (-(errno as i32)).to_ne_bytes();
    let answer = datagram(NLMSG_ERROR, flags, &[&number, rest].concat());
    read(&answer, &mut Vec::new()).unwrap_err()
}

#[test]
fn request_has_header_and_padded_attributes() {
    let body = [text(3, "ib0"), attribute(22, &[7; 5])].concat();
    assert_eq!(body.len(), 8 + 12);
    let bytes = message(19, &body);
    let expected = [
        &36u32.to_ne_bytes()[..],
        &19u16.to_ne_bytes(),
        &5u16.to_ne_bytes(), // NLM_F_REQUEST | NLM_F_ACK
        &1u32.to_ne_bytes(),
        &0u32.to_ne_bytes(),
        &8u16.to_ne_bytes(),
        &3u16.to_ne_bytes(),
        b"ib0\0",
        &9u16.to_ne_bytes(),
        &22u16.to_ne_bytes(),
        &[7, 7, 7, 7, 7, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
    let found: Vec<(u16, Vec<u8>)> =
        attributes(&body).map(|one| (one.kind(), one.value().to_vec())).collect();
    assert_eq!(found, [(3, b"ib0\0".to_vec()), (22, vec![7; 5])]);
}

#[test]
fn answer_ends_with_acknowledgement() {
    let mut bodies = Vec::new();
    let first = datagram(16, 0, b"body of the first");
    assert_eq!(read(&first, &mut bodies), Ok(false));
    let both = [datagram(16, 0, b"second"), datagram(NLMSG_ERROR, 0, &[0; 20])].concat();
    assert_eq!(read(&both, &mut bodies), Ok(true));
    assert_eq!(bodies, [b"body of the first".to_vec(), b"second".to_vec()]);
}

#[test]
fn table_ends_with_done_message() {
    let mut bodies = Vec::new();
    let both = [datagram(24, 2, b"a route."), datagram(NLMSG_DONE, 2, &[0; 4])].concat();
    assert_eq!(read(&both, &mut bodies), Ok(true));
    assert_eq!(bodies, [b"a route.".to_vec()]);
    // Read during a change: entries may be missing.
    let torn = datagram(24, 2 | NLM_F_DUMP_INTR, b"a route.");
    assert_eq!(read(&torn, &mut bodies).unwrap_err().errno, Errno::EINTR);
}

#[test]
fn driver_message_is_extracted() {
    let said =
        text(NLMSGERR_ATTR_MSG, "Changing eswitch mode is allowed only if there is no VFs created");
    let header = datagram(5, 0, b"");
    let capped = refusal(
        NLM_F_ACK_TLVS | NLM_F_CAPPED,
        Errno::EOPNOTSUPP,
        &[header.clone(), attribute(2, &[1, 2, 3, 4]), said.clone()].concat(),
    );
    assert_eq!(capped.errno, Errno::EOPNOTSUPP);
    assert_eq!(
        capped.words.as_deref(),
        Some("Changing eswitch mode is allowed only if there is no VFs created")
    );
    // With the whole request in between.
    let request = datagram(5, 0, &[9; 10]);
    let whole = refusal(NLM_F_ACK_TLVS, Errno::EINVAL, &[request, said.clone()].concat());
    assert_eq!((whole.errno, whole.words), (Errno::EINVAL, capped.words));
    // Without a message there is no text.
    let silent = refusal(NLM_F_CAPPED, Errno::EPERM, &[header, said].concat());
    assert_eq!(silent, Refusal { errno: Errno::EPERM, words: None });
}

#[test]
fn truncated_message_is_rejected() {
    let whole = datagram(16, 0, b"a body that is longer");
    for cut in [HEADER + 1, whole.len() - 4] {
        assert_eq!(read(&whole[..cut], &mut Vec::new()), Err(Refusal::garbled()), "{cut}");
    }
    assert_eq!(read(&whole[..7], &mut Vec::new()), Ok(false));
    assert_eq!(read(&datagram(NLMSG_ERROR, 0, b"x"), &mut Vec::new()), Err(Refusal::garbled()));
}

/// Queries the running kernel: every kernel has a loopback interface.
#[test]
fn running_kernel_answers_are_parsed() {
    assert_eq!(rtm_link::vfs(1), Ok(VfTable::default()));
    assert_eq!(rtm_link::name(1), Ok("lo".to_owned()), "it is the first one everywhere");
    let refusal = rtm_link::vfs(i32::MAX.cast_unsigned()).unwrap_err();
    assert_eq!(refusal.errno, Errno::ENODEV);
}

/// A name that now belongs to another PF's interface is not this one's.
#[test]
fn interface_is_resolved_below_its_pf() {
    let pfs: [PciAddress; 2] = ["0000:18:00.0", "0000:18:00.1"].map(|pf| pf.parse().unwrap());
    let mut files = Snapshot::new(true);
    files.insert(&below(pfs[1], "eth0", "ifindex"), Node::File(b"7\n".to_vec()));
    files.complete();
    assert_eq!(index_below(&files, pfs[1], "eth0"), Ok(7));
    assert!(index_below(&files, pfs[0], "eth0").unwrap_err().is_absent());
    let error = ask_for_vfs(&files, pfs[0], "eth0").unwrap_err();
    assert!(error.is_absent(), "nothing is asked: {error}");
}

#[test]
fn timeout_is_not_reported_as_absent() {
    let refusal = Refusal::from(Unfinished::TimedOut);
    let error = read_error("the VF list of eth0".into(), refusal);
    assert!(error.to_string().contains("no answer in 30 s"), "{error}");
}
