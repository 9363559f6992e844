//! Keys of /etc/cufile.json in an image: set, given back, and left alone where others have changed them.

use crate::session::Session;

const THEIRS: &str = "{\n    // of the vendor\n    \"properties\": {\n        \"allow_compat_mode\": true, // slow, and works\n        \
                      \"max_direct_io_size_kb\": 16384\n    }\n}\n";
const BOTH: &str = "schema = 1\nname = \"both\"\n[cufile.set]\n\"properties.allow_compat_mode\" = false\n\
                    \"properties.use_pci_p2pdma\" = true\n";
const NONE: &str = "schema = 1\nname = \"none\"\n";

fn session() -> Session {
    let session = Session::new();
    session.image("image");
    session.file("both.toml", BOTH).file("none.toml", NONE).file("image/etc/cufile.json", THEIRS);
    session
}

fn apply(session: &Session, profile: &str) {
    let output = session.run(&["apply", "--root", "image", "--profile", profile, "--yes"]);
    assert!(output.status.success(), "{output:?}");
}

fn file(session: &Session) -> String {
    std::fs::read_to_string(session.path("image/etc/cufile.json")).expect("the file")
}

#[test]
fn a_key_that_leaves_the_profile_gets_its_value_back() {
    let session = session();
    apply(&session, "both.toml");
    let ours = file(&session);
    assert!(ours.contains("\"allow_compat_mode\": false, // slow, and works"), "{ours}");
    assert!(
        ours.contains("\"use_pci_p2pdma\": true") && ours.contains("// of the vendor"),
        "{ours}"
    );
    apply(&session, "none.toml");
    assert_eq!(file(&session), THEIRS);
}

#[test]
fn what_others_have_changed_since_stays() {
    let session = session();
    apply(&session, "both.toml");
    let changed = file(&session).replace("\"use_pci_p2pdma\": true", "\"use_pci_p2pdma\": false");
    session.file("image/etc/cufile.json", &changed);
    let plan = session.transcript(&["plan", "--root", "image", "--profile", "none.toml"]);
    let words = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("was changed to false since: it stays"), "{plan}");
    apply(&session, "none.toml");
    let left = file(&session);
    assert!(
        left.contains("\"use_pci_p2pdma\": false") && left.contains("\"allow_compat_mode\": true"),
        "{left}"
    );
}

#[test]
fn revert_gives_the_file_back() {
    let session = session();
    apply(&session, "both.toml");
    let output = session.run(&["revert", "--root", "image", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(file(&session), THEIRS);
}

#[test]
fn a_file_of_bedplates_own_goes_again() {
    let session = session();
    std::fs::remove_file(session.path("image/etc/cufile.json")).expect("it is there");
    apply(&session, "both.toml");
    assert!(file(&session).starts_with("// written by bedplate from profile both"));
    apply(&session, "none.toml");
    assert!(!session.path("image/etc/cufile.json").exists());
}
