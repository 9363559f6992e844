//! `bedplate verify`: its output and exit status.

use crate::session::{Session, text};

#[test]
fn verification() {
    let session = Session::new();
    session.host("image.bp", "machine = \"plain\"\nrunning = false\n").file(
        "wrong.toml",
        "schema = 1\n[verify.severity]\n\"pcie.mrss\" = { level = \"warn\", reason = \"slow\" }\n\
         \"pcie.aer\" = { level = \"ignore\", reason = \"\" }\n",
    );
    session.expect(
        "verify",
        &[
            &["verify", "--demo", "hgx"],
            &["verify", "--demo", "hgx", "--check", "pcie", "--skip", "*.aer", "-v"],
            &["verify", "--demo", "hgx", "--check", "iommu.mod"],
            &["verify", "--snapshot", "image.bp"],
            &["verify", "--explain", "acs.path"],
            &["verify", "--list"],
            &["profile", "check", "wrong.toml"],
        ],
    );
    let status = |more: &[&str]| session.status(&[&["verify", "--demo", "hgx"], more].concat());
    assert_eq!((status(&[]), status(&["--check", "pcie"])), (4, 0));
    session.host("user.bp", "unprivileged = true\n");
    assert_eq!(session.status(&["verify", "--snapshot", "user.bp", "--check", "pcie"]), 5);
}

/// The host is still checked, and the mistake is named.
#[test]
fn mistake_in_profile_stops_neither_verify_nor_doctor() {
    let session = Session::new();
    session.host(
        "wrong.bp",
        "machine = \"plain\"\n[files]\n\"/etc/bedplate/profile.toml\" = 'schema = 1 [iommu'\n",
    );
    for (args, code) in [
        (&["verify", "--snapshot", "wrong.bp", "--json"][..], 4),
        (&["verify", "--snapshot", "wrong.bp", "--check", "pcie", "--json"], 0),
        (&["doctor", "--snapshot", "wrong.bp", "--json"], 4),
    ] {
        let output = session.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("/etc/bedplate/profile.toml:1"), "{args:?}: {said}");
        assert!(said.contains("checked without it"), "{args:?}: {said}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(report.is_object(), "{report}");
    }
    // A named file must be a profile.
    session.file("wrong.toml", "schema = 1 [iommu");
    let named = ["verify", "--snapshot", "wrong.bp", "--profile", "wrong.toml"];
    assert_eq!(session.status(&named), 1);
}
