//! Why there is no safe connection to a server: the cause, and what to do about it. The words are the same every time
//! for the same fault; the library's own hold the moment of the check, and would make a new fault of each call.

use jiff::Timestamp;
use rustls::{CertificateError, Error};

use super::line::one_line;
use bedplate_base::format_utc;

/// What is wrong with TLS. Names of a certificate are in one line, without characters that steer a terminal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// Signed by nobody whom this host trusts.
    #[error(
        "the server's certificate is not trusted: no authority in this host's trust store has signed it; install the \
         certificate of its CA there (update-ca-certificates, update-ca-trust), or name that file as SSL_CERT_FILE in a \
         drop-in of bedplate.service"
    )]
    UnknownAuthority,
    /// Signed in the name of an authority that this host trusts, with another key.
    #[error(
        "the server's certificate is not trusted: its signature does not fit the key that this host's trust store has for \
         its CA; if that CA was reissued, install the CA's present certificate"
    )]
    AnotherKey,
    /// There is nobody whom this host trusts.
    #[error(
        "no certificate can be trusted: this host's trust store is empty; install ca-certificates, or, where \
         SSL_CERT_FILE or SSL_CERT_DIR is set for bedplate.service, have it name certificates that the service can read"
    )]
    NoAuthority,
    /// For another server.
    #[error(
        "the server's certificate is not trusted: it is for {presented}, not for {expected}; write a name that it has \
         into the URL, or give the server a certificate for {expected}"
    )]
    OtherName {
        /// Who was called.
        expected: String,
        /// Whom it is for.
        presented: String,
    },
    /// Once, but no longer.
    #[error(
        "the server's certificate is not trusted: it expired at {0}; renew it, or set this host's clock if that is wrong"
    )]
    Expired(String),
    /// Not before another day; or this host lives in the past, as one with an empty clock battery does.
    #[error(
        "the server's certificate is not trusted: it is not valid before {0}; set this host's clock if that is wrong, or \
         have the certificate reissued"
    )]
    NotYet(String),
    /// What `openssl req -x509` makes unless told otherwise.
    #[error(
        "the server's certificate is not trusted: it is a CA's own (CA:TRUE); have the server show one that this CA has \
         signed"
    )]
    AuthoritysOwn,
    /// Any other fault of a certificate.
    #[error("the server's certificate is not trusted: {0}; have it reissued")]
    Certificate(String),
    /// Another protocol, mostly HTTP as it is.
    #[error(
        "what answers there does not speak TLS; have the server do so, or begin the URL with http:// if the network is \
         to be trusted"
    )]
    NotTls,
    /// The server does not want this client.
    #[error(
        "the server breaks off TLS ({0}); bedplate offers TLS 1.2 and 1.3, and has no certificate of its own to show"
    )]
    Refused(String),
    /// Anything else.
    #[error("TLS fails: {0}")]
    Other(String),
}

impl TlsFault {
    /// The fault behind an error, if it is one of TLS.
    pub(super) fn from_error(error: &ureq::Error) -> Option<TlsFault> {
        match error {
            ureq::Error::Rustls(error) => Some(TlsFault::new(error)),
            // As the handshake reports it.
            ureq::Error::Io(error) => error.get_ref()?.downcast_ref().map(TlsFault::new),
            ureq::Error::Tls(what) => Some(TlsFault::Other((*what).to_owned())),
            _ => None,
        }
    }

    fn new(error: &Error) -> TlsFault {
        match error {
            Error::InvalidCertificate(error) => TlsFault::certificate(error),
            Error::InvalidMessage(_) => TlsFault::NotTls,
            // Its name is that of RFC 8446, more or less.
            Error::AlertReceived(alert) => TlsFault::Refused(format!("{alert:?}")),
            // The platform's verifier has no other error when it is made.
            Error::General(what) if what.starts_with("No CA certificates") => TlsFault::NoAuthority,
            other => TlsFault::Other(one_line(other.to_string().as_bytes())),
        }
    }

    fn certificate(error: &CertificateError) -> TlsFault {
        match error {
            CertificateError::UnknownIssuer => TlsFault::UnknownAuthority,
            CertificateError::BadSignature => TlsFault::AnotherKey,
            CertificateError::NotValidForNameContext { expected, presented } => {
                TlsFault::OtherName {
                    expected: expected.to_str().into_owned(),
                    presented: names(presented),
                }
            }
            CertificateError::ExpiredContext { not_after, .. } => {
                TlsFault::Expired(time(not_after.as_secs()))
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                TlsFault::NotYet(time(not_before.as_secs()))
            }
            // rustls has no variant for it, and hands on the name that its verifier has.
            CertificateError::Other(error) if error.to_string() == "CaUsedAsEndEntity" => {
                TlsFault::AuthoritysOwn
            }
            CertificateError::Other(error) => {
                TlsFault::Certificate(one_line(error.to_string().as_bytes()))
            }
            other => TlsFault::Certificate(one_line(other.to_string().as_bytes())),
        }
    }
}

/// `DnsName("a")` and `IpAddress(10.0.0.1)`, as rustls has them, without their kinds.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "no name at all (subjectAltName; the CN does not count)".to_owned();
    }
    let bare = |name: &String| {
        let inner =
            name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    one_line(presented.iter().map(bare).collect::<Vec<_>>().join(", ").as_bytes())
}

/// A time of a certificate, as operators read it.
fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| format!("second {seconds} of the epoch"), format_utc)
}
