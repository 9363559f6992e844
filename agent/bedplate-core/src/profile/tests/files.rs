//! Several files: drop-ins, `extends`, and what is inherited.

use super::*;

#[test]
fn drop_ins_apply_in_file_name_order() {
    let profile = ("/etc/p.toml", "schema = 1\n[acs]\npolicy = \"keep\"\n");
    let ten = ("/etc/profile.d/10-site.toml", "schema = 1\n[acs]\npolicy = \"clear\"\n");
    let twenty = ("/etc/profile.d/20-host.toml", "schema = 1\n[acs]\npolicy = \"direct-p2p\"\n");
    for files in [[profile, ten, twenty], [profile, twenty, ten]] {
        let loaded = good_files(&files);
        assert_eq!(loaded.profile.acs.policy, model::AcsPolicy::DirectP2p);
        let origin = &loaded.origins["acs.policy"];
        assert_eq!((origin.file.as_str(), origin.line), ("/etc/profile.d/20-host.toml", 3));
    }
}

#[test]
fn extended_profile_applies_first_and_is_the_origin() {
    let loaded = good("schema = 1\nextends = \"b200\"\n[acs]\nroot_port = false\n");
    assert_eq!(loaded.profile.iommu.mode, model::IommuMode::Passthrough);
    assert!(!loaded.profile.acs.root_port);
    assert_eq!(loaded.origins["iommu.mode"].file, "shipped:hgx-h100.toml");
    assert_eq!(loaded.origins["acs.root_port"].file, PATH);
    // Name, description, and [match] belong to the file that sets them.
    assert_eq!(loaded.profile.name, "profile");
    assert_eq!(loaded.profile.description, "");
    assert_eq!(loaded.profile.matching, model::Match::default());
}

#[test]
fn profiles_cannot_extend_each_other_in_a_circle() {
    let a = Shipped { name: "a", text: "schema = 1\nextends = \"b\"\n" };
    let b = Shipped { name: "b", text: "schema = 1\nextends = \"a\"\n" };
    let text = "schema = 1\nextends = \"a\"\n";
    let errors = load(&[LayerText { path: PATH, text }], &[a, b]).unwrap_err();
    assert_eq!(
        errors.render(false),
        "error[extends-cycle]: circular `extends`\n \
         --> shipped:b.toml:2:11\n  \
         |\n\
         2 | extends = \"a\"\n  \
         |           ^^^ a -> b -> a\n  \
         |\n  \
         = help: remove `extends` from one of them"
    );
}

#[test]
fn error_in_shipped_profile_is_shown_there() {
    let broken = Shipped { name: "broken", text: "schema = 1\n[acs]\npolicy = 1\n" };
    let text = "schema = 1\nextends = \"broken\"\n";
    let errors = load(&[LayerText { path: PATH, text }], &[broken]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "shipped:broken.toml:3:10: `acs.policy` must be a string, not an integer"
    );
}

#[test]
fn drop_ins_do_not_extend() {
    let files = [
        ("/etc/p.toml", "schema = 1\n"),
        ("/etc/profile.d/1.toml", "schema = 1\nextends = \"vfio\"\n"),
    ];
    let layers = files.map(|(path, text)| LayerText { path, text });
    let errors = load(&layers, super::super::shipped()).unwrap_err();
    assert_eq!(errors.to_string(), "/etc/profile.d/1.toml:2:11: a drop-in cannot extend a profile");
}

#[test]
fn errors_of_all_files_are_reported_in_file_order() {
    let files = [
        ("/etc/p.toml", "schema = 1\n[acs]\npolicy = 1\n"),
        ("/etc/profile.d/2.toml", "schema = 1\nx = 1\n"),
        ("/etc/profile.d/1.toml", "schema = 1\ny = 1\n[agent]\ninterval = \"soon\"\n"),
        ("/etc/profile.d/3.toml", "schema = 1\n[agent]\ninterval = \"1s\"\n"),
    ];
    let layers = files.map(|(path, text)| LayerText { path, text });
    let errors = load(&layers, super::super::shipped()).unwrap_err();
    let lines: Vec<String> = errors.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "/etc/p.toml:3:10: `acs.policy` must be a string, not an integer",
            "/etc/profile.d/1.toml:2:1: unknown key `y` in a profile",
            "/etc/profile.d/2.toml:2:1: unknown key `x` in a profile",
            "/etc/profile.d/3.toml:3:12: `1s` is out of range for `agent.interval`",
        ]
    );
}

#[test]
fn contradiction_shows_both_files() {
    let files = [
        ("/etc/p.toml", "schema = 1\n[cmdline]\nargs = [\"iommu=pt\"]\n"),
        ("/etc/profile.d/1.toml", "schema = 1\n[cmdline]\nabsent = [\"iommu\"]\n"),
    ];
    let layers = files.map(|(path, text)| LayerText { path, text });
    let shown = load(&layers, super::super::shipped()).unwrap_err().render(false);
    assert!(
        shown.contains("/etc/p.toml:3:9") && shown.contains("/etc/profile.d/1.toml:3:11"),
        "{shown}"
    );
}

#[test]
fn reason_defaults_to_the_profile_line() {
    let loaded = good(
        "schema = 1\n[iommu]\nmode = \"off\"\nwhy = \"no DMA here\"\nsource = \"a vendor page\"\n[acs]\npolicy = \"clear\"\n",
    );
    let why = &loaded.profile.iommu.why[0];
    assert_eq!(
        (why.reason.as_str(), why.source.as_deref()),
        ("no DMA here", Some("a vendor page"))
    );
    let why = &loaded.profile.acs.why[0];
    assert_eq!(why.reason, "requested by the profile");
    assert_eq!(why.source.as_deref(), Some("/etc/bedplate/profile.toml:7"));
}

#[test]
fn profile_name_defaults_to_the_file_name() {
    assert_eq!(good("schema = 1\n").profile.name, "profile");
    assert_eq!(good("schema = 1\nname = \"prod\"\n").profile.name, "prod");
    assert_eq!(load(&[], &[]).unwrap().profile.name, "profile");
}
