//! A fake logind that obeys its callers and records the calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zbus::interface;
use zbus::object_server::SignalEmitter;

use super::rig::Rig;

#[derive(Default)]
pub struct Login {
    /// Kind and time of the scheduled shutdown.
    pub scheduled: Option<(String, u64)>,
    /// Inhibitors: what, who, why, mode, uid, pid.
    pub inhibitors: Vec<(String, String, String, String, u32, u32)>,
    /// Calls that change something.
    pub calls: Vec<String>,
    /// Refuses to schedule.
    pub refuses: bool,
    /// PID 1 has a shutdown job.
    pub stops: bool,
    /// A shutdown is under way.
    pub preparing: bool,
    /// Number of restarts of userspace within the boot.
    pub soft_reboots: u64,
    /// Accepts a cancellation but keeps the schedule.
    pub keeps: bool,
    /// Delay of the answers to calls that change something.
    pub slow: Duration,
    /// Delay until a requested shutdown is scheduled.
    pub slow_schedule: Duration,
    /// Owns its name but fails every call.
    pub starting: bool,
    /// Active units of PID 1.
    pub active: Vec<String>,
    /// Changes of these units: `start NAME`, `stop NAME`.
    pub jobs: Vec<String>,
}

/// `shutdown.target` of PID 1.
pub struct FakeShutdownTarget(pub Arc<Mutex<Login>>);

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl FakeShutdownTarget {
    #[zbus(property)]
    fn job(&self) -> (u32, zbus::OwnedObjectPath) {
        let id = u32::from(self.0.lock().expect("not poisoned").stops);
        (id, zbus::ObjectPath::from_static_str_unchecked("/").into())
    }
}

/// PID 1, as far as it starts and stops units.
pub struct FakeManager(pub Arc<Mutex<Login>>);

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl FakeManager {
    fn start_unit(&self, name: &str, _mode: &str) -> zbus::OwnedObjectPath {
        let mut login = self.0.lock().expect("not poisoned");
        if !login.active.iter().any(|unit| unit == name) {
            login.active.push(name.to_owned());
            login.jobs.push(format!("start {name}"));
        }
        zbus::ObjectPath::from_static_str_unchecked("/").into()
    }

    fn stop_unit(&self, name: &str, _mode: &str) -> zbus::OwnedObjectPath {
        let mut login = self.0.lock().expect("not poisoned");
        if login.active.iter().any(|unit| unit == name) {
            login.active.retain(|unit| unit != name);
            login.jobs.push(format!("stop {name}"));
        }
        zbus::ObjectPath::from_static_str_unchecked("/").into()
    }
}

/// `sysinit.target` of PID 1.
pub struct FakeSysinit(pub Arc<Mutex<Login>>);

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl FakeSysinit {
    #[zbus(property)]
    fn active_enter_timestamp_monotonic(&self) -> u64 {
        1_000_000 + self.0.lock().expect("not poisoned").soft_reboots
    }
}

pub struct FakeLogind(pub Arc<Mutex<Login>>);

#[interface(name = "org.freedesktop.login1.Manager")]
impl FakeLogind {
    async fn schedule_shutdown(&self, kind: &str, usec: u64) -> zbus::fdo::Result<()> {
        let slow = {
            let mut login = self.0.lock().expect("not poisoned");
            login.calls.push(format!("schedule {kind}"));
            if login.refuses {
                return Err(zbus::fdo::Error::Failed("not now".into()));
            }
            login.slow_schedule
        };
        tokio::time::sleep(slow).await;
        self.0.lock().expect("not poisoned").scheduled = Some((kind.to_owned(), usec));
        Ok(())
    }

    async fn cancel_scheduled_shutdown(&self) -> bool {
        let (was, slow) = {
            let mut login = self.0.lock().expect("not poisoned");
            login.calls.push("cancel".into());
            let was = if login.keeps { None } else { login.scheduled.take() };
            (was, login.slow)
        };
        tokio::time::sleep(slow).await;
        was.is_some()
    }

    async fn set_wall_message(&self, message: &str, enable: bool) {
        let slow = {
            let mut login = self.0.lock().expect("not poisoned");
            login.calls.push(format!("wall {enable} {message}"));
            login.slow
        };
        tokio::time::sleep(slow).await;
    }

    fn list_inhibitors(&self) -> Vec<(String, String, String, String, u32, u32)> {
        self.0.lock().expect("not poisoned").inhibitors.clone()
    }

    #[zbus(property)]
    fn scheduled_shutdown(&self) -> (String, u64) {
        self.0.lock().expect("not poisoned").scheduled.clone().unwrap_or_default()
    }

    #[zbus(property)]
    fn preparing_for_shutdown(&self) -> bool {
        self.0.lock().expect("not poisoned").preparing
    }

    #[zbus(property)]
    fn block_inhibited(&self) -> String {
        let login = self.0.lock().expect("not poisoned");
        if login.inhibitors.is_empty() { String::new() } else { "shutdown".into() }
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(emitter: &SignalEmitter<'_>, start: bool) -> zbus::Result<()>;
}

const PATH: &str = "/org/freedesktop/login1";

/// Serves logind and PID 1 on the bus.
pub fn serve(
    runtime: &tokio::runtime::Runtime,
    address: &str,
    login: &Arc<Mutex<Login>>,
) -> zbus::Connection {
    runtime.block_on(async {
        let mut builder = zbus::connection::Builder::address(address)
            .serve_at("/org/freedesktop/systemd1", FakeManager(login.clone()))
            .serve_at(
                "/org/freedesktop/systemd1/unit/shutdown_2etarget",
                FakeShutdownTarget(login.clone()),
            )
            .serve_at(
                "/org/freedesktop/systemd1/unit/sysinit_2etarget",
                FakeSysinit(login.clone()),
            );
        if !login.lock().expect("not poisoned").starting {
            builder = builder.serve_at(PATH, FakeLogind(login.clone()));
        }
        builder
            .name("org.freedesktop.login1")
            .name("org.freedesktop.systemd1")
            .build()
            .await
            .expect("the fake logind is on the bus")
    })
}

impl Rig {
    /// Ends `starting`: logind answers from now on, without a signal.
    pub fn logind_answers(&self) {
        self.login.lock().expect("not poisoned").starting = false;
        let served = self.logind.object_server().at(PATH, FakeLogind(self.login.clone()));
        assert!(self.runtime.block_on(served).expect("it is served").is_none());
    }

    /// Sets the inhibitors and sends the signal for them, as logind does.
    pub fn inhibit(&self, who: &[&str]) {
        let inhibitor = |who: &&str| {
            ("shutdown".into(), (*who).to_owned(), "a job".into(), "block".into(), 0, 42)
        };
        self.login.lock().expect("not poisoned").inhibitors = who.iter().map(inhibitor).collect();
        self.runtime.block_on(async {
            let object = self.logind.object_server();
            let object = object.interface::<_, FakeLogind>(PATH).await.expect("it is served");
            object
                .get()
                .await
                .block_inhibited_changed(object.signal_emitter())
                .await
                .expect("a signal");
        });
    }
}
