//! Client of the daemon, for the commands that talk to it.

use std::future::Future;
use std::time::Duration;

use zbus::DBusError as _;

use super::block_on;
use crate::cli::CliError;
use bedplate_daemon::bus::{self, Agent1Proxy};
use bedplate_daemon::status::Status;

/// Limit for reads, which are quick. Method calls may run update-grub and have no limit.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// A working bus accepts a connection at once.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Reason why the daemon did not execute a request, as a sentence without D-Bus error names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// No bus is available.
    #[error("cannot reach the system bus")]
    NoBus,
    /// The bus disconnected after the request was sent.
    #[error("the system bus disconnected before the daemon answered")]
    BusGone,
    /// No process owns the daemon's bus name.
    #[error("bedplate.service is not running")]
    NotRunning,
    /// The daemon owns the name and does not reply.
    #[error("bedplate.service does not respond")]
    Silent,
    /// The bus or polkit refused the call.
    #[error("permission denied: requires root or polkit authorization")]
    Refused,
    /// The reply cannot be parsed.
    #[error("daemon and client versions differ")]
    OtherVersion,
    /// Error text of the daemon.
    #[error("{0}")]
    Reported(String),
    /// The process cannot even try to connect.
    #[error("cannot set up a connection ({0})")]
    SetUp(std::io::ErrorKind),
}

impl CallError {
    /// Returns the fix, unless the error text contains it.
    pub(crate) fn fix(&self) -> Option<&'static str> {
        match self {
            CallError::NoBus => Some(
                "check `systemctl status dbus`; `bedplate plan` and `bedplate apply` work without the bus",
            ),
            CallError::BusGone => Some("run `bedplate status` for the result once the bus is back"),
            CallError::NotRunning => Some(
                "run `systemctl start bedplate`; if it does not stay up, see `journalctl -x -u bedplate`",
            ),
            CallError::Silent => Some("see `journalctl -u bedplate`; retry in a minute"),
            CallError::Refused => Some("run with sudo"),
            CallError::OtherVersion => Some(
                "the request may have been executed (check `bedplate reboot status`); run `systemctl restart bedplate`",
            ),
            CallError::Reported(_) | CallError::SetUp(_) => None,
        }
    }

    /// Returns the error of a command that requires the daemon. `needs` states the requirement and comes first.
    pub(crate) fn kept_from(&self, needs: &str) -> CliError {
        self.error(format!("{needs}{self}"))
    }

    fn error(&self, text: String) -> CliError {
        match self.fix() {
            Some(fix) => CliError::new(text).hinting(fix),
            None => CliError::new(text),
        }
    }
}

impl From<CallError> for CliError {
    fn from(why: CallError) -> Self {
        why.error(why.to_string())
    }
}

/// Sends a request to the daemon, within a time limit if one is given.
///
/// # Errors
/// The reason why the daemon did not execute the request.
pub(crate) fn ask<T, F: Future<Output = zbus::Result<T>>>(
    limit: Option<Duration>,
    act: impl FnOnce(Agent1Proxy<'static>) -> F,
) -> Result<T, CallError> {
    let done = block_on(async {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, zbus::Connection::system()).await;
        // Any problem with the address, the socket or the handshake means that no bus is available.
        let Ok(Ok(connection)) = connecting else { return Err(CallError::NoBus) };
        let work = async { act(bus::agent(&connection).await?).await };
        let done = match limit {
            Some(limit) => {
                tokio::time::timeout(limit, work).await.map_err(|_| CallError::Silent)?
            }
            None => work.await,
        };
        done.map_err(|error| classify_error(&error))
    });
    done.unwrap_or_else(|error| Err(CallError::SetUp(error.kind())))
}

fn classify_error(error: &zbus::Error) -> CallError {
    match error {
        zbus::Error::MethodError(name, text, _) => named(name.as_str(), text.as_deref()),
        zbus::Error::FDO(error) => named(error.name().as_str(), error.description()),
        // The bus disconnected during the call.
        zbus::Error::InputOutput(_) => CallError::BusGone,
        zbus::Error::SignatureMismatch(..)
        | zbus::Error::IncorrectType
        | zbus::Error::InterfaceNotFound => CallError::OtherVersion,
        _ => CallError::Silent,
    }
}

/// Converts a D-Bus error reply by its name.
fn named(name: &str, text: Option<&str>) -> CallError {
    match name.strip_prefix("org.freedesktop.DBus.Error.") {
        Some("ServiceUnknown" | "NameHasNoOwner") => CallError::NotRunning,
        Some("AccessDenied" | "AuthFailed" | "InteractiveAuthorizationRequired") => {
            CallError::Refused
        }
        Some(
            "UnknownMethod" | "UnknownObject" | "UnknownInterface" | "UnknownProperty"
            | "InvalidArgs",
        ) => CallError::OtherVersion,
        Some("NoReply" | "Timeout" | "TimedOut" | "Disconnected") => CallError::Silent,
        _ => text
            .filter(|text| !text.is_empty())
            .map_or(CallError::Silent, |text| CallError::Reported(text.into())),
    }
}

/// Returns the daemon's full status.
///
/// # Errors
/// The reason why the status is not available.
pub(crate) fn status() -> Result<Status, CallError> {
    let text = ask(Some(READ_LIMIT), |agent| async move { agent.status_json().await })?;
    Status::parse(&text).ok_or(CallError::OtherVersion)
}

/// Calls the daemon, for a command that requires it.
///
/// # Errors
/// The reason, with a fix. `undone` comes first if the daemon never received the request.
pub(crate) fn call<T, F: Future<Output = zbus::Result<T>>>(
    undone: &str,
    act: impl FnOnce(Agent1Proxy<'static>) -> F,
) -> Result<T, CliError> {
    ask(None, act).map_err(|why| match why {
        CallError::NoBus | CallError::NotRunning | CallError::SetUp(_) => {
            why.kept_from(&format!("{undone}: "))
        }
        // The daemon may have started, or has reported the error itself.
        _ => why.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_errors_are_sentences() {
        let bus = |name: &str| format!("org.freedesktop.DBus.Error.{name}");
        let text = Some("The name org.bedplate.Agent1 was not provided by any .service files");
        assert_eq!(named(&bus("ServiceUnknown"), text), CallError::NotRunning);
        assert_eq!(named(&bus("AccessDenied"), text), CallError::Refused);
        assert_eq!(named(&bus("NoReply"), None), CallError::Silent);
        assert_eq!(named(&bus("UnknownMethod"), text), CallError::OtherVersion);
        assert_eq!(
            named(&bus("Failed"), Some("the host is held")),
            CallError::Reported("the host is held".into())
        );
        assert_eq!(named(&bus("Failed"), None), CallError::Silent);
        for why in [
            CallError::NoBus,
            CallError::BusGone,
            CallError::NotRunning,
            CallError::Silent,
            CallError::Refused,
            CallError::OtherVersion,
        ] {
            let text = why.to_string();
            assert!(!text.contains("org.freedesktop") && why.fix().is_some(), "{text}");
        }
    }
}
