//! `bedplate render`: the files, the directory that they are written into, and the exit status.

use crate::session::{Session, set_mode, text};

const RENDER: [&str; 6] = ["render", "grub", "--profile", "generic-intel", "--demo", "hgx"];
const DROP_IN: &str = "etc/default/grub.d/zz-bedplate.cfg";

fn render(session: &Session, out: &str) -> (i32, String) {
    let args: Vec<&str> = RENDER.into_iter().chain(["-o", out]).collect();
    let output = session.run(&args);
    (output.status.code().expect("not killed"), text(&output.stderr))
}

#[test]
fn rendered_files_equal_the_output_and_are_reproducible() {
    let session = Session::new();
    let printed = text(&session.run(&RENDER).stdout);
    for _ in 0..2 {
        assert_eq!(render(&session, "out").0, 0);
        assert_eq!(
            std::fs::read_to_string(session.path("out").join(DROP_IN)).expect("the drop-in"),
            printed
        );
    }
}

#[test]
fn check_writes_nothing() {
    let session = Session::new();
    assert_eq!(render(&session, "out").0, 0);
    let check = |dir: &str| {
        let args: Vec<&str> = RENDER.into_iter().chain(["--check", dir]).collect();
        let output = session.run(&args);
        (output.status.code().expect("not killed"), text(&output.stdout))
    };
    assert_eq!(check("out"), (0, String::new()));

    let path = session.path("out").join(DROP_IN);
    let right = std::fs::read_to_string(&path).expect("the drop-in");
    std::fs::write(&path, right.replace("iommu=pt\"", "iommu=soft\"")).expect("written");
    let (status, diff) = check("out");
    assert_eq!(status, 2);
    let header = format!("--- out/{DROP_IN}\n+++ out/{DROP_IN} (rendered)\n@@ ");
    assert!(diff.starts_with(&header), "{diff}");
    assert!(diff.contains("\n-GRUB_CMDLINE") && diff.ends_with("iommu=pt\"\n"), "{diff}");
    assert!(std::fs::read_to_string(&path).expect("still there").contains("iommu=soft"));

    std::fs::write(&path, [right.as_bytes(), b"\xff\n"].concat()).expect("written");
    assert_eq!(check("out").0, 2);
    std::fs::remove_file(&path).expect("removed");
    let (status, diff) = check("out");
    assert!(status == 2 && diff.starts_with("--- /dev/null\n"), "{diff}");
    // The content of the link's target is not shown.
    session.file("secret", "secret\n");
    std::os::unix::fs::symlink(session.path("secret"), &path).expect("a link");
    let (status, diff) = check("out");
    assert!(status != 0 && !diff.contains("secret"), "{status}: {diff}");
    assert_eq!(check("nowhere").0, 1);
}

#[test]
fn script_without_its_mode_differs() {
    use std::os::unix::fs::PermissionsExt as _;
    let session = Session::new();
    let args = ["render", "packer", "--profile", "generic-intel", "--cpu", "intel"];
    let run = |option| session.run(&[&args[..], &[option, "out"]].concat());
    assert!(run("-o").status.success());
    let script = session.path("out/bedplate-provision.sh");
    let mode = |mode| {
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(mode)).expect("a mode");
        let output = run("--check");
        (output.status.code(), text(&output.stdout))
    };
    // Git stores only the execute bit.
    for same in [0o755, 0o700, 0o775] {
        assert_eq!(mode(same), (Some(0), String::new()));
    }
    let said = "out/bedplate-provision.sh\nold mode 100644\nnew mode 100755\n".to_owned();
    assert_eq!(mode(0o644), (Some(2), said));
}

#[test]
fn file_that_is_no_longer_rendered_differs() {
    let session = Session::new();
    let whole = "schema = 1\nname = \"mine\"\n[cmdline]\nargs = [\"quiet\"]\n[sysctl]\nset = { \"vm.swappiness\" = 1 }\n";
    let less = whole.split_inclusive('\n').take(4).collect::<String>();
    session.file("whole.toml", whole).file("less.toml", &less);
    let run = |target: &str, profile: &str, more: &[&str]| {
        let args = ["render", target, "--profile", profile, "--cpu", "intel"];
        let output = session.run(&[&args[..], more].concat());
        (output.status.code().expect("not killed"), text(&output.stdout))
    };
    assert_eq!(run("grub", "whole.toml", &["-o", "out"]).0, 0);
    assert_eq!(run("grub", "whole.toml", &["--check", "out"]), (0, String::new()));
    let (status, diff) = run("grub", "less.toml", &["--check", "out"]);
    let header = "--- out/etc/sysctl.d/zz-bedplate.conf\n+++ /dev/null\n@@ ";
    assert!(status == 2 && diff.contains(header), "{diff}");
    assert!(diff.contains("\n-vm.swappiness = 1\n"), "{diff}");
    // Other targets and unmanaged files in the same directory do not matter.
    std::fs::remove_file(session.path("out/etc/sysctl.d/zz-bedplate.conf")).expect("removed");
    assert_eq!(run("grub", "less.toml", &["-o", "out"]).0, 0);
    assert_eq!(run("ignition", "less.toml", &["-o", "out"]).0, 0);
    session
        .file("out/etc/modprobe.d/zz-bedplate.conf", "# of another\n")
        .file("out/etc/sysctl.d/50-own.conf", "vm.swappiness = 2\n")
        .file("out/etc/sysctl.d/60-copy.conf", "# written by bedplate from profile x; a copy\n")
        .file("out/mkosi.postinst", "#!/bin/sh\n");
    for target in ["grub", "ignition", "mkosi", "networkd"] {
        let (status, diff) = run(target, "less.toml", &["--check", "out"]);
        let expected = if target == "mkosi" { 2 } else { 0 };
        assert_eq!(status, expected, "{target}: {diff}");
    }
    // A name with a pattern, and one without a heading.
    session.file("empty.toml", "schema = 1\nname = \"empty\"\n").file(
        "out/etc/systemd/network/10-bedplate-0000-18-00-0.link",
        "# written by bedplate from profile mine; changes made here are overwritten\n",
    );
    for (target, file) in [
        ("networkd", "etc/systemd/network/10-bedplate-0000-18-00-0.link"),
        ("ignition", "bedplate.ign"),
    ] {
        let (status, diff) = run(target, "empty.toml", &["--check", "out"]);
        let header = format!("--- out/{file}\n+++ /dev/null\n");
        assert!(status == 2 && diff.starts_with(&header), "{target}: {diff}");
    }
}

#[test]
fn strict_refuses_incomplete_renderings() {
    let session = Session::new();
    let strict = |args: &[&str]| session.run(&[args, &["--strict"]].concat());
    let tuned = ["render", "tuned", "--profile", "generic-intel", "--cpu", "intel"];
    let output = strict(&[&tuned[..], &["-o", "out"]].concat());
    assert_eq!(output.status.code(), Some(4));
    assert!(!session.path("out").exists());
    let said = text(&output.stderr);
    assert!(said.contains("tuned cannot express GPUDirect memory registration"), "{said}");
    assert!(said.contains("error: tuned cannot express every setting"), "{said}");
    assert_eq!(strict(&tuned).stdout, b"");
    let json = strict(&[&tuned[..], &["--json"]].concat());
    assert_eq!(json.status.code(), Some(4));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["not_expressible"][0]["id"], "modules/gpudirect");
    assert_eq!((&json["bedplate_render"], &json["target"]), (&1.into(), &"tuned".into()));
    assert_eq!(json["profile_digest"].as_str().map(str::len), Some(64));
    // An unsupported removal from an image is only a note, since hardly any image has the argument.
    let removals: Vec<&str> =
        json["notes"].as_array().expect("a list").iter().filter_map(|note| note.as_str()).collect();
    assert!(removals.iter().any(|note| note.contains("`iommu=off`")), "{removals:?}");
    for whole in ["kernel-install", "grub", "bootc"] {
        let whole = ["render", whole, "--profile", "generic-intel", "--cpu", "intel"];
        assert_eq!(strict(&whole).status.code(), Some(0));
    }
}

#[test]
fn missing_items_are_accepted_with_a_reason() {
    let session = Session::new();
    let run = |accept: &[&str]| {
        let tuned = ["render", "tuned", "--profile", "generic-intel", "--cpu", "intel", "--strict"];
        session.run(&[&tuned[..], accept].concat())
    };
    for id in ["modules/gpudirect", "modules"] {
        let output = run(&["--accept", &format!("{id}=the driver container does it")]);
        assert_eq!(output.status.code(), Some(0), "{id}");
        let said = text(&output.stderr);
        assert!(said.contains("accepted: GPUDirect memory registration"), "{said}");
    }
    let json = run(&["--accept", "modules=elsewhere", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["accepted"][0]["reason"], "elsewhere");
    let other = run(&["--accept", "modules/gpu=not the same"]);
    assert_eq!(other.status.code(), Some(4));
    let said = text(&other.stderr);
    assert!(said.contains("note: nothing to accept as modules/gpu"), "{said}");
    for malformed in ["modules", "=x", "modules="] {
        assert_eq!(run(&["--accept", malformed]).status.code(), Some(64), "{malformed}");
    }
}

#[test]
fn pinned_addresses_need_a_host_and_no_rule_without_vfs() {
    let session = Session::new();
    let rule = |name: &str, select: &str, vfs: u8| {
        format!(
            "[[sriov.devices]]\nname = \"{name}\"\nselect = {{ {select} }}\nvfs = {vfs}\nallow_disruption = true\n"
        )
    };
    let rules = [
        rule("front", "address = \"0000:18:00.0\"", 0),
        rule("all", "vendor = \"15b3\", device = \"1021\"", 4),
    ];
    session.file("p.toml", format!("schema = 1\nname = \"p\"\n{}", rules.concat()));
    let pinned = |more: &[&str]| {
        let args = ["render", "sriov-operator", "-p", "p.toml", "--pin-addresses", "--strict"];
        let args: Vec<&str> = args.into_iter().chain(more.iter().copied()).collect();
        let output = session.run(&args);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, _, said) = pinned(&["--cpu", "intel"]);
    assert_eq!(status, Some(64), "{said}");
    let (status, policies, said) = pinned(&["--demo", "hgx"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(policies.contains("rootDevices") && !policies.contains("0000:18:00.0"), "{policies}");
}

#[test]
fn stale_files_are_named_and_unmanaged_ones_stay() {
    let session = Session::new();
    session
        .file("whole.toml", "schema = 1\nname = \"p\"\n[sysctl]\nset = { \"vm.swappiness\" = 1 }\n[modules]\nload = [\"ib_uverbs\"]\n")
        .file("less.toml", "schema = 1\nname = \"p\"\n[modules]\nload = [\"ib_uverbs\"]\n");
    let run = |profile: &str, more: &[&str]| {
        let render = ["render", "grub", "-p", profile, "--cpu", "intel", "-o", "out"];
        let output = session.run(&[&render[..], more].concat());
        (output.status.code().expect("not killed"), text(&output.stderr))
    };
    assert_eq!(run("whole.toml", &[]).0, 0);
    let sysctl = session.path("out/etc/sysctl.d/zz-bedplate.conf");
    let (status, said) = run("less.toml", &[]);
    assert!(
        status == 0 && said.contains("out/etc/sysctl.d/zz-bedplate.conf is left over from"),
        "{said}"
    );
    assert!(sysctl.exists());
    let (status, said) = run("less.toml", &["--prune"]);
    assert!(status == 0 && said.contains("removed out/etc/sysctl.d/zz-bedplate.conf"), "{said}");
    assert!(!sysctl.exists());

    session.file("out/etc/modules-load.d/bedplate.conf", "own_module\n");
    for profile in ["less.toml", "whole.toml"] {
        let (status, said) = run(profile, &[]);
        assert!(
            status == 64 && said.contains("bedplate.conf was not rendered by bedplate"),
            "{status}: {said}"
        );
    }
    assert!(!sysctl.exists(), "something was written");
    assert_eq!(run("less.toml", &["--overwrite"]).0, 0);
    assert_eq!(run("less.toml", &[]).0, 0);

    // A schematic has no heading; the id next to it identifies its owner.
    let talos = |args: &str| {
        let profile = format!("schema = 1\nname = \"p\"\n[cmdline]\nargs = [\"{args}\"]\n");
        session.file("t.toml", &profile);
        let render = [
            "render",
            "talos",
            "-p",
            "t.toml",
            "--cpu",
            "intel",
            "--talos-version",
            "1.13",
            "-o",
            "talos",
        ];
        session.run(&render).status.code()
    };
    assert_eq!((talos("panic=30"), talos("panic=40")), (Some(0), Some(0)));
    session.file("talos/schematic.yaml", "customization: {}\n");
    assert_eq!(talos("panic=50"), Some(64));
}

/// An image that is rebuilt from its last state.
#[test]
fn kernel_cmdline_has_nothing_of_an_earlier_rendering() {
    let session = Session::new();
    let run = |args: &str| {
        let text = format!("schema = 1\nname = \"p\"\n[cmdline]\nargs = [{args}]\n");
        session.file("p.toml", &text);
        let render = ["render", "kernel-install", "-p", "p.toml", "--cpu", "intel", "-o", "image"];
        assert_eq!(session.run(&render).status.code(), Some(0));
        let script = session.path("image/bedplate-kernel-cmdline.sh");
        let done = std::process::Command::new(script).arg(session.path("image")).status();
        assert!(done.expect("started").success());
        std::fs::read_to_string(session.path("image/etc/kernel/cmdline")).expect("the line")
    };
    session.file("image/etc/kernel/cmdline", "root=/dev/sda1 quiet pci=noats\n");
    let cmdline = session.path("image/etc/kernel/cmdline");
    set_mode(&cmdline, 0o600);
    let list = "\"pci=disable_acs_redir=0000:17:01.0\", \"quiet\", \"panic=30\"";
    assert_eq!(
        run(list),
        "root=/dev/sda1 pci=noats pci=disable_acs_redir=0000:17:01.0 quiet panic=30\n"
    );
    // The image's own arguments stay when the profile no longer has them.
    assert_eq!(
        run("\"pci=config_acs=xx000x0@0000:17:01.0\""),
        "root=/dev/sda1 pci=noats quiet pci=config_acs=xx000x0@0000:17:01.0\n"
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&cmdline).expect("there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    // A list that was written before bedplate recorded its additions.
    std::fs::remove_file(session.path("image/etc/kernel/bedplate-added")).expect("the record");
    assert_eq!(
        run("\"pci=disable_acs_redir=0000:18:01.0\""),
        "root=/dev/sda1 pci=noats quiet pci=disable_acs_redir=0000:18:01.0\n"
    );
}

#[test]
fn no_file_is_written_outside_the_directory() {
    let session = Session::new();
    session.file("precious", "precious\n").file("elsewhere/keep", "");
    for (image, link, target) in [
        ("one", DROP_IN, session.path("precious")),
        ("two", "etc/default", session.path("elsewhere")),
        ("three", "etc", session.path("elsewhere")),
    ] {
        let link = session.path(image).join(link);
        std::fs::create_dir_all(link.parent().expect("a parent")).expect("directories");
        std::os::unix::fs::symlink(target, link).expect("a link");
        let (status, said) = render(&session, image);
        assert_eq!(status, 1, "{image}: {said}");
        assert!(said.contains(&format!("error: cannot write to {image}: ")), "{said}");
    }
    assert_eq!(
        std::fs::read_to_string(session.path("precious")).expect("still there"),
        "precious\n"
    );
    let kept: Vec<_> = std::fs::read_dir(session.path("elsewhere")).expect("a directory").collect();
    assert_eq!(kept.len(), 1);
}

#[test]
fn unwritable_paths_are_named() {
    let session = Session::new();
    session.file("file", "x");
    let (status, said) = render(&session, "file");
    assert_eq!(status, 1);
    assert!(said.contains("cannot create directory file"), "{said}");
    session.file(&format!("taken/{DROP_IN}/x"), "");
    let (status, said) = render(&session, "taken");
    assert_eq!(status, 1);
    assert!(said.contains(DROP_IN), "{said}");
    session.file("locked/x", "");
    set_mode(&session.path("locked"), 0o555);
    let args: Vec<&str> = RENDER.into_iter().chain(["-o", "locked"]).collect();
    let output = session.run_as_nobody(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write to locked"), "{}", text(&output.stderr));
}

/// RHEL hosts do not read /etc/default/grub.d.
#[test]
fn grub_files_match_the_family_of_the_host() {
    let session = Session::new();
    for target in ["grub", "ansible", "cloud-init"] {
        let args = ["render", target, "--profile", "hgx-h100", "--demo", "hgx-rhel9"];
        let output = session.run(&args);
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{target}: {}", text(&output.stderr));
        assert!(printed.contains("grubby") && !printed.contains("update-grub"), "{printed}");
        let other = session.run(&[&args[..], &["--family", "debian"]].concat());
        assert_eq!(other.status.code(), Some(64), "{target}: {}", text(&other.stdout));
        // Without a host there is no contradiction.
        let args =
            ["render", target, "--profile", "hgx-h100", "--cpu", "intel", "--family", "rhel"];
        assert_eq!(session.run(&args).status.code(), Some(0), "{target}");
    }
}

/// Otherwise a comment in a profile, or another directory, would reboot every node of a pool.
#[test]
fn rendered_bytes_do_not_depend_on_the_profile_path() {
    let session = Session::new();
    let profile = "schema = 1\nname = \"pool\"\n[iommu]\nmode = \"passthrough\"\n[modules]\nload = [\"ib_uverbs\"]\nblacklist = [\"nouveau\"]\n\
                   [modules.options.ib_core]\nnetns_mode = \"0\"\n[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n[nccl]\nset = { NCCL_DEBUG = \"WARN\" }\n";
    std::fs::create_dir_all(session.path("builds/someone")).expect("ours");
    std::fs::write(session.path("a.toml"), profile).expect("ours");
    std::fs::write(session.path("builds/someone/b.toml"), format!("# a remark\n\n{profile}"))
        .expect("ours");
    for target in bedplate_render::TARGETS.iter().filter(|target| target.name != "nccl-job") {
        let render = |profile: &str| {
            let mut args = vec!["render", target.name, "-p", profile, "--cpu", "intel"];
            args.extend(
                (target.name == "talos")
                    .then_some(["--talos-version", "1.13"])
                    .into_iter()
                    .flatten(),
            );
            let output = session.run(&args);
            assert!(output.status.success(), "{}: {}", target.name, text(&output.stderr));
            text(&output.stdout)
        };
        let one = render("a.toml");
        assert_eq!(one, render("builds/someone/b.toml"), "{}", target.name);
        assert!(!one.contains("a.toml"), "{}: {one}", target.name);
    }
}

/// Whether the script of the Ansible role accepts the default entry of a RHEL host as converged.
#[test]
fn ansible_role_checks_absent_arguments() {
    let session = Session::new();
    session.file(
        "p.toml",
        "schema = 1\nname = \"p\"\n[cmdline]\nabsent = [\"mitigations\", \"nosmt=force\"]\n",
    );
    let args =
        ["render", "ansible", "-p", "p.toml", "--family", "rhel", "--cpu", "intel", "-o", "role"];
    assert!(session.run(&args).status.success());
    let is_done = |grubby: Option<&str>| {
        let bin = session.path("bin");
        let _ = std::fs::remove_dir_all(&bin);
        std::fs::create_dir(&bin).expect("ours");
        if let Some(script) = grubby {
            std::fs::write(bin.join("grubby"), format!("#!/bin/sh\n{script}\n")).expect("ours");
            set_mode(&bin.join("grubby"), 0o755);
        }
        let status = std::process::Command::new("sh")
            .arg(session.path("role/files/bedplate-is-done.sh"))
            .arg("boot_loader")
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .status();
        status.expect("sh runs").success()
    };
    assert!(is_done(Some("echo 'args=\"ro quiet mitigations2=1 nosmt\"'")));
    for there in ["mitigations", "mitigations=off", "nosmt=force"] {
        assert!(!is_done(Some(&format!("echo 'args=\"ro {there} quiet\"'"))), "{there}");
    }
    assert!(!is_done(Some("exit 1")));
    assert!(!is_done(Some("echo index=0")));
    assert!(!is_done(None), "without grubby");
}
