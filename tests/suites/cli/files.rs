//! Files that bedplate generates about itself: man pages, completions.

use std::collections::BTreeMap;

use crate::session::{Session, text};

/// File name → page.
fn pages(session: &Session, directory: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(session.path(directory)).expect("a directory");
    let page = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let page = std::fs::read_to_string(entry.path()).expect("a page");
        (entry.file_name().to_string_lossy().into_owned(), page)
    };
    entries.map(page).collect()
}

#[test]
fn man_pages_of_every_command() {
    let session = Session::new();
    assert_eq!(session.status(&["man", "--out", "man"]), 0);
    let commands = pages(&session, "man/man1");
    for name in ["bedplate.1", "bedplate-plan.1", "bedplate-apply.1", "bedplate-profile-explain.1"]
    {
        let page = commands.get(name).unwrap_or_else(|| panic!("{name}: {:?}", commands.keys()));
        assert!(
            page.contains(".SH OPTIONS") && page.contains(".SH \"SEE ALSO\""),
            "{name}: {page}"
        );
    }
    for (name, page) in &commands {
        assert!(page.contains(".SH EXAMPLES\n.TP\n\\fBbedplate"), "{name}: {page}");
    }
    for hidden in HIDDEN {
        let page = format!("bedplate-{}.1", hidden.replace(' ', "-"));
        assert!(!commands.contains_key(&page), "{page}");
    }
    let page = &commands["bedplate.1"];
    for part in [
        ".SH \"EXIT STATUS\"",
        ".SH FILES",
        "/etc/bedplate/profile.toml",
        "bedplate\\-profile\\fR(5)",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn profile_page_describes_every_key() {
    let session = Session::new();
    assert_eq!(session.status(&["man", "--out", "man"]), 0);
    let formats = pages(&session, "man/man5");
    let page = &formats["bedplate-profile.5"];
    let keys = text(&session.run(&["profile", "explain"]).stdout);
    assert!(keys.lines().count() > 50);
    for key in keys.lines() {
        assert!(page.contains(&format!("\n\\fB{key}\\fR (")), "{key}");
    }
    // Type, default, meaning.
    assert!(
        page.contains(
            "\\fBreboot.delay\\fR (string, default \"5m\")\nTime between the announcement"
        ),
        "{page}"
    );
}

#[test]
fn checks_page_describes_every_check() {
    let session = Session::new();
    assert_eq!(session.status(&["man", "--out", "man"]), 0);
    let page = &pages(&session, "man/man7")["bedplate-checks.7"];
    let list = text(&session.run(&["verify", "--list"]).stdout);
    assert!(list.lines().count() > 20, "{list}");
    for check in list.lines() {
        let (id, rest) = check.split_once(' ').expect("id, level, what it proves");
        let (level, proves) = rest.trim_start().split_once("  ").expect("level, what it proves");
        let id = id.replace('-', "\\-");
        assert!(page.contains(&format!("\n\\fB{id}\\fR (")), "{id}\n{page}");
        assert!(page.contains(&format!(", {level}")), "{level}");
        let first = proves.split(['`', '-', '\'', '.']).next().expect("a text");
        assert!(page.contains(&format!("Verifies that {first}")), "{proves}");
    }
}

/// Formats the pages with man's formatter and expects no warnings.
#[test]
#[cfg_attr(not(has = "groff"), ignore = "needs groff")]
fn the_pages_are_well_formed() {
    let groff = bedplate_tests::fixtures::tool("groff");
    let session = Session::new();
    assert_eq!(session.status(&["man", "--out", "man"]), 0);
    for page in [
        "man1/bedplate.1",
        "man1/bedplate-profile-init.1",
        "man5/bedplate-profile.5",
        "man7/bedplate-checks.7",
    ] {
        let shown = std::process::Command::new(&groff)
            .args(["-man", "-Tutf8", "-ww", "-Kutf8", "-rLL=100n"])
            .arg(session.path("man").join(page))
            .output()
            .expect("it starts");
        assert!(shown.status.success());
        assert_eq!(text(&shown.stderr), "", "{page}");
    }
}

/// Commands for units, the daemon and packagers.
const HIDDEN: [&str; 4] = ["reboot power-cycle", "boot", "worker", "man"];

#[test]
fn completions_of_every_shell() {
    let session = Session::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = session.run(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        // A form of `render nccl-job` contains the name of a hidden command.
        let script = text(&output.stdout).replace("leaderworkerset", "");
        for word in ["plan", "revert", "exit-code", "schedule"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        for word in ["power-cycle", "worker", "worker", "state-root", "early in boot", "man pages"]
        {
            assert!(!script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(session.status(&["completions", "tcsh"]), 64);
}

/// Completions that bash offers at a prompt.
#[test]
fn bash_offers_what_the_help_shows() {
    let session = Session::new();
    session.file("completion", text(&session.run(&["completions", "bash"]).stdout));
    let offered = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let last = words.len() - 1;
        let script = format!(
            "source ./completion; COMP_WORDS=({line} ''); COMP_CWORD={}; _bedplate bedplate '' {}; echo \"${{COMPREPLY[@]}}\"",
            last + 1,
            words[last]
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .current_dir(session.path(""))
            .output()
            .expect("bash starts");
        text(&output.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let commands = offered("bedplate");
    assert!(
        commands.contains(&"plan".to_owned()) && commands.contains(&"reboot".to_owned()),
        "{commands:?}"
    );
    for hidden in ["boot", "worker", "man"] {
        assert!(!commands.contains(&hidden.to_owned()), "{commands:?}");
    }
    let reboot = offered("bedplate reboot");
    assert!(
        reboot.contains(&"schedule".to_owned()) && !reboot.contains(&"power-cycle".to_owned()),
        "{reboot:?}"
    );
}
