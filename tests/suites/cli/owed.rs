//! Tools that an image build must still run. They run on request, are reported by their own exit status while pending, and
//! count as done once the boot entry has converged.

use std::path::Path;
use std::process::Command;

use bedplate_tests::fixtures;

use crate::session::{Session, set_mode, text};

const DEFAULT: &str =
    "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\nGRUB_CMDLINE_LINUX=\"\"\n";
const PROFILE: &str =
    "schema = 1\nname = \"t\"\n[cmdline]\nargs = [\"iommu=pt\"]\nabsent = [\"quiet\"]\n";
/// Uses only shell builtins: the image has no other programs.
const UPDATE_GRUB: &str = "#!/bin/sh\nset -e\n. /etc/default/grub\n\
    for f in /etc/default/grub.d/*.cfg; do if [ -e \"$f\" ]; then . \"$f\"; fi; done\n\
    {\necho 'set default=\"0\"'\necho \"menuentry 'A' --id a {\"\n\
    echo \" linux /vmlinuz-6.1.0 root=/dev/vda1 ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\"\n\
    echo '}'\n} > /boot/grub/grub.cfg\n";
const TOOL: &str = "img/usr/sbin/update-grub";

/// An image in which update-grub can run. Needs root, for chroot.
fn image() -> Session {
    fixtures::root();
    let session = Session::new();
    session
        .file("img/etc/os-release", "ID=debian\n")
        .file("img/etc/default/grub", DEFAULT)
        .file("img/etc/default/grub.d/.keep", "")
        .file("img/boot/grub/.keep", "")
        .file("img/dev/.keep", "")
        .file("img/etc/bedplate/profile.toml", PROFILE);
    tool(&session, UPDATE_GRUB);
    let listed = Command::new("ldd").arg("/bin/sh").output().expect("ldd");
    let listed = text(&listed.stdout);
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for path in libraries.chain(["/bin/sh"]) {
        session.file(&format!("img{path}"), std::fs::read(path).expect("a library"));
        set_mode(&session.path(&format!("img{path}")), 0o755);
    }
    update_grub(&session);
    session
}

fn tool(session: &Session, script: &str) {
    session.file(TOOL, script);
    set_mode(&session.path(TOOL), 0o755);
}

/// Runs update-grub as an image build does.
fn update_grub(session: &Session) {
    let root = session.path("img");
    let run = Command::new("chroot").arg(root).args(["/bin/sh", "/usr/sbin/update-grub"]).status();
    assert!(run.expect("chroot").success());
}

fn command<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![name, "--root", "img", "--cpu", "intel"];
    args.extend(more);
    args
}

fn apply(session: &Session, more: &[&str]) -> (i32, String) {
    let output = session.run(&command("apply", &[&["--yes"], more].concat()));
    (output.status.code().expect("a status"), text(&output.stdout) + &text(&output.stderr))
}

fn menu(session: &Session) -> String {
    std::fs::read_to_string(session.path("img/boot/grub/grub.cfg")).unwrap_or_default()
}

fn ledger(session: &Session) -> serde_json::Value {
    let text = std::fs::read(session.path("img/var/lib/bedplate/ledger.json")).expect("a ledger");
    serde_json::from_slice(&text).expect("JSON")
}

fn is_settled(session: &Session) -> bool {
    let ledger = ledger(session);
    let owed = ledger["owed"].as_array().expect("a list").len();
    owed == 0 && !ledger.to_string().contains("\"unfinished\"")
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn pending_tool_runs_with_chroot_tools() {
    let session = image();
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert!(said.contains("done; the image build must still run: update-grub\n"), "{said}");
    assert_eq!(session.status(&command("plan", &["--exit-code"])), 6);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 6, "{said}");
    assert!(menu(&session).contains("quiet splash"));

    let (status, said) = apply(&session, &["--chroot-tools"]);
    assert_eq!(status, 0, "{said}");
    assert!(menu(&session).contains("iommu=pt") && !menu(&session).contains("quiet"));
    assert!(is_settled(&session), "{}", ledger(&session));
    assert_eq!(session.status(&command("plan", &["--exit-code"])), 0);
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn tool_that_the_image_build_ran_is_no_longer_pending() {
    let session = image();
    assert_eq!(apply(&session, &[]).0, 6);
    update_grub(&session);
    let (status, said) = apply(&session, &[]);
    assert_eq!(status, 0, "{said}");
    assert!(is_settled(&session), "{}", ledger(&session));
    assert_fails_back_to_the_build(&session);
}

/// The profile requires more before bedplate has noticed that the tool ran.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn tool_that_ran_is_noticed_by_the_next_change() {
    let session = image();
    assert_eq!(apply(&session, &[]).0, 6);
    update_grub(&session);
    assert_fails_back_to_the_build(&session);
}

/// A failed change is rolled back to the state that the image build left, not to the one before it.
fn assert_fails_back_to_the_build(session: &Session) {
    session.file(
        "img/etc/bedplate/profile.toml",
        PROFILE.replace("iommu=pt\"", "iommu=pt\", \"nosmt\""),
    );
    let drop_in = session.path("img/etc/default/grub.d/zz-bedplate.cfg");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let main = session.path("img/etc/default/grub");
    let before = (read(&main), read(&drop_in), menu(session));
    assert!(before.1.contains("iommu=pt") && !before.0.contains("quiet"));
    tool(session, "#!/bin/sh\nexit 1\n");
    let (status, said) = apply(session, &["--chroot-tools"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("1 change failed and was rolled back"), "{said}");
    assert_eq!((read(&main), read(&drop_in), menu(session)), before);
    tool(session, UPDATE_GRUB);
    assert_eq!(apply(session, &["--chroot-tools"]).0, 0);
    assert!(menu(session).contains("nosmt") && is_settled(session));
}

/// The tool wrote the first boot entry and was then killed.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn interrupted_tool_runs_again_despite_a_right_entry() {
    let session = image();
    assert_eq!(apply(&session, &["--chroot-tools"]).0, 0);
    let mut record = ledger(&session);
    let before = record["files"]["/boot/grub/grub.cfg"]["original"].clone();
    record["owed"] = serde_json::json!([
        { "kind": "cmdline", "argv": ["update-grub"], "purpose": "regenerate" }
    ]);
    record["files"]["/boot/grub/grub.cfg"]["unfinished"] =
        serde_json::json!({ "change": "cmdline/x", "before": before });
    session.file("img/var/lib/bedplate/ledger.json", record.to_string());
    let whole = menu(&session);
    session.file("img/boot/grub/grub.cfg", format!("{whole}menuentry 'half"));
    let (status, said) = apply(&session, &["--chroot-tools"]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(menu(&session), whole);
    assert!(is_settled(&session), "{}", ledger(&session));
}

/// The disk of a machine, mounted by a rescue system, is indistinguishable from an image and boots by its menu.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn menu_created_by_apply_is_regenerated_by_revert() {
    let session = image();
    std::fs::remove_file(session.path("img/boot/grub/grub.cfg")).expect("the menu");
    assert_eq!(apply(&session, &["--chroot-tools"]).0, 0);
    assert!(menu(&session).contains("iommu=pt"));
    let args = ["revert", "--root", "img", "--chroot-tools", "--yes"];
    let output = session.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(menu(&session).contains("menuentry") && !menu(&session).contains("iommu=pt"));
    assert!(text(&output.stderr).contains("run update-grub"), "{}", text(&output.stderr));
    let main = std::fs::read_to_string(session.path("img/etc/default/grub"));
    assert_eq!(main.expect("the file"), DEFAULT);
}

fn drop_in(session: &Session) -> std::path::PathBuf {
    session.path("img/etc/default/grub.d/zz-bedplate.cfg")
}

/// Applies, then loses the state directory.
fn applied_and_forgotten() -> Session {
    let session = image();
    assert_eq!(apply(&session, &["--chroot-tools"]).0, 0);
    std::fs::remove_dir_all(session.path("img/var/lib/bedplate")).expect("the state");
    let plan = text(&session.run(&command("plan", &[])).stdout);
    assert!(plan.contains("/etc/default/grub.d/zz-bedplate.cfg: written by bedplate"), "{plan}");
    assert!(plan.contains("revert --force"), "{plan}");
    for more in ["--dry-run", "--yes"] {
        let output = session.run(&["revert", "--root", "img", more]);
        assert_eq!(output.status.code(), Some(4), "{more}");
        let said = text(&output.stdout);
        assert!(said.contains("zz-bedplate.cfg") && !said.contains("nothing to revert"), "{said}");
    }
    assert!(drop_in(&session).exists());
    session
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn forgotten_file_is_removed_by_a_forced_revert() {
    let session = applied_and_forgotten();
    let args = ["revert", "--root", "img", "--chroot-tools", "--yes", "--force"];
    let output = session.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!drop_in(&session).exists());
    assert!(!menu(&session).contains("iommu=pt"), "{}", menu(&session));
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn forgotten_file_is_adopted_by_an_apply() {
    let session = applied_and_forgotten();
    let (status, said) = apply(&session, &["--chroot-tools"]);
    assert_eq!(status, 0, "{said}");
    let plan = text(&session.run(&command("plan", &[])).stdout);
    assert!(!plan.contains("zz-bedplate.cfg: written by bedplate"), "{plan}");
    let args = ["revert", "--root", "img", "--chroot-tools", "--yes"];
    assert_eq!(session.status(&args), 0);
    assert!(!drop_in(&session).exists());
    assert!(!menu(&session).contains("iommu=pt"), "{}", menu(&session));
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn forced_revert_names_a_tool_that_the_image_lacks() {
    let session = applied_and_forgotten();
    std::fs::remove_file(session.path(TOOL)).expect("the tool");
    let output = session.run(&["revert", "--root", "img", "--yes", "--force", "--json"]);
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["pending_tools"], serde_json::json!([["update-grub"]]));
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn tool_left_by_a_revert_is_run_by_the_next() {
    let session = image();
    assert_eq!(apply(&session, &["--chroot-tools"]).0, 0);
    assert_eq!(session.status(&["revert", "--root", "img", "--yes"]), 6);
    assert!(menu(&session).contains("iommu=pt"));
    let args = ["revert", "--root", "img", "--chroot-tools", "--yes"];
    tool(&session, "#!/bin/sh\nexit 1\n");
    assert_eq!(session.status(&args), 1);
    assert!(!is_settled(&session), "{}", ledger(&session));
    tool(&session, UPDATE_GRUB);
    assert_eq!(session.status(&args), 0);
    assert!(!menu(&session).contains("iommu=pt") && is_settled(&session));
    assert_eq!(session.status(&args), 0);
}

/// The configuration has the arguments, but the menu is older: no file must be written, only the tool must run.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn stale_menu_without_a_record_is_pending() {
    let session = image();
    let stale = menu(&session);
    assert_eq!(apply(&session, &["--chroot-tools"]).0, 0);
    std::fs::remove_dir_all(session.path("img/var/lib/bedplate")).expect("the state");
    session.file("img/boot/grub/grub.cfg", stale);
    for _ in 0..2 {
        let (status, said) = apply(&session, &[]);
        assert_eq!(status, 6, "{said}");
        assert!(said.contains("the image build must still run:\n    update-grub\n"), "{said}");
    }
    update_grub(&session);
    assert_eq!(apply(&session, &[]).0, 0);
}

/// Without the CPU vendor the arguments of `[iommu] mode` are unknown: those on the line stay.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn unknown_arguments_stay() {
    let session = image();
    session.file(
        "img/etc/bedplate/profile.toml",
        "schema = 1\nname = \"t\"\n[iommu]\nmode = \"passthrough\"\n",
    );
    assert_eq!(apply(&session, &["--chroot-tools"]).0, 0);
    let written = std::fs::read(drop_in(&session)).expect("the drop-in");
    let output = session.run(&["apply", "--root", "img", "--yes", "--chroot-tools"]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stdout));
    assert_eq!(std::fs::read(drop_in(&session)).expect("the drop-in"), written);
}

/// A build root is on the file system of the build machine: GRUB finds no device for it.
#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn menu_tool_that_cannot_work_in_the_root_is_pending() {
    let session = image();
    let before = menu(&session);
    let probe = |script: &str| {
        session.file("img/usr/sbin/grub-probe", script);
        set_mode(&session.path("img/usr/sbin/grub-probe"), 0o755);
    };
    probe(
        "#!/bin/sh\necho 'grub-probe: error: cannot find a device for / (is /dev mounted?).'\nexit 1\n",
    );
    for _ in 0..2 {
        let (status, said) = apply(&session, &["--chroot-tools"]);
        assert_eq!(status, 6, "{said}");
        assert!(said.contains("cannot find a device for /"), "{said}");
        assert!(said.contains("the image build must still run: update-grub\n"), "{said}");
    }
    assert!(std::fs::read_to_string(drop_in(&session)).expect("it").contains("iommu=pt"));
    assert_eq!(menu(&session), before);
    probe("#!/bin/sh\necho /dev/vda1\n");
    let (status, said) = apply(&session, &["--chroot-tools"]);
    assert_eq!(status, 0, "{said}");
    assert!(menu(&session).contains("iommu=pt") && is_settled(&session));
}
