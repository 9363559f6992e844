//! Authorization of callers: root, and users that polkit allows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::timeout;
use zbus::message::{Flags, Header};
use zbus::names::UniqueName;
use zbus::{Connection, fdo};
use zbus_polkit::policykit1::{AuthorityProxy, CheckAuthorizationFlags, Subject};

use crate::lock;

/// Unanswered polkit requests allowed per user. polkit may wait for a password; one user's requests must not delay those of
/// another.
const OF_ONE_USER: u32 = 8;
/// Callers whose user id is cached. The cache is cleared when full, so that short-lived connections cost no memory.
const KNOWN_CALLERS: usize = 512;
/// The bus answers at once, or not at all.
const BUS_LIMIT: Duration = Duration::from_secs(1);

/// Asks the bus for a caller's user id, and polkit for authorization, over a separate connection.
pub struct Authority {
    connection: Connection,
    /// Pending polkit requests, by user id.
    asking: Mutex<BTreeMap<u32, u32>>,
    /// User id of each connection, at most [`KNOWN_CALLERS`]. A bus never reuses a unique name (D-Bus specification, "Unique
    /// Connection Name"), so it is asked once per name.
    users: Mutex<BTreeMap<UniqueName<'static>, u32>>,
}

/// A pending polkit request; dropping it ends it.
struct Question<'a>(&'a Authority, u32);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut asking = lock(&self.0.asking);
        if let Some(count) = asking.get_mut(&self.1) {
            *count -= 1;
        }
        asking.retain(|_, count| *count > 0);
    }
}

fn denied(why: String) -> fdo::Error {
    fdo::Error::AccessDenied(why)
}

impl Authority {
    /// Creates one that uses this connection.
    pub fn new(connection: Connection) -> Self {
        Authority { connection, asking: Mutex::default(), users: Mutex::default() }
    }

    fn question(&self, uid: u32) -> Option<Question<'_>> {
        let mut asking = lock(&self.asking);
        let count = asking.entry(uid).or_default();
        if *count >= OF_ONE_USER {
            return None;
        }
        *count += 1;
        Some(Question(self, uid))
    }

    /// Authorizes the caller: root always, any other user only if polkit allows it. Without polkit only root is allowed.
    /// Returns the caller and its user id.
    ///
    /// # Errors
    /// If the caller is not authorized.
    pub async fn allows(
        &self,
        header: &Header<'_>,
        action: &str,
    ) -> fdo::Result<(UniqueName<'static>, u32)> {
        let sender = header.sender().ok_or_else(|| denied("a message without a sender".into()))?;
        let caller = sender.to_owned();
        let uid = self.user(&caller).await?;
        if uid == 0 {
            return Ok((caller, uid));
        }
        let text = "earlier requests of this user are still waiting for polkit";
        let _question =
            self.question(uid).ok_or_else(|| fdo::Error::LimitsExceeded(text.into()))?;
        match self.ask_polkit(header, action).await {
            Ok(true) => Ok((caller, uid)),
            Ok(false) => Err(denied(format!("polkit does not allow {action}"))),
            Err(why) => Err(denied(format!(
                "permission denied: requires root, because polkit is unavailable ({why})"
            ))),
        }
    }

    /// Returns the user id of a connection.
    async fn user(&self, caller: &UniqueName<'static>) -> fdo::Result<u32> {
        if let Some(uid) = lock(&self.users).get(caller) {
            return Ok(*uid);
        }
        let bus = fdo::DBusProxy::new(&self.connection).await;
        let bus = bus.map_err(|error| denied(error.to_string()))?;
        let uid = bus.get_connection_unix_user(caller.clone().into()).await?;
        let mut users = lock(&self.users);
        if users.len() >= KNOWN_CALLERS {
            users.clear();
        }
        users.insert(caller.clone(), uid);
        Ok(uid)
    }

    async fn ask_polkit(&self, header: &Header<'_>, action: &str) -> Result<bool, String> {
        let subject = Subject::new_for_message_header(header).map_err(|error| error.to_string())?;
        let authority = AuthorityProxy::new(&self.connection).await;
        let authority = authority.map_err(|error| error.to_string())?;
        // polkit asks for a password only if the caller allows interaction (D-Bus specification, "Message format",
        // ALLOW_INTERACTIVE_AUTHORIZATION).
        let answer = authority
            .check_authorization(&subject, action, &HashMap::new(), interaction(header), "")
            .await;
        Ok(answer.map_err(|error| error.to_string())?.is_authorized)
    }
}

fn interaction(header: &Header<'_>) -> CheckAuthorizationFlags {
    match header.primary().flags().contains(Flags::ALLOW_INTERACTIVE_AUTH) {
        true => CheckAuthorizationFlags::ALLOW_USER_INTERACTION,
        false => CheckAuthorizationFlags::empty(),
    }
}

/// Whether a caller has left the bus, so that no one receives the answer. `false` if the bus does not answer.
pub(crate) async fn has_left(connection: &Connection, caller: &UniqueName<'static>) -> bool {
    let asked = async {
        let bus = fdo::DBusProxy::new(connection).await.ok()?;
        bus.name_has_owner(caller.clone().into()).await.ok()
    };
    matches!(timeout(BUS_LIMIT, asked).await, Ok(Some(false)))
}
