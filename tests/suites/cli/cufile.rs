//! Keys of /etc/cufile.json in an image: set, restored, and left unchanged after edits by other tools.

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
fn key_removed_from_the_profile_is_restored() {
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
fn externally_changed_key_is_not_changed() {
    let session = session();
    apply(&session, "both.toml");
    let changed = file(&session).replace("\"use_pci_p2pdma\": true", "\"use_pci_p2pdma\": false");
    session.file("image/etc/cufile.json", &changed);
    let plan = session.transcript(&["plan", "--root", "image", "--profile", "none.toml"]);
    let words = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("changed to false since, and stays"), "{plan}");
    apply(&session, "none.toml");
    let left = file(&session);
    assert!(
        left.contains("\"use_pci_p2pdma\": false") && left.contains("\"allow_compat_mode\": true"),
        "{left}"
    );
}

#[test]
fn revert_restores_the_file() {
    let session = session();
    apply(&session, "both.toml");
    let output = session.run(&["revert", "--root", "image", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(file(&session), THEIRS);
}

#[test]
fn file_created_by_bedplate_is_removed() {
    let session = session();
    std::fs::remove_file(session.path("image/etc/cufile.json")).expect("it is there");
    apply(&session, "both.toml");
    assert!(file(&session).starts_with("// written by bedplate from profile both"));
    apply(&session, "none.toml");
    assert!(!session.path("image/etc/cufile.json").exists());
}

/// The file after applying a profile with these keys, and after applying one without keys.
fn there_and_back(session: &Session, theirs: &str, keys: &str) -> (String, String) {
    let keys = format!("schema = 1\nname = \"keys\"\n[cufile.set]\n{keys}\n");
    session.file("keys.toml", keys).file("image/etc/cufile.json", theirs);
    apply(session, "keys.toml");
    let ours = file(session);
    apply(session, "none.toml");
    (ours, file(session))
}

#[test]
fn original_text_is_restored_verbatim() {
    let theirs = "{ \"execution\": { \"a\": 123456789012345678901234567890, \"b\": 1.10e2, \"c\": [1, // one\n 2] } }\n";
    let keys = "\"execution.a\" = 1\n\"execution.b\" = 2\n\"execution.c\" = [\"x\"]";
    let (ours, left) = there_and_back(&session(), theirs, keys);
    assert_eq!(ours, "{ \"execution\": { \"a\": 1, \"b\": 2, \"c\": [\"x\"] } }\n");
    assert_eq!(left, theirs);
}

#[test]
fn unmanaged_empty_objects_and_comments_stay() {
    let session = session();
    for theirs in [
        "{}\n",
        "{ \"fs\": { \"lustre\": {} } }\n",
        "{ \"logging\": { \"level\": \"ERROR\" } /* quiet */ }\n",
        "{\n  \"fs\": {\n    \"weka\": { } // later\n  }\n}\n",
    ] {
        let keys = "\"fs.lustre.posix_gds_min_kb\" = 4\n\"fs.weka.a\" = 1\n\"fs.weka.b\" = 2";
        let (ours, left) = there_and_back(&session, theirs, keys);
        assert!(
            ours.contains("\"lustre\": {\"posix_gds_min_kb\": 4}") || ours.contains("kb\": 4\n"),
            "{ours}"
        );
        assert_eq!(left, theirs);
    }
}

/// Keys that leave the profile one by one leave no objects that were created for them.
#[test]
fn objects_are_removed_with_their_last_key() {
    let session = session();
    session.file("image/etc/cufile.json", "{}\n");
    let profile = |keys: &str| format!("schema = 1\nname = \"keys\"\n[cufile.set]\n{keys}\n");
    session.file("two.toml", profile("\"fs.weka.a\" = 1\n\"fs.weka.b\" = 2"));
    session.file("one.toml", profile("\"fs.weka.b\" = 2"));
    apply(&session, "two.toml");
    apply(&session, "one.toml");
    assert_eq!(file(&session).replace(' ', ""), "{\"fs\":{\"weka\":{\"b\":2}}}\n");
    apply(&session, "none.toml");
    assert_eq!(file(&session).replace(' ', ""), "{}\n");
}

/// A value that another tool set after bedplate's value was gone is not bedplate's.
#[test]
fn record_of_a_missing_value_is_dropped() {
    let session = session();
    let theirs = "{ \"properties\": { \"allow_compat_mode\": true } }\n";
    let off = theirs.replace("true", "false");
    let profile =
        "schema = 1\nname = \"off\"\n[cufile.set]\n\"properties.allow_compat_mode\" = false\n";
    session.file("off.toml", profile);
    for (now, why) in [
        ("{ \"properties\": { } }\n", "already removed"),
        ("{ \"properties\": { \"allow_compat_mode\": 1 } }\n", "changed to 1 since, and stays"),
        ("{ \"properties\": [] }\n", "already removed"),
    ] {
        session.file("image/etc/cufile.json", theirs);
        apply(&session, "off.toml");
        assert_eq!(file(&session), off);
        session.file("image/etc/cufile.json", now);
        let plan = session.transcript(&["plan", "--root", "image", "--profile", "none.toml"]);
        let words = plan.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("no longer set by the profile; {why}")), "{plan}");
        assert!(words.contains("- record of properties.allow_compat_mode: false"), "{plan}");
        apply(&session, "none.toml");
        assert_eq!(file(&session), now);
        session.file("image/etc/cufile.json", &off);
        assert_eq!(session.status(&["plan", "--root", "image", "--profile", "none.toml"]), 0);
        apply(&session, "none.toml");
        assert_eq!(file(&session), off);
    }
}

/// If a key of bedplate's makes the file invalid, removing the key repairs it.
#[test]
fn key_that_breaks_the_file_can_be_removed() {
    let session = session();
    session.file("image/etc/cufile.json", "{}\n");
    let profile = "schema = 1\nname = \"x\"\n[cufile.set]\n\"fs.weka.a\" = 3\n";
    session.file("x.toml", profile);
    apply(&session, "x.toml");
    // As written by an earlier version.
    session.file("image/etc/cufile.json", "{ \"fs\": { \"weka\": 3 } }\n");
    let path = session.path("image/var/lib/bedplate/ledger.json");
    let ledger = std::fs::read_to_string(&path).expect("a ledger");
    let earlier = ledger.replace("fs.weka.a", "fs.weka").replace(",\\\"made\\\":2", "");
    assert_ne!(earlier, ledger);
    std::fs::write(&path, earlier).expect("written");
    apply(&session, "none.toml");
    assert_eq!(file(&session).replace(' ', ""), "{\"fs\":{}}\n");
}
