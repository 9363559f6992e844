//! systemd-logind, as far as reboots need it: schedule, cancel, who is in the way (handbook §2.5; man
//! org.freedesktop.login1). Nothing is decided here.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;
use zbus::fdo::{PropertiesChanged, PropertiesChangedStream, PropertiesProxy};
use zbus::proxy::{CacheProperties, OwnerChangedStream};
use zbus::{Connection, OwnedFd};

use super::events::Trigger;
use crate::reboot::method::Prepared;

/// `org.freedesktop.login1.Manager`.
#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
pub trait Manager {
    /// Schedules a shutdown; `usec` is wall-clock time in microseconds.
    fn schedule_shutdown(&self, kind: &str, usec: u64) -> zbus::Result<()>;
    /// Takes whatever is scheduled back.
    fn cancel_scheduled_shutdown(&self) -> zbus::Result<bool>;
    /// What is told to everybody logged in.
    fn set_wall_message(&self, message: &str, enable: bool) -> zbus::Result<()>;
    /// what, who, why, mode, uid, pid.
    fn list_inhibitors(&self) -> zbus::Result<Vec<(String, String, String, String, u32, u32)>>;
    /// Takes an inhibitor, held as long as the descriptor is open.
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;
    /// Kind and time of what is scheduled; an empty kind: nothing.
    #[zbus(property(emits_changed_signal = "false"))]
    fn scheduled_shutdown(&self) -> zbus::Result<(String, u64)>;
    /// A shutdown is under way: until its job has ended, well or not.
    #[zbus(property(emits_changed_signal = "false"))]
    fn preparing_for_shutdown(&self) -> zbus::Result<bool>;
    /// A shutdown begins (true), or has come to nothing (false).
    #[zbus(signal)]
    fn prepare_for_shutdown(&self, start: bool) -> zbus::Result<()>;
}

/// logind on this bus, asked anew for each property. zbus keeps the error of a first answer for as long as a proxy that
/// caches lives, so one question to a logind that is still starting would be the last.
///
/// # Errors
/// The bus has ended.
pub async fn manager(bus: &Connection) -> zbus::Result<ManagerProxy<'static>> {
    ManagerProxy::builder(bus).cache_properties(CacheProperties::No).build().await
}

/// `shutdown.target` of PID 1: every way down but `reboot -f` leads through it.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Unit",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1/unit/shutdown_2etarget"
)]
trait ShutdownTarget {
    /// Number and path of its job; 0: none.
    #[zbus(property(emits_changed_signal = "false"))]
    fn job(&self) -> zbus::Result<(u32, zbus::OwnedObjectPath)>;
}

/// What PID 1 may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Whether PID 1 is on its way down: from then on it starts no unit, whose job would be against that of `shutdown.target`.
pub async fn machine_stops(bus: &Connection) -> bool {
    let asked = async {
        let target =
            ShutdownTargetProxy::builder(bus).cache_properties(CacheProperties::No).build().await?;
        target.job().await
    };
    tokio::time::timeout(ANSWER_LIMIT, asked)
        .await
        .is_ok_and(|job| job.is_ok_and(|(id, _)| id != 0))
}

/// What logind is asked to do (man org.freedesktop.login1, `ScheduleShutdown`); others may have it do more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shutdown {
    /// Reboot.
    Reboot,
    /// Switch off: the clock's alarm wakes the machine.
    Poweroff,
    /// Announce a reboot, and do nothing when its time has come.
    DryReboot,
}

impl Shutdown {
    /// logind's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Shutdown::Reboot => "reboot",
            Shutdown::Poweroff => "poweroff",
            Shutdown::DryReboot => "dry-reboot",
        }
    }
}

/// What bedplate has scheduled, kept in /run so that a daemon that starts again knows its own schedule, and that a boot
/// forgets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Kept")]
pub struct Announced {
    /// What logind was asked to do.
    pub kind: Shutdown,
    /// Microseconds since 1970, as given to logind.
    pub usec: u64,
    /// Name of what it is for.
    pub plan: String,
    /// What has become of it.
    pub stage: Stage,
    /// What was made ready for it, and is undone when it does not come.
    pub prepared: Option<Prepared>,
}

/// The file's form, of earlier versions too: it outlives an upgrade of the daemon.
#[derive(Deserialize)]
struct Kept {
    kind: Shutdown,
    usec: u64,
    plan: String,
    stage: Option<Stage>,
    #[serde(default)]
    prepared: Option<Prepared>,
    /// Before `stage`.
    #[serde(default)]
    called_off: bool,
    #[serde(default)]
    called_off_by: Option<String>,
}

impl From<Kept> for Announced {
    fn from(kept: Kept) -> Self {
        let Kept { kind, usec, plan, stage, prepared, called_off, called_off_by } = kept;
        let before = || match (called_off, called_off_by, &prepared) {
            (false, _, _) => Stage::Announced,
            (true, Some(by), _) => Stage::CalledOff { by },
            // Only the operator's command left what was made ready for it behind.
            (true, None, Some(_)) => Stage::CommandRun,
            (true, None, None) => Stage::DidNotCome,
        };
        let stage = stage.unwrap_or_else(before);
        Announced { kind, usec, plan, stage, prepared }
    }
}

/// What has become of an announcement. All but the first end it; after all but [`Stage::TakenBack`] nothing is announced
/// again in this boot unless an operator asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "kebab-case")]
pub enum Stage {
    /// It stands; after its time the machine is going down.
    #[default]
    Announced,
    /// It was called off.
    CalledOff {
        /// By whom or what, and when, in words.
        by: String,
    },
    /// Its time has passed, and the machine did not go down.
    DidNotCome,
    /// bedplate has taken it back itself, or logind did not take it: it may be announced again. Kept only for what is still
    /// armed.
    TakenBack,
    /// The operator's command that cycles the power was started.
    CommandRun,
}

impl Announced {
    /// Whether this is what logind has scheduled.
    pub fn is(&self, kind: &str, usec: u64) -> bool {
        self.kind.name() == kind && self.usec == usec
    }

    /// Whether logind is to carry it out, or is about to.
    pub fn stands(&self) -> bool {
        self.stage == Stage::Announced
    }

    /// What was made ready and is to be undone, since the reboot does not come.
    pub fn armed(&self) -> Option<&Prepared> {
        match self.stage {
            Stage::CalledOff { .. } | Stage::DidNotCome | Stage::TakenBack => {
                self.prepared.as_ref()
            }
            Stage::Announced | Stage::CommandRun => None,
        }
    }

    /// What there is to remember of it.
    pub fn to_remember(self) -> Option<Self> {
        let undo = self.prepared.as_ref().is_some_and(|prepared| !prepared.undo.is_empty());
        (self.stage != Stage::TakenBack || undo).then_some(self)
    }
}

/// Where that is kept.
pub const ANNOUNCED: &str = "/run/bedplate/announced.json";

/// Block inhibitors on shutdown that are not for sleep or keys only, for people.
pub fn in_the_way(inhibitors: &[(String, String, String, String, u32, u32)]) -> Vec<String> {
    let blocks = |what: &str, mode: &str| {
        // `block-weak` is passed over by privileged callers (systemd 257); `delay` waits for seconds only.
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

/// Microseconds, as logind counts.
pub fn usec(at: Timestamp) -> u64 {
    u64::try_from(at.as_microsecond()).unwrap_or_default()
}

/// The same back.
pub fn time(usec: u64) -> Timestamp {
    i64::try_from(usec)
        .ok()
        .and_then(|usec| Timestamp::from_microsecond(usec).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Name of the trigger that asks for a decision only, not for a look.
pub const CHANGED: &str = "logind";

/// Sends a trigger when inhibitors come or go, when a shutdown begins or comes to nothing, and when logind itself comes or
/// goes. Returns when the signals end or cannot be had.
pub async fn watch(logind: ManagerProxy<'static>, to: Sender<Trigger>) {
    let Ok(mut signals) = Signals::subscribe(&logind).await else { return };
    while signals.next().await {
        let _ = to.try_send(Trigger { what: CHANGED.into(), profile: false });
    }
}

/// Time between two questions to a logind that does not answer.
const PROBE: Duration = Duration::from_secs(2);

/// Asks logind until it answers, then sends a trigger. Much cheaper than a decision, which asks others, too.
pub async fn probe(logind: ManagerProxy<'static>, to: Sender<Trigger>) {
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

    /// Waits for the next one that matters; `false`: the bus has ended.
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

/// Whether a change of logind's properties is one of its block inhibitors. One that cannot be read counts as one.
fn of_inhibitors(changed: &PropertiesChanged) -> bool {
    let named = "BlockInhibited";
    changed.args().map_or(true, |args| {
        args.changed_properties.contains_key(named) || args.invalidated_properties.contains(&named)
    })
}

/// The next item of a stream.
pub(super) async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_block_inhibitors_on_shutdown_count() {
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

    #[test]
    fn the_file_has_the_names_of_logind() {
        for kind in [Shutdown::Reboot, Shutdown::Poweroff, Shutdown::DryReboot] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn microseconds() {
        let at: Timestamp = "2026-03-03T03:00:00.123456Z".parse().unwrap();
        assert_eq!(time(usec(at)), at);
        assert_eq!(time(u64::MAX), Timestamp::MAX);
    }
}
