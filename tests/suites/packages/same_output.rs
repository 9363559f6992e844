//! The static program for arm64, under qemu-user, and the program under test write the same bytes about the same host.

use std::process::{Command, Output};

use bedplate_testhosts::{HostSpec, write_tree};
use bedplate_tests::{fixtures, program};

/// Commands about a built-in demo host.
const COMMANDS: [&[&str]; 9] = [
    &["inspect", "--json"],
    &["nccl", "env"],
    &["plan"],
    &["plan", "--diff"],
    &["plan", "--json"],
    &["snapshot", "-o", "-"],
    &["topology", "--json", "--all"],
    &["verify"],
    &["verify", "--json"],
];

/// Commands about the directory of a host. None of them shows the processor: qemu-user replaces /proc/cpuinfo, even that
/// of a directory (linux-user/syscall.c, `maybe_do_fake_open`).
const OF_ROOT: [&[&str]; 2] = [
    &["plan", "--cpu", "arm", "--profile", "gb300", "--json"],
    &["verify", "--cpu", "arm", "--profile", "gb300", "--json"],
];

/// Runs both programs, and checks that output and exit status are equal.
fn assert_same(args: &[&str]) {
    let mut emulated = Command::new(fixtures::tool("qemu-aarch64-static"));
    emulated.arg(fixtures::arm64_program());
    let [ours, theirs] = [Command::new(program::path()), emulated].map(|mut command| {
        command.args(args).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command.env("TERM", "dumb").env("COLUMNS", "100").output().expect("it starts")
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let readable =
        |output: &Output| (output.status.code(), text(&output.stderr), text(&output.stdout));
    assert_eq!(readable(&ours), readable(&theirs), "{args:?}");
    assert!(ours.stdout == theirs.stdout && !ours.stdout.is_empty(), "{args:?}");
}

#[test]
#[cfg_attr(
    not(all(has = "BEDPLATE_ARM64_PROGRAM", has = "qemu-aarch64-static")),
    ignore = "needs BEDPLATE_ARM64_PROGRAM and qemu-aarch64-static (QEMU 9.2 or later)"
)]
fn arm64_program_writes_the_same_about_demos() {
    assert_same(&["--version"]);
    for demo in ["gb300", "hgx", "mi300x"] {
        for command in COMMANDS {
            assert_same(&[command, ["--demo", demo].as_slice()].concat());
        }
    }
}

#[test]
#[cfg_attr(
    not(all(has = "BEDPLATE_ARM64_PROGRAM", has = "qemu-aarch64-static")),
    ignore = "needs BEDPLATE_ARM64_PROGRAM and qemu-aarch64-static (QEMU 9.2 or later)"
)]
fn arm64_program_writes_the_same_about_a_root() {
    let directory = tempfile::tempdir().expect("a directory");
    let spec = HostSpec::from_toml("machine = \"gb300\"").expect("a host");
    write_tree(&spec.build(), directory.path()).expect("a tree");
    let root = directory.path().display().to_string();
    for command in OF_ROOT {
        assert_same(&[command, ["--root", root.as_str()].as_slice()].concat());
    }
}
