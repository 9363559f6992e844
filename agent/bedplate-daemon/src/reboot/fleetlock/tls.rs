//! Why there is no safe connection to a server: the cause, and what to do about it. The words are the same every time
//! for the same fault; the library's own hold the moment of the check, and would make a new fault of each call.

use jiff::Timestamp;
use rustls::{CertificateError, Error};

use super::line::one_line;
use bedplate_base::format_utc;

/// What is wrong with TLS, and what helps. Names of a certificate are in one line, without characters that steer a terminal.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsFault(String);

impl TlsFault {
    /// The fault behind an error, if it is one of TLS.
    pub(super) fn from_error(error: &ureq::Error) -> Option<TlsFault> {
        match error {
            ureq::Error::Rustls(error) => Some(TlsFault::new(error)),
            // As the handshake reports it.
            ureq::Error::Io(error) => error.get_ref()?.downcast_ref().map(TlsFault::new),
            ureq::Error::Tls(what) => Some(TlsFault(format!("TLS fails: {what}"))),
            _ => None,
        }
    }

    fn new(error: &Error) -> TlsFault {
        TlsFault(match error {
            Error::InvalidCertificate(error) => {
                format!("the server's certificate is not trusted: {}", certificate(error))
            }
            Error::InvalidMessage(_) => {
                "what answers there does not speak TLS; have the server do so, or begin the URL with http:// if the \
                 network is to be trusted"
                    .to_owned()
            }
            // Its name is that of RFC 8446, more or less.
            Error::AlertReceived(alert) => format!(
                "the server breaks off TLS ({alert:?}); bedplate offers TLS 1.2 and 1.3, and has no certificate of its own \
                 to show"
            ),
            // The platform's verifier has no other error when it is made.
            Error::General(what) if what.starts_with("No CA certificates") => {
                "no certificate can be trusted: this host's trust store is empty; install ca-certificates, or, where \
                 SSL_CERT_FILE or SSL_CERT_DIR is set for bedplate.service, have it name certificates that the service \
                 can read"
                    .to_owned()
            }
            other => format!("TLS fails: {}", one_line(other.to_string().as_bytes())),
        })
    }
}

/// Why a certificate is not trusted, and what helps.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "no authority in this host's trust store has signed it; install the certificate of its CA there \
             (update-ca-certificates, update-ca-trust), or name that file as SSL_CERT_FILE in a drop-in of bedplate.service"
                .to_owned()
        }
        CertificateError::BadSignature => {
            "its signature does not fit the key that this host's trust store has for its CA; if that CA was reissued, \
             install the CA's present certificate"
                .to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let (expected, presented) = (expected.to_str(), names(presented));
            format!(
                "it is for {presented}, not for {expected}; write a name that it has into the URL, or give the server a \
                 certificate for {expected}"
            )
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            let at = time(not_after.as_secs());
            format!("it expired at {at}; renew it, or set this host's clock if that is wrong")
        }
        // Or this host lives in the past, as one with an empty clock battery does.
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "it is not valid before {}; set this host's clock if that is wrong, or have the certificate reissued",
            time(not_before.as_secs())
        ),
        // What `openssl req -x509` makes unless told otherwise. rustls has no variant for it, and hands on the name that its
        // verifier has.
        CertificateError::Other(error) if error.to_string() == "CaUsedAsEndEntity" => {
            "it is a CA's own (CA:TRUE); have the server show one that this CA has signed".to_owned()
        }
        CertificateError::Other(error) => reissue(error),
        other => reissue(other),
    }
}

fn reissue(fault: &dyn std::fmt::Display) -> String {
    format!("{}; have it reissued", one_line(fault.to_string().as_bytes()))
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
