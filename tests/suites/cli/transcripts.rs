//! Transcripts of the commands, compared verbatim.

use std::collections::BTreeSet;

use bedplate_tests::program;

use crate::session::{Session, expect, text};

/// A host on which `generic-intel` has nothing to change.
pub const READY: &str =
    "machine = \"plain\"\niommu = \"passthrough\"\ncmdline = \"intel_iommu=on iommu=pt\"\n";
/// The same host before configuration.
pub const CHANGES: &str = "machine = \"plain\"\n";
/// Configured, but not booted since.
pub const PENDING: &str =
    "machine = \"plain\"\ncmdline = \"intel_iommu=on iommu=pt\"\nrunning-cmdline = \"quiet\"\n";
/// A host with an unknown boot loader.
pub const BLOCKED: &str = "machine = \"plain\"\nloader = \"none\"\n";
/// Converged, as far as an ordinary user can see.
pub const UNSEEN: &str = "machine = \"plain\"\niommu = \"passthrough\"\ncmdline = \"intel_iommu=on iommu=pt\"\n\
                          denied = [\"/boot/grub/grub.cfg\"]\n";

/// Commands named in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let below = help.split_once("\nCommands:\n").map(|(_, below)| below).unwrap_or_default();
    let rows = below.lines().take_while(|line| !line.is_empty());
    // Continued descriptions are indented further.
    let names =
        rows.filter(|row| !row.starts_with("   ")).filter_map(|row| row.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn help_of_every_command() {
    let session = Session::new();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = BTreeSet::new();
    while let Some(command) = waiting.pop() {
        let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let output = session.run(&args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}");
        let help = text(&output.stdout);
        for name in subcommands(&help) {
            waiting.push(command.iter().cloned().chain([name]).collect());
        }
        let name = [&["help".to_owned()], command.as_slice()].concat().join("-");
        expect(&name, &help);
        seen.insert(name);
    }
    for name in [
        "help-plan",
        "help-apply",
        "help-revert",
        "help-inspect",
        "help-render",
        "help-profile-explain",
    ] {
        assert!(seen.contains(name), "{name} is not among {seen:?}");
    }
}

#[test]
fn usage_errors() {
    Session::new().expect(
        "usage",
        &[
            &["--nope"],
            &["plna"],
            &["bot"],
            &["plan", "--demo", "hgc"],
            &["plan", "--json", "--diff"],
            &["plan", "--root", "/", "--demo", "hgx"],
            &["plan", "--root"],
            &["apply", "--snapshot", "host.bp"],
            &["apply", "--chroot-tools"],
            &["apply", "--live-only", "--root", "/"],
            &["render", "cobbler"],
            &["profile", "shwo"],
        ],
    );
}

#[test]
fn plans() {
    let session = Session::new();
    session.host("plain.bp", CHANGES).host("blocked.bp", BLOCKED).host("unseen.bp", UNSEEN);
    session.expect(
        "plan",
        &[
            &["plan", "--demo", "hgx"],
            &["plan", "--snapshot", "plain.bp"],
            &["plan", "--snapshot", "plain.bp", "--verbose"],
            &["plan", "--snapshot", "plain.bp", "--diff"],
            &["plan", "--snapshot", "blocked.bp"],
            &["plan", "--snapshot", "unseen.bp"],
        ],
    );
}

#[test]
fn demo_diff_names_every_register() {
    let diff = program::stdout(&["plan", "--demo", "hgx", "--diff"]);
    let text = program::stdout(&["plan", "--demo", "hgx"]);
    // The title of the group: `now: ACS control: … → … on 20 ports`.
    let ports =
        text.lines().find_map(|line| Some(line.strip_suffix(" ports")?.rsplit_once(" on ")?.1));
    let ports = ports.expect("ports");
    let written = diff.lines().filter(|line| line.starts_with("+0000:")).count();
    assert_eq!(written.to_string(), ports);
    assert_eq!(diff.lines().filter(|line| line.starts_with("-0000:")).count(), written);
}

#[test]
fn exit_codes_of_plans() {
    let session = Session::new();
    session
        .host("ready.bp", READY)
        .host("changes.bp", CHANGES)
        .host("pending.bp", PENDING)
        .host("blocked.bp", BLOCKED)
        .host("unseen.bp", UNSEEN)
        .file("broken.bp", "{");
    let status = |files: &[&str], exit_code: bool| {
        let mut args = vec!["plan", "--profile", "generic-intel"];
        args.extend(exit_code.then_some("--exit-code"));
        files.iter().for_each(|file| args.extend(["--snapshot", file]));
        session.status(&args)
    };
    for (file, expected) in [
        ("ready.bp", 0),
        ("changes.bp", 2),
        ("pending.bp", 3),
        ("blocked.bp", 4),
        ("unseen.bp", 5),
        ("broken.bp", 1),
    ] {
        assert_eq!(status(&[file], true), expected, "{file}");
        assert_eq!(status(&[file], false), i32::from(file == "broken.bp"), "{file}");
    }
    assert_eq!(status(&["ready.bp", "pending.bp"], true), 3);
    assert_eq!(status(&["changes.bp", "pending.bp", "ready.bp"], true), 2);
    assert_eq!(status(&["blocked.bp", "changes.bp"], true), 4);
    assert_eq!(status(&["ready.bp", "unseen.bp", "pending.bp"], true), 5);
    assert_eq!(status(&["unseen.bp", "changes.bp"], true), 2);
    assert_eq!(status(&["blocked.bp", "broken.bp"], true), 1);
    assert_eq!(status(&["ready.bp", "broken.bp"], false), 1);
}

#[test]
fn inspection() {
    let session = Session::new();
    session.host("plain.bp", CHANGES);
    session.expect(
        "inspect",
        &[
            &["inspect", "--snapshot", "plain.bp"],
            &["inspect", "--snapshot", "plain.bp", "--tree"],
            &["inspect", "--demo", "hgx"],
        ],
    );
}

#[test]
fn profiles() {
    let session = Session::new();
    session
        .file("good.toml", "schema = 1\n[cmdline]\nargs = [\"iommu=pt\"]\n")
        .file("over.toml", "schema = 1\n[cmdline]\nargs = [\"hugepages=4\"]\n")
        .file("habit.toml", "schema = 1\n[cmdline]\nargs = [\"amd_iommu=on\"]\n")
        .file(
            "wrong.toml",
            "schema = 1\n[acs]\npolcy = \"keep\"\n[cmdline]\nargs = \"iommu=pt\"\n",
        );
    session.expect(
        "profile",
        &[
            &["profile", "list", "--demo", "gb300"],
            &["profile", "show", "--demo", "hgx", "--profile", "good.toml", "--origin"],
            &["profile", "explain", "acs.policy"],
            &["profile", "explain", "acs.guests"],
            &["profile", "check", "good.toml", "over.toml"],
            &["profile", "check", "hgx-h100"],
            &["profile", "check", "habit.toml"],
            &["profile", "check", "wrong.toml"],
        ],
    );
}

/// `profile check` without a file: everything in the host's /etc/bedplate.
#[test]
fn installed_profiles() {
    let session = Session::new();
    for name in ["none", "one", "wrong", "fleet"] {
        session.image(name);
    }
    session
        .file("one/etc/bedplate/profile.toml", "schema = 1\nextends = \"generic-intel\"\n")
        .file(
            "one/etc/bedplate/profile.d/20-pages.toml",
            "schema = 1\n[cmdline]\nargs = [\"hugepages=4\"]\n",
        )
        .file("one/etc/bedplate/profile.d/README", "no layer\n")
        .file("wrong/etc/bedplate/profile.toml", "schema = 1\n")
        .file("wrong/etc/bedplate/profile.d/20-acs.toml", "schema = 1\n[acs]\npolcy = \"keep\"\n")
        .file("fleet/etc/bedplate/profiles/a.toml", "schema = 1\n[acs]\npolcy = \"keep\"\n")
        .file("fleet/etc/bedplate/profiles/b.toml", "schema = 1\nextends = \"generic-amd\"\n");
    session.expect(
        "profile-installed",
        &[
            &["profile", "check", "--root", "none"],
            &["profile", "check", "--root", "one"],
            &["profile", "check", "--root", "wrong"],
            &["profile", "check", "--root", "fleet"],
            &["profile", "check", "--root", "one", "hgx-h100"],
        ],
    );
}

#[test]
fn missing_profiles() {
    let session = Session::new();
    let tie = "schema = 1\n[match]\ncpu_vendor = \"intel\"\n";
    session
        .file("tie/a.toml", tie)
        .file("tie/b.toml", tie)
        .file("notes/readme.txt", "no profile")
        .file("empty.toml", "")
        .file("latin1.toml", b"schema = 1\nname = \"\xe9\"\n")
        .file("long.toml", "#".repeat(200_000));
    let plan = |profile: &'static str| ["plan", "--demo", "hgx", "--profile", profile];
    let all = [
        "hgx-h10",
        "site",
        "./site.toml",
        "tie",
        "notes",
        "empty.toml",
        "latin1.toml",
        "long.toml",
        "/dev/zero",
    ];
    let commands: Vec<[&str; 5]> = all.into_iter().map(plan).collect();
    let mut commands: Vec<&[&str]> = commands.iter().map(<[&str; 5]>::as_slice).collect();
    commands.extend([
        ["profile", "explain", "acs.polcy"].as_slice(),
        &["profile", "explain", "vfs"],
        &["profile", "explain", "nonsense"],
        &["profile", "check", "missing.toml"],
    ]);
    session.expect("profile-errors", &commands);
}

#[test]
fn unreadable_hosts() {
    let session = Session::new();
    session
        .host("good.bp", CHANGES)
        .file("damaged.bp", "{\"bedplate_snapshot\": 1, \"running\": tr")
        .file("other.json", "{\"a\": 1}\n")
        .file("newer.bp", "{\"bedplate_snapshot\": 99}\n")
        .file("binary.bp", b"\xff\xfe\x00");
    let plan = |file: &'static str| ["plan", "--snapshot", file];
    let all = ["missing.bp", "damaged.bp", "other.json", "newer.bp", "binary.bp", "none*.bp"];
    let commands: Vec<[&str; 3]> = all.into_iter().map(plan).collect();
    let mut commands: Vec<&[&str]> = commands.iter().map(<[&str; 3]>::as_slice).collect();
    commands.extend([
        ["plan", "--root", "missing"].as_slice(),
        &["plan", "--root", "good.bp"],
        &["history", "--snapshot", "*.bp"],
    ]);
    session.expect("host-errors", &commands);
}

#[test]
fn renderings() {
    let session = Session::new();
    let grub = |cpu: &'static str| ["render", "grub", "--profile", "generic-intel", "--cpu", cpu];
    let cpus = [grub("intel"), grub("amd"), grub("arm")];
    let mut commands: Vec<&[&str]> = cpus.iter().map(<[&str; 6]>::as_slice).collect();
    commands.extend([
        ["render", "grub", "--family", "rhel", "--profile", "generic-amd", "--cpu", "amd"]
            .as_slice(),
        &["render", "machineconfig", "--profile", "generic-amd", "--cpu", "amd"],
        &["render", "machineconfig", "--profile", "generic-amd", "--cpu", "amd", "--role", "a/b"],
        &[
            "render",
            "talos",
            "--profile",
            "generic-intel",
            "--cpu",
            "intel",
            "--talos-version",
            "1.11",
        ],
        &["render", "talos", "--profile", "generic-intel", "--cpu", "intel"],
        &[
            "render",
            "talos",
            "--profile",
            "generic-intel",
            "--cpu",
            "intel",
            "--talos-version",
            "0.1",
        ],
    ]);
    session.expect("render", &commands);
}

/// An error-level lint stops the command that would use the profile, unless it is allowed with a reason.
#[test]
fn error_level_lints() {
    let session = Session::new();
    session
        .host("host.bp", CHANGES)
        .file("bad.toml", BAD)
        .file(
            "allowed.toml",
            format!("{BAD}[lints]\nallow = {{ {PASS} = \"the installer adds it\" }}\n"),
        )
        .file(
            "typo.toml",
            format!("{BAD}[lints]\nallow = {{ amd-iommu = \"x\", {PASS} = \" \" }}\n"),
        )
        .image("image");
    let plan = ["plan", "--exit-code", "--snapshot", "host.bp", "--profile"];
    let render = ["render", "grub", "--cpu", "amd", "--profile"];
    let apply = ["apply", "--yes", "--root", "image", "--profile"];
    let pass = ["--allow-lint", "amd-iommu-on=the installer adds it"];
    let commands = [
        [plan.as_slice(), &["bad.toml"]].concat(),
        [plan.as_slice(), &["bad.toml"], &pass].concat(),
        [plan.as_slice(), &["allowed.toml"]].concat(),
        [render.as_slice(), &["bad.toml"]].concat(),
        [render.as_slice(), &["bad.toml"], &pass].concat(),
        [apply.as_slice(), &["bad.toml"]].concat(),
        vec!["history", "--root", "image"],
        [plan.as_slice(), &["bad.toml", "--allow-lint", "amd-iommu-in=x"]].concat(),
        [plan.as_slice(), &["bad.toml", "--allow-lint", "amd-iommu-on"]].concat(),
        vec!["profile", "check", "bad.toml"],
        vec!["profile", "check", "allowed.toml"],
        vec!["profile", "check", "--strict", "allowed.toml"],
        vec!["profile", "check", "typo.toml"],
        vec!["profile", "show", "--origin", "--profile", "allowed.toml", "--cpu", "amd"],
    ];
    let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    session.expect("lints", &commands);
}

const PASS: &str = "amd-iommu-on";
const BAD: &str = r#"schema = 1
name = "node"
[cmdline]
args = ["amd_iommu=on"]
"#;

/// The same kernel parameters for each target, and a modules section that Talos cannot express.
#[test]
fn rendered_kernel_parameters() {
    let session = Session::new();
    session.file("node.toml", NODE);
    let render = |target: &[&'static str]| {
        [&["render"], target, &["--profile", "node.toml", "--cpu", "intel"]].concat()
    };
    let commands = [
        render(&["grub"]),
        render(&["grub", "--family", "rhel"]),
        render(&["machineconfig"]),
        render(&["talos", "--talos-version", "1.13"]),
    ];
    let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    session.expect("render-sysctl", &commands);
}

const NODE: &str = r#"schema = 1
name = "node"
[sysctl.set]
"kernel.numa_balancing" = { value = 0, why = "pages must not move while NICs write to them" }
"net.ipv4.tcp_rmem" = "4096 131072 6291456"
[modules]
gpudirect = "none"
load = ["ib_umad"]
blacklist = ["nouveau"]
unload = ["nouveau"]
"#;
