//! `/run/reboot-required`, for kured and operators, shared with packages. bedplate removes only its own part.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::status::{State, Status};
use bedplate_core::profile::model::RebootPolicy;
use bedplate_host::file::{self, under};
use bedplate_host::published;
use bedplate_host::write::{remove_own_file, replace_public_file};

/// Debian's marker, which kured watches too (handbook §2.6).
pub const REQUIRED: &str = "/run/reboot-required";
/// Packages that request the reboot, one per line.
const REQUIRED_BY: &str = "/run/reboot-required.pkgs";
/// Identity of the marker that bedplate created: a file of the same name may be another one by now.
const MADE: &str = published::REBOOT_MADE;
const PACKAGE: &str = "bedplate";
/// Text of Debian's own marker.
const TEXT: &str = "*** System restart required ***\n";
/// Content of [`MADE`] while the marker is being written.
const INTENT: &str = "being made\n";

/// Whether other tools must reboot this host; `None` if unknown. Under policy `schedule` they must not: kured checks only
/// that the file exists, and would reboot outside of window, hold and lock.
pub(crate) fn is_wanted(status: &Status) -> Option<bool> {
    if matches!(status.state, State::Starting | State::Stopped) {
        // An existing marker stays until the state is known, and after a stop.
        return None;
    }
    let policy = status.reboot.policy == Some(RebootPolicy::Mark);
    Some(policy && status.pause.is_none() && status.reboot.is_needed())
}

/// Whether [`set`] would change nothing.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn is_set(root: &Path, wanted: bool) -> std::io::Result<bool> {
    let at = |path: &str| under(root, path);
    let ours = read(&at(REQUIRED_BY))?.lines().any(|line| line == PACKAGE);
    Ok(match wanted {
        true => ours && at(REQUIRED).try_exists()?,
        false => !ours && read(&at(MADE))?.is_empty(),
    })
}

/// Sets the marker, or removes bedplate's part of it.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn set(root: &Path, wanted: bool) -> std::io::Result<()> {
    let at = |path: &str| under(root, path);
    let (marker, list, made) = (at(REQUIRED), at(REQUIRED_BY), at(MADE));
    let listed = read(&list)?;
    let others: Vec<&str> = listed.lines().filter(|line| *line != PACKAGE).collect();
    let ours = listed.lines().any(|line| line == PACKAGE);
    if wanted {
        if !marker.try_exists()? {
            // Written first: a marker without a record of its origin would never be removed, and would cause one reboot too
            // many.
            replace_public_file(&made, INTENT.as_bytes())?;
            replace_public_file(&marker, TEXT.as_bytes())?;
            replace_public_file(&made, identity(&marker)?.as_bytes())?;
        }
        if ours {
            return Ok(());
        }
        let lines: Vec<&str> = others.into_iter().chain([PACKAGE]).collect();
        return replace_public_file(&list, (lines.join("\n") + "\n").as_bytes());
    }
    if ours {
        match others.is_empty() {
            true => drop(remove_own_file(&list)?),
            false => replace_public_file(&list, (others.join("\n") + "\n").as_bytes())?,
        }
    }
    let mine = read(&made)?;
    if mine.is_empty() {
        return Ok(());
    }
    let cut_short = mine == INTENT && read(&marker)? == TEXT;
    if others.is_empty() && (cut_short || identity(&marker).is_ok_and(|now| now == mine)) {
        remove_own_file(&marker)?;
    }
    remove_own_file(&made).map(drop)
}

/// Reads a file; a missing file is empty.
fn read(path: &Path) -> std::io::Result<String> {
    match file::text(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}

/// Returns the identity of a file; it changes when any tool rewrites the file.
fn identity(path: &Path) -> std::io::Result<String> {
    let meta = std::fs::metadata(path)?;
    Ok(format!("{} {} {}\n", meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_core::plan::RebootNeed;

    struct Run(tempfile::TempDir);

    impl Run {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(root.path().join("run/bedplate")).unwrap();
            Run(root)
        }

        fn read(&self, name: &str) -> Option<String> {
            std::fs::read_to_string(self.0.path().join("run").join(name)).ok()
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join("run").join(name), text).unwrap();
        }

        fn set(&self, wanted: bool) {
            set(self.0.path(), wanted).unwrap();
            assert!(is_set(self.0.path(), wanted).unwrap(), "wanted: {wanted}");
        }

        fn both(&self) -> (Option<String>, Option<String>) {
            (self.read("reboot-required"), self.read("reboot-required.pkgs"))
        }
    }

    #[test]
    fn own_marker_is_removed() {
        let run = Run::new();
        assert!(is_set(run.0.path(), false).unwrap() && !is_set(run.0.path(), true).unwrap());
        run.set(true);
        assert!(!is_set(run.0.path(), false).unwrap());
        run.set(true);
        assert_eq!(run.read("reboot-required.pkgs").as_deref(), Some("bedplate\n"));
        run.set(false);
        assert_eq!(run.both(), (None, None));
        run.set(false);
    }

    #[test]
    fn interrupted_write_is_removed() {
        let run = Run::new();
        run.write("bedplate/reboot-required.made", INTENT);
        run.write("reboot-required", TEXT);
        run.set(false);
        assert_eq!(run.both(), (None, None));
    }

    #[test]
    fn unmanaged_marker_stays() {
        let run = Run::new();
        run.write("reboot-required", "theirs");
        run.write("reboot-required.pkgs", "linux-base\n");
        run.set(true);
        run.set(true);
        assert_eq!(run.read("reboot-required.pkgs").as_deref(), Some("linux-base\nbedplate\n"));
        run.set(false);
        assert_eq!(run.both(), (Some("theirs".into()), Some("linux-base\n".into())));
        // A marker without a list, as an operator or a script creates it.
        std::fs::remove_file(run.0.path().join("run/reboot-required.pkgs")).unwrap();
        run.set(true);
        run.set(false);
        assert_eq!(run.both(), (Some("theirs".into()), None));
    }

    /// The marker was bedplate's, and a package has requested a reboot since.
    #[test]
    fn marker_taken_over_by_another_tool_stays() {
        let run = Run::new();
        run.set(true);
        run.write("reboot-required.pkgs", "bedplate\nlinux-base\n");
        run.set(false);
        assert!(run.read("reboot-required").is_some());
        assert_eq!(run.read("reboot-required.pkgs").as_deref(), Some("linux-base\n"));
        let run = Run::new();
        run.set(true);
        std::fs::remove_file(run.0.path().join("run/reboot-required")).unwrap();
        run.write("reboot-required", "theirs");
        run.set(false);
        assert_eq!(run.both(), (Some("theirs".into()), None));
    }

    #[test]
    fn only_policy_mark_requests_reboot() {
        let mut status = Status::starting("b".into());
        assert_eq!(is_wanted(&status), None, "before the first look");
        status.state = State::Stopped;
        assert_eq!(is_wanted(&status), None, "nothing can be started any more");
        status.state = State::WaitingForBoot;
        status.reboot.need = Some(RebootNeed::Cold);
        for (policy, wanted) in [
            (RebootPolicy::Never, false),
            (RebootPolicy::Mark, true),
            (RebootPolicy::Schedule, false),
        ] {
            status.reboot.policy = Some(policy);
            assert_eq!(is_wanted(&status), Some(wanted), "{policy:?}");
        }
        status.reboot.policy = Some(RebootPolicy::Mark);
        status.reboot.need = None;
        assert_eq!(is_wanted(&status), Some(false), "nobody knows");
    }
}
