//! Sources of events that may have changed the host: kernel, files, network interfaces, logind.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::debounce::Debounce;
use crate::events::{self, Files, Trigger};
use crate::interface_monitor::InterfaceMonitor;
use crate::journal::{self, log_message};
use bedplate_core::kind::Watch;

pub(super) struct Watches {
    root: PathBuf,
    sender: Sender<Trigger>,
    events: Receiver<Trigger>,
    /// `None` without inotify.
    files: Option<Files>,
    /// `None` without rtnetlink.
    interfaces: Option<InterfaceMonitor>,
    /// Events that arrived and were not handled yet.
    pub(super) burst: Debounce,
}

impl Watches {
    /// Watches the kernel and bedplate's own files. A failure is logged; only the re-check then finds those changes.
    pub(super) fn new(root: &Path) -> Self {
        let (sender, events) = mpsc::channel(64);
        if let Err(error) = events::uevents(sender.clone()) {
            let text = "no kernel events: only the periodic check detects changes by the kernel";
            log_message(journal::IMPAIRED, &format!("{text}: {error}"));
        }
        let impaired = |what: &str, error: &std::io::Error| {
            log_message(journal::IMPAIRED, &format!("no {what} events: {error}"));
        };
        if let Err(error) = events::clock_set(sender.clone()) {
            impaired("clock", &error);
        }
        let interfaces = InterfaceMonitor::new(sender.clone());
        let interfaces = interfaces.inspect_err(|error| impaired("link", error)).ok();
        let files = Files::new(sender.clone()).inspect_err(|error| impaired("file", error)).ok();
        let root = root.to_owned();
        let burst = Debounce::default();
        let watches = Watches { root, sender, events, files, interfaces, burst };
        watches.set_own();
        watches
    }

    /// Returns a sender for another source of events.
    pub(super) fn sender(&self) -> Sender<Trigger> {
        self.sender.clone()
    }

    /// Waits for the next event. Always `Some`, because `self` holds a sender.
    pub(super) async fn next(&mut self) -> Option<Trigger> {
        self.events.recv().await
    }

    /// Watches the profile's files and devices in place of earlier ones, and bedplate's own files.
    pub(super) fn set(&self, watch: &Watch) {
        if let Some(files) = &self.files {
            files.set(watch);
        }
        if let Some(interfaces) = &self.interfaces {
            interfaces.set(watch);
        }
        self.set_own();
    }

    /// Watches the files that require an observation under any profile. Call it again for directories that were recreated.
    pub(super) fn set_own(&self) {
        let Some(files) = &self.files else { return };
        let at = |path: &str| self.root.join(path).display().to_string();
        // A profile that other users may write is refused, and only a `chmod` fixes it: watch owner and mode, too.
        let of_profiles = ["etc/bedplate", "etc/bedplate/profile.d", "etc/bedplate/profiles"];
        files.set_trusted(&of_profiles.map(at));
        let directories = ["var/lib/bedplate", "run/systemd/shutdown"];
        files.set(&Watch { directories: directories.map(at).to_vec(), ..Watch::default() });
    }

    /// Adds an event and those that arrived since to the burst.
    pub(super) fn gather(&mut self, trigger: &Trigger) {
        self.burst.add(trigger, Instant::now());
        self.gather_arrived();
    }

    /// Adds the events that arrived to the burst.
    pub(super) fn gather_arrived(&mut self) {
        while let Ok(trigger) = self.events.try_recv() {
            self.burst.add(&trigger, Instant::now());
        }
    }
}
