//! `bedplate-is-ready.target`, which PID 1 keeps active while the verdict is `ready`. A task of its own asks PID 1 over the
//! system bus, so that the target follows also while the loop waits for a worker. That takes no capability: the bus knows
//! the daemon as root.

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

/// The unit.
pub const UNIT: &str = "bedplate-is-ready.target";
/// There while the verdict is `ready`: a condition of the unit, so that no other unit that wants it can start it meanwhile.
pub const MARKER: &str = published::READY;
/// An observation that ends sooner and finds the host ready does not stop the target.
const GRACE: Duration = Duration::from_millis(600);
/// Time between two requests that PID 1 refuses.
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

/// State that the target should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetState {
    Active,
    /// An observation is under way: inactive from then on.
    ActiveUntil(Instant),
    Inactive,
}

impl TargetState {
    /// After this status.
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

/// Has the target follow the published status.
pub(crate) struct ReadyTarget {
    marker: PathBuf,
    to: watch::Sender<Request>,
}

impl ReadyTarget {
    /// For the host below `root`, without a bus yet.
    pub(crate) fn new(root: &Path) -> Self {
        let (to, requests) = watch::channel(Request { wanted: TargetState::Inactive, bus: None });
        tokio::spawn(follow(requests));
        ReadyTarget { marker: under(root, MARKER), to }
    }

    /// The bus has come or gone.
    pub(crate) fn connected(&self, bus: Option<Connection>) {
        self.to.send_modify(|request| request.bus = bus);
    }

    /// Has the target follow this status.
    ///
    /// # Errors
    /// The marker cannot be written or removed. The target follows in any case.
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
        // What PID 1 has already costs it nothing. Another program that has stopped the target is answered, too.
        if let (Some(bus), Some(active)) = (bus, active) {
            match set(&bus, active).await {
                Ok(()) => said = None,
                Err(error) if is_not_there(&error) => {}
                Err(error) => {
                    again = Some(Instant::now() + RETRY);
                    let text = format!("PID 1 does not {} {UNIT}: {error}", verb(active));
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
            // Never in place of the job that takes the machine down.
            true => units.start_unit(UNIT, "fail").await,
            false => units.stop_unit(UNIT, "replace").await,
        }
    };
    let answer = timeout(ANSWER_LIMIT, asked).await;
    answer.unwrap_or_else(|_| Err(zbus::Error::Failure("it does not answer".into()))).map(drop)
}

/// Whether there is no such unit, or no systemd: then nobody waits for the target.
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
    async fn marker_is_there_while_ready() {
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
