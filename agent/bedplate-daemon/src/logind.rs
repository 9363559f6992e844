//! systemd-logind client for reboots: schedule, cancel, list inhibitors (handbook §2.5; man
//! org.freedesktop.login1). Makes no decisions.

use std::time::Duration;

use tokio::sync::mpsc::Sender;
use zbus::fdo::{PropertiesChanged, PropertiesChangedStream, PropertiesProxy};
use zbus::proxy::{CacheProperties, OwnerChangedStream};
use zbus::{Connection, OwnedFd};

use super::events::Trigger;

pub use bedplate_core::reboot_record::phase::{time, usec};

/// `org.freedesktop.login1.Manager`.
#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
pub(crate) trait Manager {
    /// Schedules a shutdown; `usec` is wall-clock time in microseconds.
    fn schedule_shutdown(&self, kind: &str, usec: u64) -> zbus::Result<()>;
    /// Cancels any scheduled shutdown.
    fn cancel_scheduled_shutdown(&self) -> zbus::Result<bool>;
    /// Sets the message shown to all logged-in users.
    fn set_wall_message(&self, message: &str, enable: bool) -> zbus::Result<()>;
    /// what, who, why, mode, uid, pid.
    fn list_inhibitors(&self) -> zbus::Result<Vec<(String, String, String, String, u32, u32)>>;
    /// Takes an inhibitor, held as long as the descriptor is open.
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;
    /// Type and time of the scheduled shutdown; an empty type means nothing is scheduled.
    #[zbus(property(emits_changed_signal = "false"))]
    fn scheduled_shutdown(&self) -> zbus::Result<(String, u64)>;
    /// Whether a shutdown is in progress, until its job has ended, successfully or not.
    #[zbus(property(emits_changed_signal = "false"))]
    fn preparing_for_shutdown(&self) -> zbus::Result<bool>;
    /// Emitted when a shutdown starts (true), or was aborted (false).
    #[zbus(signal)]
    fn prepare_for_shutdown(&self, start: bool) -> zbus::Result<()>;
}

/// Returns a proxy of logind without a cache. A caching proxy of zbus retains the error of a failed first answer for its
/// lifetime, so one request to a logind that is still starting would make it unusable.
///
/// # Errors
/// If the bus connection has ended.
pub(crate) async fn manager(bus: &Connection) -> zbus::Result<ManagerProxy<'static>> {
    ManagerProxy::builder(bus).cache_properties(CacheProperties::No).build().await
}

/// `shutdown.target` of PID 1: every shutdown except `reboot -f` starts it.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Unit",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1/unit/shutdown_2etarget"
)]
trait ShutdownTarget {
    /// Number and path of its job; 0: no job.
    #[zbus(property(emits_changed_signal = "false"))]
    fn job(&self) -> zbus::Result<(u32, zbus::OwnedObjectPath)>;
}

/// `sysinit.target` of PID 1: every start of a userspace reaches it once.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Unit",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1/unit/sysinit_2etarget"
)]
trait Sysinit {
    /// When it was reached, in microseconds of the monotonic clock; 0: not yet.
    #[zbus(property(emits_changed_signal = "false"))]
    fn active_enter_timestamp_monotonic(&self) -> zbus::Result<u64>;
}

/// Returns when this userspace started, which a soft-reboot changes within a boot; `None` if PID 1 does not answer.
pub(crate) async fn userspace(bus: &Connection) -> Option<u64> {
    let asked = async {
        let target =
            SysinitProxy::builder(bus).cache_properties(CacheProperties::No).build().await?;
        target.active_enter_timestamp_monotonic().await
    };
    in_time(asked).await.filter(|at| *at != 0)
}

/// Returns the answer of PID 1, or `None` on timeout or error.
async fn in_time<T>(asked: impl Future<Output = zbus::Result<T>>) -> Option<T> {
    tokio::time::timeout(Duration::from_secs(2), asked).await.ok()?.ok()
}

/// Whether PID 1 is shutting down. From then on it starts no unit, because the job would conflict with `shutdown.target`.
pub(crate) async fn machine_stops(bus: &Connection) -> bool {
    let asked = async {
        let target =
            ShutdownTargetProxy::builder(bus).cache_properties(CacheProperties::No).build().await?;
        target.job().await
    };
    in_time(asked).await.is_some_and(|(id, _)| id != 0)
}

/// Returns the block inhibitors on shutdown, human-readable; omits those for sleep or keys only.
pub(crate) fn in_the_way(inhibitors: &[(String, String, String, String, u32, u32)]) -> Vec<String> {
    let blocks = |what: &str, mode: &str| {
        // Privileged callers ignore `block-weak` (systemd 257); `delay` waits for seconds only.
        mode == "block" && what.split(':').any(|what| what == "shutdown")
    };
    let mut lines: Vec<String> = inhibitors
        .iter()
        .filter(|(what, _, _, mode, _, _)| blocks(what, mode))
        .map(|(_, who, why, _, _, pid)| format!("{who} (process {pid}): {why}"))
        .collect();
    lines.sort();
    lines
}

/// Name of a trigger that requests only a decision, not an observation.
pub(crate) const CHANGED: &str = "logind";

/// Sends a trigger when inhibitors change, when a shutdown starts or is aborted, and when logind starts or stops. Returns
/// when the signals end or are unavailable.
pub(crate) async fn watch(logind: ManagerProxy<'static>, to: Sender<Trigger>) {
    let Ok(mut signals) = Signals::subscribe(&logind).await else { return };
    while signals.next().await {
        let _ = to.try_send(Trigger { what: CHANGED.into(), profile: false });
    }
}

/// Interval between requests to a logind that does not answer.
const PROBE: Duration = Duration::from_secs(2);

/// Polls logind until it answers, then sends a trigger. Much cheaper than a decision, which also makes other requests.
pub(crate) async fn probe(logind: ManagerProxy<'static>, to: Sender<Trigger>) {
    loop {
        tokio::time::sleep(PROBE).await;
        if logind.scheduled_shutdown().await.is_ok() {
            let _ = to.send(Trigger { what: CHANGED.into(), profile: false }).await;
            return;
        }
    }
}

/// The signals of logind that a decision depends on.
struct Signals {
    properties: PropertiesChangedStream,
    shutdowns: PrepareForShutdownStream,
    owners: OwnerChangedStream<'static>,
}

impl Signals {
    async fn subscribe(logind: &ManagerProxy<'static>) -> zbus::Result<Self> {
        let logind_proxy = logind.inner();
        let properties = PropertiesProxy::builder(logind_proxy.connection())
            .destination(logind_proxy.destination().to_owned())
            .path(logind_proxy.path().to_owned())
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        Ok(Signals {
            properties: properties.receive_properties_changed().await?,
            shutdowns: logind.receive_prepare_for_shutdown().await?,
            owners: logind_proxy.receive_owner_changed().await?,
        })
    }

    /// Waits for the next relevant signal. Returns `false` when the bus has ended.
    async fn next(&mut self) -> bool {
        loop {
            tokio::select! {
                changed = next(&mut self.properties) => match changed {
                    Some(changed) if !of_inhibitors(&changed) => {}
                    signal => return signal.is_some(),
                },
                signal = next(&mut self.shutdowns) => return signal.is_some(),
                owner = next(&mut self.owners) => return owner.is_some(),
            }
        }
    }
}

/// Whether a change of logind's properties concerns block inhibitors. An unreadable change counts as one.
fn of_inhibitors(changed: &PropertiesChanged) -> bool {
    let named = "BlockInhibited";
    changed.args().map_or(true, |args| {
        args.changed_properties.contains_key(named) || args.invalidated_properties.contains(&named)
    })
}

/// Returns the next item of a stream.
pub(super) async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_block_inhibitors_on_shutdown_are_listed() {
        let one = |what: &str, who: &str, mode: &str| {
            (what.to_owned(), who.to_owned(), "why".to_owned(), mode.to_owned(), 0, 7)
        };
        let all = [
            one("sleep:shutdown", "backup", "block"),
            one("shutdown", "apt", "block"),
            one("shutdown", "net", "delay"),
            one("sleep", "video", "block"),
            one("shutdown", "soft", "block-weak"),
        ];
        assert_eq!(in_the_way(&all), ["apt (process 7): why", "backup (process 7): why"]);
    }
}
