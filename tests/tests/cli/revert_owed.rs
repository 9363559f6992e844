//! Tools that have to run after an image was put back: they stay owed until they have run.

use crate::ran::{CFG, CMDLINE, MADE, MODULES, UPDATE_INITRAMFS, apply, image, initramfs, owed};
use crate::session::{Session, text};

/// An image with everything applied and made.
fn finished() -> Session {
    let session = image(&format!("{CMDLINE}{MODULES}"));
    assert_eq!(apply(&session, &[]).0, 6);
    session.file(CFG, MADE);
    initramfs(&session, "6.1.0", 3600);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 0, "{said}");
    session
}

fn run(session: &Session, args: &[&str]) -> (i32, String) {
    let output = session.run(args);
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

fn revert(session: &Session, more: &[&str]) -> (i32, String) {
    run(session, &[&["revert", "--root", "img", "--yes"], more].concat())
}

fn seal(session: &Session) -> (i32, String) {
    run(session, &["seal", "--root", "img", "--yes"])
}

#[test]
fn tools_of_a_revert_are_owed_until_they_have_run() {
    let session = finished();
    let (status, said) = revert(&session, &[]);
    assert_eq!(status, 6, "{said}");
    for tool in ["update-grub", UPDATE_INITRAMFS] {
        assert_eq!(said.matches(tool).count(), 1, "{said}");
    }
    assert_eq!(owed(&session), ["update-grub", UPDATE_INITRAMFS]);
    let (status, said) = seal(&session);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("update-grub") && said.contains(UPDATE_INITRAMFS), "{said}");

    let (status, said) = revert(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("still has to run: update-grub\n"), "{said}");
    assert!(!said.contains("nothing to put back"), "{said}");
    let (status, said) = revert(&session, &["--ran", "update-grub"]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("update-grub: noted that it has run"), "{said}");
    assert_eq!(owed(&session), [UPDATE_INITRAMFS]);
    let (status, said) = revert(&session, &["--ran", "update-initramfs", "--ran", "update-grub"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("update-grub: nothing is owed"), "{said}");
    assert!(owed(&session).is_empty());
    assert_eq!(seal(&session).0, 0);
    assert_eq!(revert(&session, &["--ran", "mkinitcpio"]).0, 64);
}

/// The profile asks for nothing, so that no change would run the tools.
#[test]
fn image_whose_revert_owes_tools_is_not_verified() {
    let session = finished();
    assert_eq!(revert(&session, &[]).0, 6);
    session.file("img/etc/bedplate/profile.toml", "schema = 1\nname = \"t\"\n");
    let verify = ["verify", "--root", "img", "--cpu", "intel"];
    let (status, said) = run(&session, &verify);
    assert_eq!(status, 4, "{said}");
    let still = "the image build still has to run";
    assert!(said.contains(still) && said.contains(UPDATE_INITRAMFS), "{said}");
    assert_eq!(apply(&session, &[]).0, 6);
    initramfs(&session, "6.1.0", 7200);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert_eq!(owed(&session), ["update-grub"], "the initramfs was made since the revert");
    let (status, said) = run(&session, &verify);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains(&format!("{still}: update-grub")), "{said}");
    assert_eq!(apply(&session, &["--ran", "update-grub"]).0, 0);
    let (_, said) = run(&session, &verify);
    assert!(!said.contains(still), "{said}");
}
