//! `bedplate verify`: what it shows, and its exit status.

use crate::session::Session;

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
