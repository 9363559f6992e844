//! Removes published data before bedplate is uninstalled, with the daemon stopped: metrics, labels and the daemon's files in
//! /run. Files of other tools stay.

use std::path::Path;

use jiff::Timestamp;

use super::reboot_required;
use crate::reboot::controller::{AtLogind, Offline, RebootError};
use bedplate_base::format_utc;
use bedplate_core::reboot_record::phase::Phase;
use bedplate_host::file::under;
use bedplate_host::published::{
    COLLECTED, COLLECTOR, FEATURE_FILE, FEATURES, RUN_DIRECTORY as DIRECTORY,
};
use bedplate_host::write::{remove_own_directory, remove_own_file, temporary};

/// Cancels the reboot that bedplate scheduled on the running machine, with files below `root`, and disarms its method. A
/// shutdown scheduled by another tool stays. Returns the time of the cancelled reboot, if any.
///
/// # Errors
/// The reason, in a few sentences, if the reboot may still happen or its method stay armed. The record of its owner must then
/// stay.
pub async fn cancel_reboot(root: &Path) -> Result<Option<Timestamp>, String> {
    let words = |error: RebootError| error.to_string();
    let not_undone = |why: &str| Err(format!("{why}. Nothing was removed; try again"));
    let mut offline = Offline::connect(root).await;
    let (record, found) = offline.find().await.map_err(words)?;
    if record.phase == Phase::Rest {
        return Ok(None);
    }
    let by = format!("by `bedplate withdraw`, at {}", format_utc(Timestamp::now()));
    let cancelled = offline.cancel(by).await;
    let at = match found {
        AtLogind::Scheduled { at } | AtLogind::Unknown { at, .. } => at,
        AtLogind::Nothing | AtLogind::GoingDown => {
            return match cancelled {
                Err(RebootError::Armed(text)) => not_undone(&text),
                // No reboot was scheduled, or another tool's shutdown.
                _ => Ok(None),
            };
        }
    };
    if let Err(why) = cancelled {
        return Err(format!(
            "bedplate has scheduled a reboot for {}, and systemd-logind cannot cancel it ({why}): it may still happen. \
             Nothing was removed; run `shutdown -c`, or try again",
            format_utc(at)
        ));
    }
    match offline.find().await.map_err(words)?.0.phase.is_open() {
        true => not_undone("the armed reboot method is not disarmed"),
        false => Ok(Some(at)),
    }
}

/// Removes all published data below `root`. Returns a message for each file that could not be removed.
pub fn remove_published_files(root: &Path) -> Vec<String> {
    let at = |path: &str| under(root, path);
    // An image may contain symlinks to any path; their targets do not belong to the image.
    let outside = [COLLECTOR, FEATURES, "/run", DIRECTORY]
        .into_iter()
        .filter(|path| leads_outside(root, &at(path)));
    let outside: Vec<String> = outside
        .map(|path| format!("{path} leads out of {}: nothing was removed", root.display()))
        .collect();
    if !outside.is_empty() {
        return outside;
    }
    let mut wrong = Vec::new();
    let mut check = |what: &str, done: std::io::Result<()>| {
        wrong.extend(done.err().map(|error| format!("cannot remove {what}: {error}")));
    };
    for (directory, name) in [(COLLECTOR, COLLECTED), (FEATURES, FEATURE_FILE)] {
        let path = format!("{directory}/{name}");
        check(&path, remove_own_file(&at(&path)).map(drop));
        // Left over from an interrupted write.
        check(&path, remove_own_file(&at(&format!("{directory}/{}", temporary(name)))).map(drop));
    }
    check(reboot_required::REQUIRED, reboot_required::set(root, false));
    // Owned by bedplate alone: status, metrics, the request for a power cycle.
    check(DIRECTORY, remove_own_directory(&at(DIRECTORY)));
    wrong
}

/// Whether a directory below `root` is a symlink out of it; `false` if it is missing. This detects symlinks of root in an
/// image. Symlinks of other users, which may appear at any moment, are never followed.
fn leads_outside(root: &Path, directory: &Path) -> bool {
    match (root.canonicalize(), directory.canonicalize()) {
        (Ok(root), Ok(real)) => !real.starts_with(root),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export;
    use crate::reboot::method::tests::Tree;
    use crate::status::Status;
    use bedplate_core::plan::RebootNeed;
    use bedplate_core::profile::model::RebootPolicy;

    fn files(root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![root.to_owned()];
        while let Some(directory) = open.pop() {
            for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
                match path.is_dir() {
                    true => open.push(path),
                    false => found.push(path.strip_prefix(root).unwrap().display().to_string()),
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn only_files_of_bedplate_are_removed() {
        let tree = Tree::new();
        let root = tree.0.as_path();
        let theirs = [
            "etc/kubernetes/node-feature-discovery/features.d/site",
            "run/reboot-required",
            "run/reboot-required.pkgs",
            "var/lib/prometheus/node-exporter/apt.prom",
        ];
        theirs.iter().for_each(|path| tree.put(path, "linux-base\n"));
        let mut status = Status::starting("b".into());
        status.reboot.need = Some(RebootNeed::Cold);
        status.reboot.policy = Some(RebootPolicy::Mark);
        assert_eq!(export::write(root, &status, &mut export::WrittenFiles::new()), [""; 0]);
        reboot_required::set(root, true).unwrap();
        tree.put("run/bedplate/power-cycle", "{}");
        assert!(files(root).len() > theirs.len() + 2, "{:?}", files(root));
        assert_eq!(remove_published_files(root), [""; 0]);
        assert_eq!(files(root), theirs);
        assert_eq!(tree.get("run/reboot-required.pkgs"), "linux-base\n");
        assert_eq!(remove_published_files(root), [""; 0], "the second time there is nothing");
    }

    #[test]
    fn symlink_out_of_an_image_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("bedplate")).unwrap();
        std::os::unix::fs::symlink(host.path(), root.path().join("run")).unwrap();
        let said = remove_published_files(root.path());
        assert!(said[0].starts_with("/run leads out of "), "{said:?}");
        assert!(host.path().join("bedplate").exists());
    }
}
