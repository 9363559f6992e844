//! The reboot lock over TLS: a slot counts only from a server that the host trusts, and a failure is reported with its
//! reason and fix. The rig's daemon trusts only the certificates in [`AUTHORITIES`].

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bedplate_daemon::reboot::state::RebootState;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::lock::{Server, Stream, YES, scheduled};
use super::rig::{AUTHORITIES, Rig, right, until, waiting};

/// The server's address and name.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];
/// First and last year of a certificate.
const VALID: (i32, i32) = (2020, 2120);
/// Beginning of every error about the certificate.
const NOT_TRUSTED: &str = "the server's certificate is not trusted: ";
const UNKNOWN: &str = "not signed by an authority in this host's trust store; install the certificate of its CA there \
                       (update-ca-certificates, update-ca-trust), or set SSL_CERT_FILE to that file in a drop-in of \
                       bedplate.service";

/// A certificate authority.
struct Authority {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::new(HERE.map(str::to_owned)).expect("names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("random numbers");
        let certificate = parameters.self_signed(&key).expect("signed").der().clone();
        let own = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Authority { certificate, key: own, issuer: Issuer::new(parameters, key) }
    }

    /// Its certificate as stored in a trust store.
    fn pem(&self) -> String {
        let text = BASE64_STANDARD.encode(&self.certificate);
        let lines =
            text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
        format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    }

    /// A server with a certificate of this CA.
    fn server(&self, names: &[&str], (from, to): (i32, i32)) -> Server {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut parameters = CertificateParams::new(names).expect("names");
        parameters.not_before = date_time_ymd(from, 1, 1);
        parameters.not_after = date_time_ymd(to, 1, 1);
        let key = KeyPair::generate().expect("random numbers");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("signed").der().clone();
        over_tls(certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }

    /// A server that presents the CA's own certificate, as `openssl req -x509` creates it.
    fn as_server(&self) -> Server {
        over_tls(self.certificate.clone(), self.key.clone_key())
    }
}

fn over_tls(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Server {
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
    let config = Arc::new(config);
    Server::over("https", &[YES], move |stream| {
        let connection = ServerConnection::new(config.clone()).expect("the configuration is whole");
        Box::new(StreamOwned::new(connection, stream))
    })
}

/// A daemon with a pending reboot that trusts these authorities.
fn rig(server: &Server, authorities: &str) -> Rig {
    let mut rig = Rig::new();
    rig.write(AUTHORITIES, authorities);
    rig.look(&server.in_profile(waiting(&rig)));
    rig.start();
    rig
}

/// Checks that nothing was requested from the server or from logind, and that the operator sees exactly this text.
fn refused(rig: &Rig, server: &Server, words: &str) {
    let waits = |state: &RebootState| matches!(state, RebootState::Waiting { .. });
    let status = rig.until("waits", |status| waits(&status.reboot.state));
    let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
    let fault = format!("no secure connection to {}/v1/pre-reboot: {words}", server.url);
    assert_eq!(why[0].text, format!("no reboot lock slot yet: {fault}"));
    let in_file = || {
        let text = rig.read("run/bedplate/status.json");
        let file: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        file["reboot"]["lock_message"] == fault.as_str()
    };
    // The file is written after the bus is updated.
    until("in the file", in_file);
    let (_, said) = rig.run(&["reboot", "status"]);
    assert!(said.contains(&fault), "{fault} is not in\n{said}");
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [""; 0]);
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn trusted_server_grants_the_slot() {
    let authority = Authority::new("Fleet CA");
    for host in HERE {
        let server = authority.server(&HERE, VALID).at(host);
        // One of several certificates, as in a trust store.
        let authorities = Authority::new("Another CA").pem() + &authority.pem();
        let mut rig = rig(&server, &authorities);
        until("scheduled", || scheduled(&rig));
        assert_eq!(server.asked(), ["/v1/pre-reboot"], "{host}");
        assert!(rig.status().expect("it answers").reboot.lock.is_some_and(|lock| lock.certain));
        rig.look(&server.in_profile(right(&rig)));
        rig.reboot("boot-2");
        until("given back", || {
            server.asked().last().is_some_and(|path| path == "/v1/steady-state")
        });
    }
}

/// A CA that is installed later is used for the next request, without a restart.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unknown_authority_is_trusted_after_installation() {
    let (authority, other) = (Authority::new("Fleet CA"), Authority::new("Another CA"));
    let server = authority.server(&HERE, VALID);
    let rig = rig(&server, &other.pem());
    refused(&rig, &server, &format!("{NOT_TRUSTED}{UNKNOWN}"));
    rig.write(AUTHORITIES, &authority.pem());
    until("scheduled", || scheduled(&rig));
    assert_eq!(server.asked(), ["/v1/pre-reboot"]);
}

/// A reissued CA has the same name and another key.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn authority_with_the_same_name_is_not_trusted() {
    let (authority, old) = (Authority::new("Fleet CA"), Authority::new("Fleet CA"));
    let server = authority.server(&HERE, VALID);
    let rig = rig(&server, &old.pem());
    let fault = "its signature does not match the CA's key in this host's trust store; if that CA was reissued, install its \
                 current certificate";
    refused(&rig, &server, &format!("{NOT_TRUSTED}{fault}"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn certificate_for_another_server_is_refused() {
    let authority = Authority::new("Fleet CA");
    let cases = [
        (HERE[0], &["fleetlock.example", "192.0.2.1"][..], "fleetlock.example, 192.0.2.1"),
        (HERE[1], &["fleetlock.example"], "fleetlock.example"),
        (HERE[1], &[], "no name (subjectAltName; the CN is ignored)"),
    ];
    for (host, names, presented) in cases {
        let server = authority.server(names, VALID).at(host);
        let rig = rig(&server, &authority.pem());
        let fault = format!(
            "issued for {presented}, not for {host}; use one of its names in the URL, or give the server a \
             certificate for {host}"
        );
        refused(&rig, &server, &format!("{NOT_TRUSTED}{fault}"));
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn certificate_outside_its_validity_is_refused() {
    let authority = Authority::new("Fleet CA");
    let expired = "expired at 2021-01-01 00:00:00 UTC; renew the certificate, or correct this host's clock if it is wrong";
    let early = "not valid before 2119-01-01 00:00:00 UTC; correct this host's clock if it is wrong, or reissue the \
                 certificate";
    for (years, fault) in [((2020, 2021), expired), ((2119, 2120), early)] {
        let server = authority.server(&HERE, years);
        let rig = rig(&server, &authority.pem());
        refused(&rig, &server, &format!("{NOT_TRUSTED}{fault}"));
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn ca_certificate_as_server_certificate_is_refused() {
    let authority = Authority::new("Fleet CA");
    let server = authority.as_server();
    let rig = rig(&server, &authority.pem());
    let fault = "a CA's own certificate (CA:TRUE); use one that this CA has signed";
    refused(&rig, &server, &format!("{NOT_TRUSTED}{fault}"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn empty_trust_store_is_reported() {
    let server = Authority::new("Fleet CA").server(&HERE, VALID);
    let rig = rig(&server, "no certificate\n");
    let fault = "this host's trust store is empty; install ca-certificates. SSL_CERT_FILE or SSL_CERT_DIR set for \
                 bedplate.service? Point it to certificates that the service can read";
    refused(&rig, &server, fault);
}

/// Rejects a request that is not HTTP, as Go's and nginx's servers do.
fn as_it_is(mut stream: TcpStream) -> Box<dyn Stream> {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream
        .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    Box::new(std::io::empty())
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn server_without_tls_is_reported_as_such() {
    let server = Server::over("https", &[YES], as_it_is);
    let rig = rig(&server, &Authority::new("Fleet CA").pem());
    let fault = "the server does not speak TLS; enable TLS there, or begin the URL with http:// if the network is \
                 trusted";
    refused(&rig, &server, fault);
}
