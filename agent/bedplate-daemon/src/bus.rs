//! The daemon's D-Bus interface `org.bedplate.Agent1` on the system bus. Anyone may read; a method that changes something
//! requires root or polkit authorization. No decisions are made here: requests are passed to the loop.

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

/// Bus name.
pub const NAME: &str = "org.bedplate.Agent1";
/// Bus name for root, on a separate connection. The bus lets only root send to it (systemd/dbus), so that readers
/// cannot delay an operator.
pub(crate) const OPERATORS: &str = "org.bedplate.Operator1";
/// Object path.
pub const PATH: &str = "/org/bedplate/Agent1";

/// Longest delay of a requested reboot. A longer one is most likely a mistake in the unit of time.
const LONGEST_DELAY: SignedDuration = SignedDuration::from_hours(366 * 24);

/// A request from an authorized caller.
#[derive(Debug)]
pub struct BusRequest {
    /// Connection of the caller.
    pub caller: UniqueName<'static>,
    /// Time of the call.
    pub at: Instant,
    /// Requested operation.
    pub request: Request,
}

/// Operations that callers request from the loop, each with the channel for its answer.
#[derive(Debug)]
pub enum Request {
    /// Clear failures and conflicts, observe, and apply.
    Reconcile(Reply<State>),
    /// Read the profile again.
    Reload(Reply<()>),
    /// Reboot no earlier than `not_before`.
    ScheduleReboot {
        /// Caller and reason.
        why: String,
        /// Earliest time; `None` means after the profile's delay.
        not_before: Option<Timestamp>,
        /// Whether to reboot even into a boot entry that is not known to be sound.
        force: bool,
        /// Receives the resulting state of the reboot, and a message about the request.
        reply: Reply<(RebootState, String)>,
    },
    /// Cancel a reboot that bedplate scheduled.
    CancelReboot {
        /// User id of the caller.
        uid: u32,
        /// Receives a description of the cancelled reboot.
        reply: Reply<String>,
    },
    /// Decide about the reboot again.
    UpdateReboot(Reply<RebootState>),
    /// Treat the devices present now as the complete set.
    ForgetMissing(Reply<String>),
}

/// Channel for an answer. An error is the reason in one sentence.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, String>>;

/// Data that the bus shows.
#[derive(Debug)]
pub struct BusState {
    /// The complete status.
    pub status: Status,
    /// The status as JSON, rendered once for all readers.
    pub status_json: String,
    /// `bedplate plan --json` of the last observation.
    pub plan: String,
    /// Why no valid plan exists.
    pub unusable: Option<String>,
}

impl BusState {
    /// Returns the state before the first observation.
    pub fn new(status: Status) -> Self {
        let mut shown =
            BusState { status_json: String::new(), plan: String::new(), unusable: None, status };
        shown.update_json();
        shown
    }

    /// Replaces the status and returns the previous one.
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

/// Shared with the loop, which is the only writer.
pub(crate) type Shared = Arc<Mutex<BusState>>;

/// The D-Bus object.
#[derive(Clone)]
pub struct Agent {
    shown: Shared,
    /// Queue of changes only; reads do not use it.
    to: mpsc::Sender<BusRequest>,
    observe_requester: ObserveRequester,
    authority: Arc<Authority>,
}

impl Agent {
    /// Creates an object that shows `shown` and passes on requests.
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
        // Checked before authorization: the reason is stored, logged, and shown to all logged-in users.
        if why.chars().count() > LONGEST_REASON {
            let text = format!("the reason exceeds {LONGEST_REASON} characters");
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

// zbus copies these docs into the introspection XML as comments, so they must not contain two hyphens in a row (no long
// options).
#[interface(name = "org.bedplate.Agent1")]
impl Agent {
    /// The plan as JSON, as `bedplate plan` prints it, from an observation at most ten seconds old. It is older if the host
    /// does not answer in time or many callers wait. Changes nothing.
    async fn plan(&self) -> fdo::Result<String> {
        self.observe_requester.observe().await;
        self.see(|shown| match &shown.unusable {
            Some(why) => Err(fdo::Error::Failed(why.clone())),
            None => Ok(shown.plan.clone()),
        })
    }

    /// Observes, applies, and returns the resulting state. Clears earlier failures and conflicts.
    async fn reconcile(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reconcile").await?;
        Ok(self.ask(caller, Request::Reconcile).await?.name().to_owned())
    }

    /// Reads the profile again and enforces it.
    async fn reload(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<()> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reload").await?;
        self.ask(caller, Request::Reload).await
    }

    /// Reboots the host as the profile specifies, regardless of policy and windows. Vetoes, inhibitors and the reboot lock
    /// still apply. `not_before`: microseconds since 1970, 0 = after the profile's delay. Returns the resulting state of the
    /// reboot (`scheduled`, `waiting`, …) and a human-readable description.
    #[zbus(out_args("state", "text"))]
    async fn schedule_reboot(
        &self,
        why: String,
        not_before: u64,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<(String, String)> {
        self.schedule(why, not_before, false, &header).await
    }

    /// Like ScheduleReboot, but reboots even into a boot entry that is not known to be sound: the machine may not boot again.
    #[zbus(out_args("state", "text"))]
    async fn force_reboot(
        &self,
        why: String,
        not_before: u64,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<(String, String)> {
        self.schedule(why, not_before, true, &header).await
    }

    /// Decides about the reboot again and returns its state once it is published. For commands that have set or lifted a hold.
    async fn update_reboot(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reconcile").await?;
        Ok(self.ask(caller, Request::UpdateReboot).await?.name().to_owned())
    }

    /// Cancels a reboot that bedplate scheduled, never one scheduled by another tool.
    async fn cancel_reboot(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, uid) = self.authority.allows(&header, "org.bedplate.cancel-reboot").await?;
        self.ask(caller, |reply| Request::CancelReboot { uid, reply }).await
    }

    /// Treats the GPUs and NICs present now as the complete set. Returns the forgotten ones.
    async fn forget_missing(&self, #[zbus(header)] header: Header<'_>) -> fdo::Result<String> {
        let (caller, _) = self.authority.allows(&header, "org.bedplate.reconcile").await?;
        self.ask(caller, Request::ForgetMissing).await
    }

    /// Version of bedplate.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// State of the host: `converged`, `drifted`, `waiting-for-boot`, …
    #[zbus(property)]
    fn state(&self) -> String {
        self.see(|shown| shown.status.state.name().to_owned())
    }

    /// Whether workloads may rely on the host: `ready`, `not-ready`, `cannot-tell`.
    #[zbus(property)]
    fn verdict(&self) -> String {
        self.see(|shown| shown.status.verdict.name().to_owned())
    }

    /// Reason of the verdict, in one sentence.
    #[zbus(property)]
    fn reason(&self) -> String {
        self.see(|shown| shown.status.reason.clone())
    }

    /// Whether the host stage is ready, which needs no GPU driver: `ready`, `not-ready`, `cannot-tell`.
    #[zbus(property)]
    fn host_verdict(&self) -> String {
        self.see(|shown| shown.status.host_stage.verdict.name().to_owned())
    }

    /// Reason of the verdict on the host stage, in one sentence.
    #[zbus(property)]
    fn host_reason(&self) -> String {
        self.see(|shown| shown.status.host_stage.reason.clone())
    }

    /// Name of the profile.
    #[zbus(property)]
    fn profile(&self) -> String {
        self.see(|shown| shown.status.profile.clone())
    }

    /// Reboot that pending changes need: `none`, `reboot` or `cold`; `unknown` if it cannot be determined.
    #[zbus(property)]
    fn pending_reboot(&self) -> String {
        self.see(|shown| shown.status.reboot.need.map_or("unknown", RebootNeed::name).to_owned())
    }

    /// When the host was last converged, in microseconds since 1970; 0: not yet.
    #[zbus(property)]
    fn last_converged(&self) -> u64 {
        self.see(|shown| shown.status.last_converged.map_or(0, super::logind::usec))
    }

    /// Result of each check of `bedplate verify`: its id, `pass`, `warn`, `fail`, `unknown` or `not-applicable`, and the
    /// finding if it did not pass. Empty while settings of the host stage differ from the profile. Omits checks that the
    /// profile ignores.
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

    /// The plan of the last observation as JSON, as `bedplate plan` prints it.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn plan_json(&self) -> String {
        self.see(|shown| shown.plan.clone())
    }

    /// The complete status as JSON, as `bedplate status` prints it.
    #[zbus(property(emits_changed_signal = "invalidates"))]
    fn status_json(&self) -> String {
        self.see(|shown| shown.status_json.clone())
    }
}

/// Emits D-Bus signals for the properties that changed.
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
    if before.host_stage.verdict != now.host_stage.verdict {
        agent.host_verdict_changed(emitter).await?;
    }
    if before.host_stage.reason != now.host_stage.reason {
        agent.host_reason_changed(emitter).await?;
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
