//! Directories below and above DIR that another user owns or can replace.

use std::collections::BTreeMap;

use bedplate_tests::fixtures;
use bedplate_tests::program::install_sh as script;

use super::files;

/// Another user could place a link there after the check.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn directory_of_another_user_is_refused() {
    fixtures::root();
    const NOBODY: u32 = 65534;
    let foreign = |path: &std::path::Path| {
        std::fs::create_dir_all(path).expect("ours");
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    };
    for below in ["", "image", "image/usr/share/bash-completion/completions", "image/etc"] {
        let root = tempfile::tempdir().expect("a directory");
        let image = root.path().join("image");
        std::fs::create_dir_all(&image).expect("ours");
        foreign(&root.path().join(below));
        // Gives `--uninstall` something to remove.
        std::fs::create_dir_all(image.join("usr/bin")).expect("ours");
        std::fs::write(image.join("usr/bin/bedplate"), "").expect("ours");
        let before = files(&image).into_keys().collect::<Vec<_>>();
        let dir = image.display().to_string();
        for args in [&[][..], &["--uninstall"]] {
            let refused = script(&[args, &["--destdir", &dir]].concat());
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(1), "{below} {args:?}: {said}");
            assert!(said.contains("users other than root and you may write"), "{said}");
            assert_eq!(files(&image).into_keys().collect::<Vec<_>>(), before);
        }
    }
}

/// Root's directories, reached through another user's links.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn links_of_another_user_are_refused() {
    fixtures::root();
    let root = tempfile::tempdir().expect("a directory");
    let foreign = root.path().join("image/usr");
    std::fs::create_dir_all(root.path().join("image/real/share")).expect("ours");
    std::fs::create_dir_all(&foreign).expect("ours");
    for name in ["share", "bin", "lib"] {
        std::os::unix::fs::symlink("../real/share", foreign.join(name)).expect("ours");
    }
    std::os::unix::fs::chown(&foreign, Some(65534), Some(65534)).expect("root may");
    let refused = script(&["--destdir", &root.path().join("image").display().to_string()]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("users other than root and you may write"), "{said}");
    assert_eq!(files(&root.path().join("image/real")), BTreeMap::new());
    // No directory is created on the way to one that does not exist.
    let elsewhere = foreign.join("new/deep");
    assert_eq!(script(&["--destdir", &elsewhere.display().to_string()]).status.code(), Some(1));
    assert!(!foreign.join("new").exists());
}

/// A link of root leads through another user's directory, where that user can replace the next link.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn links_through_foreign_directories_are_refused() {
    fixtures::root();
    let root = tempfile::tempdir().expect("a directory");
    let image = root.path().join("image");
    for directory in ["usr", "o", "safe"] {
        std::fs::create_dir_all(image.join(directory)).expect("ours");
    }
    std::os::unix::fs::symlink("../o/x", image.join("usr/share")).expect("ours");
    std::os::unix::fs::symlink("../safe", image.join("o/x")).expect("ours");
    let dir = image.display().to_string();
    assert!(script(&["--destdir", &dir]).status.success(), "all of it is root's");
    std::os::unix::fs::chown(image.join("o"), Some(65534), Some(65534)).expect("root may");
    for args in [&[][..], &["--uninstall"]] {
        let refused = script(&[args, &["--destdir", &dir]].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("users other than root and you may write"), "{said}");
    }
    std::fs::remove_file(image.join("o/x")).expect("ours");
    std::os::unix::fs::symlink("x", image.join("o/x")).expect("ours");
    assert_eq!(script(&["--destdir", &dir]).status.code(), Some(1), "a link to itself");
    let newline = script(&["--destdir", &format!("{dir}\n")]);
    assert_eq!(newline.status.code(), Some(64), "a name that reads as another");
}

/// The owner of a directory creates links there all the time.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn root_writes_through_no_link_of_another_user() {
    use std::sync::atomic::{AtomicBool, Ordering};
    fixtures::root();
    let root = tempfile::tempdir().expect("a directory");
    let (image, victim) = (root.path().join("image"), root.path().join("victim"));
    let completions = image.join("usr/share/bash-completion/completions");
    std::fs::create_dir_all(&completions).expect("ours");
    std::os::unix::fs::chown(&completions, Some(65534), Some(65534)).expect("root may");
    std::fs::write(&victim, "the host's").expect("ours");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // This fails while a link exists.
                let _ = std::os::unix::fs::symlink(&victim, completions.join("bedplate"));
            }
        });
        for _ in 0..5 {
            script(&["--destdir", &image.display().to_string()]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_to_string(&victim).expect("ours"), "the host's");
}
