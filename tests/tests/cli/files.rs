//! Commands that write files for others: `render -o`, man pages, completions.

use std::collections::BTreeMap;

use crate::session::{Session, set_mode, text};

const RENDER: [&str; 6] = ["render", "grub", "--profile", "generic-intel", "--cpu", "intel"];
const DROP_IN: &str = "etc/default/grub.d/zz-bedplate.cfg";

fn render(session: &Session, out: &str) -> (i32, String) {
    let args: Vec<&str> = RENDER.into_iter().chain(["-o", out]).collect();
    let output = session.run(&args);
    (output.status.code().expect("not killed"), text(&output.stderr))
}

#[test]
fn rendered_files_are_what_is_printed_and_the_same_every_time() {
    let session = Session::new();
    let printed = text(&session.run(&RENDER).stdout);
    for _ in 0..2 {
        assert_eq!(render(&session, "out").0, 0);
        assert_eq!(std::fs::read_to_string(session.path("out").join(DROP_IN)).expect("the drop-in"), printed);
    }
}

#[test]
fn nothing_is_written_outside_the_directory() {
    let session = Session::new();
    session.file("precious", "precious\n").file("elsewhere/keep", "");
    for (image, link, target) in [
        ("one", DROP_IN, session.path("precious")),
        ("two", "etc/default", session.path("elsewhere")),
        ("three", "etc", session.path("elsewhere")),
    ] {
        let link = session.path(image).join(link);
        std::fs::create_dir_all(link.parent().expect("a parent")).expect("directories");
        std::os::unix::fs::symlink(target, link).expect("a link");
        let (status, said) = render(&session, image);
        assert_eq!(status, 1, "{image}: {said}");
        assert!(said.contains(&format!("error: cannot write to {image}\n")), "{said}");
    }
    assert_eq!(std::fs::read_to_string(session.path("precious")).expect("still there"), "precious\n");
    let kept: Vec<_> = std::fs::read_dir(session.path("elsewhere")).expect("a directory").collect();
    assert_eq!(kept.len(), 1);
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let session = Session::new();
    session.file("file", "x");
    let (status, said) = render(&session, "file");
    assert_eq!(status, 1);
    assert!(said.contains("cannot make the directory file"), "{said}");
    session.file(&format!("taken/{DROP_IN}/x"), "");
    let (status, said) = render(&session, "taken");
    assert_eq!(status, 1);
    assert!(said.contains(DROP_IN), "{said}");
    session.file("locked/x", "");
    set_mode(&session.path("locked"), 0o555);
    let args: Vec<&str> = RENDER.into_iter().chain(["-o", "locked"]).collect();
    let output = session.run_as_nobody(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write to locked"), "{}", text(&output.stderr));
}

#[test]
fn man_pages_of_every_command() {
    let session = Session::new();
    assert_eq!(session.status(&["man", "--out", "man"]), 0);
    let pages: BTreeMap<String, String> = std::fs::read_dir(session.path("man"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let page = std::fs::read_to_string(entry.path()).expect("a page");
            (entry.file_name().to_string_lossy().into_owned(), page)
        })
        .collect();
    for name in ["bedplate.1", "bedplate-plan.1", "bedplate-apply.1", "bedplate-profile-explain.1"] {
        assert!(
            pages.get(name).is_some_and(|page| page.contains(".SH OPTIONS")),
            "{name}: {:?}",
            pages.keys()
        );
    }
    assert!(pages["bedplate.1"].contains("Exit status"));
}

#[test]
fn completions_of_every_shell() {
    let session = Session::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = session.run(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = text(&output.stdout);
        for word in ["plan", "revert", "exit-code"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(session.status(&["completions", "tcsh"]), 64);
}
