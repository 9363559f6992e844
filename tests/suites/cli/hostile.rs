//! Texts of hosts and profiles with terminal control sequences.

use crate::session::{Session, text};

/// A colour change, a window title, a cleared screen by C1, a carriage return, a reordered line.
const EVIL: &str = "\\u001b[31mred \\u001b]0;own\\u0007 \\u009b2J \\r \\u202egpj.exe";

fn host() -> String {
    format!(
        "machine = \"plain\"\ncmdline = \"quiet\"\nrunning-cmdline = \"quiet iommu={EVIL} x\"\n\
         [files]\n\"/sys/class/dmi/id/product_name\" = \"{EVIL}\\nprofile trusted\"\n\
         \"/etc/os-release\" = \"ID=ubuntu\\nPRETTY_NAME=\\\"{EVIL}\\\"\\n\"\n\
         \"/etc/default/grub\" = \"GRUB_CMDLINE_LINUX_DEFAULT=\\\"quiet iommu={EVIL}\\\"\\n\"\n\
         \"/etc/modprobe.d/{EVIL}.conf\" = \"options nvidia {EVIL}=1\\n\"\n"
    )
}

/// Removes every sequence that bedplate itself may send: the six styles and their end.
fn without_our_colours(shown: &str) -> String {
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"]
        .iter()
        .fold(shown.to_owned(), |text, sequence| text.replace(sequence, ""))
}

fn assert_harmless(shown: &str, about: &str) {
    // Colours of the diagnostics are the renderer's: any SGR sequence, but no other.
    let steers = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c)
    };
    assert!(!shown.contains(steers), "{about}: {shown:?}");
}

#[test]
fn reports_escape_control_characters() {
    let session = Session::new();
    session.host("evil.bp", &host());
    for (args, shows) in [
        (["plan", "--verbose"].as_slice(), true),
        (&["plan", "--diff"], false),
        (&["inspect"], true),
        (&["inspect", "--tree"], false),
        (&["topology"], true),
        (&["history"], false),
    ] {
        let args: Vec<&str> = args.iter().copied().chain(["--snapshot", "evil.bp"]).collect();
        let output = session.command(&args).env("CLICOLOR_FORCE", "1").output().expect("it starts");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.contains("\x1b[31mred"), "{args:?}: {shown}");
        assert_harmless(&without_our_colours(&shown), &format!("{args:?}"));
        assert_eq!(
            shown.contains("\\u{1b}[31mred \\u{1b}]0;own\\u{7} \\u{9b}2J"),
            shows,
            "{args:?}: {shown}"
        );
        assert!(!shown.lines().any(|line| line.starts_with("profile trusted")), "{shown}");
        // The plain output shows the same text as the coloured one.
        let plain = text(&session.run(&args).stdout);
        assert_eq!(plain.contains("\\u{1b}[31mred"), shows, "{args:?}: {plain}");
    }
}

#[test]
fn json_has_the_exact_text() {
    let session = Session::new();
    session.host("evil.bp", &host());
    let output = session.run(&["inspect", "--snapshot", "evil.bp", "--json"]);
    // Escaped as a number where it would control the terminal: a reader on a terminal sees the same.
    assert_harmless(&text(&output.stdout), "inspect --json");
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let name = facts["dmi"]["product_name"]["value"].as_str().expect("a name");
    assert_eq!(name, "\x1b[31mred \x1b]0;own\x07 \u{9b}2J \r \u{202e}gpj.exe\nprofile trusted");
}

#[test]
fn diagnostics_escape_control_characters() {
    let session = Session::new();
    let text_of = |body: &str| format!("schema = 1\n{body}\n");
    for (number, body) in [
        format!("\"{EVIL}\" = 1"),
        format!("[acs]\npolicy = \"{EVIL}\""),
        format!("[cmdline]\nargs = [\"x={EVIL}\"]"),
        format!("extends = \"{EVIL}\""),
        "name = \"\u{9b}2J\u{202e}\u{7f}\u{2028}\" # \u{9b}31m\nk = 1".to_owned(),
        "name = \"\x1b[31mred\"".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("{number}\x1b[31mred\u{9b}.toml");
        session.file(&name, text_of(body));
        for force in ["0", "1"] {
            let output = session
                .command(&["profile", "check", &name])
                .env("CLICOLOR_FORCE", force)
                .output()
                .expect("it starts");
            assert_eq!(output.status.code(), Some(1), "{body}");
            let shown = text(&output.stderr);
            assert!(!shown.contains("\x1b[31mred"), "{body}: {shown:?}");
            assert!(shown.contains("\\u{1b}[31mred\\u{9b}.toml:"), "{body}: {shown}");
            assert_harmless(&without_sgr(&shown), body);
        }
    }
}

/// Removes `ESC [ digits ; … m`.
fn without_sgr(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';'));
        match end {
            Some(end) if part[end..].starts_with('m') => out.push_str(&part[end + 1..]),
            _ => out.push_str(&format!("\x1b[{part}")),
        }
    }
    out
}

#[test]
fn profile_name_with_control_characters_is_rejected() {
    let session = Session::new();
    session.file("evil.toml", format!("schema = 1\nname = \"{EVIL}\\nhost\"\n"));
    let args = ["plan", "--demo", "grace", "--profile", "evil.toml"];
    let output = session.run(&args);
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(shown.contains("[bad-name]") && !output.status.success(), "{shown}");
    assert_harmless(&shown, "a profile's name");
}

/// A reason is stored, logged, and sent to every terminal, so its length is limited.
#[test]
fn reason_length_is_limited() {
    let session = Session::new();
    let why = "w".repeat(501);
    // With `--help` at the end, an accepted reason would not hold or reboot the machine that runs this.
    for command in ["hold", "schedule"] {
        let output = session.run(&["reboot", command, "--why", &why, "--help"]);
        assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("reason is longer than 500 characters"));
    }
}
