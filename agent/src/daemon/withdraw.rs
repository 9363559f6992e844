//! What a host that loses bedplate must not keep: everything that bedplate tells others about it. Metrics, labels and the
//! daemon's files in /run; what others have written stays. Used when bedplate is uninstalled, with the daemon stopped.

use std::io::ErrorKind;
use std::path::Path;

use super::{export, marker};

/// Removes all of it below `root`. What could not be removed, in words; the rest is gone.
pub fn withdraw(root: &Path) -> Vec<String> {
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let mut wrong = Vec::new();
    let mut check = |what: &str, done: std::io::Result<()>| match done {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            wrong.push(format!("cannot remove {what}: {error}"))
        }
        _ => {}
    };
    for (directory, name) in [(export::COLLECTOR, "bedplate.prom"), (export::FEATURES, "bedplate")] {
        let path = format!("{directory}/{name}");
        check(&path, std::fs::remove_file(at(&path)));
        // A write that was cut short.
        check(&path, std::fs::remove_file(at(&format!("{directory}/.{name}.tmp"))));
    }
    check(marker::REQUIRED, marker::set(root, false));
    // Nobody else's: status, metrics, what was announced.
    check(DIRECTORY, std::fs::remove_dir_all(at(DIRECTORY)));
    wrong
}

/// The unit's RuntimeDirectory=, which outlives the unit (RuntimeDirectoryPreserve=).
const DIRECTORY: &str = "/run/bedplate";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::status::Status;
    use crate::plan::RebootNeed;
    use crate::profile::model::RebootPolicy;

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
    fn what_bedplate_told_is_gone_and_what_others_wrote_stays() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let theirs = [
            "etc/kubernetes/node-feature-discovery/features.d/site",
            "run/reboot-required",
            "run/reboot-required.pkgs",
            "var/lib/prometheus/node-exporter/apt.prom",
        ];
        theirs.iter().for_each(|path| put(path, "linux-base\n"));
        let mut status = Status::starting("b".into());
        status.reboot.need = Some(RebootNeed::Cold);
        status.reboot.policy = Some(RebootPolicy::Mark);
        assert_eq!(export::write(root.path(), &status, &mut export::Written::new()), [""; 0]);
        put("run/bedplate/announced.json", "{}");
        assert!(files(root.path()).len() > theirs.len() + 2, "{:?}", files(root.path()));
        assert_eq!(withdraw(root.path()), [""; 0]);
        assert_eq!(files(root.path()), theirs);
        let listed = std::fs::read_to_string(root.path().join("run/reboot-required.pkgs")).unwrap();
        assert_eq!(listed, "linux-base\n");
        assert_eq!(withdraw(root.path()), [""; 0], "the second time there is nothing");
    }
}
