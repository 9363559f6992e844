//! Published files, and links that belong to other users.

use std::os::unix::fs::symlink;

use bedplate_daemon::uninstall::remove_published_files;
use bedplate_host::write::{remove_own_file, replace_public_file};

/// The collector's directory, or its parent, may belong to the collector.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn link_of_or_into_another_users_directory_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for name in ["ours", "theirs", "shared"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    let give = |name: &str| std::os::unix::fs::lchown(at(name), Some(1234), None).unwrap();
    give("theirs");
    give("shared");
    for (link, to) in [("by-root", "ours"), ("into-theirs", "theirs"), ("shared/link", "ours")] {
        symlink(at(to), at(link)).unwrap();
    }
    give("shared/link");
    let write = |directory: &str| replace_public_file(&at(directory).join("x.prom"), b"x");
    write("by-root").unwrap();
    // The collector reads from its own directory, which is not a link.
    write("theirs").unwrap();
    for directory in ["into-theirs", "shared/link"] {
        let error = write(directory).unwrap_err();
        assert!(error.to_string().contains("the link is not followed"), "{directory}: {error}");
        assert!(remove_own_file(&at(directory).join("x.prom")).is_err(), "{directory}");
    }
    std::fs::remove_file(at("ours/x.prom")).unwrap();
    assert_eq!(std::fs::read_dir(at("ours")).unwrap().count(), 0);
    // Root has moved the tree, /var to /data/var. Below it the directory may belong to a collector.
    std::fs::create_dir(at("ours/collector")).unwrap();
    give("ours/collector");
    write("by-root/collector").unwrap();
    // A directory of another user in the path of the target is as dangerous as the link.
    std::fs::create_dir(at("theirs/inner")).unwrap();
    symlink(at("theirs/inner"), at("through-theirs")).unwrap();
    let error = write("through-theirs").unwrap_err();
    assert!(error.to_string().contains("leads to theirs"), "{error}");
}

/// The collector's directory, or its parent, may belong to the collector.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn link_of_another_user_is_not_followed_for_removal() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    let kept = ["other/bedplate.prom", "other/bedplate/status.json"];
    std::fs::create_dir_all(at("other/bedplate")).unwrap();
    std::fs::create_dir_all(at("var/lib/prometheus")).unwrap();
    kept.iter().for_each(|path| std::fs::write(at(path), "").unwrap());
    for link in ["var/lib/prometheus/node-exporter", "run"] {
        std::os::unix::fs::symlink(at("other"), at(link)).unwrap();
        std::os::unix::fs::lchown(at(link), Some(1234), None).unwrap();
    }
    let said = remove_published_files(root.path());
    assert!(said.iter().all(|said| said.contains("the link is not followed")), "{said:?}");
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(kept.iter().all(|path| at(path).exists()), "{said:?}");
}
