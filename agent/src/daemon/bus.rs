//! The daemon on the system bus: `org.bedplate.Agent1`. Reading is for everybody; what changes something asks polkit,
//! unless root asks. Nothing is decided here: requests go to the loop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, fdo, interface};
use zbus_polkit::policykit1::{AuthorityProxy, CheckAuthorizationFlags, Subject};

use super::logind;
use super::restart::RestartError;
use super::status::{State, Status};
use super::store::StoreError;
use crate::plan::RebootNeed;
use crate::reboot::hold::LONGEST_REASON;
use crate::reboot::state::RebootState;
use crate::visible;

/// Its name on the bus.
pub const NAME: &str = "org.bedplate.Agent1";
/// Its object.
pub const PATH: &str = "/org/bedplate/Agent1";

/// What is asked of the loop over the bus, and where its answer goes.
#[derive(Debug)]
pub enum Request {
    /// Observe the host and answer with the plan as JSON.
    Plan(Reply<String>),
    /// Forget failures and contests, observe, and apply.
    Reconcile(Reply<State>),
    /// Read the profile again.
    Reload(Reply<()>),
    /// Reboot, not before this time; `None`: after the profile's delay.
    ScheduleReboot {
        /// Who and why.
        why: String,
        /// Not before.
        not_before: Option<Timestamp>,
        /// The state of the reboot then, and what it means for the request.
        reply: Reply<(RebootState, String)>,
    },
    /// Take a reboot of bedplate's own back.
    CancelReboot {
        /// The caller's user id.
        uid: u32,
        /// What was taken back.
        reply: Reply<String>,
    },
    /// Take the devices that are there now for all there are to be.
    ForgetMissing(Reply<String>),
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, RequestError>>;

/// Why the daemon does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The host cannot be observed, or there is no profile that can be used.
    #[error("{0}")]
    Unusable(String),
    /// Nothing is known of the host.
    #[error("the host has not been observed yet")]
    NotObserved,
    /// A reboot is asked for of a daemon that could not say whether it is safe.
    #[error("no reboot can be announced, and the request is not kept: {0}")]
    NotKept(Box<RequestError>),
    /// Which devices are gone cannot be known.
    #[error("nothing is forgotten: the PCI devices cannot be read now")]
    DevicesUnread,
    /// The reboot cannot be asked for or taken back.
    #[error(transparent)]
    Restart(#[from] RestartError),
    /// What has to be remembered cannot be.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the bus shows.
#[derive(Debug)]
pub struct Shown {
    /// All of it.
    pub status: Status,
    /// `bedplate plan --json` of the last observation.
    pub plan: String,
}

/// Shared with the loop, which alone writes it.
pub type Shared = Arc<Mutex<Shown>>;

/// What logind or polkit may take to answer: polkit asks people, who take their time.
const METHOD_LIMIT: std::time::Duration = std::time::Duration::from_secs(25);

/// The object.
pub struct Agent {
    shown: Shared,
    to: mpsc::Sender<Request>,
}

impl Agent {
    /// An object that shows `shown` and passes requests on.
    pub fn new(shown: Shared, to: mpsc::Sender<Request>) -> Self {
        Agent { shown, to }
    }

    fn see<T>(&self, look: impl FnOnce(&Shown) -> T) -> T {
        // The loop does not panic with the lock held; the value is whole in any case.
        look(&self.shown.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> fdo::Result<T> {
        let (reply, answered) = oneshot::channel();
        let gone = |_| fdo::Error::Failed("the daemon is stopping".into());
        self.to.send(request(reply)).await.map_err(|_| gone(()))?;
        let answer = answered.await.map_err(|_| gone(()))?;
        answer.map_err(|error| fdo::Error::Failed(error.to_string()))
    }
}

// zbus makes XML comments of these docs for those who introspect: no two hyphens in a row, so no long options.
#[interface(name = "org.bedplate.Agent1")]
impl Agent {
    /// Looks at the host and returns the plan as JSON, as `bedplate plan` prints it. Changes nothing.
    async fn plan(&self) -> fdo::Result<String> {
        self.ask(Request::Plan).await
    }

    /// Looks, applies, and returns the state then. Forgets what failed before and what was contested.
    async fn reconcile(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<String> {
        allowed(connection, &header, "org.bedplate.reconcile").await?;
        Ok(self.ask(Request::Reconcile).await?.name().to_owned())
    }

    /// Reads the profile again, and does what it says.
    async fn reload(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        allowed(connection, &header, "org.bedplate.reload").await?;
        self.ask(Request::Reload).await
    }

    /// Reboots the host the way the profile says, whatever policy and window are; vetoes, inhibitors and the fleet's lock
    /// count all the same. `not_before`: microseconds since 1970, 0 = after the profile's delay. Returns the state of the
    /// reboot then (`announced`, `waiting`, …), and the same for people.
    #[zbus(out_args("state", "text"))]
    async fn schedule_reboot(
        &self,
        why: String,
        not_before: u64,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<(String, String)> {
        // Before anybody is asked: it is kept, logged, and shown to everybody who is logged in.
        if why.chars().count() > LONGEST_REASON {
            let text = format!("the reason is longer than {LONGEST_REASON} characters");
            return Err(fdo::Error::InvalidArgs(text));
        }
        allowed(connection, &header, "org.bedplate.schedule-reboot").await?;
        let not_before = (not_before != 0).then(|| logind::time(not_before));
        let (state, text) =
            self.ask(|reply| Request::ScheduleReboot { why, not_before, reply }).await?;
        Ok((state.name().to_owned(), text))
    }

    /// Takes back a reboot that bedplate announced. Nobody else's.
    async fn cancel_reboot(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<String> {
        let uid = allowed(connection, &header, "org.bedplate.cancel-reboot").await?;
        self.ask(|reply| Request::CancelReboot { uid, reply }).await
    }

    /// Takes the GPUs and NICs that are there now for all there are to be. Returns which are forgotten.
    async fn forget_missing(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<String> {
        allowed(connection, &header, "org.bedplate.reconcile").await?;
        self.ask(Request::ForgetMissing).await
    }

    /// Version of bedplate.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Where the host stands: `converged`, `drifted`, `waiting-for-boot`, …
    #[zbus(property)]
    fn state(&self) -> String {
        self.see(|shown| shown.status.state.name().to_owned())
    }

    /// Whether workloads may trust it: `ready`, `not-ready`, `cannot-tell`.
    #[zbus(property)]
    fn verdict(&self) -> String {
        self.see(|shown| shown.status.verdict.name().to_owned())
    }

    /// Why, in one sentence.
    #[zbus(property)]
    fn reason(&self) -> String {
        self.see(|shown| shown.status.reason.clone())
    }

    /// The profile's name.
    #[zbus(property)]
    fn profile(&self) -> String {
        self.see(|shown| shown.status.profile.clone())
    }

    /// What waits for a boot asks for: `none`, `reboot` or `cold`; `unknown`: that cannot be told.
    #[zbus(property)]
    fn pending_reboot(&self) -> String {
        let name = |need| match need {
            None => "unknown",
            Some(RebootNeed::None) => "none",
            Some(RebootNeed::Reboot) => "reboot",
            Some(RebootNeed::Cold) => "cold",
        };
        self.see(|shown| name(shown.status.reboot.need).to_owned())
    }

    /// When the host was last found as the profile says, in microseconds since 1970; 0: not yet.
    #[zbus(property)]
    fn last_converged(&self) -> u64 {
        self.see(|shown| shown.status.last_converged.map_or(0, super::logind::usec))
    }

    /// The plan of the last look, as JSON: what `bedplate plan` prints.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn plan_json(&self) -> String {
        self.see(|shown| shown.plan.clone())
    }

    /// Everything the daemon knows, as JSON: what `bedplate status` prints.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn status_json(&self) -> String {
        self.see(|shown| {
            visible::json(&serde_json::to_string_pretty(&shown.status).unwrap_or_default())
        })
    }
}

/// Root may; anybody else is for polkit to decide. Where there is no polkit, nobody else may.
async fn allowed(connection: &Connection, header: &Header<'_>, action: &str) -> fdo::Result<u32> {
    let denied = |why: String| fdo::Error::AccessDenied(why);
    let sender = header.sender().ok_or_else(|| denied("a message without a sender".into()))?;
    let bus = fdo::DBusProxy::new(connection).await.map_err(|error| denied(error.to_string()))?;
    let uid = bus.get_connection_unix_user(sender.clone().into()).await?;
    if uid == 0 {
        return Ok(uid);
    }
    let asked = async {
        let subject = Subject::new_for_message_header(header).map_err(|error| error.to_string())?;
        let authority = AuthorityProxy::new(connection).await.map_err(|error| error.to_string())?;
        let flags = CheckAuthorizationFlags::ALLOW_USER_INTERACTION;
        let answer =
            authority.check_authorization(&subject, action, &HashMap::new(), flags, "").await;
        answer.map_err(|error| error.to_string())
    };
    match asked.await {
        Ok(answer) if answer.is_authorized => Ok(uid),
        Ok(_) => Err(denied(format!("polkit does not allow {action}"))),
        Err(why) => Err(denied(format!("only root may do this: polkit cannot be asked ({why})"))),
    }
}

/// Tells the bus what is different now.
pub async fn signal_changes(
    emitter: &SignalEmitter<'_>,
    agent: &Agent,
    before: &Status,
    now: &Status,
) -> zbus::Result<()> {
    if before.state != now.state {
        agent.state_changed(emitter).await?;
    }
    if before.verdict != now.verdict {
        agent.verdict_changed(emitter).await?;
    }
    if before.reason != now.reason {
        agent.reason_changed(emitter).await?;
    }
    if before.profile != now.profile {
        agent.profile_changed(emitter).await?;
    }
    if before.reboot.need != now.reboot.need {
        agent.pending_reboot_changed(emitter).await?;
    }
    if before.last_converged != now.last_converged {
        agent.last_converged_changed(emitter).await?;
    }
    if before != now {
        agent.status_json_invalidate(emitter).await?;
        agent.plan_json_invalidate(emitter).await?;
    }
    Ok(())
}

/// The daemon, as a client sees it.
#[zbus::proxy(
    interface = "org.bedplate.Agent1",
    default_service = "org.bedplate.Agent1",
    default_path = "/org/bedplate/Agent1"
)]
pub trait Agent1 {
    /// See [`Agent`].
    fn plan(&self) -> zbus::Result<String>;
    /// See [`Agent`].
    fn reconcile(&self) -> zbus::Result<String>;
    /// See [`Agent`].
    fn reload(&self) -> zbus::Result<()>;
    /// See [`Agent`].
    fn schedule_reboot(&self, why: &str, not_before: u64) -> zbus::Result<(String, String)>;
    /// See [`Agent`].
    fn cancel_reboot(&self) -> zbus::Result<String>;
    /// See [`Agent`].
    fn forget_missing(&self) -> zbus::Result<String>;
    /// See [`Agent`].
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn status_json(&self) -> zbus::Result<String>;
}

/// On the system bus, under its name.
///
/// # Errors
/// [`zbus::Error::NameTaken`]: another daemon has the name. Others: there is no bus.
pub async fn serve(agent: Agent) -> zbus::Result<zbus::Connection> {
    zbus::connection::Builder::system()
        .method_timeout(METHOD_LIMIT)
        .serve_at(PATH, agent)
        .name(NAME)
        .replace_existing_names(false)
        .allow_name_replacements(false)
        .build()
        .await
}

/// What of the bus is no longer heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The bus itself: the connection has ended.
    Bus,
    /// Signals of systemd-logind, on a bus that is there.
    LogindSignals,
}

/// Waits until the connection has ended, and says so.
pub async fn watch(connection: Connection, to: mpsc::Sender<Lost>) {
    let mut messages = zbus::MessageStream::from(&connection);
    // Nothing may keep the connection but what uses it.
    drop(connection);
    while let Some(message) = logind::next(&mut messages).await {
        if message.is_err() {
            break;
        }
    }
    // The loop listens for as long as it lives.
    let _ = to.send(Lost::Bus).await;
}
