//! Tests with a server on loopback that sends one given answer, of both dialects and of neither.

mod broken;
mod tls;

use std::error::Error as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::errno::Errno;
use proptest::prelude::*;

use super::answer::NO_KIND;
use super::*;

const ID: &str = "583627a932274834a8ebd99f4ed41c0d";
/// Longer than any answer takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// Starts a server for one connection: it reads the request, then runs `answer`. Returns its base URL and the request.
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
    // The client may have disconnected: it does not read more than it needs.
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

/// Ignores the proxies of the test's environment.
fn client(base: &str, timeout: Duration) -> Client {
    Client::build(base, "default", ID, timeout, None).unwrap()
}

/// Result of a call that gets this answer.
fn ask(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> Result<(), LockError> {
    let (url, server) = server(answer);
    let result = client(&url, LONG).pre_reboot();
    server.join().unwrap();
    result
}

/// Result of releasing a slot with this answer.
fn give_back(status: &str, kind: &str, value: &str) -> Result<Option<String>, LockError> {
    let (url, server) = server(says(http(status, &error_body(kind, value))));
    let result = client(&url, LONG).steady_state();
    server.join().unwrap();
    result
}

fn answer(status: &str, body: &str) -> LockError {
    ask(says(http(status, body))).unwrap_err()
}

/// Parts of an error: its name, the status (0 without one), the server's kind, and its message.
fn parts(error: &LockError) -> (&'static str, u16, &str, &str) {
    match error {
        LockError::Held { kind, value } => ("held", 0, kind, value),
        LockError::Refused { status, kind, value } => ("refused", *status, kind, value),
        LockError::NoNode { value, group } => ("no node", 0, group, value),
        LockError::Page { status, shown } => ("page", *status, "", shown),
        LockError::Server { status, kind, value } => ("server", *status, kind, value),
        LockError::Unsafe { url, .. } => ("unsafe", 0, "", url),
        LockError::Unreachable { url, .. } => ("unreachable", 0, "", url),
        LockError::BadAnswer { url, .. } => ("bad answer", 0, "", url),
    }
}

/// [`parts`] without the message.
fn told(error: &LockError) -> (&'static str, u16, &str) {
    let (name, status, kind, _) = parts(error);
    (name, status, kind)
}

#[test]
fn request_follows_the_protocol() {
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
fn every_2xx_except_a_page_is_success() {
    ask(says("HTTP/1.1 204 No Content\r\n\r\n")).unwrap();
    for body in
        ["", "{}", "obtained reboot lease", "{\"kind\":\"failed_lock\",\"value\":\"\"}", "\u{0}"]
    {
        ask(says(http("200 OK", body))).unwrap();
        ask(says(http("202 Accepted", body))).unwrap();
    }
    // Not even the end of a body is needed.
    ask(says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")).unwrap();
}

/// A network's login page answers 200 to everything. Taken for a slot, it would let a whole fleet reboot at once.
#[test]
fn html_response_does_not_grant_slot() {
    let typed = |kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    for (answer, shown) in [
        (typed("text/html; charset=utf-8", "log in"), "text/html; charset=utf-8"),
        (typed("application/xhtml+xml", "log in"), "application/xhtml+xml"),
        (typed("image/png", "x"), "image/png"),
        (
            typed("text/plain", "\u{feff}\n <!DOCTYPE html><title>Log in"),
            "<!DOCTYPE html><title>Log in",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>".to_owned(), "<html>"),
    ] {
        let (url, server) = server(says(answer));
        let client = client(&url, LONG);
        let error = client.pre_reboot().unwrap_err();
        server.join().unwrap();
        assert_eq!(parts(&error), ("page", 200, "", shown));
        assert!(error.to_string().contains("counts as no answer"), "{error}");
    }
    // Frameworks of small servers set that type on an empty answer.
    ask(says(typed("text/html", ""))).unwrap();
    // A slot cannot be released to one either.
    let (url, server) = server(says(typed("text/html", "log in")));
    let given = client(&url, LONG).steady_state().unwrap_err();
    server.join().unwrap();
    assert_eq!(told(&given).0, "page");
}

#[test]
fn airlock_answers_are_classified() {
    let taken = "semaphore is already at full capacity: all 1 semaphore slots currently locked";
    let held = answer("500 Internal Server Error", &error_body("failed_lock", taken));
    assert_eq!(parts(&held), ("held", 0, "failed_lock", taken));
    for (line, kind, name, status) in [
        ("500 Internal Server Error", "failed_sem_init", "server", 500),
        ("400 Bad Request", "invalid_client_identity", "refused", 400),
        ("400 Bad Request", "unknown_group", "refused", 400),
    ] {
        assert_eq!(told(&answer(line, &error_body(kind, "no"))), (name, status, kind));
    }
}

#[test]
fn poseidon_answers_are_classified() {
    for (line, kind, name, status) in [
        ("423 Locked", "lock_held", "held", 0),
        ("423 Locked", "locked", "held", 0),
        ("500 x", "locked", "held", 0),
        ("400 Bad Request", "missing_header", "refused", 400),
        ("400 Bad Request", "decode_error", "refused", 400),
        ("400 Bad Request", "failed_decoding_request", "refused", 400),
        ("405 Method Not Allowed", "method_not_allowed", "refused", 405),
        ("500 Internal Server Error", "internal_error", "server", 500),
    ] {
        assert_eq!(told(&answer(line, &error_body(kind, "no"))), (name, status, kind));
    }
    // The status alone is enough if a proxy drops the body.
    assert_eq!(told(&answer("423 Locked", "")), ("held", 0, NO_KIND));
}

/// poseidon tells a host without a slot which host has it.
#[test]
fn slot_of_another_host_needs_no_release() {
    let held = "reboot lease unlock unavailable, held by 2aa1";
    for kind in ["lock_held", "locked", "x"] {
        let said = format!("{kind}: {held}");
        assert_eq!(give_back("423 Locked", kind, held).unwrap(), Some(said));
    }
    let unlocked = give_back("200 OK", "", "reboot lease already unlocked");
    assert_eq!(unlocked.unwrap(), None);
}

/// airlock uses the same kind for full slots and for a failed release.
#[test]
fn failed_release_at_airlock_is_an_error() {
    for (kind, value) in [
        ("failed_lock", "conflict on semaphore detected, aborting"),
        ("failed_sem_init", "failed to initialize semaphore manager: context deadline exceeded"),
    ] {
        let failed = give_back("500 Internal Server Error", kind, value).unwrap_err();
        assert_eq!(told(&failed), ("server", 500, kind));
        assert!(failed.to_string().starts_with("the FleetLock server failed: "), "{failed}");
    }
}

/// poseidon grants a slot to any host, and releases it only for nodes of its cluster.
#[test]
fn unknown_node_error_names_the_fix() {
    let unknown = give_back("500 x", "internal_error", "error uncordoning node").unwrap_err();
    assert_eq!(told(&unknown), ("no node", 0, "default"));
    for words in [
        "no node of its cluster has this host's machine id",
        "kubectl delete lease fleetlock-default",
    ] {
        assert!(unknown.to_string().contains(words), "{unknown}");
    }
    let failed = give_back("500 x", "internal_error", "error getting reboot lease").unwrap_err();
    assert_eq!(told(&failed).0, "server");
    let group = answer("400 Bad Request", &error_body("unknown_group", "unknown group \"gpu\""));
    assert!(group.to_string().contains("`group` in [reboot.fleetlock]"), "{group}");
}

#[test]
fn backoff_doubles_up_to_ten_minutes() {
    let longest: Vec<u64> = (0..8).map(|attempt| backoff(attempt, u32::MAX).as_secs()).collect();
    assert_eq!(longest, [10, 20, 40, 80, 160, 320, 600, 600]);
    let shortest: Vec<u64> = (0..8).map(|attempt| backoff(attempt, 0).as_secs()).collect();
    assert_eq!(shortest, [5, 10, 20, 40, 80, 160, 300, 300]);
}

proptest! {
    #[test]
    fn backoff_stays_within_bounds(attempt: u32, random: u32) {
        let delay = backoff(attempt, random);
        prop_assert!(delay >= FIRST_DELAY / 2 && delay <= LONGEST_DELAY);
        prop_assert!(delay >= backoff(attempt, 0) && delay <= backoff(attempt, u32::MAX));
        prop_assert_eq!(backoff(attempt, 0) * 2, backoff(attempt, u32::MAX));
    }

    #[test]
    fn backoff_grows_with_attempts(attempt in 0u32..100, random: u32) {
        prop_assert!(backoff(attempt, random) <= backoff(attempt + 1, random));
    }

    #[test]
    fn random_value_spreads_the_backoff(attempt in 0u32..100, less: u32, more: u32) {
        prop_assume!(more.abs_diff(less) > 1_000_000);
        prop_assert_eq!(less < more, backoff(attempt, less) < backoff(attempt, more));
    }
}
