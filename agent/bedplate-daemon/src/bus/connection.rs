//! The daemon's connections to the system bus, and a client's way to it.

use std::sync::Arc;

use nix::unistd::geteuid;
use tokio::sync::{Notify, mpsc};
use zbus::Connection;
use zbus::fdo::{self, RequestNameFlags};
use zbus::proxy::CacheProperties;

use super::{Agent, Agent1Proxy, NAME, OPERATORS, PATH};
use crate::logind;
use crate::rate_limit::socket::RateLimitedSocket;

/// What logind or polkit may take to answer: polkit asks people, who take their time.
const METHOD_LIMIT: std::time::Duration = std::time::Duration::from_secs(25);

/// A bus that is there takes a connection at once.
pub(crate) const CONNECT_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// On the system bus, for what the daemon itself asks: logind, polkit, the bus. Its answers do not wait in one queue with
/// what others ask the daemon.
///
/// # Errors
/// There is no bus.
pub async fn connect() -> zbus::Result<Connection> {
    zbus::connection::Builder::system().method_timeout(METHOD_LIMIT).build().await
}

/// On the system bus, under its name.
///
/// # Errors
/// [`zbus::Error::NameTaken`]: another daemon has the name. Others: there is no bus.
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

/// Serves root under a name of its own, on the connection that [`connect`] made.
///
/// # Errors
/// The name cannot be had.
pub(crate) async fn serve_operators(connection: &Connection, agent: Agent) -> zbus::Result<()> {
    connection.object_server().at(PATH, agent).await?;
    let alone = RequestNameFlags::DO_NOT_QUEUE;
    connection.request_name_with_flags(OPERATORS, alone).await?;
    Ok(())
}

/// The daemon, as this process reaches it: for root by the name that is root's alone.
///
/// # Errors
/// The bus does not answer.
pub async fn agent(connection: &Connection) -> zbus::Result<Agent1Proxy<'static>> {
    // Root of a user namespace is another user to the bus.
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
    // Both at once: a bus that is flooded takes its time for each.
    let (uid, owned) = tokio::join!(
        bus.get_connection_unix_user(own.inner().clone().into()),
        // A daemon of before has only one name.
        bus.name_has_owner(OPERATORS.try_into()?),
    );
    Ok(uid? == 0 && owned?)
}

/// What of the bus is no longer heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostConnection {
    /// The bus itself: the connection has ended.
    Bus,
    /// Signals of systemd-logind, on a bus that is there.
    LogindSignals,
}

/// Notifies of each message that arrives, until the connection has ended, which goes to `to`.
pub(crate) async fn watch(
    connection: Connection,
    message: Arc<Notify>,
    to: mpsc::Sender<LostConnection>,
) {
    let mut messages = zbus::MessageStream::from(&connection);
    // Nothing may keep the connection but what uses it.
    drop(connection);
    while let Some(Ok(_)) = logind::next(&mut messages).await {
        message.notify_one();
    }
    // The loop listens for as long as it lives.
    let _ = to.send(LostConnection::Bus).await;
}
