//! Exports of the status: files, a systemd target, and the marker that requests a reboot from other programs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::export::{self, WrittenFiles};
use crate::helper::Helpers;
use crate::journal::{self, log_message};
use crate::ready_target::{self, ReadyTarget};
use crate::reboot::controller::OBSERVE_AGAIN;
use crate::reboot_required;
use crate::status::Status;
use bedplate_base::chain;

pub(super) struct Exports {
    root: PathBuf,
    written: WrittenFiles,
    pub(super) ready_target: ReadyTarget,
    /// The last failed attempt to set or remove the reboot marker, if it is not resolved.
    marker_failure: Option<MarkerFailure>,
}

struct MarkerFailure {
    wanted: bool,
    /// Time of the next attempt: each attempt starts a unit.
    until: Instant,
    /// The message in the journal.
    logged: String,
}

impl Exports {
    pub(super) fn new(root: &Path) -> Self {
        Exports {
            root: root.to_owned(),
            written: WrittenFiles::new(),
            ready_target: ReadyTarget::new(root),
            marker_failure: None,
        }
    }

    /// Returns when to publish again after a failure.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.marker_failure.as_ref().map(|failure| failure.until)
    }

    /// Writes exports that changed since they were last published. Logs failures.
    pub(super) async fn publish(&mut self, now: &Status, helpers: &Helpers) {
        for wrong in export::write(&self.root, now, &mut self.written) {
            log_message(journal::IMPAIRED, &wrong);
        }
        if let Err(error) = self.ready_target.publish(now) {
            let text = format!("cannot write {}: {error}", ready_target::MARKER);
            log_message(journal::IMPAIRED, &text);
        }
        self.mark(now, helpers).await;
    }

    /// Sets or removes the marker that requests a reboot, if it is not in the desired state.
    async fn mark(&mut self, now: &Status, helpers: &Helpers) {
        let before = self.marker_failure.take();
        let Some(wanted) = reboot_required::is_wanted(now) else { return };
        if reboot_required::is_set(&self.root, wanted).is_ok_and(|is_so| is_so) {
            return;
        }
        let is_too_soon =
            |failure: &MarkerFailure| failure.wanted == wanted && failure.until > Instant::now();
        if before.as_ref().is_some_and(is_too_soon) {
            self.marker_failure = before;
            return;
        }
        let Err(error) = helpers.marker(wanted).await else { return };
        let logged = format!("cannot write {}: {}", reboot_required::REQUIRED, chain(&error));
        if before.is_none_or(|before| before.logged != logged) {
            log_message(journal::IMPAIRED, &logged);
        }
        let until = Instant::now() + OBSERVE_AGAIN;
        self.marker_failure = Some(MarkerFailure { wanted, until, logged });
    }
}
