//! TLS servers, and invalid configurations.

use super::*;

#[test]
fn plain_request_to_a_tls_server_names_https() {
    // An alert (RFC 8446, section 6), which most servers send on a plain request.
    let (url, server) = server(says([21, 3, 3, 0, 2, 2, 50]));
    let bad = client(&url, LONG).pre_reboot().unwrap_err();
    server.join().unwrap();
    assert_eq!(
        bad.to_string(),
        format!(
            "the server at {url}v1/pre-reboot does not speak HTTP; for a TLS server, begin the URL with https://"
        )
    );
}

#[test]
fn tls_fault_text_does_not_depend_on_time() {
    let fault = |error: rustls::Error| {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
        LockError::unanswered("https://h/".into(), ureq::Error::Io(error))
    };
    let at = |seconds| rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let expired = |now| {
        let error = rustls::CertificateError::ExpiredContext {
            time: at(now),
            not_after: at(1_600_000_000),
        };
        fault(error.into())
    };
    let words = |error: &LockError| error.source().map(ToString::to_string).unwrap_or_default();
    assert!(words(&expired(1_700_000_000)).contains("expired at 2020-09-13 12:26:40 UTC"));
    assert_eq!(words(&expired(1_700_000_000)), words(&expired(1_800_000_000)));
    assert_eq!(told(&expired(1_700_000_000)).0, "unsafe");
    let alert = fault(rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired));
    assert!(words(&alert).starts_with("the server aborted TLS (CertificateRequired)"), "{alert:?}");
    // The names of a certificate are untrusted text.
    let other = fault(
        rustls::CertificateError::NotValidForNameContext {
            expected: "h.example".try_into().unwrap(),
            presented: vec!["DnsName(\"\u{1b}[2Ja.example\")".into(), "x\n".repeat(300)],
        }
        .into(),
    );
    let words = words(&other);
    assert!(words.contains("issued for [2Ja.example, x x x"), "{words}");
    let steers = words.contains(bedplate_base::terminal::is_control);
    assert!(!steers && words.chars().count() < 500, "{words}");
}

#[test]
fn https_never_sends_plain_text() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut first = [0];
        let got = stream.read(&mut first).unwrap_or(0);
        says(http("200 OK", ""))(&mut stream);
        first[..got].to_vec()
    });
    let untrusted = client(&url, LONG).pre_reboot().unwrap_err();
    assert_eq!(told(&untrusted).0, "unsafe");
    // A TLS handshake record (RFC 8446, section 5.1), or nothing on a machine without a trust store.
    let first = server.join().unwrap();
    assert!(first.is_empty() || first == [22], "{first:?}");
}

#[test]
fn invalid_configuration_is_rejected() {
    let make =
        |url: &str, group: &str, id: &str, timeout| Client::new(url, group, id.into(), timeout);
    let url = |url: &str| make(url, "default", ID, LONG).unwrap_err();
    let is_no_url = |error: &str| error.ends_with("is not a URL");
    for good in ["http://h", "https://fleet.example:8443/a", "http://[::1]:3333/", "HTTPS://h/"] {
        make(good, "Rack-7.b", ID, LONG).unwrap();
    }
    for bad in ["", "http://", "http:///v1", "http://a b/"] {
        assert!(is_no_url(&url(bad)), "{bad:?}");
    }
    for bad in ["ftp://h/", "fleet.example:8443", "fleet.example", "/v1", "unix:/run/x"] {
        let error = url(bad);
        assert!(error.contains("expected http://HOST/") || is_no_url(&error), "{bad:?}: {error}");
    }
    for bad in ["http://h:port/", "http://h:/", "http://h:0/", "http://h:65536/", "http://[::1]:x/"]
    {
        let error = url(bad);
        assert!(error.contains("expected a port") || is_no_url(&error), "{bad:?}: {error}");
    }
    assert!(url("http://h:port/").contains("expected a port"));
    assert!(url("http://h/?a=b").ends_with("has no `?` and no `#`"));
    assert!(url("http://h/#a").ends_with("has no `?` and no `#`"));
    let secret = make("https://ada:secret@h/", "default", ID, LONG).unwrap_err();
    assert!(secret.contains("a user or a password") && !secret.contains("secret"), "{secret}");
    for bad in ["", "a b", "a_b", "a/b", "é", "a\n"] {
        let group = make("http://h", bad, ID, LONG).unwrap_err();
        assert!(group.contains("is not a valid FleetLock group"), "{bad:?}: {group}");
    }
    for bad in ["", " ", "\n"] {
        let error = make("http://h", "default", bad, LONG).unwrap_err();
        assert!(error.ends_with("is empty"), "{bad:?}: {error}");
    }
    let error = make("http://h", "default", ID, Duration::ZERO).unwrap_err();
    assert!(error.ends_with("is zero"), "{error}");
}
