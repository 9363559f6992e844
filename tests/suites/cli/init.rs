//! `bedplate profile init`: writes a profile that is usable as it is, and replaces no existing file.

use crate::session::{Session, text};

const DEMOS: [(&str, &str); 9] = [
    ("hgx", "hgx-h100"),
    ("mi300x", "mi300x"),
    ("grace", "grace"),
    ("hgx-rhel9", "hgx-h100"),
    ("b300", "b300"),
    ("gb200", "gb200"),
    ("gb300", "gb300"),
    ("vera-rubin", "vera-rubin"),
    ("epyc-l40s", "l40s"),
];

#[test]
fn profile_of_every_demo_host_is_valid_and_needs_a_window() {
    let session = Session::new();
    let known: Vec<&str> = bedplate_testhosts::names().collect();
    assert_eq!(known, DEMOS.map(|(name, _)| name));
    for (demo, base) in DEMOS {
        let file = format!("{demo}.toml");
        let output = session.run(&["profile", "init", "--demo", demo, "-o", &file]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
        let next = format!("`bedplate profile check {file}`, `bedplate plan --profile {file}`");
        assert!(text(&output.stderr).contains(&next), "{}", text(&output.stderr));
        let written = std::fs::read_to_string(session.path(&file)).expect("the profile");
        assert!(written.contains(&format!("\nextends = \"{base}\"\n")), "{written}");
        for part in [
            "\npolicy = \"schedule\"\n",
            "\ndelay = \"15m\"\n",
            "\nwindows = [\"never\"]\n",
            "FILL IN",
        ] {
            assert!(written.contains(part), "{part}: {written}");
        }
        // The same on standard output, the default for a demo.
        for args in [
            ["profile", "init", "--demo", demo].as_slice(),
            &["profile", "init", "--demo", demo, "-o", "-"],
        ] {
            assert_eq!(text(&session.run(args).stdout), written);
        }
        let check = session.run(&["profile", "check", &file]);
        assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));
        let said = text(&check.stderr);
        assert!(said.contains("warning[no-window-yet]") && said.contains("usable"), "{said}");
        // Its plan equals that of the shipped profile.
        let plan = |profile: &str| {
            let shown = text(
                &session.run(&["plan", "--demo", demo, "--diff", "--profile", profile]).stdout,
            );
            assert!(!shown.contains("error"), "{shown}");
            shown
        };
        assert_eq!(plan(&file), plan(base));
    }
}

#[test]
fn existing_profile_is_replaced_only_by_force() {
    let session = Session::new();
    session.image("image");
    let init = ["profile", "init", "--root", "image", "--extends", "generic-intel"];
    let first = session.run(&init);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let path = session.path("image/etc/bedplate/profile.toml");
    let written = std::fs::read_to_string(&path).expect("the profile");
    assert!(
        text(&first.stderr)
            .contains("wrote image/etc/bedplate/profile.toml, which extends generic-intel")
    );
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("ours").permissions());
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(session.status(&["profile", "check", "--root", "image"]), 0);

    std::fs::write(&path, "# mine\n").expect("ours");
    let second = session.run(&init);
    assert_eq!(second.status.code(), Some(1));
    let said = text(&second.stderr);
    assert!(said.contains("already exists; not changed") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).expect("mine"), "# mine\n");

    let forced: Vec<&str> = init.into_iter().chain(["--force"]).collect();
    assert_eq!(session.status(&forced), 0);
    assert_eq!(std::fs::read_to_string(&path).expect("the profile"), written);
    // No other file is left in the directory.
    let beside: Vec<_> =
        std::fs::read_dir(path.parent().expect("etc/bedplate")).expect("a directory").collect();
    assert_eq!(beside.len(), 1);
}

#[test]
fn host_without_a_shipped_profile_needs_extends() {
    let session = Session::new();
    session.image("image");
    let output = session.run(&["profile", "init", "--root", "image"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("select one with --extends"), "{}", text(&output.stderr));
    assert!(!session.path("image/etc/bedplate").exists());
    assert_eq!(session.status(&["profile", "init", "--root", "image", "--extends", "hgx"]), 64);
}

#[test]
fn the_installed_sample_is_a_profile() {
    let session = Session::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../profiles/example.toml");
    let check = session.run(&["profile", "check", sample]);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));
}

/// If the shipped profile leaves ACS unmanaged and verify requires direct traffic, the written profile has the setting as a
/// comment.
#[test]
fn settings_required_by_checks_are_proposed() {
    let session = Session::new();
    let made = |args: &[&str]| {
        let output = session.run(&[&["profile", "init", "-o", "-"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let acs = "\n#[acs]\n#policy = \"direct-p2p\"\n";
    let hgx = ["--demo", "hgx", "--extends"];
    assert!(made(&[&hgx[..], &["generic-intel"]].concat()).contains(acs));
    // The base has the setting, or another value is right.
    for base in ["hgx-h100", "vfio"] {
        assert!(!made(&[&hgx[..], &[base]].concat()).contains("#[acs]"), "{base}");
    }
    let nouveau = "machine = \"epyc-l40s\"\n[[pci]]\nat = \"0000:01:00.0\"\ndriver = \"nouveau\"\n";
    session.host("nouveau.bp", nouveau);
    let profile = made(&["--snapshot", "nouveau.bp", "--extends", "l40s"]);
    assert!(profile.contains("\n#[modules]\n#blacklist = [\"nouveau\"]\n"), "{profile}");
}

#[test]
fn profile_of_an_image_is_named_with_its_root() {
    let session = Session::new();
    session.image("img");
    let init = ["profile", "init", "--root", "img", "--extends", "generic-intel"];
    let said = text(&session.run(&init).stderr);
    assert!(said.contains("wrote img/etc/bedplate/profile.toml"), "{said}");
    assert!(said.contains("`bedplate plan --root img`"), "{said}");
    let again = text(&session.run(&init).stderr);
    assert!(again.contains("img/etc/bedplate/profile.toml already exists"), "{again}");
}

/// An image has no CPU: `--cpu` selects the shipped profile.
#[test]
fn cpu_argument_selects_the_profile() {
    let session = Session::new();
    let bin = session.image("img").join("bin");
    std::fs::create_dir(&bin).expect("ours");
    std::fs::copy(std::env::current_exe().expect("this test"), bin.join("sh")).expect("copied");
    let of = |cpu: &[&str]| session.run(&[&["plan", "--root", "img"], cpu].concat());
    assert_eq!(of(&[]).status.code(), Some(1));
    let output = of(&["--cpu", "intel"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Profile generic-"), "{}", text(&output.stdout));
}
