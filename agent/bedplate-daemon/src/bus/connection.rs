//! The daemon's connections to the system bus, and a client's proxy.

use std::sync::Arc;

use nix::unistd::geteuid;
use tokio::sync::{Notify, mpsc};
use zbus::Connection;
use zbus::fdo::{self, RequestNameFlags};
use zbus::proxy::CacheProperties;

use super::{Agent, Agent1Proxy, NAME, OPERATORS, PATH};
use crate::logind;
use crate::rate_limit::socket::RateLimitedSocket;

/// Longest wait for logind or polkit: polkit asks users, who need time.
const METHOD_LIMIT: std::time::Duration = std::time::Duration::from_secs(25);

/// Longest wait for a connection; a running bus accepts one at once.
pub(crate) const CONNECT_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Connects to the system bus for the daemon's own requests to logind, polkit and the bus. Their answers do not queue
/// behind requests to the daemon.
///
/// # Errors
/// If there is no bus.
pub async fn connect() -> zbus::Result<Connection> {
    zbus::connection::Builder::system().method_timeout(METHOD_LIMIT).build().await
}

/// Connects to the system bus and serves `agent` under `NAME`.
///
/// # Errors
/// [`zbus::Error::NameTaken`] if another daemon has the name; other errors if there is no bus.
pub async fn serve(agent: Agent) -> zbus::Result<Connection> {
    zbus::connection::Builder::socket(RateLimitedSocket::connect(NAME).await?)
        .method_timeout(METHOD_LIMIT)
        .serve_at(PATH, agent)
        .name(NAME)
        .replace_existing_names(false)
        .allow_name_replacements(false)
        .build()
        .await
}

/// Serves root under `OPERATORS`, on the connection that [`connect`] made.
///
/// # Errors
/// If the name cannot be acquired.
pub(crate) async fn serve_operators(connection: &Connection, agent: Agent) -> zbus::Result<()> {
    connection.object_server().at(PATH, agent).await?;
    let alone = RequestNameFlags::DO_NOT_QUEUE;
    connection.request_name_with_flags(OPERATORS, alone).await?;
    Ok(())
}

/// Returns a proxy of the daemon: for root under the name reserved for root.
///
/// # Errors
/// If the bus does not answer.
pub async fn agent(connection: &Connection) -> zbus::Result<Agent1Proxy<'static>> {
    // The bus sees root of a user namespace as another user.
    let name = match geteuid().is_root() && is_operator(connection).await? {
        true => OPERATORS,
        false => NAME,
    };
    let agent = Agent1Proxy::builder(connection).destination(name);
    agent.cache_properties(CacheProperties::No).build().await
}

async fn is_operator(connection: &Connection) -> zbus::Result<bool> {
    let bus = fdo::DBusProxy::new(connection).await?;
    let Some(own) = connection.unique_name() else { return Ok(false) };
    // Concurrent requests: a flooded bus answers each of them slowly.
    let (uid, owned) = tokio::join!(
        bus.get_connection_unix_user(own.inner().clone().into()),
        // An older daemon has only one name.
        bus.name_has_owner(OPERATORS.try_into()?),
    );
    Ok(uid? == 0 && owned?)
}

/// A lost source of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostConnection {
    /// The connection to the bus has ended.
    Bus,
    /// The signals of systemd-logind have ended; the bus still runs.
    LogindSignals,
}

/// Notifies `message` of each message that arrives. When the connection ends, sends this to `to`.
pub(crate) async fn watch(
    connection: Connection,
    message: Arc<Notify>,
    to: mpsc::Sender<LostConnection>,
) {
    let mut messages = zbus::MessageStream::from(&connection);
    // Only its users may keep the connection open.
    drop(connection);
    while let Some(Ok(_)) = logind::next(&mut messages).await {
        message.notify_one();
    }
    // The loop listens for as long as it runs.
    let _ = to.send(LostConnection::Bus).await;
}
