//! A server on loopback that answers one call as told, in both dialects and in none.

mod tls;

use std::error::Error as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::errno::Errno;
use proptest::prelude::*;

use super::*;

const ID: &str = "583627a932274834a8ebd99f4ed41c0d";
/// Longer than any answer takes on a machine that is busy with other things.
const LONG: Duration = Duration::from_secs(30);
/// The kind of an answer that names none.
const NO_KIND: &str = "unknown";

/// Starts a server for one connection: it reads the request, then does `answer`. Its base URL, and what it was sent.
fn server(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !is_whole(&request) && stream.read(&mut byte).unwrap_or(0) == 1 {
            request.push(byte[0]);
        }
        answer(&mut stream);
        String::from_utf8(request).unwrap()
    });
    (url, thread)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|length| body.len() >= length.parse().unwrap())
}

fn says(text: impl Into<Vec<u8>>) -> impl FnOnce(&mut TcpStream) + Send + 'static {
    let text = text.into();
    // The client may have hung up: it does not read what it does not need.
    move |stream| drop(stream.write_all(&text))
}

fn http(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn error_body(kind: &str, value: &str) -> String {
    serde_json::json!({ "kind": kind, "value": value }).to_string()
}

/// Without the proxies of who runs the tests.
fn client(base: &str, timeout: Duration) -> Client {
    Client::with_proxy(base, "default", ID, timeout, None).unwrap()
}

/// What a call comes to when the server answers so.
fn ask(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> Result<(), LockError> {
    let (url, server) = server(answer);
    let result = client(&url, LONG).pre_reboot();
    server.join().unwrap();
    result
}

/// What giving a slot back comes to when the server answers so.
fn give_back(status: &str, kind: &str, value: &str) -> Result<Released, LockError> {
    let (url, server) = server(says(http(status, &error_body(kind, value))));
    let result = client(&url, LONG).steady_state();
    server.join().unwrap();
    result
}

fn answer(status: &str, body: &str) -> LockError {
    ask(says(http(status, body))).unwrap_err()
}

#[test]
fn the_request_is_the_protocols() {
    for (base, path) in
        [("", "/v1/"), ("fleet", "/fleet/v1/"), ("fleet/", "/fleet/v1/"), ("a/b//", "/a/b/v1/")]
    {
        for take in [true, false] {
            let (url, server) = server(says(http("200 OK", "")));
            let client = client(&format!("{url}{base}"), LONG);
            let call = if take { client.pre_reboot() } else { client.steady_state().map(drop) };
            call.unwrap();
            let request = server.join().unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            let call = if take { "pre-reboot" } else { "steady-state" };
            assert!(head.starts_with(&format!("POST {path}{call} HTTP/1.1\r\n")), "{head}");
            for line in ["fleet-lock-protocol: true", "content-type: application/json"] {
                assert_eq!(head.lines().filter(|own| *own == line).count(), 1, "{line} in {head}");
            }
            assert_eq!(body, format!(r#"{{"client_params":{{"id":"{ID}","group":"default"}}}}"#));
        }
    }
}

#[test]
fn every_2xx_is_success_whatever_its_body() {
    ask(says("HTTP/1.1 204 No Content\r\n\r\n")).unwrap();
    for body in ["", "{}", "<html>", "{\"kind\":\"failed_lock\",\"value\":\"\"}", "\u{0}"] {
        ask(says(http("200 OK", body))).unwrap();
        ask(says(http("202 Accepted", body))).unwrap();
    }
    // Not even the end of a body is waited for.
    ask(says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")).unwrap();
}

#[test]
fn airlock_is_understood() {
    let taken = "semaphore is already at full capacity: all 1 semaphore slots currently locked";
    match answer("500 Internal Server Error", &error_body("failed_lock", taken)) {
        LockError::Held { kind, value } => {
            assert_eq!((kind.as_str(), value.as_str()), ("failed_lock", taken))
        }
        other => panic!("{other:?}"),
    }
    let failed =
        answer("500 Internal Server Error", &error_body("failed_sem_init", "etcd is down"));
    assert!(failed.is_temporary());
    assert!(
        matches!(failed, LockError::Server { status: 500, kind, .. } if kind == "failed_sem_init")
    );
    for name in ["invalid_client_identity", "unknown_group"] {
        let refused = answer("400 Bad Request", &error_body(name, "no"));
        assert!(!refused.is_temporary());
        assert!(matches!(refused, LockError::Refused { status: 400, kind, .. } if kind == name));
    }
}

#[test]
fn poseidon_is_understood() {
    for (status, name) in
        [("423 Locked", "lock_held"), ("423 Locked", "locked"), ("500 x", "locked")]
    {
        let held = answer(status, &error_body(name, "reboot lease is held by node-7"));
        assert!(held.is_temporary());
        assert!(matches!(held, LockError::Held { kind, .. } if kind == name));
    }
    // The status alone says it, should a proxy take the body.
    assert!(matches!(answer("423 Locked", ""), LockError::Held { kind, .. } if kind == NO_KIND));
    let cases = [
        ("400 Bad Request", "missing_header", 400),
        ("400 Bad Request", "decode_error", 400),
        ("400 Bad Request", "failed_decoding_request", 400),
        ("405 Method Not Allowed", "method_not_allowed", 405),
    ];
    for (line, name, expected) in cases {
        let refused = answer(line, &error_body(name, "no"));
        assert!(
            matches!(refused, LockError::Refused { status, kind, .. } if kind == name && status == expected)
        );
    }
    let failed = answer("500 Internal Server Error", &error_body("internal_error", "no leases"));
    assert!(
        matches!(failed, LockError::Server { status: 500, kind, .. } if kind == "internal_error")
    );
}

/// By poseidon's rules: a host that holds none is told who does.
#[test]
fn a_slot_that_others_hold_is_none_to_give_back() {
    let held = "reboot lease unlock unavailable, held by 2aa1";
    for (status, kind) in
        [("423 Locked", "lock_held"), ("423 Locked", "locked"), ("423 Locked", "x")]
    {
        let said = format!("{kind}: {held}");
        assert_eq!(give_back(status, kind, held).unwrap(), Released::HeldNone(said));
    }
    assert_eq!(give_back("200 OK", "", "reboot lease already unlocked").unwrap(), Released::Yes);
}

/// airlock says with the same word that all slots are taken, and that it could not take one back.
#[test]
fn what_airlock_did_not_take_back_is_not_given_back() {
    for (kind, value) in [
        ("failed_lock", "conflict on semaphore detected, aborting"),
        ("failed_sem_init", "failed to initialize semaphore manager: context deadline exceeded"),
    ] {
        let failed = give_back("500 Internal Server Error", kind, value).unwrap_err();
        assert!(
            matches!(&failed, LockError::Server { kind: own, .. } if own == kind),
            "{failed:?}"
        );
        assert!(failed.to_string().starts_with("the FleetLock server failed: "), "{failed}");
    }
}

/// poseidon gives any host a slot and takes it back from nodes of its cluster only.
#[test]
fn a_host_that_the_cluster_does_not_know_is_named_as_such() {
    let unknown = give_back("500 x", "internal_error", "error uncordoning node").unwrap_err();
    assert!(
        matches!(&unknown, LockError::NoNode { group, .. } if group == "default"),
        "{unknown:?}"
    );
    for words in [
        "no node of its cluster has this host's machine id",
        "kubectl delete lease fleetlock-default",
    ] {
        assert!(unknown.to_string().contains(words), "{unknown}");
    }
    let failed = give_back("500 x", "internal_error", "error getting reboot lease").unwrap_err();
    assert!(matches!(failed, LockError::Server { .. }), "{failed:?}");
    let group = answer("400 Bad Request", &error_body("unknown_group", "unknown group \"gpu\""));
    assert!(group.to_string().contains("`group` in [reboot.fleetlock]"), "{group}");
}

#[test]
fn what_stands_between_is_told_from_the_server() {
    // A wrong path at an ingress, and an ingress without its server.
    let page = "<html>\r\n<h1>404 page not found</h1>";
    assert!(matches!(answer("404 Not Found", page),
        LockError::Refused { status: 404, kind, value } if kind == NO_KIND && value == "<html> <h1>404 page not found</h1>"));
    for (line, expected) in
        [("502 Bad Gateway", 502), ("503 Unavailable", 503), ("429 Too Many", 429), ("408 x", 408)]
    {
        let failed = answer(line, page);
        assert!(failed.is_temporary());
        assert!(matches!(failed, LockError::Server { status, .. } if status == expected), "{line}");
    }
    // Who is not allowed in does not hold a slot for it.
    assert!(matches!(
        answer("403 Forbidden", &error_body("forbidden", "")),
        LockError::Refused { .. }
    ));
}

#[test]
fn redirects_are_refused_and_not_followed() {
    let (target, followed) = server(says(http("200 OK", "")));
    for status in [301, 302, 303, 307, 308] {
        let location =
            format!("HTTP/1.1 {status} x\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
        let refused = ask(says(location)).unwrap_err();
        assert!(!refused.is_temporary());
        assert!(
            matches!(&refused, LockError::Refused { status: own, kind, value }
            if *own == status && kind == "redirected" && value.contains(&target)),
            "{refused:?}"
        );
    }
    assert!(
        matches!(answer("304 x", ""), LockError::Refused { status: 304, value, .. } if value == "nowhere")
    );
    assert!(!followed.is_finished(), "somebody followed");
    // Let the server go.
    client(&target, LONG).steady_state().unwrap();
    assert!(followed.join().unwrap().contains("steady-state"));
}

#[test]
fn an_answer_that_comes_too_late_is_none() {
    // Until the client hangs up.
    let wait = |stream: &mut TcpStream| drop(stream.read(&mut [0]));
    for begin in ["", "HTTP/1.1 200 OK\r\nContent-Len"] {
        let (url, server) = server(move |stream| {
            says(begin)(stream);
            wait(stream);
        });
        let started = Instant::now();
        let late = client(&url, Duration::from_millis(300)).pre_reboot().unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(late.is_temporary());
        assert!(late.to_string().contains("does not answer (it is slow, or a firewall"), "{late}");
        match late {
            LockError::Unreachable { source, .. } => {
                assert!(matches!(*source, ureq::Error::Timeout(_)))
            }
            other => panic!("{other:?}"),
        }
        server.join().unwrap();
    }
}

#[test]
fn an_error_whose_body_never_ends_is_told_by_its_status() {
    let (url, server) = server(|stream| {
        says("HTTP/1.1 503 x\r\nContent-Length: 100\r\n\r\ndrip")(stream);
        drop(stream.read(&mut [0]));
    });
    let failed = client(&url, Duration::from_millis(300)).pre_reboot().unwrap_err();
    assert!(matches!(failed, LockError::Server { status: 503, value, .. } if value == "drip"));
    server.join().unwrap();
}

#[test]
fn a_connection_that_breaks_off_is_no_answer() {
    for part in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"] {
        let broken = ask(says(part)).unwrap_err();
        assert!(matches!(broken, LockError::Unreachable { .. }), "{part:?}: {broken:?}");
        assert!(broken.source().is_some());
    }
    // In the body, the status has been said.
    let cut = ask(says("HTTP/1.1 423 Locked\r\nContent-Length: 50\r\n\r\n{\"kind\":\"lock_held\""))
        .unwrap_err();
    assert!(matches!(cut, LockError::Held { .. }), "{cut:?}");
}

#[test]
fn nobody_there_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let nobody = client(&url, LONG).steady_state().unwrap_err();
    assert!(
        matches!(&nobody, LockError::Unreachable { url: own, .. } if *own == format!("{url}/v1/steady-state"))
    );
    assert_eq!(nobody.to_string(), format!("{url}/v1/steady-state does not answer"));
}

#[test]
fn what_is_not_http_is_a_bad_answer() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    for garbage in ["SSH-2.0-OpenSSH_9.6\r\n\r\n", "\0\u{1}\u{2}\r\n\r\n", "200 OK\r\n\r\n", &long]
    {
        let bad = ask(says(garbage)).unwrap_err();
        assert!(matches!(bad, LockError::BadAnswer { .. }), "{:?}: {bad:?}", &garbage[..10]);
    }
}

#[test]
fn a_body_without_end_is_cut() {
    for head in ["Content-Length: 100000000000", "Connection: close"] {
        let started = Instant::now();
        let failed = ask(move |stream| {
            says(format!("HTTP/1.1 500 x\r\n{head}\r\n\r\n"))(stream);
            // Until the client hangs up.
            while stream.write_all(&[b'a'; 4096]).is_ok() {}
        })
        .unwrap_err();
        assert!(started.elapsed() < LONG, "it was the timeout that ended it");
        assert!(
            matches!(failed, LockError::Server { status: 500, value, .. } if value.chars().count() == 201)
        );
    }
    // The limit itself: a kind that comes after it is not seen.
    let body = |room: usize| format!("{}{}", " ".repeat(room), error_body("failed_lock", "x"));
    assert!(matches!(answer("500 x", &body(60_000)), LockError::Held { .. }));
    assert!(matches!(answer("500 x", &body(65_536)), LockError::Server { .. }));
}

#[test]
fn words_of_the_server_cannot_steer_a_terminal() {
    let evil = answer("400 x", &error_body("a\nb", "\u{1b}[2Jall\r\n is\u{202e} well\u{7}"));
    let LockError::Refused { kind, value, .. } = &evil else { panic!("{evil:?}") };
    assert_eq!((kind.as_str(), value.as_str()), (NO_KIND, "[2Jall is well"));
    for bytes in [&b"\xff\xfe\x1b]0;x\x07"[..], b"\x00\x00", b""] {
        let mut answer =
            format!("HTTP/1.1 500 x\r\nContent-Length: {}\r\n\r\n", bytes.len()).into_bytes();
        answer.extend_from_slice(bytes);
        let shown = ask(says(answer)).unwrap_err().to_string();
        assert!(!shown.chars().any(crate::visible::steers), "{shown:?}");
    }
    let location = "HTTP/1.1 301 x\r\nLocation: /\u{9b}2J\r\nContent-Length: 0\r\n\r\n";
    assert!(!ask(says(location)).unwrap_err().to_string().chars().any(crate::visible::steers));
    let long = answer("500 x", &error_body(&"k".repeat(65), "v"));
    assert!(matches!(long, LockError::Server { kind, .. } if kind == NO_KIND));
}

/// What a unit without its drop-in meets; nobody can tell from the errors alone.
#[test]
fn a_closed_network_is_told_with_what_opens_it() {
    let shown = |error| {
        LockError::unanswered("http://h/v1/pre-reboot".into(), ureq::Error::Io(error)).to_string()
    };
    for errno in [Errno::EAFNOSUPPORT, Errno::EPERM, Errno::EACCES] {
        assert_eq!(
            shown(errno.into()),
            "http://h/v1/pre-reboot does not answer (this host does not let bedplate use the network: is \
             bedplate.service.d/fleetlock.conf in place?)"
        );
    }
    assert_eq!(shown(Errno::ECONNREFUSED.into()), "http://h/v1/pre-reboot does not answer");
    // Longer than a label may be (RFC 1035, section 2.3.4): no name server is asked.
    let url = format!("http://{}/", "x".repeat(64));
    let unknown = client(&url, LONG).pre_reboot().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        format!(
            "{url}v1/pre-reboot does not answer (its name cannot be looked up: is the name right, and \
             bedplate.service.d/fleetlock.conf in place?)"
        )
    );
}

#[test]
fn delays_double_up_to_ten_minutes() {
    let longest: Vec<u64> = (0..8).map(|attempt| backoff(attempt, u32::MAX).as_secs()).collect();
    assert_eq!(longest, [10, 20, 40, 80, 160, 320, 600, 600]);
    let shortest: Vec<u64> = (0..8).map(|attempt| backoff(attempt, 0).as_secs()).collect();
    assert_eq!(shortest, [5, 10, 20, 40, 80, 160, 300, 300]);
}

proptest! {
    #[test]
    fn a_delay_is_never_short_nor_longer_than_ten_minutes(attempt: u32, random: u32) {
        let delay = backoff(attempt, random);
        prop_assert!(delay >= FIRST_DELAY / 2 && delay <= LONGEST_DELAY);
        prop_assert!(delay >= backoff(attempt, 0) && delay <= backoff(attempt, u32::MAX));
        prop_assert_eq!(backoff(attempt, 0) * 2, backoff(attempt, u32::MAX));
    }

    #[test]
    fn a_later_attempt_never_waits_less(attempt in 0u32..100, random: u32) {
        prop_assert!(backoff(attempt, random) <= backoff(attempt + 1, random));
    }

    #[test]
    fn chance_spreads_the_delays(attempt in 0u32..100, less: u32, more: u32) {
        prop_assume!(more.abs_diff(less) > 1_000_000);
        prop_assert_eq!(less < more, backoff(attempt, less) < backoff(attempt, more));
    }
}
