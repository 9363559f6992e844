//! Control of `bedplate-is-ready.target`, which is active while the verdict is `ready`. A separate task requests its start
//! and stop from PID 1 over the system bus, so the target follows even while the loop waits for a worker. No capability is
//! needed: the bus knows the daemon as root.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use zbus::Connection;

use super::journal::{self, log_message};
use super::status::{State, Status, Verdict};
use bedplate_host::file::under;
use bedplate_host::published;
use bedplate_host::write::{remove_own_file, replace_public_file};

/// Name of the unit.
pub const UNIT: &str = "bedplate-is-ready.target";
/// Marker file that exists while the verdict is `ready`. It is a condition of the unit, so that no other unit can start
/// the target at other times.
pub const MARKER: &str = published::READY;
/// A shorter observation that ends in `ready` does not stop the target.
pub(crate) const GRACE: Duration = Duration::from_millis(600);
/// Interval between requests that PID 1 refuses.
const RETRY: Duration = Duration::from_secs(1);
/// Longest wait for the answer of PID 1.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// `org.freedesktop.systemd1.Manager`.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Units {
    fn start_unit(&self, name: &str, mode: &str) -> zbus::Result<zbus::OwnedObjectPath>;
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<zbus::OwnedObjectPath>;
}

/// Desired state of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetState {
    Active,
    /// An observation is running: inactive from then on.
    ActiveUntil(Instant),
    Inactive,
}

impl TargetState {
    /// Returns the desired state after this status.
    fn after(self, status: &Status, now: Instant) -> Self {
        match (status.verdict, status.state, self) {
            (Verdict::Ready, ..) => TargetState::Active,
            (_, State::Working, TargetState::Active) => TargetState::ActiveUntil(now + GRACE),
            (_, State::Working, already) => already,
            _ => TargetState::Inactive,
        }
    }
}

#[derive(Clone)]
struct Request {
    wanted: TargetState,
    bus: Option<Connection>,
}

/// Keeps the target in step with the published status.
pub(crate) struct ReadyTarget {
    marker: PathBuf,
    to: watch::Sender<Request>,
}

impl ReadyTarget {
    /// Creates one for the host below `root`, without a bus yet.
    pub(crate) fn new(root: &Path) -> Self {
        let (to, requests) = watch::channel(Request { wanted: TargetState::Inactive, bus: None });
        tokio::spawn(follow(requests));
        ReadyTarget { marker: under(root, MARKER), to }
    }

    /// Sets or clears the bus connection.
    pub(crate) fn connected(&self, bus: Option<Connection>) {
        self.to.send_modify(|request| request.bus = bus);
    }

    /// Updates marker and target for this status.
    ///
    /// # Errors
    /// If the marker cannot be written or removed. The target is updated in any case.
    pub(crate) fn publish(&self, status: &Status) -> std::io::Result<()> {
        let ready = status.verdict == Verdict::Ready;
        let marked = match (ready, self.marker.exists()) {
            (true, false) => replace_public_file(&self.marker, b""),
            (false, true) => remove_own_file(&self.marker).map(drop),
            _ => Ok(()),
        };
        self.to.send_modify(|request| {
            request.wanted = request.wanted.after(status, Instant::now());
        });
        marked
    }
}

async fn follow(mut requests: watch::Receiver<Request>) {
    let mut said = None;
    loop {
        let Request { wanted, bus } = requests.borrow_and_update().clone();
        let mut again = None;
        let active = match wanted {
            TargetState::ActiveUntil(end) if end > Instant::now() => {
                again = Some(end);
                None
            }
            TargetState::Active => Some(true),
            TargetState::ActiveUntil(_) | TargetState::Inactive => Some(false),
        };
        // A request that is already fulfilled costs PID 1 nothing, and it reverts a stop of the target by another program.
        if let (Some(bus), Some(active)) = (bus, active) {
            match set(&bus, active).await {
                Ok(()) => said = None,
                Err(error) if is_not_there(&error) => {}
                Err(error) => {
                    again = Some(Instant::now() + RETRY);
                    let text = format!("cannot {} {UNIT}: {error}", verb(active));
                    if said.as_ref() != Some(&text) {
                        log_message(journal::IMPAIRED, &text);
                    }
                    said = Some(text);
                }
            }
        }
        let changed = match again {
            None => requests.changed().await,
            Some(again) => tokio::select! {
                changed = requests.changed() => changed,
                () = sleep_until(again) => Ok(()),
            },
        };
        if changed.is_err() {
            return;
        }
    }
}

fn verb(active: bool) -> &'static str {
    if active { "start" } else { "stop" }
}

async fn set(bus: &Connection, active: bool) -> zbus::Result<()> {
    let asked = async {
        let units = UnitsProxy::new(bus).await?;
        match active {
            // Must never replace the job that shuts the machine down.
            true => units.start_unit(UNIT, "fail").await,
            false => units.stop_unit(UNIT, "replace").await,
        }
    };
    let answer = timeout(ANSWER_LIMIT, asked).await;
    answer.unwrap_or_else(|_| Err(zbus::Error::Failure("PID 1 does not answer".into()))).map(drop)
}

/// Whether the unit or systemd does not exist; then no unit waits for the target.
fn is_not_there(error: &zbus::Error) -> bool {
    let names = [
        "org.freedesktop.systemd1.NoSuchUnit",
        "org.freedesktop.DBus.Error.ServiceUnknown",
        "org.freedesktop.DBus.Error.NameHasNoOwner",
    ];
    match error {
        zbus::Error::MethodError(name, ..) => names.contains(&name.as_str()),
        zbus::Error::FDO(error) => matches!(
            **error,
            zbus::fdo::Error::ServiceUnknown(_) | zbus::fdo::Error::NameHasNoOwner(_)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: State, verdict: Verdict) -> Status {
        let mut status = Status::starting("b".into());
        (status.state, status.verdict) = (state, verdict);
        status
    }

    #[test]
    fn short_observation_keeps_target_active() {
        let now = Instant::now();
        let ready = status(State::Converged, Verdict::Ready);
        let working = status(State::Working, Verdict::NotReady);
        let until = TargetState::Active.after(&working, now);
        assert_eq!(until, TargetState::ActiveUntil(now + GRACE));
        assert_eq!(until.after(&working, now + RETRY), until, "the grace begins once");
        assert_eq!(until.after(&ready, now), TargetState::Active);
    }

    #[test]
    fn every_other_verdict_stops_target() {
        let now = Instant::now();
        for (state, verdict) in [
            (State::Drifted, Verdict::NotReady),
            (State::Converged, Verdict::CannotTell),
            (State::Error, Verdict::CannotTell),
            (State::Stopped, Verdict::NotReady),
        ] {
            for before in
                [TargetState::Active, TargetState::ActiveUntil(now), TargetState::Inactive]
            {
                assert_eq!(before.after(&status(state, verdict), now), TargetState::Inactive);
            }
        }
        let working = status(State::Working, Verdict::NotReady);
        assert_eq!(TargetState::Inactive.after(&working, now), TargetState::Inactive);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn marker_exists_while_ready() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("run/bedplate")).unwrap();
        let target = ReadyTarget::new(root.path());
        let marker = root.path().join("run/bedplate/ready");
        for (state, verdict, there) in [
            (State::Starting, Verdict::CannotTell, false),
            (State::Converged, Verdict::Ready, true),
            (State::Working, Verdict::NotReady, false),
            (State::Converged, Verdict::Ready, true),
            (State::Stopped, Verdict::NotReady, false),
        ] {
            target.publish(&status(state, verdict)).unwrap();
            assert_eq!(marker.exists(), there, "{state:?}");
        }
    }
}
