//! What a FleetLock server's answer means. The status decides; the body names the reason, and may be anything at all:
//! between the host and the server stand ingresses and proxies with pages of their own.

use std::io::Read as _;

use nix::errno::Errno;
use serde::Deserialize;
use ureq::Body;
use ureq::http::{Response, header};

use super::line::one_line;
use super::tls::TlsFault;

/// How much of a body is read. The protocol's are a line; what is longer is no answer of a FleetLock server.
const BODY: u64 = 64 << 10;
/// How much of the body of a success is looked at.
const START: u64 = 1 << 10;
/// The most that a kind may have; it is to be fit for the label of a metric.
const KIND: usize = 64;
/// The kind of an answer that names none.
pub(super) const NO_KIND: &str = "unknown";

/// Kinds by which poseidon, now and formerly, says that others hold all slots; with status 423.
const HELD: [&str; 2] = ["lock_held", "locked"];
/// By which airlock says the same, with status 500, when it is asked for a slot. When it does not take one back either.
const FAILED_LOCK: &str = "failed_lock";
/// What poseidon says, with status 500, when it cannot give the node of this host back to the cluster; then it keeps the
/// slot. When a slot is asked for it says nothing of that sort: it drains the node if it can.
const NO_NODE: &str = "error uncordoning node";

/// Why a call did not succeed. `kind` is the server's, of letters, digits, `_`, `.` and `-`, or `unknown`; `value` is
/// its explanation in one line, without characters that steer a terminal.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// All slots are taken, or the server could not tell (airlock says both in the same way): try again later.
    #[error("no reboot slot for now ({kind}: {value})")]
    Held {
        /// The server's kind of error.
        kind: String,
        /// The server's explanation.
        value: String,
    },
    /// The request itself is wrong, or went to the wrong place: an operator must fix the configuration.
    #[error(
        "the FleetLock server refuses this host: status {status}, {kind}: {value}{}",
        refused_hint(kind)
    )]
    Refused {
        /// HTTP status: 4xx, or 3xx as redirects are not followed (kind `redirected`).
        status: u16,
        /// The server's kind of error.
        kind: String,
        /// The server's explanation.
        value: String,
    },
    /// The server knows no node that is this host, or may not change it, and keeps the slot.
    #[error(
        "the FleetLock server keeps this host's slot ({value}): no node of its cluster has this host's machine id, or the \
         server may not change nodes. Compare /etc/machine-id with `kubectl get nodes -o yaml | grep machineID` (kubelet \
         reads it when it starts); a host of another cluster needs that cluster's server in [reboot.fleetlock]. `kubectl \
         delete lease fleetlock-{group}` in the server's namespace frees the slot by hand"
    )]
    NoNode {
        /// The server's explanation.
        value: String,
        /// The group whose slot it is.
        group: String,
    },
    /// Something else than a FleetLock server says yes: that is no slot.
    #[error(
        "what answers with status {status} is no FleetLock server, but a page ({shown}): a network's login page, a proxy, or \
         another server at this URL? It counts as no answer"
    )]
    Page {
        /// HTTP status: 2xx.
        status: u16,
        /// The content type, or how the body begins.
        shown: String,
    },
    /// The server, or something before it, is in trouble: try again later.
    #[error("the FleetLock server failed: status {status}, {kind}: {value}")]
    Server {
        /// HTTP status: 5xx, 408, 425, 429, or one that HTTP does not have.
        status: u16,
        /// The server's kind of error.
        kind: String,
        /// The server's explanation.
        value: String,
    },
    /// No connection over which a slot could be believed: an operator must see to a certificate, or to the URL.
    #[error("no safe connection to {url}")]
    Unsafe {
        /// What was called.
        url: String,
        /// What is wrong, and what helps.
        source: TlsFault,
    },
    /// No answer: no such name, no connection, too late, or cut off.
    #[error("{url} does not answer{}", hint(source))]
    Unreachable {
        /// What was called.
        url: String,
        /// The failure.
        source: Box<ureq::Error>,
    },
    /// An answer that is not HTTP.
    #[error("what answers at {url} does not speak HTTP{}", scheme_hint(url))]
    BadAnswer {
        /// What was called.
        url: String,
        /// The failure.
        source: Box<ureq::Error>,
    },
}

impl LockError {
    /// For a call that got no answer to read.
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

/// What to look at where the error itself does not say it.
fn hint(error: &ureq::Error) -> &'static str {
    let error = match error {
        ureq::Error::Io(error) => error,
        // What IPAddressAllow= leaves out is dropped without a word.
        ureq::Error::Timeout(_) => {
            return " (it is slow, or a firewall drops what is sent, or IPAddressAllow= of bedplate.service leaves it out)";
        }
        _ => return "",
    };
    match error.raw_os_error().map(Errno::from_raw) {
        // By the unit's RestrictAddressFamilies= and IPAddressDeny=, or by a firewall of this host.
        Some(Errno::EAFNOSUPPORT | Errno::EPERM | Errno::EACCES) => {
            " (this host does not let bedplate use the network: is bedplate.service.d/fleetlock.conf in place?)"
        }
        // The standard library has no kind for a failed look-up.
        None if error.to_string().starts_with("failed to lookup address") => {
            " (its name cannot be looked up: is the name right, and bedplate.service.d/fleetlock.conf in place?)"
        }
        _ => "",
    }
}

/// What to do where the server's words say what is wrong, and not what helps.
fn refused_hint(kind: &str) -> &'static str {
    match kind {
        "unknown_group" => {
            " (`group` in [reboot.fleetlock] has to be one of the server's own configuration)"
        }
        _ => "",
    }
}

fn scheme_hint(url: &str) -> &'static str {
    if url.starts_with("https:") { "" } else { "; if it speaks TLS, the URL begins with https://" }
}

/// The protocol's error body. Servers may say more.
#[derive(Deserialize)]
struct ErrorBody {
    kind: String,
    #[serde(default)]
    value: String,
}

/// Meaning of the answer when a slot was asked for.
pub(super) fn pre_reboot(response: Response<Body>) -> Result<(), LockError> {
    read(response).map_err(|failed| match failed {
        LockError::Server { kind, value, .. } if kind == FAILED_LOCK => {
            LockError::Held { kind, value }
        }
        failed => failed,
    })
}

/// What an answer of these parts means when a slot was asked for: what the tests of hostile bytes call.
///
/// # Errors
/// [`LockError`]: it is no slot.
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

/// Meaning of the answer when a slot of `group` was given back; `Some`: this host had none, since others hold them all, as the
/// server says in these words (poseidon; airlock makes no difference).
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

/// Any 2xx is success, as the protocol asks to be liberal, unless it is a page for people.
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
    // The status has been given, so what comes before a cut or the limit is enough.
    let _ = response.body_mut().as_reader().take(BODY).read_to_end(&mut body);
    Err(failure(status, &body))
}

/// What stands where a FleetLock server would answer nothing (airlock's internal/server) or a line of plain text (poseidon's
/// internal/server.go): a network's login page, or an ingress that knows no such host, answers 200 to everything.
fn page(response: &mut Response<Body>) -> Option<String> {
    let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| one_line(kind.as_bytes()));
    let mut start = Vec::new();
    // What comes before a cut is enough.
    let _ = response.body_mut().as_reader().take(START).read_to_end(&mut start);
    let text = String::from_utf8_lossy(&start);
    let text = text.trim_start_matches('\u{feff}').trim();
    // Nothing is no page, whatever type a server's framework gives to it.
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
        // Timeout, Too Early, Too Many Requests: nothing is wrong with the request.
        408 | 425 | 429 => LockError::Server { status, kind, value },
        400..500 => LockError::Refused { status, kind, value },
        _ => LockError::Server { status, kind, value },
    }
}

fn fits(kind: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=KIND).contains(&kind.len()) && kind.bytes().all(fits)
}
