//! `bedplate report`: contents of the page, and data that it must never contain.

use std::os::unix::fs::PermissionsExt as _;

use bedplate_host::snapshot::Node;
use bedplate_testhosts::HostSpec;
use bedplate_tests::expected;

use crate::redacted::{NAMES, PLANTED, found, marked};
use crate::session::{Session, text};
use crate::transcripts::CHANGES;

/// bedplate's own records with secrets marked by `«»`: texts of operators, of commands and of files.
const RECORDS: &[(&str, &str)] = &[
    (
        "/var/lib/bedplate/ledger.json",
        r#"{"version":2,"owed":[],"owned":{},"history":[
        {"at":"2026-11-01T10:00:00Z","command":"apply","profile":"site","results":[
          {"subject":"cmdline/etc/default/grub","result":"done"},
          {"subject":"modules/update-initramfs -k «hunter80»","result":"failed","why":"«hunter81»"},
          {"subject":"lint «hunter82»","result":"allowed","why":"«hunter83»"}]},
        {"at":"«hunter84»","command":"«hunter85»","results":[
          {"subject":"«hunter86»","result":"«hunter87»"}]}]}"#,
    ),
    (
        "/var/lib/bedplate/daemon/reboot.json",
        r#"{"version":2,"attempts":[{"plan":"«hunter88»","boot_id":"«hunter89»","at":"2026-11-01T10:05:00Z","method":"bmc",
          "subject":"","rehearsal":false,"passthrough":false,"followed":false}],
        "lock":{"server":{"url":"https://«hunter90»/","group":"«hunter91»"},"certain":true,"since":"2026-11-01T10:04:00Z",
          "boot_id":"«hunter92»","before":["«hunter93»"]},
        "asked":{"why":"«hunter94»","boot_id":"«hunter95»","since":"2026-11-01T10:03:00Z","at":"2026-11-01T10:03:00Z",
          "force":false,"waited":false},
        "came":{"boot_id":"«hunter96»","by":"bmc","asked_for":"bmc","announced_for":null,"summary":"«hunter97»"}}"#,
    ),
];

/// The page of an unrecorded machine with secrets in every file that is read, and the secrets.
fn planted(session: &Session, args: &[&str]) -> (String, String, Vec<String>) {
    let spec = HostSpec::from_toml("machine = \"plain\"").expect("a description");
    let mut host = spec.build();
    let mut secrets: Vec<String> = NAMES.map(str::to_owned).into();
    let planted = PLANTED.iter().filter(|(path, _)| !path.ends_with("reboot.json"));
    let planted = planted.map(|(path, text)| (format!("/{path}"), *text));
    let records = RECORDS.iter().map(|(path, text)| ((*path).to_owned(), *text));
    for (path, text) in planted.chain(records) {
        secrets.extend(marked(text));
        host.insert(&path, Node::File(text.replace(['«', '»'], "").into_bytes()));
    }
    host.complete();
    session.file("planted.bp", host.to_text());
    let base = ["report", "--snapshot", "planted.bp", "-o", "-"];
    let output = session.run(&[&base, args].concat());
    let (page, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    (page, said, secrets)
}

#[test]
fn no_planted_secret_is_in_a_report() {
    let session = Session::new();
    let (page, said, secrets) = planted(&session, &[]);
    assert!(secrets.len() >= 70, "only {} secrets", secrets.len());
    let none: [&String; 0] = [];
    assert_eq!(found(&secrets, &page), none);
    assert_eq!(found(&secrets, &said), none);
    // The data that a report exists for is on it: the plan, the history, the reboots.
    for kept in [
        "cmdline/etc/default/grub",
        "modules/…",
        "2026-11-01 10:00:00 UTC",
        "2026-11-01 10:05:00 UTC",
        "a power cycle by the BMC",
        "not before: 2026-11-01 10:03:00 UTC",
        "acs.path",
    ] {
        assert!(page.contains(kept), "{kept} is not in\n{page}");
    }
}

#[test]
fn with_identifiers_texts_stay_masked() {
    let session = Session::new();
    let (page, _, secrets) = planted(&session, &["--with-identifiers"]);
    let words = found(&secrets, &page);
    assert!(words.iter().all(|word| !word.contains("hunter")), "{words:?}");
    assert!(page.contains("hardware addresses, serial numbers and ids are in it"));
}

/// The page of a snapshot equals that of its host, except for data that only the host has.
#[test]
fn report_of_a_snapshot_equals_that_of_the_host() {
    let session = Session::new();
    session.host("raw.bp", CHANGES);
    assert_eq!(session.status(&["snapshot", "--snapshot", "raw.bp", "-o", "recorded.bp"]), 0);
    let page = |file| text(&session.run(&["report", "--snapshot", file, "-o", "-"]).stdout);
    assert_eq!(page("raw.bp"), page("recorded.bp"));
    assert!(page("raw.bp").contains("No profile on this host: nothing to compare with."));
}

#[test]
fn the_page_of_a_demo_host() {
    let session = Session::new();
    let output = session.run(&["report", "--demo", "gb300", "-o", "-"]);
    let page = text(&output.stdout);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.starts_with("not ready: "), "{said}");
    let version = format!("Made by bedplate {}.", env!("CARGO_PKG_VERSION"));
    assert!(page.contains(&version), "{page}");
    let page = page.replace(&version, "Made by bedplate VERSION.");
    let path = bedplate_tests::data("cli/report.html");
    expected::file(&path, &page, "cli").unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn hostname_is_shown_only_on_request() {
    let session = Session::new();
    let mut host = HostSpec::from_toml("machine = \"grace\"").expect("a description").build();
    host.insert("/proc/sys/kernel/hostname", Node::File(b"node<17>\n".to_vec()));
    host.complete();
    session.file("host.bp", host.to_text());
    let page = |args: &[&str]| {
        let output = session.run(&[&["report", "-o", "-"], args].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, plain, said) = page(&["--snapshot", "host.bp"]);
    assert!(status == Some(0) && !plain.contains("17&gt;"), "{said}");
    assert!(said.starts_with("ready, with 1 warning"), "{said}");
    assert!(plain.contains("ready, with 1 warning"));
    let (_, named, _) = page(&["--snapshot", "host.bp", "--with-hostname"]);
    assert!(named.contains("<h1>Host report: node&lt;17&gt;, "), "{named}");
    let (_, titled, _) = page(&["--snapshot", "host.bp", "--title", "rack 7"]);
    assert!(titled.contains("<h1>Host report: rack 7, ") && !titled.contains("17&gt;"));
    // A recording has the hostname only if recorded with it.
    for (more, expected) in [(None, 1), (Some("--with-hostname"), 0)] {
        let record = ["snapshot", "--snapshot", "host.bp", "-o", "again.bp"];
        let args: Vec<&str> = record.into_iter().chain(more).collect();
        assert!(session.run(&args).status.success());
        let (status, page, said) = page(&["--snapshot", "again.bp", "--with-hostname"]);
        assert_eq!(status, Some(expected), "{said}");
        assert_eq!(page.contains("node&lt;17&gt;"), expected == 0);
        std::fs::remove_file(session.path("again.bp")).expect("it was written");
    }
}

#[test]
fn reports_are_new_files_for_their_owner_only() {
    let session = Session::new();
    session.image("image");
    session.expect(
        "report",
        &[
            &["report", "--demo", "gb200"],
            &["report", "--demo", "gb200", "-o", "x.html"],
            &["report", "--demo", "gb200", "-o", "x.html"],
            &["report", "--root", "image", "-o", "y.html"],
            &["report", "--demo", "gb200", "-o", "y.html", "--profile", "site.toml"],
        ],
    );
    let mode = session.path("x.html").metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!session.path("y.html").exists());
}

const PROFILE: &str = "/etc/bedplate/profile.toml";

/// The pages of a host with these files, raw and recorded by `snapshot`.
fn with_files(session: &Session, name: &str, files: &[(&str, Node)]) -> [String; 2] {
    let mut host = HostSpec::from_toml(CHANGES).expect("a description").build();
    files.iter().for_each(|(path, node)| host.insert(path, node.clone()));
    host.complete();
    let (raw, recorded) = (format!("{name}.bp"), format!("{name}-recorded.bp"));
    session.file(&raw, host.to_text());
    assert_eq!(session.status(&["snapshot", "--snapshot", &raw, "-o", &recorded]), 0, "{name}");
    [raw, recorded].map(|file| {
        let output = session.run(&["report", "--snapshot", &file, "-o", "-"]);
        assert!(output.status.success(), "{file}: {}", text(&output.stderr));
        text(&output.stdout)
    })
}

/// Name, files of the host, text on the page, and result of `profile.in-effect`.
type Case<'a> = (&'a str, &'a [(&'a str, Node)], &'a str, &'a str);

/// A ticket needs the page most if the host is broken. Text of an invalid profile may be secret.
#[test]
fn broken_profile_or_ledger_is_on_the_page() {
    let session = Session::new();
    let file = |text: &str| Node::File(text.as_bytes().to_vec());
    let profile = "schema = 1\nname = \"p\"\n";
    let unusable = "There is no plan: the profile on this host cannot be used; `bedplate profile check` says why.";
    let unread = "There is no plan: the profile on this host cannot be read; `bedplate profile check` says why.";
    let ledger = "There is no plan: what bedplate did on this host before cannot be read; `bedplate plan` says why.";
    let cases: &[Case] = &[
        ("syntax", &[(PROFILE, file("schema = 1\nhunter2 = = 3\n"))], unusable, "fail"),
        ("key", &[(PROFILE, file("schema = 1\nname = \"p\"\nhunter2 = 3\n"))], unusable, "fail"),
        (
            "value",
            &[(PROFILE, file("schema = 1\nname = \"p\"\n[acs]\npolicy = \"hunter2\"\n"))],
            unusable,
            "fail",
        ),
        (
            "layer",
            &[(PROFILE, file(profile)), ("/etc/bedplate/profile.d/1.toml", file("hunter2"))],
            unusable,
            "fail",
        ),
        (
            "match",
            &[(
                "/etc/bedplate/profiles/a.toml",
                file("schema = 1\nname = \"a\"\n[match]\nproduct = \"hunter2\"\n"),
            )],
            unusable,
            "fail",
        ),
        ("denied", &[(PROFILE, Node::Denied)], unread, "unknown"),
        (
            "ledger",
            &[
                (PROFILE, file(profile)),
                ("/var/lib/bedplate/ledger.json", file("{\"version\": \"hunter2\"}")),
            ],
            ledger,
            "unknown",
        ),
    ];
    for (name, files, says, outcome) in cases {
        for page in with_files(&session, name, files) {
            assert!(page.contains(says), "{name}: {says} is not in\n{page}");
            assert!(!page.contains("hunter2"), "{name}: {page}");
            let row = page.split("profile.in-effect</th>").nth(1).expect("the check");
            let row = row.split("</tr>").next().unwrap_or_default();
            assert!(row.contains(&format!(">{outcome}</td>")), "{name}: {row}");
            // The rest of the page is complete.
            assert!(page.contains("acs.path") && page.contains("<svg"), "{name}: {page}");
        }
    }
}

#[test]
fn profile_with_an_error_lint_is_shown_with_its_plan() {
    let session = Session::new();
    let profile =
        "schema = 1\nname = \"p\"\n[cmdline]\nargs = [\"amd_iommu=on\", \"hunter2=hunter3\"]\n";
    let files = [(PROFILE, Node::File(profile.as_bytes().to_vec()))];
    for page in with_files(&session, "lint", &files) {
        assert!(page.contains("lint "), "{page}");
        assert!(page.contains("amd_iommu=on") && !page.contains("hunter3"), "{page}");
    }
}
