//! FleetLock client: the protocol of airlock (etcd) and poseidon/fleetlock (Kubernetes) for reboot slots. Reports the
//! server's answer; the caller retries, with delays from [`backoff`].
//!
//! Both calls are idempotent: the server identifies a host by its id. Slots do not expire, so a host that never reports
//! `steady-state` blocks its slot forever: report it after every healthy boot.

mod answer;
mod line;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Proxy};

use bedplate_base::mask;
use bedplate_base::terminal::one_line;

pub(crate) use answer::LockError;
pub use answer::understood;

/// First delay of [`backoff`], before jitter.
pub(crate) const FIRST_DELAY: Duration = Duration::from_secs(10);
/// Longest delay of [`backoff`]: a released slot must not stay unused for long.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(600);

/// Formats the error that `value` is not valid as `what` of FleetLock.
fn unexpected(value: &str, what: &str, why: &str) -> String {
    format!("`{value}` is not a valid FleetLock {what}: {why}")
}

/// A client for one host, one group and one server.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    /// Without a trailing slash.
    base: String,
    group: String,
    /// The body, which is the same for both calls.
    body: String,
}

#[derive(Serialize)]
struct Body<'a> {
    client_params: ClientParams<'a>,
}

#[derive(Serialize)]
struct ClientParams<'a> {
    id: &'a str,
    group: &'a str,
}

impl Client {
    /// Creates a client with a time limit of `timeout` per call, from name resolution to the last byte.
    ///
    /// Proxies are taken from the environment, ureq's default: `ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY`, except for the hosts
    /// in `NO_PROXY`. Certificates are checked against the host's trust store, or the files of `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` instead. Each client reads it at its first call.
    ///
    /// # Errors
    /// The reason in one sentence, if the configuration is invalid. Nothing is sent.
    pub(crate) fn new(
        base_url: &str,
        group: &str,
        id: String,
        timeout: Duration,
    ) -> Result<Client, String> {
        Client::build(base_url, group, &id, timeout, Proxy::try_from_env())
    }

    fn build(
        base_url: &str,
        group: &str,
        id: &str,
        timeout: Duration,
        proxy: Option<Proxy>,
    ) -> Result<Client, String> {
        let base = base(base_url)?;
        // `^[a-zA-Z0-9.-]+$` of the protocol.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        if group.is_empty() || !group.bytes().all(fits) {
            let why = "expected letters, digits, `.` and `-`";
            return Err(unexpected(&one_line(group), "group", why));
        }
        if id.trim().is_empty() {
            return Err("the FleetLock id of this host is empty".to_owned());
        }
        if timeout.is_zero() {
            return Err("the time limit for the FleetLock server is zero".to_owned());
        }
        let body = Body { client_params: ClientParams { id, group } };
        let body = serde_json::to_string(&body)
            .map_err(|error| format!("cannot write the FleetLock request as JSON: {error}"))?;
        // Set explicitly: without a default provider ureq panics.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            // A redirected POST loses its body or its method; the operator must correct the URL instead.
            .max_redirects(0)
            // Calls are minutes apart: an idle connection would be dead.
            .max_idle_connections(0)
            .user_agent(concat!("bedplate/", env!("CARGO_PKG_VERSION")))
            .proxy(proxy)
            .tls_config(tls)
            .build();
        Ok(Client { agent: Agent::new_with_config(config), base, group: group.to_owned(), body })
    }

    /// Takes a slot, or confirms that this host has one: it may reboot.
    ///
    /// # Errors
    /// [`LockError`]: no slot, so no reboot. After [`LockError::Unreachable`] or [`LockError::BadAnswer`] the server may
    /// still have granted one; retry, or report [`Client::steady_state`].
    pub(crate) fn pre_reboot(&self) -> Result<(), LockError> {
        self.call("v1/pre-reboot", answer::pre_reboot)
    }

    /// Releases this host's slot, if any: the host is healthy again, or does not reboot after all. Returns the server's
    /// message if there was no slot.
    ///
    /// # Errors
    /// [`LockError`]: this host may still have the slot; report again.
    pub(crate) fn steady_state(&self) -> Result<Option<String>, LockError> {
        self.call("v1/steady-state", |response| answer::steady_state(response, &self.group))
    }

    fn call<T>(
        &self,
        path: &str,
        read: impl FnOnce(Response<ureq::Body>) -> Result<T, LockError>,
    ) -> Result<T, LockError> {
        let url = format!("{}/{path}", self.base);
        let sent = self
            .agent
            .post(&url)
            // Distinguishes a client from a redirected browser (the protocol's guard against request forgery).
            .header("fleet-lock-protocol", "true")
            .header("content-type", "application/json")
            .send(self.body.as_str());
        match sent {
            Ok(response) => read(response),
            // The message omits the path, which may be a secret.
            Err(error) => {
                let server = mask::server(&self.base);
                let shown = format!("{}/{path}", server.trim_end_matches('/'));
                Err(LockError::unanswered(shown, error))
            }
        }
    }
}

/// Returns the base URL without a trailing slash. The rules of relative links would drop a last segment without one.
fn base(url: &str) -> Result<String, String> {
    let shown = || mask::server(&one_line(url));
    // First of all, so that no error shows a password. An `@` in a path would be harmless, but does not occur.
    if url.contains('@') {
        let why =
            "the FleetLock server URL contains a user or a password; the protocol supports neither";
        return Err(why.to_owned());
    }
    let no_server = |why| Err(unexpected(&shown(), "server", why));
    let uri: Uri = url.parse().map_err(|_| format!("`{}` is not a URL", shown()))?;
    let scheme = uri.scheme_str().unwrap_or_default();
    if !["http", "https"].contains(&scheme) || uri.host().is_none_or(str::is_empty) {
        return no_server("expected http://HOST/ or https://HOST/");
    }
    // The parser accepts any port, and the call would use the default one.
    let has_port = uri.authority().map(|authority| authority.as_str()) != uri.host();
    if has_port && uri.port_u16().is_none_or(|port| port == 0) {
        return no_server("expected a port from 1 to 65535");
    }
    // The parser drops a fragment silently.
    if uri.query().is_some() || url.contains('#') {
        return no_server("a base URL has no `?` and no `#`");
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Returns the wait before the next call, after `attempt` failed ones before the last (0 after the first). Doubles from
/// [`FIRST_DELAY`] to [`LONGEST_DELAY`]. `random` spreads it over the upper half, so that the hosts of a rack do not all
/// retry in the same second.
pub fn backoff(attempt: u32, random: u32) -> Duration {
    let full = 2u32
        .checked_pow(attempt)
        .and_then(|factor| FIRST_DELAY.checked_mul(factor))
        .map_or(LONGEST_DELAY, |delay| delay.min(LONGEST_DELAY));
    let half = full / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
