//! The daemon's client, for commands that speak with it.

use std::future::Future;
use std::time::Duration;

use super::CliError;
use crate::daemon::bus::Agent1Proxy;
use crate::daemon::status::Status;

/// Reading is quick; a method may run update-grub.
const READ_LIMIT: Duration = Duration::from_secs(5);

fn with<T, F: Future<Output = zbus::Result<T>>>(
    limit: Option<Duration>,
    act: impl FnOnce(Agent1Proxy<'static>) -> F,
) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let work = async {
            let connection = zbus::Connection::system().await?;
            act(Agent1Proxy::new(&connection).await?).await
        };
        let done = match limit {
            Some(limit) => {
                tokio::time::timeout(limit, work).await.map_err(|_| "it takes too long".to_owned())?
            }
            None => work.await,
        };
        done.map_err(|error| words(&error))
    })
}

/// What the daemon or the bus said, without the bus's names for it.
fn words(error: &zbus::Error) -> String {
    match error {
        zbus::Error::MethodError(name, text, _) => match name.as_str() {
            "org.freedesktop.DBus.Error.ServiceUnknown" | "org.freedesktop.DBus.Error.NameHasNoOwner" => {
                "bedplate.service does not run".into()
            }
            _ => text.clone().unwrap_or_else(|| name.to_string()),
        },
        other => other.to_string(),
    }
}

/// All that the daemon knows.
///
/// # Errors
/// Why it cannot be had, in words.
pub fn status() -> Result<Status, String> {
    let text = with(Some(READ_LIMIT), |agent| async move { agent.status_json().await })?;
    serde_json::from_str(&text)
        .map_err(|_| "the daemon is of another version: `systemctl restart bedplate`".into())
}

/// Has the daemon do something.
///
/// # Errors
/// What it said, with what to do when it is not there.
pub fn call<T, F: Future<Output = zbus::Result<T>>>(
    act: impl FnOnce(Agent1Proxy<'static>) -> F,
) -> Result<T, CliError> {
    with(None, act).map_err(|why| match why.as_str() {
        "bedplate.service does not run" => {
            CliError::Plain(format!("{why}: start it with `systemctl start bedplate`"))
        }
        _ => CliError::Plain(why),
    })
}
