//! The `bmc` method: probe, request, hook, and the possible answers of the BMC.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use super::super::tests::{Bmc, Tree, cannot, code, on, works};
use super::super::{Method, Next, prepare, undo};

use super::*;

const BOOT: &str = "0f0e0d0c-1111-4222-8333-444455556666";
const OTHER: &str = "ffffffff-1111-4222-8333-444455556666";

fn tree() -> Tree {
    let tree = Tree::new();
    tree.put(BOOT_ID, &format!("{BOOT}\n"));
    for path in [HOOK, PROGRAM] {
        tree.put(path, "#!/bin/sh\n");
        tree.chmod(path, 0o755);
    }
    tree
}

/// A tree with a request in it.
fn asked_for() -> Tree {
    let tree = tree();
    let bmc = Bmc::new(vec![Ok(on())]);
    prepare(Method::Bmc, &Env { ipmi: &bmc, ..tree.env() }).unwrap();
    tree
}

#[test]
fn request_names_boot_and_plan_and_undo_removes_it() {
    let tree = tree();
    let bmc = Bmc::new(vec![Ok(on()), Ok(on())]);
    let env = Env { ipmi: &bmc, ..tree.env() };
    works(Method::Bmc, &env);
    assert!(!under(&tree.0, "/run").exists(), "probing wrote");
    let prepared = prepare(Method::Bmc, &env).unwrap();
    assert_eq!(prepared.next, Next::LogindReboot);
    let line =
        format!(r#"{{"boot_id":"{BOOT}","plan":"abc123","requested_at":"2026-11-21T10:00:00Z"}}"#);
    assert_eq!(tree.get(REQUEST), line + "\n");
    assert_eq!(
        std::fs::read_dir(under(&tree.0, "/run/bedplate")).unwrap().count(),
        1,
        "nothing beside it"
    );
    undo(&prepared, &tree.0).unwrap();
    assert!(!under(&tree.0, REQUEST).exists());
    undo(&prepared, &tree.0).unwrap();
    assert!(
        bmc.asked().iter().all(|&command| command == ipmi::Command::Status),
        "the BMC was only asked"
    );
}

#[test]
fn method_requires_answering_bmc_and_installed_hook() {
    let says = |answer, spoil: &dyn Fn(&Tree)| {
        let tree = tree();
        spoil(&tree);
        cannot(Method::Bmc, &Env { ipmi: &Bmc::new(vec![answer]), ..tree.env() })
    };
    let keep = |_: &Tree| {};
    let silent = Err(IpmiError::Silent(ipmi::Command::Status));
    assert!(says(silent, &keep).contains("did not answer"));
    let device = ipmi::Device::at("/nonexistent/ipmi0").ask(ipmi::Command::Status);
    assert!(says(device, &keep).contains("ipmi_devintf"));
    assert!(says(Ok(code(0xC1)), &keep).contains("0xC1"));
    let power = |byte| Ok(ipmi::Answer { code: 0, data: vec![byte, 0, 0] });
    assert!(says(power(0x00), &keep).contains("power is off"));
    assert!(says(power(0x09), &keep).contains("fault"));
    let no_hook = |tree: &Tree| std::fs::remove_file(under(&tree.0, HOOK)).unwrap();
    assert!(says(Ok(on()), &no_hook).contains(HOOK));
    let no_boot_id = |tree: &Tree| tree.put(BOOT_ID, "\n");
    assert!(says(Ok(on()), &no_boot_id).contains(BOOT_ID));
}

#[test]
fn failed_request_leaves_no_files() {
    let tree = tree();
    tree.put("/run", "not a directory");
    let bmc = Bmc::new(vec![Ok(on())]);
    let failed = prepare(Method::Bmc, &Env { ipmi: &bmc, ..tree.env() }).unwrap_err();
    let what = format!("cannot write the power-cycle request {REQUEST}");
    assert_eq!(failed.to_string(), what);
    assert_eq!(tree.get("/run"), "not a directory");
    // The request's path is a directory, so the write fails half-way.
    std::fs::remove_file(under(&tree.0, "/run")).unwrap();
    std::fs::create_dir_all(under(&tree.0, REQUEST)).unwrap();
    let bmc = Bmc::new(vec![Ok(on())]);
    let failed = prepare(Method::Bmc, &Env { ipmi: &bmc, ..tree.env() }).unwrap_err();
    assert!(failed.to_string().contains("; undo also failed: "), "{failed}");
    assert_eq!(std::fs::read_dir(under(&tree.0, "/run/bedplate")).unwrap().count(), 1);
}

#[test]
fn power_cycle_is_sent_once_and_wait_ends() {
    let tree = asked_for();
    let bmc = Bmc::new(vec![Ok(code(0))]);
    let started = Instant::now();
    let end = power_cycle(&tree.0, &bmc, Duration::from_secs(1));
    assert!(matches!(end, PowerCycleError::StillOn(1)), "{end}");
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(bmc.asked(), [ipmi::Command::PowerCycle]);
}

/// The completion code of a refusal.
fn refusal(end: PowerCycleError) -> u8 {
    match end {
        PowerCycleError::Failed(IpmiError::Refused { code, .. }) => code.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusal_returns_at_once_and_silence_after_the_wait() {
    let tree = asked_for();
    let cycle = |answer, limit| {
        let started = Instant::now();
        (power_cycle(&tree.0, &Bmc::new(vec![answer]), limit), started.elapsed())
    };
    let long = Duration::from_secs(600);
    let (end, took) = cycle(Ok(code(0xD5)), long);
    assert_eq!(refusal(end), 0xD5);
    assert!(took < Duration::from_secs(60));
    let gone = ipmi::Device::at("/nonexistent/ipmi0").ask(ipmi::Command::PowerCycle);
    assert!(matches!(cycle(gone, long).0, PowerCycleError::Failed(IpmiError::Device { .. })));
    let (end, took) = cycle(Ok(code(0xC3)), Duration::from_millis(200));
    assert!(matches!(end, PowerCycleError::Failed(IpmiError::Silent(_))), "{end:?}");
    assert!(took >= Duration::from_millis(200));
}

#[test]
fn busy_bmc_is_retried_until_the_limit() {
    let tree = asked_for();
    let bmc = Bmc::new(vec![Ok(code(0xC0)), Ok(code(0xC1))]);
    let end = power_cycle(&tree.0, &bmc, Duration::from_secs(30));
    assert_eq!(refusal(end), 0xC1);
    assert_eq!(bmc.asked().len(), 2);
    let bmc = Bmc::new(vec![Ok(code(0xC0))]);
    let end = power_cycle(&tree.0, &bmc, Duration::ZERO);
    assert_eq!(refusal(end), 0xC0);
}

#[test]
fn no_command_without_a_request_of_this_boot() {
    let bmc = Bmc::new(Vec::new());
    let end = |tree: &Tree| power_cycle(&tree.0, &bmc, Duration::ZERO);
    let tree = asked_for();
    tree.put(BOOT_ID, OTHER);
    assert!(matches!(end(&tree), PowerCycleError::NotAsked(why) if why.contains("another boot")));
    tree.put(BOOT_ID, "");
    tree.put(REQUEST, r#"{"boot_id":"","plan":"","requested_at":"2026-11-21T10:00:00Z"}"#);
    assert!(matches!(end(&tree), PowerCycleError::NotAsked(_)));
    tree.put(BOOT_ID, BOOT);
    tree.put(REQUEST, BOOT);
    assert!(
        matches!(end(&tree), PowerCycleError::NotAsked(why) if why.contains("invalid request"))
    );
    std::fs::remove_file(under(&tree.0, REQUEST)).unwrap();
    assert!(matches!(end(&tree), PowerCycleError::NotAsked(_)));
    assert!(bmc.asked().is_empty());
}

/// Where the hook writes its messages.
const KERNEL_LOG: &str = "/dev/kmsg";

/// Runs the shipped hook with its paths redirected into a tree.
fn hook(tree: &Tree, verb: &str) -> Output {
    let shipped = include_str!("../../../../systemd/system-shutdown/bedplate");
    let mut text = shipped.to_owned();
    for path in [REQUEST, PROGRAM, BOOT_ID, KERNEL_LOG] {
        assert!(text.contains(path), "the hook does not name {path}");
        text = text.replace(path, under(&tree.0, path).to_str().unwrap());
    }
    tree.put(HOOK, &text);
    tree.put(KERNEL_LOG, "");
    Command::new("/bin/sh").arg(under(&tree.0, HOOK)).arg(verb).output().unwrap()
}

#[test]
fn hook_runs_only_for_a_requested_reboot_of_this_boot() {
    let tree = asked_for();
    tree.put(PROGRAM, "#!/bin/sh\necho \"called: $*\" >&2\nexit 9\n");
    let said = |verb: &str| {
        let ran = hook(&tree, verb);
        assert!(ran.stderr.is_empty() && ran.stdout.is_empty(), "nobody would see it: {ran:?}");
        (ran.status.code(), tree.get(KERNEL_LOG))
    };
    let (called, nothing) =
        ((Some(9), "<3>bedplate: called: reboot power-cycle".to_owned()), (Some(0), String::new()));
    assert_eq!(said("reboot"), called);
    for verb in ["poweroff", "halt", "kexec", ""] {
        assert_eq!(said(verb), nothing, "{verb}");
    }
    for other in [OTHER, "", "*", "????????-????-????-????-????????????"] {
        tree.put(BOOT_ID, &format!("{other}\n"));
        assert_eq!(said("reboot"), nothing, "{other}");
    }
    tree.put(BOOT_ID, &format!("{BOOT}\n"));
    tree.put(REQUEST, "");
    assert_eq!(said("reboot"), nothing, "an empty request");
    std::fs::remove_file(under(&tree.0, REQUEST)).unwrap();
    assert_eq!(said("reboot"), nothing, "no request");
}

#[test]
fn hook_without_its_program_exits() {
    let tree = asked_for();
    std::fs::remove_file(under(&tree.0, PROGRAM)).unwrap();
    assert_eq!(hook(&tree, "reboot").status.code(), Some(127));
    assert!(tree.get(KERNEL_LOG).contains("not found"), "{}", tree.get(KERNEL_LOG));
}

#[test]
fn shipped_hook_is_executable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/system-shutdown/bedplate");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o111, 0o111);
}
