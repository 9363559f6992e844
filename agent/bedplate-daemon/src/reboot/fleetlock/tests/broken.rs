//! Servers that answer late, never, or with invalid data.

use super::*;

#[test]
fn proxy_answers_differ_from_server_answers() {
    // A wrong path at an ingress, and an ingress without its server.
    let page = "<html>\r\n<h1>404 page not found</h1>";
    assert_eq!(
        parts(&answer("404 Not Found", page)),
        ("refused", 404, NO_KIND, "<html> <h1>404 page not found</h1>")
    );
    for (line, status) in
        [("502 Bad Gateway", 502), ("503 Unavailable", 503), ("429 Too Many", 429), ("408 x", 408)]
    {
        assert_eq!(told(&answer(line, page)), ("server", status, NO_KIND));
    }
    // A refusal by permission does not mean that a slot is held.
    let forbidden = answer("403 Forbidden", &error_body("forbidden", ""));
    assert_eq!(told(&forbidden), ("refused", 403, "forbidden"));
}

#[test]
fn redirects_are_refused() {
    let (target, followed) = server(says(http("200 OK", "")));
    for status in [301, 302, 303, 307, 308] {
        let location =
            format!("HTTP/1.1 {status} x\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
        let refused = ask(says(location)).unwrap_err();
        let to = format!("to {target}");
        assert_eq!(parts(&refused), ("refused", status, "redirected", to.as_str()));
    }
    assert_eq!(parts(&answer("304 x", "")), ("refused", 304, "redirected", "nowhere"));
    assert!(!followed.is_finished(), "the redirect was followed");
    // Let the server end.
    client(&target, LONG).steady_state().unwrap();
    assert!(followed.join().unwrap().contains("steady-state"));
}

#[test]
fn late_answer_is_unreachable() {
    // Until the client disconnects.
    let wait = |stream: &mut TcpStream| drop(stream.read(&mut [0]));
    for begin in ["", "HTTP/1.1 200 OK\r\nContent-Len"] {
        let (url, server) = server(move |stream| {
            says(begin)(stream);
            wait(stream);
        });
        let started = Instant::now();
        let late = client(&url, Duration::from_millis(300)).pre_reboot().unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(late.to_string().contains("does not answer (slow server, a firewall"), "{late}");
        let LockError::Unreachable { source, .. } = late else { panic!("{late:?}") };
        assert!(matches!(*source, ureq::Error::Timeout(_)));
        server.join().unwrap();
    }
}

#[test]
fn endless_error_body_is_classified_by_status() {
    let (url, server) = server(|stream| {
        says("HTTP/1.1 503 x\r\nContent-Length: 100\r\n\r\ndrip")(stream);
        drop(stream.read(&mut [0]));
    });
    let failed = client(&url, Duration::from_millis(300)).pre_reboot().unwrap_err();
    assert_eq!(parts(&failed), ("server", 503, NO_KIND, "drip"));
    server.join().unwrap();
}

#[test]
fn broken_connection_is_unreachable() {
    for part in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"] {
        let broken = ask(says(part)).unwrap_err();
        assert_eq!(told(&broken).0, "unreachable", "{part:?}: {broken:?}");
        assert!(broken.source().is_some());
    }
    // Cut in the body: the status is known.
    let cut = ask(says("HTTP/1.1 423 Locked\r\nContent-Length: 50\r\n\r\n{\"kind\":\"lock_held\""))
        .unwrap_err();
    assert_eq!(told(&cut).0, "held");
}

#[test]
fn refused_connection_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let nobody = client(&url, LONG).steady_state().unwrap_err();
    let called = format!("{url}/v1/steady-state");
    assert_eq!(parts(&nobody), ("unreachable", 0, "", called.as_str()));
    assert_eq!(nobody.to_string(), format!("{called} does not answer"));
}

#[test]
fn non_http_response_is_a_bad_answer() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    for garbage in ["SSH-2.0-OpenSSH_9.6\r\n\r\n", "\0\u{1}\u{2}\r\n\r\n", "200 OK\r\n\r\n", &long]
    {
        let bad = ask(says(garbage)).unwrap_err();
        assert_eq!(told(&bad).0, "bad answer", "{:?}", &garbage[..10]);
    }
}

#[test]
fn endless_body_is_cut() {
    for head in ["Content-Length: 100000000000", "Connection: close"] {
        let started = Instant::now();
        let failed = ask(move |stream| {
            says(format!("HTTP/1.1 500 x\r\n{head}\r\n\r\n"))(stream);
            // Until the client disconnects.
            while stream.write_all(&[b'a'; 4096]).is_ok() {}
        })
        .unwrap_err();
        assert!(started.elapsed() < LONG, "it was the timeout that ended it");
        let (name, status, _, value) = parts(&failed);
        assert_eq!((name, status, value.chars().count()), ("server", 500, 201));
    }
    // The limit itself: a kind after it is not seen.
    let body = |room: usize| format!("{}{}", " ".repeat(room), error_body("failed_lock", "x"));
    assert_eq!(told(&answer("500 x", &body(60_000))).0, "held");
    assert_eq!(told(&answer("500 x", &body(65_536))).0, "server");
}

fn steers_nothing(error: &LockError) {
    let shown = error.to_string();
    assert!(!shown.contains(bedplate_base::terminal::is_control), "{shown:?}");
}

#[test]
fn server_messages_contain_no_control_characters() {
    let evil = answer("400 x", &error_body("a\nb", "\u{1b}[2Jall\r\n is\u{202e} well\u{7}"));
    assert_eq!(parts(&evil), ("refused", 400, NO_KIND, "[2Jall is well"));
    for bytes in [&b"\xff\xfe\x1b]0;x\x07"[..], b"\x00\x00", b""] {
        let mut answer =
            format!("HTTP/1.1 500 x\r\nContent-Length: {}\r\n\r\n", bytes.len()).into_bytes();
        answer.extend_from_slice(bytes);
        steers_nothing(&ask(says(answer)).unwrap_err());
    }
    let location = "HTTP/1.1 301 x\r\nLocation: /\u{9b}2J\r\nContent-Length: 0\r\n\r\n";
    steers_nothing(&ask(says(location)).unwrap_err());
    let long = answer("500 x", &error_body(&"k".repeat(65), "v"));
    assert_eq!(told(&long), ("server", 500, NO_KIND));
}

/// Errors of a unit without its drop-in; the errors alone do not name the cause.
#[test]
fn blocked_network_error_names_the_drop_in() {
    let shown = |error| {
        LockError::unanswered("http://h/v1/pre-reboot".into(), ureq::Error::Io(error)).to_string()
    };
    for errno in [Errno::EAFNOSUPPORT, Errno::EPERM, Errno::EACCES] {
        assert_eq!(
            shown(errno.into()),
            "http://h/v1/pre-reboot does not answer (this host blocks bedplate's network access: is \
             bedplate.service.d/fleetlock.conf installed?)"
        );
    }
    assert_eq!(shown(Errno::ECONNREFUSED.into()), "http://h/v1/pre-reboot does not answer");
    // Longer than a label may be (RFC 1035, section 2.3.4): no name server is asked.
    let url = format!("http://{}/", "x".repeat(64));
    let unknown = client(&url, LONG).pre_reboot().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        format!(
            "{url}v1/pre-reboot does not answer (name lookup failed: is the name correct, and \
             bedplate.service.d/fleetlock.conf installed?)"
        )
    );
}
