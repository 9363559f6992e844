//! Options that shorten or repeat output: `plan --only`, `-q`, `apply --dry-run`, `status --watch`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::session::{Session, text};

/// Output and exit status.
fn run(session: &Session, args: &[&str]) -> (String, Option<i32>) {
    let output = session.run(args);
    (text(&output.stdout), output.status.code())
}

#[test]
fn only_limits_the_sections_and_not_the_result() {
    let session = Session::new();
    let plan = ["plan", "--demo", "hgx", "--exit-code"];
    let (whole, status) = run(&session, &plan);
    let last = whole.lines().next_back().expect("a line");
    assert_eq!(status, Some(2), "{whole}");
    let (acs, of_acs) = run(&session, &[&plan[..], &["--only", "acs"]].concat());
    assert_eq!((acs.lines().next_back(), of_acs), (Some(last), status), "{acs}");
    assert!(acs.contains("\nacs  ") && !acs.contains("\ncmdline"), "{acs}");
    let (unchanged, of_sriov) = run(&session, &[&plan[..], &["--only", "sriov"]].concat());
    assert!(unchanged.contains("\nsriov  no change\n") && of_sriov == status, "{unchanged}");
    let (diff, _) = run(&session, &["plan", "--demo", "hgx", "--diff", "--only", "cmdline"]);
    assert!(diff.contains("+++ ") && !diff.contains("# acs/"), "{diff}");
    assert_eq!(run(&session, &[&plan[..], &["--only", "bogus"]].concat()).1, Some(64));
}

#[test]
fn quiet_prints_the_result_in_one_line() {
    let session = Session::new();
    for args in [
        ["plan", "--demo", "hgx", "--exit-code"].as_slice(),
        &["verify", "--demo", "hgx"],
        &["verify", "--demo", "gb200"],
        &["verify", "--demo", "hgx", "--check", "pcie"],
    ] {
        let (whole, status) = run(&session, args);
        let (line, quiet) = run(&session, &[args, &["-q"]].concat());
        assert_eq!((line.lines().count(), quiet), (1, status), "{args:?}: {line}");
        assert!(whole.lines().any(|one| one == line.trim_end()), "{args:?}: {line}{whole}");
    }
}

#[test]
fn dry_run_of_apply_shows_the_plan_and_writes_nothing() {
    let session = Session::new();
    session.image("root");
    session.file(
        "root/etc/bedplate/profile.toml",
        "schema = 1\niommu.mode = \"passthrough\"\nmatch.cpu_vendor = \"intel\"\n",
    );
    let before = files(&session);
    let planned = run(&session, &["plan", "--root", "root"]);
    assert_eq!(run(&session, &["apply", "--dry-run", "--root", "root"]), planned);
    assert!(planned.0.contains("iommu=pt"), "{planned:?}");
    assert_eq!(files(&session), before);
}

/// Files of the image with their contents.
fn files(session: &Session) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let pattern = format!("{}/**/*", session.path("root").display());
    let paths = glob::glob(&pattern).expect("a pattern").map(|path| path.expect("a path"));
    let files = paths.filter(|path| path.is_file());
    files.map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

#[test]
fn check_ids_and_groups_are_completed() {
    let session = Session::new();
    for shell in ["bash", "zsh", "fish"] {
        let (script, _) = run(&session, &["completions", shell]);
        assert!(script.contains("iommu.mode") && script.contains("command-line"), "{shell}");
    }
    assert_eq!(run(&session, &["verify", "--demo", "hgx", "--check", "pcie.link-*"]).1, Some(0));
}

#[test]
fn watched_status_is_printed_once_without_a_terminal() {
    let session = Session::new();
    let mut command = session.command(&["status", "--watch"]);
    command.env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere");
    command.args(["--state-root", session.path("").to_str().expect("UTF-8")]);
    let mut watch = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    assert!(first.starts_with("daemon unreachable: "), "{first}");
    // Longer than two intervals: an unchanged status is not repeated.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(watch.try_wait().expect("a child").is_none(), "it ended by itself");
    watch.kill().expect("a child");
    watch.wait().expect("a child");
    let rest: Vec<String> = lines.map(|line| line.expect("UTF-8")).collect();
    assert!(!rest.iter().any(|line| line.starts_with("daemon unreachable: ")), "{rest:?}");
    assert_eq!(run(&session, &["status", "--watch", "--json"]).1, Some(64));
}

/// A warning among the selected checks is not shown as a plain success, unless the profile ignores it.
#[test]
fn selected_checks_with_a_warning_are_not_just_passed() {
    let session = Session::new();
    session.file("open.toml", "schema = 1\n");
    session.file(
        "ignored.toml",
        "schema = 1\n[verify]\nseverity = { \"limits.numa-balancing\" = { level = \"ignore\", reason = \"tested\" } }\n",
    );
    for (profile, result) in
        [("open.toml", "NO FAILURE: 0 passed"), ("ignored.toml", "PASSED: 0 passed")]
    {
        let args = [
            "verify",
            "--demo",
            "hgx",
            "--profile",
            profile,
            "--check",
            "limits.numa-balancing",
            "-q",
        ];
        let (line, status) = run(&session, &args);
        assert!(status == Some(0) && line.starts_with(result), "{profile}: {line}");
    }
}
