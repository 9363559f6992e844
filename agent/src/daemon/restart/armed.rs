//! What was made ready for a reboot that does not come: undone at the next step, and kept on file until that has succeeded.
//! It takes a unit, which may not be had just then, and until it is undone any reboot is made that way.

use super::Restart;
use crate::daemon::journal::{self, say};
use crate::daemon::logind::Announced;
use crate::error_chain::chain;
use crate::reboot::method::{Prepared, Undo, undo};

/// The daemon's own directory, where it needs no unit to remove a file.
const OWN: &str = "/run/bedplate/";

impl Restart {
    /// Whether something is still armed for a reboot that does not come.
    pub(super) fn is_armed(&self) -> bool {
        self.store.announced().is_some_and(|announced| announced.armed().is_some())
    }

    /// Undoes what is armed for a reboot that does not come. `Some`: what is left, and why; the next step tries again, or the
    /// next daemon.
    pub(super) async fn disarm(&mut self) -> Option<String> {
        let _step = self.steps.begin();
        let left = self.undo_armed().await;
        if let Some(text) = left.as_ref().filter(|text| self.armed.as_ref() != Some(text)) {
            say(journal::REBOOT_FAILED, text);
        }
        self.armed.clone_from(&left);
        left
    }

    async fn undo_armed(&self) -> Option<String> {
        let announced = self.store.announced()?;
        let armed = announced.armed()?;
        let steps = armed.undo.iter().filter(|step| !self.remove_own(armed, step));
        let prepared = Prepared { undo: steps.cloned().collect(), ..armed.clone() };
        let failed = self.helpers.take_back(&prepared).await.err();
        let left = failed.map(|error| describe(&prepared, &chain(&error)));
        let prepared = left.is_some().then_some(prepared);
        if prepared != announced.prepared {
            let kept = Announced { prepared, ..announced }.to_remember();
            if let Err(error) = self.store.announce(kept.as_ref()) {
                say(journal::IMPAIRED, &error.to_string());
            }
        }
        left
    }

    /// Whether this step removes a file of the daemon's own, and has succeeded.
    fn remove_own(&self, prepared: &Prepared, step: &Undo) -> bool {
        let one = Prepared { undo: vec![step.clone()], ..prepared.clone() };
        matches!(step, Undo::Remove { path } if path.starts_with(OWN))
            && undo(&one, &self.root).is_ok()
    }
}

fn describe(prepared: &Prepared, why: &str) -> String {
    let paths = prepared.undo.iter().map(|step| match step {
        Undo::Write { path, .. } | Undo::Remove { path } => path.as_str(),
    });
    let paths: Vec<&str> = paths.collect();
    format!(
        "what was prepared for the reboot is not undone yet ({}): until it is, any reboot is one by the method `{}`. It is \
         tried again: {why}",
        paths.join(", "),
        prepared.method
    )
}
