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

/// The file behind an apply of a profile with these keys, and behind one of a profile without any.
fn there_and_back(session: &Session, theirs: &str, keys: &str) -> (String, String) {
    let keys = format!("schema = 1\nname = \"keys\"\n[cufile.set]\n{keys}\n");
    session.file("keys.toml", keys).file("image/etc/cufile.json", theirs);
    apply(session, "keys.toml");
    let ours = file(session);
    apply(session, "none.toml");
    (ours, file(session))
}

#[test]
fn what_stood_there_comes_back_word_for_word() {
    let theirs = "{ \"execution\": { \"a\": 123456789012345678901234567890, \"b\": 1.10e2, \"c\": [1, // one\n 2] } }\n";
    let keys = "\"execution.a\" = 1\n\"execution.b\" = 2\n\"execution.c\" = [\"x\"]";
    let (ours, left) = there_and_back(&session(), theirs, keys);
    assert_eq!(ours, "{ \"execution\": { \"a\": 1, \"b\": 2, \"c\": [\"x\"] } }\n");
    assert_eq!(left, theirs);
}

#[test]
fn empty_objects_and_comments_of_others_stay() {
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

/// Keys that leave the profile one after the other leave nothing of what was made for them.
#[test]
fn objects_go_with_the_last_key_that_they_were_made_for() {
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

/// A value that others set after bedplate's was gone is theirs.
#[test]
fn a_record_of_what_is_gone_is_dropped() {
    let session = session();
    let theirs = "{ \"properties\": { \"allow_compat_mode\": true } }\n";
    let off = theirs.replace("true", "false");
    let profile =
        "schema = 1\nname = \"off\"\n[cufile.set]\n\"properties.allow_compat_mode\" = false\n";
    session.file("off.toml", profile);
    for (now, why) in [
        ("{ \"properties\": { } }\n", "it is gone already"),
        (
            "{ \"properties\": { \"allow_compat_mode\": 1 } }\n",
            "it was changed to 1 since: it stays",
        ),
        ("{ \"properties\": [] }\n", "it is gone already"),
    ] {
        session.file("image/etc/cufile.json", theirs);
        apply(&session, "off.toml");
        assert_eq!(file(&session), off);
        session.file("image/etc/cufile.json", now);
        let plan = session.transcript(&["plan", "--root", "image", "--profile", "none.toml"]);
        let words = plan.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("the profile no longer sets it, and {why}")), "{plan}");
        assert!(words.contains("- record of properties.allow_compat_mode: false"), "{plan}");
        apply(&session, "none.toml");
        assert_eq!(file(&session), now);
        session.file("image/etc/cufile.json", &off);
        assert_eq!(session.status(&["plan", "--root", "image", "--profile", "none.toml"]), 0);
        apply(&session, "none.toml");
        assert_eq!(file(&session), off);
    }
}

/// Whatever made a file unreadable by a key of bedplate's, dropping the key makes it good.
#[test]
fn a_key_that_spoils_the_file_can_be_dropped() {
    let session = session();
    session.file("image/etc/cufile.json", "{}\n");
    let profile = "schema = 1\nname = \"x\"\n[cufile.set]\n\"fs.weka.a\" = 3\n";
    session.file("x.toml", profile);
    apply(&session, "x.toml");
    // As an earlier version wrote it.
    session.file("image/etc/cufile.json", "{ \"fs\": { \"weka\": 3 } }\n");
    let path = session.path("image/var/lib/bedplate/ledger.json");
    let ledger = std::fs::read_to_string(&path).expect("a ledger");
    let earlier = ledger.replace("fs.weka.a", "fs.weka").replace(",\\\"made\\\":2", "");
    assert_ne!(earlier, ledger);
    std::fs::write(&path, earlier).expect("written");
    apply(&session, "none.toml");
    assert_eq!(file(&session).replace(' ', ""), "{\"fs\":{}}\n");
}
