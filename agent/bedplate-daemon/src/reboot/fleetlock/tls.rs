//! Causes of TLS failures with their fixes. The text is constant for the same fault; the library's texts contain the time of
//! the check, which would make each call a new fault.

use jiff::Timestamp;
use rustls::{CertificateError, Error};

use super::line::one_line;
use bedplate_base::format_utc;

/// A TLS fault with its fix. Names of a certificate are in one line, without control characters.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsFault(String);

impl TlsFault {
    /// Returns the TLS fault behind an error, if any.
    pub(super) fn from_error(error: &ureq::Error) -> Option<TlsFault> {
        match error {
            ureq::Error::Rustls(error) => Some(TlsFault::new(error)),
            // The form in which the handshake reports it.
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
                "the server does not speak TLS; enable TLS there, or begin the URL with http:// if the network is \
                 trusted"
                    .to_owned()
            }
            // Names roughly as in RFC 8446.
            Error::AlertReceived(alert) => format!(
                "the server aborted TLS ({alert:?}); bedplate offers TLS 1.2 and 1.3, and no client certificate"
            ),
            // The platform's verifier has no other error at creation.
            Error::General(what) if what.starts_with("No CA certificates") => {
                "this host's trust store is empty; install ca-certificates. SSL_CERT_FILE or SSL_CERT_DIR set for \
                 bedplate.service? Point it to certificates that the service can read"
                    .to_owned()
            }
            other => format!("TLS fails: {}", one_line(other.to_string().as_bytes())),
        })
    }
}

/// Returns why a certificate is not trusted, and the fix.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "not signed by an authority in this host's trust store; install the certificate of its CA there \
             (update-ca-certificates, update-ca-trust), or set SSL_CERT_FILE to that file in a drop-in of \
             bedplate.service"
                .to_owned()
        }
        CertificateError::BadSignature => {
            "its signature does not match the CA's key in this host's trust store; if that CA was reissued, install \
             its current certificate"
                .to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let (expected, presented) = (expected.to_str(), names(presented));
            format!(
                "issued for {presented}, not for {expected}; use one of its names in the URL, or give the server a \
                 certificate for {expected}"
            )
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            let at = time(not_after.as_secs());
            format!("expired at {at}; renew the certificate, or correct this host's clock if it is wrong")
        }
        // Or this host's clock is in the past, for example with an empty battery.
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "not valid before {}; correct this host's clock if it is wrong, or reissue the certificate",
            time(not_before.as_secs())
        ),
        // `openssl req -x509` creates such a certificate by default. rustls has no variant for it, and passes on
        // the name from its verifier.
        CertificateError::Other(error) if error.to_string() == "CaUsedAsEndEntity" => {
            "a CA's own certificate (CA:TRUE); use one that this CA has signed".to_owned()
        }
        CertificateError::Other(error) => reissue(error),
        other => reissue(other),
    }
}

fn reissue(fault: &dyn std::fmt::Display) -> String {
    format!("{}; reissue the certificate", one_line(fault.to_string().as_bytes()))
}

/// Returns the names `DnsName("a")` and `IpAddress(10.0.0.1)`, as rustls formats them, without their kinds.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "no name (subjectAltName; the CN is ignored)".to_owned();
    }
    let bare = |name: &String| {
        let inner =
            name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    one_line(presented.iter().map(bare).collect::<Vec<_>>().join(", ").as_bytes())
}

/// Formats a time of a certificate.
fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| format!("second {seconds} of the epoch"), format_utc)
}
