//! Output streams: closed pipes, full disks, terminals without colour, narrow terminals.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::session::{Session, text};
use crate::transcripts::CHANGES;

const COMMANDS: [&[&str]; 9] = [
    &["--help"],
    &["--version"],
    &["plan", "--help"],
    &["plan", "--demo", "hgx"],
    &["plan", "--demo", "hgx", "--json"],
    &["inspect", "--demo", "hgx"],
    &["profile", "schema"],
    &["completions", "bash"],
    &["render", "machineconfig", "--profile", "generic-amd", "--cpu", "amd"],
];

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}

#[test]
fn closed_pipe_is_no_error() {
    let session = Session::new();
    for args in COMMANDS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = session
            .command(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{args:?}: {}", output.status);
        let said = text(&output.stderr);
        assert!(!said.contains("error") && !said.contains("panic"), "{args:?}: {said}");
    }
}

#[test]
fn full_disk_is_an_error() {
    let session = Session::new();
    for args in COMMANDS {
        let output = session
            .command(args)
            .stdout(full())
            .stderr(Stdio::piped())
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("cannot write to standard output: No space left"),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn full_stderr_does_not_matter() {
    let session = Session::new();
    for (args, status) in [
        (["plan", "--demo", "hgx", "--cost"].as_slice(), 0),
        (&["plan", "--demo", "hgx", "--profile", "missing"], 1),
        (&["plan", "--nope"], 64),
        (&["render", "grub", "--profile", "generic-intel", "--cpu", "intel"], 0),
    ] {
        let heard = session.run(args);
        let output = session
            .command(args)
            .stdout(Stdio::piped())
            .stderr(full())
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        assert_eq!(output.stdout, heard.stdout, "{args:?}");
    }
}

#[test]
fn colour_is_only_for_terminals() {
    let session = Session::new();
    session.host("plain.bp", CHANGES);
    let run = |variables: &[(&str, &str)]| {
        let mut command = session.command(&["plan", "--snapshot", "plain.bp"]);
        text(&command.envs(variables.iter().copied()).output().expect("it starts").stdout)
    };
    let plain = run(&[]);
    assert!(!plain.contains('\x1b'));
    let forced = run(&[("CLICOLOR_FORCE", "1")]);
    assert!(forced.contains("\x1b[32m+ iommu=pt\x1b[0m"), "{forced}");
    assert_eq!(anstream::adapter::strip_str(&forced).to_string(), plain);
    assert_eq!(run(&[("NO_COLOR", "1")]), plain);
    assert_eq!(run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), plain);
}

#[test]
fn json_and_files_are_never_coloured() {
    let session = Session::new();
    session.host("plain.bp", CHANGES);
    for args in [
        ["plan", "--snapshot", "plain.bp", "--json"].as_slice(),
        &["inspect", "--snapshot", "plain.bp", "--json"],
        &["profile", "show", "--snapshot", "plain.bp"],
        &["render", "grub", "--profile", "generic-intel", "--cpu", "intel"],
    ] {
        let output = session.command(args).env("CLICOLOR_FORCE", "1").output().expect("it starts");
        assert!(!output.stdout.contains(&0x1b), "{args:?}");
    }
}

#[test]
fn any_terminal_width_is_accepted() {
    let session = Session::new();
    session.file(
        "wrong.toml",
        "schema = 1\n[acs]\npolicy = \"日本語 is not a policy, at all, ever\"\n",
    );
    for columns in ["0", "1", "7", "100000", "-3", "x"] {
        for (args, status) in [
            (["--help"].as_slice(), 0),
            (&["plan", "--help"], 0),
            (&["inspect", "--demo", "grace"], 0),
            (&["plan", "--demo", "grace", "--profile", "wrong.toml"], 1),
        ] {
            let output = session.command(args).env("COLUMNS", columns).output().expect("it starts");
            assert_eq!(output.status.code(), Some(status), "{args:?} in {columns} columns");
        }
    }
}

#[test]
fn output_does_not_depend_on_the_environment() {
    let session = Session::new();
    session.host("plain.bp", CHANGES);
    for args in [
        ["plan", "--snapshot", "plain.bp", "--verbose"].as_slice(),
        &["inspect", "--snapshot", "plain.bp"],
        &["render", "talos", "--profile", "generic-amd", "--cpu", "amd", "--talos-version", "1.11"],
        &["render", "machineconfig", "--profile", "vfio", "--cpu", "intel"],
    ] {
        let here = session.run(args).stdout;
        assert!(!here.is_empty(), "{args:?}");
        let elsewhere = session
            .command(args)
            .env_clear()
            .envs([("LC_ALL", "tr_TR.UTF-8"), ("TZ", "Pacific/Apia"), ("COLUMNS", "100")])
            .output()
            .expect("it starts");
        assert_eq!(elsewhere.stdout, here, "{args:?}");
    }
}

/// The width is COLUMNS, else 80 without a terminal. Unbreakable text is not broken.
#[test]
fn reports_fit_the_width() {
    let session = Session::new();
    let plan = ["plan", "--demo", "hgx"];
    let widest = |command: &mut std::process::Command| {
        let shown = text(&command.output().expect("it starts").stdout);
        shown.lines().map(|line| line.chars().count()).max().unwrap_or_default()
    };
    assert!(widest(session.command(&plan).env_remove("COLUMNS")) <= 80);
    for columns in [60, 80, 132] {
        assert!(
            widest(session.command(&plan).env("COLUMNS", columns.to_string())) <= columns,
            "{columns}"
        );
    }
    for columns in ["", "0", "x", "7"] {
        assert!(widest(session.command(&plan).env("COLUMNS", columns)) <= 80, "{columns}");
    }
    let diff = ["plan", "--demo", "hgx", "--diff"];
    let wide = session.command(&diff).env("COLUMNS", "10000").output().expect("it starts").stdout;
    assert_eq!(
        session.command(&diff).env("COLUMNS", "40").output().expect("it starts").stdout,
        wide
    );
}

#[test]
fn color_option_overrides_the_environment() {
    let session = Session::new();
    let coloured = |args: &[&str], variables: &[(&str, &str)]| {
        let args: Vec<&str> = ["plan", "--demo", "hgx"].iter().chain(args).copied().collect();
        let output =
            session.command(&args).envs(variables.iter().copied()).output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout.contains(&0x1b)
    };
    assert!(!coloured(&[], &[]) && !coloured(&["--color", "auto"], &[]));
    assert!(
        coloured(&["--color", "always"], &[])
            && coloured(&["--color=always"], &[("NO_COLOR", "1")])
    );
    assert!(!coloured(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&["--color", "auto"], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
    assert_eq!(session.status(&["--color", "sometimes", "plan"]), 64);
}

/// The README's first block is the output of its first command.
#[test]
fn first_readme_block_matches_the_output() {
    let shown = Session::new()
        .command(&["plan", "--demo", "hgx"])
        .env_remove("COLUMNS")
        .output()
        .expect("it starts");
    let readme = include_str!("../../../README.md");
    assert!(
        readme.contains(&format!("```text\n{}```\n", text(&shown.stdout))),
        "{}",
        text(&shown.stdout)
    );
}

/// Every line of the samples of demo hosts is printed, in this order; `…` represents omitted lines.
#[test]
fn tutorial_samples_match_the_output() {
    let session = Session::new();
    let mut samples = 0;
    for block in include_str!("../../../docs/tutorial.md").split("```console\n").skip(1) {
        let block = block.split("```").next().expect("a block ends");
        let Some((command, shown)) = block.split_once('\n') else { continue };
        let Some(args) = command.strip_prefix("$ bedplate ") else { continue };
        if !args.contains("--demo") {
            continue;
        }
        let args: Vec<&str> = args.split(' ').collect();
        let output = session.command(&args).env("COLUMNS", "100").output().expect("it starts");
        let printed = text(&output.stdout) + &text(&output.stderr);
        let mut lines = printed.lines();
        for line in shown.lines().filter(|line| *line != "…") {
            assert!(lines.any(|other| other == line), "{command}: {line} is not in\n{printed}");
        }
        samples += 1;
    }
    assert!(samples >= 3, "{samples} samples");
}
