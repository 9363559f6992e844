//! Meaning of a FleetLock server's answer. The status decides. The body names the reason and may be arbitrary: ingresses and
//! proxies between host and server send their own pages.

use std::io::Read as _;

use nix::errno::Errno;
use serde::Deserialize;
use ureq::Body;
use ureq::http::{Response, header};

use super::line::one_line;
use super::tls::TlsFault;

/// Bytes read of a body. The protocol's bodies are one line; a longer one is not from a FleetLock server.
const BODY: u64 = 64 << 10;
/// Bytes inspected of the body of a success.
const START: u64 = 1 << 10;
/// Longest kind in bytes; it must be usable as a metric label.
const KIND: usize = 64;
/// Kind of an answer without one.
pub(super) const NO_KIND: &str = "unknown";

/// Kinds with which current and older poseidon report, with status 423, that other hosts hold all slots.
const HELD: [&str; 2] = ["lock_held", "locked"];
/// Kind with which airlock reports the same, with status 500, when a slot is requested, and also when it fails to release one.
const FAILED_LOCK: &str = "failed_lock";
/// Message of poseidon, with status 500, when it cannot uncordon the node of this host; it then retains the slot. It has no
/// such message when a slot is requested: it drains the node if it can.
const NO_NODE: &str = "error uncordoning node";

/// Reason of a failed call. `kind` is the server's, of letters, digits, `_`, `.` and `-`, or `unknown`; `value` is its
/// explanation in one line, without control characters.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// All slots are taken, or the server could not determine it (airlock reports both alike): try again later.
    #[error("no reboot slot available ({kind}: {value})")]
    Held {
        /// The server's kind of error.
        kind: String,
        /// The server's explanation.
        value: String,
    },
    /// The request is wrong, or was sent to the wrong place: an operator must fix the configuration.
    #[error(
        "the FleetLock server refused this host: status {status}, {kind}: {value}{}",
        refused_hint(kind)
    )]
    Refused {
        /// HTTP status: 4xx, or 3xx because redirects are not followed (kind `redirected`).
        status: u16,
        /// The server's kind of error.
        kind: String,
        /// The server's explanation.
        value: String,
    },
    /// The server has no node for this host, or may not change it, and retains the slot.
    #[error(
        "the FleetLock server keeps this host's slot ({value}): no node of its cluster has this host's machine id, or \
         the server may not change nodes. Compare /etc/machine-id with `kubectl get nodes -o yaml | grep machineID` \
         (kubelet reads it at startup). Host of another cluster? Set that cluster's server in [reboot.fleetlock]. To \
         free the slot, run `kubectl delete lease fleetlock-{group}` in the server's namespace"
    )]
    NoNode {
        /// The server's explanation.
        value: String,
        /// Group of the slot.
        group: String,
    },
    /// Another server than a FleetLock server answered with success: no slot.
    #[error(
        "got a web page ({shown}) with status {status}, not the answer of a FleetLock server: login page of a network, \
         proxy, or wrong URL? It counts as no answer"
    )]
    Page {
        /// HTTP status: 2xx.
        status: u16,
        /// The content type, or the start of the body.
        shown: String,
    },
    /// The server, or a proxy in front of it, failed: try again later.
    #[error("the FleetLock server failed: status {status}, {kind}: {value}")]
    Server {
        /// HTTP status: 5xx, 408, 425, 429, or one outside HTTP.
        status: u16,
        /// The server's kind of error.
        kind: String,
        /// The server's explanation.
        value: String,
    },
    /// No trusted connection: an operator must fix a certificate or the URL.
    #[error("no secure connection to {url}")]
    Unsafe {
        /// The URL called.
        url: String,
        /// The fault and its fix.
        source: TlsFault,
    },
    /// No answer: unknown name, no connection, timeout, or cut off.
    #[error("{url} does not answer{}", hint(source))]
    Unreachable {
        /// The URL called.
        url: String,
        /// The failure.
        source: Box<ureq::Error>,
    },
    /// The answer is not HTTP.
    #[error("the server at {url} does not speak HTTP{}", scheme_hint(url))]
    BadAnswer {
        /// The URL called.
        url: String,
        /// The failure.
        source: Box<ureq::Error>,
    },
}

impl LockError {
    /// Returns the error of a call without a readable answer.
    pub(super) fn unanswered(url: String, error: ureq::Error) -> LockError {
        if let Some(source) = TlsFault::from_error(&error) {
            return LockError::Unsafe { url, source };
        }
        let source = Box::new(error);
        match *source {
            ureq::Error::Protocol(_)
            | ureq::Error::Http(_)
            | ureq::Error::LargeResponseHeader(..) => LockError::BadAnswer { url, source },
            _ => LockError::Unreachable { url, source },
        }
    }
}

/// Returns a hint that the error itself lacks.
fn hint(error: &ureq::Error) -> &'static str {
    let error = match error {
        ureq::Error::Io(error) => error,
        // IPAddressAllow= drops other addresses silently.
        ureq::Error::Timeout(_) => {
            return " (slow server, a firewall that drops packets, or IPAddressAllow= of bedplate.service without this \
                address)";
        }
        _ => return "",
    };
    match error.raw_os_error().map(Errno::from_raw) {
        // Caused by the unit's RestrictAddressFamilies= and IPAddressDeny=, or by a firewall of this host.
        Some(Errno::EAFNOSUPPORT | Errno::EPERM | Errno::EACCES) => {
            " (this host blocks bedplate's network access: is bedplate.service.d/fleetlock.conf installed?)"
        }
        // The standard library has no error kind for a failed name lookup.
        None if error.to_string().starts_with("failed to lookup address") => {
            " (name lookup failed: is the name correct, and bedplate.service.d/fleetlock.conf installed?)"
        }
        _ => "",
    }
}

/// Returns the fix if the server's message names only the fault.
fn refused_hint(kind: &str) -> &'static str {
    match kind {
        "unknown_group" => {
            " (set `group` in [reboot.fleetlock] to a group of the server's configuration)"
        }
        _ => "",
    }
}

fn scheme_hint(url: &str) -> &'static str {
    if url.starts_with("https:") { "" } else { "; for a TLS server, begin the URL with https://" }
}

/// The protocol's error body. Servers may add fields.
#[derive(Deserialize)]
struct ErrorBody {
    kind: String,
    #[serde(default)]
    value: String,
}

/// Interprets the answer to a request for a slot.
pub(super) fn pre_reboot(response: Response<Body>) -> Result<(), LockError> {
    read(response).map_err(|failed| match failed {
        LockError::Server { kind, value, .. } if kind == FAILED_LOCK => {
            LockError::Held { kind, value }
        }
        failed => failed,
    })
}

/// Interprets an answer of these parts to a request for a slot; for tests with hostile bytes.
///
/// # Errors
/// [`LockError`] if it does not grant a slot.
pub fn understood(status: u16, content_type: &str, body: &[u8]) -> Result<(), LockError> {
    let mut response = Response::new(Body::builder().data(body));
    if let Ok(status) = status.try_into() {
        *response.status_mut() = status;
    }
    if let Ok(kind) = content_type.try_into() {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    pre_reboot(response)
}

/// Interprets the answer to the release of a slot of `group`. Returns the server's message if this host had no slot, because
/// other hosts hold all (poseidon; airlock does not distinguish it).
pub(super) fn steady_state(
    response: Response<Body>,
    group: &str,
) -> Result<Option<String>, LockError> {
    match read(response) {
        Ok(()) => Ok(None),
        Err(LockError::Held { kind, value }) => Ok(Some(format!("{kind}: {value}"))),
        Err(LockError::Server { value, .. }) if value.contains(NO_NODE) => {
            Err(LockError::NoNode { value, group: group.to_owned() })
        }
        Err(failed) => Err(failed),
    }
}

/// Accepts any 2xx as success, because the protocol demands tolerance, except a web page.
fn read(mut response: Response<Body>) -> Result<(), LockError> {
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        return match page(&mut response) {
            Some(shown) => Err(LockError::Page { status, shown }),
            None => Ok(()),
        };
    }
    if (300..400).contains(&status) {
        let location = response.headers().get(header::LOCATION).map(|to| one_line(to.as_bytes()));
        let value = location.map_or_else(|| "nowhere".to_owned(), |to| format!("to {to}"));
        return Err(LockError::Refused { status, kind: "redirected".into(), value });
    }
    let mut body = Vec::new();
    // The status is known, so the part before a cut or the limit is enough.
    let _ = response.body_mut().as_reader().take(BODY).read_to_end(&mut body);
    Err(failure(status, &body))
}

/// Detects a page that is not from a FleetLock server, which sends nothing (airlock's internal/server) or a line of plain text
/// (poseidon's internal/server.go). A network's login page, or an ingress for an unknown host, answers 200 to everything.
fn page(response: &mut Response<Body>) -> Option<String> {
    let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| one_line(kind.as_bytes()));
    let mut start = Vec::new();
    // The part before a cut is enough.
    let _ = response.body_mut().as_reader().take(START).read_to_end(&mut start);
    let text = String::from_utf8_lossy(&start);
    let text = text.trim_start_matches('\u{feff}').trim();
    // An empty body is not a page, even if a server's framework sets the type of one.
    if text.is_empty() {
        return None;
    }
    let plain = |kind: &String| {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        matches!(kind.as_str(), "text/plain" | "application/json" | "application/octet-stream")
    };
    let of_people = kind.filter(|kind| !plain(kind));
    of_people.or_else(|| text.starts_with('<').then(|| one_line(text.as_bytes())))
}

fn failure(status: u16, body: &[u8]) -> LockError {
    let (kind, value) = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) if fits(&body.kind) => (body.kind, one_line(body.value.as_bytes())),
        Ok(body) => (NO_KIND.to_owned(), one_line(body.value.as_bytes())),
        Err(_) => (NO_KIND.to_owned(), one_line(body)),
    };
    match status {
        423 => LockError::Held { kind, value },
        400.. if HELD.contains(&kind.as_str()) => LockError::Held { kind, value },
        // Timeout, Too Early, Too Many Requests: the request itself is valid.
        408 | 425 | 429 => LockError::Server { status, kind, value },
        400..500 => LockError::Refused { status, kind, value },
        _ => LockError::Server { status, kind, value },
    }
}

fn fits(kind: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=KIND).contains(&kind.len()) && kind.bytes().all(fits)
}
