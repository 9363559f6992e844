//! `install.sh` installs the files for systemd, the bus and the journal, and removes all of them.

mod foreign;
mod upgrade;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use bedplate_tests::program::install_sh as script;
use bedplate_tests::{fixtures, program};

fn files(root: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("ours") {
            let path = entry.expect("ours").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let mode = path.metadata().expect("ours").permissions().mode() & 0o777;
                found.insert(
                    format!("/{}", path.strip_prefix(root).expect("below").display()),
                    mode,
                );
            }
        }
    }
    found
}

#[test]
fn uninstall_removes_all_installed_files() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    for _ in 0..2 {
        let done = script(&["--destdir", &dir]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let installed = files(root.path());
    for (path, mode) in [
        ("/usr/bin/bedplate", 0o755),
        ("/usr/lib/systemd/system/bedplate.service", 0o644),
        ("/usr/lib/systemd/system/bedplate-boot.service", 0o644),
        ("/usr/lib/systemd/system/bedplate-observer@.service", 0o644),
        ("/usr/lib/systemd/system/bedplate-worker.socket", 0o644),
        ("/usr/lib/systemd/system/bedplate-worker@.service", 0o644),
        ("/usr/lib/systemd/system/bedplate-loader@.service.d/modules.conf", 0o644),
        ("/usr/lib/systemd/system/bedplate-ready.service", 0o644),
        ("/usr/lib/systemd/system/bedplate-ready.target", 0o644),
        ("/usr/lib/systemd/system/bedplate-host-ready.service.d/stage.conf", 0o644),
        ("/usr/lib/systemd/system/bedplate-host-ready.target", 0o644),
        ("/usr/lib/systemd/system/bedplate-is-ready.target", 0o644),
        ("/usr/lib/systemd/system-shutdown/bedplate", 0o755),
        ("/usr/lib/systemd/catalog/bedplate.catalog", 0o644),
        ("/usr/share/dbus-1/system.d/org.bedplate.Agent1.conf", 0o644),
        ("/usr/share/polkit-1/actions/org.bedplate.policy", 0o644),
        ("/usr/share/doc/bedplate/profile.toml", 0o644),
        ("/usr/share/man/man1/bedplate.1", 0o644),
        ("/usr/share/man/man1/bedplate-profile.1", 0o644),
        ("/usr/share/man/man5/bedplate-profile.5", 0o644),
        ("/usr/share/man/man7/bedplate-checks.7", 0o644),
        ("/usr/lib/bedplate/bedplate-health", 0o755),
        ("/usr/lib/bedplate/bedplate-prolog", 0o755),
        ("/usr/share/bedplate/integrations/slurm/slurm.conf", 0o644),
        ("/usr/share/bedplate/integrations/kubernetes/bedplate-condition", 0o644),
        ("/usr/share/bedplate/integrations/kubernetes/unprivileged/kustomization.yaml", 0o644),
        ("/usr/share/bedplate/systemd/bedplate-worker@.service.d/network.conf", 0o644),
        ("/usr/share/bash-completion/completions/bedplate", 0o644),
        ("/usr/share/zsh/site-functions/_bedplate", 0o644),
        ("/usr/share/fish/vendor_completions.d/bedplate.fish", 0o644),
    ] {
        assert_eq!(installed.get(path), Some(&mode), "{path}");
    }
    assert!(installed.contains_key("/usr/share/man/man1/bedplate-reboot.1"), "{installed:#?}");
    // A host with a package has no checkout to copy a drop-in from.
    let systemd = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd"));
    let mut shipped = files(systemd);
    shipped.retain(|path, _| path.contains(".d/"));
    assert!(shipped.len() > 5, "{shipped:?}");
    for path in shipped.keys() {
        let is_there = ["/usr/share/bedplate/systemd", "/usr/lib/systemd/system"];
        let is_there = is_there.map(|at| installed.contains_key(&format!("{at}{path}")));
        assert!(is_there.contains(&true), "{path} is not installed");
    }
    // polkit must know every action that the daemon asks about.
    let policy = root.path().join("usr/share/polkit-1/actions/org.bedplate.policy");
    let policy = std::fs::read_to_string(policy).expect("installed");
    for action in ["reconcile", "reload", "schedule-reboot", "cancel-reboot"] {
        assert!(policy.contains(&format!("<action id=\"org.bedplate.{action}\">")), "{action}");
    }
    let done = script(&["--uninstall", "--destdir", &dir]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!root.path().join("usr/lib/systemd/system/bedplate-loader@.service.d").exists());
    assert_eq!(files(root.path()), BTreeMap::new(), "what stays");
}

/// A built program, given by a relative path with a blank in it, without cargo.
#[test]
fn built_program_needs_no_cargo() {
    let root = tempfile::tempdir().expect("a directory");
    let built = root.path().join("a b");
    std::fs::create_dir_all(root.path().join("etc")).expect("ours");
    std::fs::write(root.path().join("etc/debian_version"), "13\n").expect("ours");
    std::os::unix::fs::symlink(program::path(), &built).expect("ours");
    let install = |args: &[&str]| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../install.sh");
        let mut command = Command::new(script);
        command.args(args).current_dir(root.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env_remove("BEDPLATE_PROGRAM").output().expect("it starts")
    };
    let done = install(&["--program", "a b", "--destdir", "."]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // The next steps are for the image, not for this host.
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        said.contains("bedplate profile init --root ") && said.contains("systemctl --root="),
        "{said}"
    );
    assert!(!said.contains("--now"), "{said}");
    let installed = files(root.path());
    assert!(installed.contains_key("/usr/bin/bedplate"), "{installed:#?}");
    assert!(
        installed.contains_key("/usr/share/zsh/vendor-completions/_bedplate"),
        "{installed:#?}"
    );

    // A program that does not run is not installed over one that does.
    std::fs::write(root.path().join("broken"), "no program").expect("ours");
    let failed = install(&["--program", "broken", "--destdir", "elsewhere"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("does not run here"));
    assert!(!root.path().join("elsewhere").exists());
    // A different program is not installed either.
    let other = install(&["--program", "/bin/echo", "--destdir", "elsewhere"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("/bin/echo is not bedplate"));
    assert!(!root.path().join("elsewhere").exists());
    assert_eq!(install(&["--progam", "x"]).status.code(), Some(64));
    let usage = install(&["--help"]);
    assert!(String::from_utf8_lossy(&usage.stdout).contains("[--program FILE]"));
}

/// A usage error is one line with status 64, and changes nothing.
#[test]
fn usage_errors_are_one_line() {
    for (args, says) in [
        (&["--program"][..], "--program needs a file"),
        (&["--destdir"], "--destdir needs a directory"),
        (&["--destdir", ""], "--destdir needs a directory"),
        (&["--program", "--destdir", "x"], "--program needs a file"),
        (&["--revert", "--destdir", "/nowhere"], "--revert requires --uninstall"),
    ] {
        let output = script(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{args:?}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{args:?}: {said}");
    }
}

#[test]
fn uninstall_without_an_installation_says_so() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    for args in [&["--uninstall"][..], &["--uninstall", "--revert"]] {
        let done = script(&[args, &["--destdir", &dir]].concat());
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{said}");
        assert_eq!(said, format!("bedplate is not installed in {dir}: nothing was removed\n"));
    }
}

/// An image may contain any file under the name of bedplate.
#[test]
fn programs_of_an_image_are_not_run() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().join("image").display().to_string();
    assert!(script(&["--destdir", &dir]).status.success());
    let ran = root.path().join("ran");
    let program = root.path().join("image/usr/bin/bedplate");
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).expect("ours");
    for args in [&["--uninstall", "--revert"][..], &["--uninstall"]] {
        let done = script(&[args, &["--destdir", &dir]].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(!ran.exists() && !program.exists());
        std::fs::write(&program, "").expect("ours");
    }
}

/// Root must not write or delete files of the host through a link in an image.
#[test]
fn a_link_out_of_an_image_is_not_followed() {
    for link in ["usr/bin", "usr/share/man", "etc", "usr/lib/systemd/system"] {
        let root = tempfile::tempdir().expect("a directory");
        let (image, host) = (root.path().join("image"), root.path().join("host"));
        let link = image.join(link);
        std::fs::create_dir_all(link.parent().expect("below")).expect("ours");
        std::fs::create_dir_all(&host).expect("ours");
        std::fs::write(host.join("bedplate"), "the host's").expect("ours");
        std::fs::write(host.join("bedplate.service"), "the host's").expect("ours");
        std::os::unix::fs::symlink(&host, &link).expect("ours");
        let dir = image.display().to_string();
        // Gives `--uninstall` something to remove for any link.
        std::fs::create_dir_all(image.join("usr/share/fish/vendor_completions.d")).expect("ours");
        std::fs::write(image.join("usr/share/fish/vendor_completions.d/bedplate.fish"), "")
            .expect("ours");
        for args in [&[][..], &["--uninstall"]] {
            let refused = script(&[args, &["--destdir", &dir]].concat());
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(1), "{link:?} {args:?}: {said}");
            assert!(
                said.contains("leads out of") && said.contains("nothing was changed"),
                "{said}"
            );
        }
        let left = files(&host).into_keys().collect::<Vec<_>>();
        assert_eq!(left, ["/bedplate", "/bedplate.service"]);
    }
    // Installed files that are links in the image, to a directory or file of the host.
    let root = tempfile::tempdir().expect("a directory");
    let (image, host) = (root.path().join("image"), root.path().join("host"));
    std::fs::create_dir_all(&host).expect("ours");
    std::fs::write(host.join("file"), "the host's").expect("ours");
    for (link, target) in [
        ("usr/bin/bedplate", host.clone()),
        ("usr/lib/systemd/system/bedplate.service", host.clone()),
        ("usr/share/doc/bedplate/profile.toml", host.join("file")),
    ] {
        let link = image.join(link);
        std::fs::create_dir_all(link.parent().expect("below")).expect("ours");
        std::os::unix::fs::symlink(target, link).expect("ours");
    }
    // install.sh does not wait for a pipe either.
    let drop_in = image.join("etc/systemd/system/bedplate.service.d/cold-reboot.conf");
    std::fs::create_dir_all(drop_in.parent().expect("below")).expect("ours");
    nix::unistd::mkfifo(&drop_in, nix::sys::stat::Mode::S_IRWXU).expect("ours");
    let dir = image.display().to_string();
    let installed = script(&["--destdir", &dir]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    assert_eq!(files(&host).into_keys().collect::<Vec<_>>(), ["/file"]);
    assert_eq!(std::fs::read_to_string(host.join("file")).expect("ours"), "the host's");
    assert!(image.join("usr/bin/bedplate").symlink_metadata().expect("there").is_file());
    // Images may have links that stay inside.
    let root = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(root.path().join("usr/local/bin")).expect("ours");
    std::os::unix::fs::symlink("local/bin", root.path().join("usr/bin")).expect("ours");
    assert!(script(&["--destdir", &root.path().display().to_string()]).status.success());
    assert!(root.path().join("usr/local/bin/bedplate").exists());
}

#[test]
fn missing_cargo_is_reported_with_a_fix() {
    let tools = tempfile::tempdir().expect("a directory");
    for tool in ["sh", "sed", "dirname"] {
        let found = fixtures::tool(tool);
        std::os::unix::fs::symlink(found, tools.path().join(tool)).expect("ours");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../install.sh");
    let output = Command::new(script)
        .args(["--destdir", "/nowhere"])
        .env("PATH", tools.path())
        .env_remove("BEDPLATE_PROGRAM")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("no cargo") && said.contains("--program FILE") && said.contains("rustup.rs"),
        "{said}"
    );
}

/// Uninstalling names bedplate's changes, because the program that can undo them is removed, and undoes them with
/// `--revert`. Published files are removed as well.
#[test]
fn applied_changes_are_named_and_can_be_reverted() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    let put = |path: &str, text: &str| {
        let file = root.path().join(path);
        std::fs::create_dir_all(file.parent().expect("below")).expect("ours");
        std::fs::write(file, text).expect("ours");
    };
    put(
        "etc/bedplate/profile.toml",
        "schema = 1\nname = \"p\"\n[modules]\ngpudirect = \"none\"\nload = [\"loop\"]\n",
    );
    put("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\n");
    put("var/lib/prometheus/node-exporter/apt.prom", "");
    let list = root.path().join("etc/modules-load.d/bedplate.conf");
    let told = root.path().join("var/lib/prometheus/node-exporter/bedplate.prom");
    let program = root.path().join("usr/bin/bedplate");
    let set_up = || {
        assert!(script(&["--destdir", &dir]).status.success());
        assert!(program::run(&["apply", "--root", &dir]).status.success());
        put("var/lib/prometheus/node-exporter/bedplate.prom", "bedplate_ready 1\n");
        put("run/bedplate/status.json", "{}");
        assert!(list.exists());
    };
    let uninstall = |args: &[&str]| {
        let done = script(&[&["--uninstall", "--destdir", &dir], args].concat());
        let said = String::from_utf8_lossy(&done.stdout).into_owned()
            + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        assert!(
            !told.exists() && !root.path().join("run/bedplate").exists() && !program.exists(),
            "{said}"
        );
        assert!(root.path().join("var/lib/prometheus/node-exporter/apt.prom").exists());
        said
    };
    set_up();
    // No question is asked without a terminal.
    let said = uninstall(&[]);
    for part in ["/etc/modules-load.d/bedplate.conf: removed", "--uninstall --revert"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert!(list.exists());
    set_up();
    let said = uninstall(&["--revert"]);
    assert!(!list.exists(), "{said}");
    assert!(script(&["--destdir", &dir]).status.success());
    assert!(!uninstall(&[]).contains("--revert"));
    // Without the record of changes the remaining files are named, and nothing claims to be undone.
    set_up();
    std::fs::remove_dir_all(root.path().join("var/lib/bedplate")).expect("ours");
    let done = script(&["--uninstall", "--revert", "--destdir", &dir]);
    let said =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(4), "{said}");
    for part in ["modules-load.d/bedplate.conf", "bedplate revert --force", "stays installed"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert!(list.exists() && program.exists());
    let forced = program::run(&["revert", "--root", &dir, "--force", "--yes"]);
    assert!(forced.status.success() && !list.exists());
    uninstall(&["--revert"]);
}

/// The image's builder runs its tools: bedplate's files are undone and bedplate is removed.
#[test]
fn pending_tool_of_an_image_does_not_block_uninstall() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    for (path, text) in [
        ("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\n"),
        ("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"),
        ("boot/grub/grub.cfg", "menuentry 'Ubuntu' {\n linux /vmlinuz root=UUID=1 ro quiet\n}\n"),
    ] {
        let file = root.path().join(path);
        std::fs::create_dir_all(file.parent().expect("below")).expect("ours");
        std::fs::write(file, text).expect("ours");
    }
    assert!(script(&["--destdir", &dir]).status.success());
    let applied = program::run(&["apply", "--root", &dir, "--profile", "generic-intel"]);
    assert_eq!(applied.status.code(), Some(6));
    let done = script(&["--uninstall", "--revert", "--destdir", &dir]);
    let said =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("update-grub"), "{said}");
    assert!(!root.path().join("usr/bin/bedplate").exists(), "{said}");
    assert!(!root.path().join("etc/default/grub.d/zz-bedplate.cfg").exists(), "{said}");
}

/// /etc/bedplate may be on a read-only file system, or belong to another tool.
#[test]
fn read_only_profile_directory_causes_a_warning() {
    let root = tempfile::tempdir().expect("a directory");
    let text = "#!/bin/sh\necho read-only >&2\nexit 1\n";
    let done = with_tool(root.path(), "chmod", text, &program::path());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains("warning: cannot remove write permission"),
        "{said}"
    );
    let page = root.path().join("image/usr/share/man/man5/bedplate-profile.5");
    assert!(page.exists(), "it went on");
}

/// Runs `install.sh` into `root`, with a fake tool that comes before the system's in PATH.
fn with_tool(root: &Path, name: &str, text: &str, program: &Path) -> Output {
    let (dir, tools) = (root.join("image"), root.join("tools"));
    std::fs::create_dir_all(&tools).expect("ours");
    let tool = tools.join(name);
    std::fs::write(&tool, text).expect("ours");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let path = std::env::var("PATH").expect("a path");
    Command::new("./install.sh")
        .args(["--destdir", &dir.display().to_string()])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("BEDPLATE_PROGRAM", program)
        .env("PATH", format!("{}:{path}", tools.display()))
        .output()
        .expect("it starts")
}

/// install.sh checks directories in sorted order: without the list it would check none.
#[test]
fn unlisted_directories_prevent_the_installation() {
    let root = tempfile::tempdir().expect("a directory");
    let done = with_tool(root.path(), "sort", "#!/bin/sh\nexit 1\n", &program::path());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.contains("nothing was changed"), "{said}");
    assert!(!root.path().join("image/usr").exists());
}

/// A program without the daemon has no daemon for the units, and cannot remove published files.
#[test]
fn program_without_the_daemon_is_not_installed() {
    let root = tempfile::tempdir().expect("a directory");
    let text = "#!/bin/sh\n[ \"$1\" = --version ] && echo bedplate 0.1.0 || exit 64\n";
    let done =
        with_tool(root.path(), "bedplate-small", text, &root.path().join("tools/bedplate-small"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("without the daemon"), "{said}");
    assert!(!root.path().join("image/usr").exists());
}

/// Root's umask may be 077 (hardened hosts) or 002. Installed files are readable by all users and writable by root only.
#[test]
fn modes_do_not_follow_the_umask() {
    for umask in ["000", "002", "077"] {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("image");
        let line = format!("umask {umask} && exec ./install.sh --destdir '{}'", dir.display());
        let done = Command::new("sh")
            .args(["-c", &line])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .env("BEDPLATE_PROGRAM", program::path())
            .output()
            .expect("it starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mode = |path: &Path| path.metadata().expect("ours").permissions().mode() & 0o7777;
        assert_eq!(mode(&dir.join("etc/bedplate")), 0o755, "umask {umask}");
        for (path, mode) in files(&dir) {
            assert!(matches!(mode, 0o755 | 0o644), "umask {umask}: {path} has mode {mode:o}");
        }
    }
}
