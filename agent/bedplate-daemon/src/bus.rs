//! The daemon on the system bus: `org.bedplate.Agent1`. Reading is for everybody; what changes something asks polkit,
//! unless root asks. Nothing is decided here: requests go to the loop.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot};
use zbus::message::Header;
use zbus::names::UniqueName;
use zbus::object_server::SignalEmitter;
use zbus::{fdo, interface};

use super::logind;
use super::observe_requests::ObserveRequester;
use super::status::{State, Status};
use crate::lock;
use crate::reboot::state::RebootState;
use bedplate_base::terminal;
use bedplate_core::plan::RebootNeed;
use bedplate_core::reboot_hold::LONGEST_REASON;

mod authority;
mod client;
mod connection;

pub(crate) use authority::{Authority, has_left};
pub use client::Agent1Proxy;
pub(crate) use connection::{CONNECT_LIMIT, LostConnection, serve_operators, watch};
pub use connection::{agent, connect, serve};

/// Its name on the bus.
pub const NAME: &str = "org.bedplate.Agent1";
/// Its name for root, on a connection of its own: the bus lets nobody else send to it (systemd/dbus), so that no crowd of
/// readers is in front of an operator.
pub(crate) const OPERATORS: &str = "org.bedplate.Operator1";
/// Its object.
pub const PATH: &str = "/org/bedplate/Agent1";

/// How far ahead a reboot may be asked for: what is further away is a slip of units.
const LONGEST_DELAY: SignedDuration = SignedDuration::from_hours(366 * 24);

/// A request of a caller who may make it.
#[derive(Debug)]
pub struct BusRequest {
    /// The connection that has asked.
    pub caller: UniqueName<'static>,
    /// When.
    pub at: Instant,
    /// For what.
    pub request: Request,
}

/// What is asked of the loop over the bus, and where its answer goes.
#[derive(Debug)]
pub enum Request {
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
        /// Whether it overrides a boot entry that is not known to be sound.
        force: bool,
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
    /// Decide about the reboot again.
    UpdateReboot(Reply<RebootState>),
    /// Take the devices that are there now for all there are to be.
    ForgetMissing(Reply<String>),
}

/// Where an answer goes; an error is why not, in one sentence.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, String>>;

/// What the bus shows.
#[derive(Debug)]
pub struct BusState {
    /// All of it.
    pub status: Status,
    /// The same as JSON: written once, however many ask for it.
    pub status_json: String,
    /// `bedplate plan --json` of the last observation.
    pub plan: String,
    /// Why there is no plan that counts.
    pub unusable: Option<String>,
}

impl BusState {
    /// Before the first look.
    pub fn new(status: Status) -> Self {
        let mut shown =
            BusState { status_json: String::new(), plan: String::new(), unusable: None, status };
        shown.update_json();
        shown
    }

    /// Shows another status; the one that was shown before comes back.
    pub fn replace(&mut self, status: Status) -> Status {
        let before = std::mem::replace(&mut self.status, status);
        self.update_json();
        before
    }

    fn update_json(&mut self) {
        let text = serde_json::to_string_pretty(&self.status).unwrap_or_default();
        self.status_json = terminal::json(&text);
    }
}

/// Shared with the loop, which alone writes it.
pub(crate) type Shared = Arc<Mutex<BusState>>;

/// The object.
#[derive(Clone)]
pub struct Agent {
    shown: Shared,
    /// Only what the caller may ask for is in this queue: readers have none.
    to: mpsc::Sender<BusRequest>,
    observe_requester: ObserveRequester,
    authority: Arc<Authority>,
}

impl Agent {
    /// An object that shows `shown` and passes requests on.
    pub fn new(
        shown: Shared,
        to: mpsc::Sender<BusRequest>,
        observe_requester: ObserveRequester,
        authority: Authority,
    ) -> Self {
        Agent { shown, to, observe_requester, authority: Arc::new(authority) }
    }

    fn see<T>(&self, look: impl FnOnce(&BusState) -> T) -> T {
        look(&lock(&self.shown))
    }

    async fn ask<T>(
        &self,
        caller: UniqueName<'static>,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> fdo::Result<T> {
        let (reply, answered) = oneshot::channel();
        let gone = |_| fdo::Error::Failed("the daemon is stopping".into());
        let asked = BusRequest { caller, at: Instant::now(), request: request(reply) };
        self.to.send(asked).await.map_err(|_| gone(()))?;
        let answer = answered.await.map_err(|_| gone(()))?;
        answer.map_err(fdo::Error::Failed)
    }

    async fn schedule(
        &self,
        why: String,
        not_before: u64,
        force: bool,
        header: &Header<'_>,
    ) -> fdo::Result<(String, String)> {
        // Before anybody is asked: it is kept, logged, and shown to everybody who is logged in.
        if why.chars().count() > LONGEST_REASON {
            let text = format!("the reason is longer than {LONGEST_REASON} characters");
            return Err(fdo::Error::InvalidArgs(text));
        }
        let not_before = (not_before != 0).then(|| logind::time(not_before));
        if not_before.is_some_and(|at| at.duration_since(Timestamp::now()) > LONGEST_DELAY) {
            return Err(fdo::Error::InvalidArgs("the time is more than a year ahead".into()));
        }
        let (caller, _) = self.authority.allows(header, "org.bedplate.schedule-reboot").await?;
        let request = |reply| Request::ScheduleReboot { why, not_before, force, reply };
        let (state, text) = self.ask(caller, request).await?;
        Ok((state.name().to_owned(), text))
    }
}

// zbus makes XML comments of these docs for those who introspect: no two hyphens in a row, so no long options.
#[interface(name = "org.bedplate.Agent1")]
impl Agent {
    /// The plan as JSON, as `bedplate plan` prints it, of a look at the host that is at most ten seconds old; older where
    /// the host does not answer in time, or many ask at once. Changes nothing.
    async fn plan(&self) -> fdo::Result<String> {
        self.observe_requester.observe().await;
        self.see(|shown| match &shown.unusable {
            Some(why) => Err(fdo::Error::Failed(why.clone())),
            None => Ok(shown.plan.clone()),
        })
    }

    /// Looks, applies, and returns the state then. Forgets what failed before and what was contested.
    async fn reconcile(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reconcile").await?;
        Ok(self.ask(caller, Request::Reconcile).await?.name().to_owned())
    }

    /// Reads the profile again, and does what it says.
    async fn reload(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<()> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reload").await?;
        self.ask(caller, Request::Reload).await
    }

    /// Reboots the host the way the profile says, whatever policy and window are; vetoes, inhibitors and the fleet's lock
    /// count all the same. `not_before`: microseconds since 1970, 0 = after the profile's delay. Returns the state of the
    /// reboot then (`announced`, `waiting`, …), and the same for people.
    #[zbus(out_args("state", "text"))]
    async fn schedule_reboot(
        &self,
        why: String,
        not_before: u64,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<(String, String)> {
        self.schedule(why, not_before, false, &header).await
    }

    /// The same, also into a boot entry that is not known to be sound: the machine may not come back.
    #[zbus(out_args("state", "text"))]
    async fn force_reboot(
        &self,
        why: String,
        not_before: u64,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<(String, String)> {
        self.schedule(why, not_before, true, &header).await
    }

    /// Decides about the reboot again, and returns its state once it is published. For commands that have set or lifted a hold.
    async fn update_reboot(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reconcile").await?;
        Ok(self.ask(caller, Request::UpdateReboot).await?.name().to_owned())
    }

    /// Takes back a reboot that bedplate announced. Nobody else's.
    async fn cancel_reboot(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, uid) = self.authority.allows(&header, "org.bedplate.cancel-reboot").await?;
        self.ask(caller, |reply| Request::CancelReboot { uid, reply }).await
    }

    /// Takes the GPUs and NICs that are there now for all there are to be. Returns which are forgotten.
    async fn forget_missing(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reconcile").await?;
        self.ask(caller, Request::ForgetMissing).await
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
        self.see(|shown| shown.status.reboot.need.map_or("unknown", RebootNeed::name).to_owned())
    }

    /// When the host was last found as the profile says, in microseconds since 1970; 0: not yet.
    #[zbus(property)]
    fn last_converged(&self) -> u64 {
        self.see(|shown| shown.status.last_converged.map_or(0, super::logind::usec))
    }

    /// What each check of `bedplate verify` came to: its id, `pass`, `warn`, `fail`, `unknown` or `not-applicable`, and what was
    /// found, where it did not pass. Empty while the host is not what its profile says; without those that the profile ignores.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn checks(&self) -> Vec<(String, String, String)> {
        self.see(|shown| {
            let checks = shown.status.checks.iter().flatten().map(|checked| {
                let outcome = checked.outcome.name().to_owned();
                (checked.id.clone(), outcome, checked.text.clone())
            });
            checks.collect()
        })
    }

    /// The plan of the last look, as JSON: what `bedplate plan` prints.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn plan_json(&self) -> String {
        self.see(|shown| shown.plan.clone())
    }

    /// Everything the daemon knows, as JSON: what `bedplate status` prints.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn status_json(&self) -> String {
        self.see(|shown| shown.status_json.clone())
    }
}

/// Tells the bus what is different now.
pub(crate) async fn signal_changes(
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
    if before.checks != now.checks {
        agent.checks_invalidate(emitter).await?;
    }
    if before != now {
        agent.status_json_invalidate(emitter).await?;
        agent.plan_json_invalidate(emitter).await?;
    }
    Ok(())
}
