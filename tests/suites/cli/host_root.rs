//! `--host-root`: a container reads the running host.

use std::collections::BTreeMap;
use std::process::Output;

use serde_json::Value;

use crate::container::Host;
use crate::session::{Session, text};

/// Namespaces that a container may have of its own.
const OWN: [&str; 4] = ["--net", "--pid", "--ipc", "--uts"];
/// Gives up all rights of root but its user id.
const WITHOUT_CAPABILITIES: [&str; 4] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"];
/// The default user of images without root.
const NOBODY: [&str; 7] = [
    "setpriv",
    "--reuid=65532",
    "--regid=65532",
    "--clear-groups",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--",
];

/// Every command whose result the container must share with the host.
const COMMANDS: [&[&str]; 6] = [
    &["verify", "--json"],
    &["plan", "--json"],
    &["topology", "--json"],
    &["inspect", "--json"],
    &["history", "--json"],
    &["snapshot", "-o", "-"],
];

/// Adds the option to a command.
fn of_host<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--host-root", "/host"]].concat()
}

/// Returns the lines of an output by their start, without the time of the checks and counters of the kernel.
fn lines(output: &Output) -> Vec<String> {
    let volatile = ["\"evaluated_at\"", "\"/sys/module/"];
    let text = text(&output.stdout);
    let lines =
        text.lines().filter(|line| !volatile.iter().any(|start| line.trim().starts_with(start)));
    lines.map(str::to_owned).collect()
}

/// Returns the nodes of a snapshot.
fn nodes(output: &Output) -> BTreeMap<String, String> {
    let split = |line: &String| {
        let (path, node) = line.strip_prefix('"')?.split_once("\": ")?;
        Some((path.to_owned(), node.to_owned()))
    };
    lines(output).iter().filter_map(split).collect()
}

fn same_everywhere(wrapper: &[&str]) {
    let host = Host::new();
    for args in COMMANDS {
        let (here, there) =
            (host.run(wrapper, args), host.contain(&[], "", wrapper, &of_host(args)));
        // Other users may be unable to read the record of changes.
        let is_readable = wrapper.is_empty() || args[0] != "history";
        assert!(!is_readable || !here.stdout.is_empty(), "{args:?}: {}", text(&here.stderr));
        let advice = |line: &String| {
            line.contains("/dev/kmsg") || line.contains("kernel-log") || line.contains("\"fix\"")
        };
        let comparable = |output: &Output| -> Vec<String> {
            let is_privileged = wrapper.is_empty();
            lines(output).into_iter().filter(|line| is_privileged || !advice(line)).collect()
        };
        assert_eq!(comparable(&there), comparable(&here), "{args:?}: {}", text(&there.stderr));
        assert_eq!(there.status.code(), here.status.code(), "{args:?}");
        let said = text(&there.stderr);
        let others = said.lines().filter(|line| !line.contains("CAP_SYS_ADMIN"));
        assert_eq!(
            others.collect::<Vec<_>>(),
            text(&here.stderr).lines().collect::<Vec<_>>(),
            "{args:?}"
        );
    }
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn container_with_the_hosts_namespaces_reads_the_same() {
    same_everywhere(&[]);
}

#[test]
#[cfg_attr(
    not(all(has = "root", has = "setpriv", has = "unshare")),
    ignore = "needs root, setpriv and unshare"
)]
fn container_without_rights_reads_what_the_same_user_reads() {
    same_everywhere(&WITHOUT_CAPABILITIES);
    same_everywhere(&NOBODY);
}

/// Prefixes of paths that a container with namespaces of its own cannot read.
const HIDDEN: [&str; 5] = [
    "/.bedplate/",
    "/proc/sys/net/",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/hostname",
    "/sys/fs/cgroup/systemd",
];

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn own_namespaces_hide_only_what_they_answer_for() {
    let host = Host::new();
    let args = ["snapshot", "--with-hostname", "-o", "-"];
    let (here, there) =
        (host.run(&[], &args), host.contain(&OWN, "hostname other", &[], &of_host(&args)));
    let said = text(&there.stderr);
    assert!(said.contains("hostNetwork: true") && said.contains("hostPID: true"), "{said}");
    let (here, there) = (nodes(&here), nodes(&there));
    for (path, node) in &here {
        let other = there.get(path);
        if other == Some(node) {
            continue;
        }
        assert!(
            HIDDEN.iter().any(|hidden| path.starts_with(hidden)),
            "{path}: {other:?}, not {node}"
        );
        assert!(other.is_none_or(|node| node.contains("\"failed\"")), "{path}: {other:?}");
    }
    for path in ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/hostname"] {
        assert!(there[path].contains("\"failed\"") && here[path].contains("\"text\""), "{path}");
    }
    let is_read = |path: &str| {
        assert!(here[path].contains("\"text\"") && there[path] == here[path], "{path}")
    };
    ["/proc/mounts", "/proc/self/mountinfo", "/etc/default/grub"].into_iter().for_each(is_read);
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn checks_and_plan_differ_only_by_unknown_values() {
    let host = Host::new();
    let json = |output: Output| -> Value {
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let args = ["verify", "--json"];
    let (here, there) =
        (json(host.run(&[], &args)), json(host.contain(&OWN, "", &[], &of_host(&args))));
    let checks = |document: &Value| document["checks"].as_array().expect("checks").clone();
    for (here, there) in checks(&here).iter().zip(checks(&there)) {
        let is_unknown = there["verdict"] == "unknown";
        assert!(is_unknown || there["verdict"] == here["verdict"], "{here} {there}");
    }
    let args = ["plan", "--json"];
    let there = host.contain(&OWN, "", &[], &of_host(&args));
    let (here, there) = (json(host.run(&[], &args)), json(there));
    let subjects = |document: &Value| -> Vec<String> {
        let unknowns = document["unknowns"].as_array().expect("unknowns").iter();
        unknowns.map(|one| one["subject"].as_str().expect("text").to_owned()).collect()
    };
    let (known, unknown) = (subjects(&here), subjects(&there));
    assert!(known.iter().all(|subject| unknown.contains(subject)), "{known:?} {unknown:?}");
    for key in ["net.core.rmem_max", "kernel.pid_max"] {
        assert!(
            !known.contains(&key.to_owned()) && unknown.contains(&key.to_owned()),
            "{key}: {there}"
        );
    }
    let changes = there["changes"].to_string();
    assert!(
        changes.contains("vm.max_map_count") && !unknown.contains(&"vm.max_map_count".to_owned()),
        "{there}"
    );
}

/// The rights that docs/security.md lists, one at a time.
#[test]
#[cfg_attr(
    not(all(has = "root", has = "setpriv", has = "unshare")),
    ignore = "needs root, setpriv and unshare"
)]
fn each_right_shows_its_values() {
    let host = Host::new();
    let args = of_host(&["snapshot", "--with-hostname", "-o", "-"]);
    for right in ["", ",+sys_ptrace", ",+syslog", ",+sys_admin"] {
        let bounding = format!("--bounding-set=-all{right}");
        let output = host.contain(&[], "", &["setpriv", &bounding, "--inh-caps=-all", "--"], &args);
        let (found, said) = (nodes(&output), text(&output.stderr));
        assert!(output.status.success(), "{right}: {said}");
        let has_text = |path: &str| found[path].contains("\"text\"");
        assert_eq!(has_text("/proc/sys/kernel/hostname"), right.ends_with("sys_ptrace"), "{right}");
        let restricted =
            std::fs::read_to_string("/proc/sys/kernel/dmesg_restrict").expect("a kernel");
        let shows_log = right.ends_with("syslog") || restricted.trim() == "0";
        assert_eq!(has_text("/.bedplate/kernel-log"), shows_log, "{right}");
        let has_devices =
            std::fs::read_dir("/sys/bus/pci/devices").is_ok_and(|all| all.count() > 0);
        let warns = has_devices && !right.ends_with("sys_admin");
        assert_eq!(said.contains("CAP_SYS_ADMIN"), warns, "{right}: {said}");
    }
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn other_directories_are_rejected() {
    let host = Host::new();
    for (setup, root, says) in [
        ("", "/host/etc", "is not a procfs"),
        ("", "/host/none", "cannot open host root /host/none"),
        ("umount -l host/proc; umount -l host/proc", "/host", "/host/proc is not a procfs"),
        ("umount -l host/sys", "/host", "/host/sys is not a sysfs"),
        ("mount -t tmpfs x host/proc", "/host", "/host/proc is not a procfs"),
        ("mount -t proc x host/proc", "/host", "is another file system than"),
        ("mount -t sysfs x host/sys", "/host", "/host/sys is another file system than /sys"),
        ("mount -t proc -o subset=pid x host/proc", "/host", "boot_id"),
        (
            "umount -l host/proc; mkdir mine; mount --bind proc host/proc",
            "/host",
            "is another file system than",
        ),
        (
            "echo other > id; mount --bind id host/proc/sys/kernel/random/boot_id",
            "/host",
            "differs from",
        ),
    ] {
        let own: &[&str] = if setup.contains("sysfs") { &["--net", "--pid"] } else { &["--pid"] };
        let output = host.contain(own, setup, &[], &["verify", "--host-root", root]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{setup}: {output:?}");
        assert!(said.contains("cannot use --host-root") && said.contains(says), "{setup}: {said}");
    }
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn mount_made_after_the_container_started_is_unknown() {
    let host = Host::new();
    std::os::unix::fs::symlink("../boot/grub/grub.cfg", host.0.path("etc/menu")).expect("ours");
    // The container sees the directory below the mount, which is another one, and empty here.
    let setup = "umount -l host/boot; mkdir -p empty; mount --bind empty host/boot";
    for args in [&["inspect"][..], &["plan", "--json"], &["verify", "--json"]] {
        let output = host.contain(&[], setup, &[], &of_host(args));
        assert!(text(&output.stdout).contains("HostToContainer"), "{args:?}: {output:?}");
        let whole = host.contain(&[], "", &[], &of_host(args));
        assert!(!text(&whole.stdout).contains("HostToContainer"), "{args:?}: {whole:?}");
    }
    let args = ["snapshot", "-o", "-"];
    let found = nodes(&host.contain(&[], setup, &[], &of_host(&args)));
    assert!(
        found["/boot/grub/grub.cfg"].contains("\"failed\""),
        "{:?}",
        found.get("/boot/grub/grub.cfg")
    );
}

/// Links of the host lead to files of the host, never to files of the container.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn links_stay_inside_the_host() {
    let host = Host::new();
    let setup = "echo 'GRUB_CMDLINE_LINUX=\"of-the-container\"' > tmp/grub";
    host.0.file("etc/real", "GRUB_CMDLINE_LINUX=\"of-the-host\"\n");
    for (target, is_there) in [
        ("/tmp/grub", false),
        ("../../../../tmp/grub", false),
        ("/host/etc/real", false),
        ("/proc/self/cwd/tmp/grub", false),
        ("/etc/real", true),
        ("../../../../etc/real", true),
    ] {
        let link = host.0.path("etc/default/grub");
        std::fs::remove_file(&link).expect("ours");
        std::os::unix::fs::symlink(target, &link).expect("ours");
        let output = host.contain(&[], setup, &[], &of_host(&["inspect", "--json"]));
        let found = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(!found.contains("of-the-container"), "{target}");
        assert_eq!(found.contains("of-the-host"), is_there, "{target}");
    }
}

#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn container_without_proc_reads_the_host() {
    let host = Host::new();
    let args = ["plan", "--json"];
    let here = host.run(&[], &args);
    let there = host.contain(&[], "umount -l proc", &[], &of_host(&args));
    assert_eq!(lines(&there), lines(&here), "{}", text(&there.stderr));
}

/// The link has the text `/`, which is the container's root.
#[test]
#[cfg_attr(not(all(has = "root", has = "unshare")), ignore = "needs root and unshare")]
fn root_of_process_1_is_not_that_of_the_container() {
    let host = Host::new();
    let said = host.contain(&[], "", &[], &["plan", "--host-root", "/host/proc/1/root"]);
    assert_eq!(said.status.code(), Some(1), "{}", text(&said.stdout));
    assert!(text(&said.stderr).contains("cannot use --host-root"), "{}", text(&said.stderr));
}

#[test]
fn own_root_equals_no_option() {
    let session = Session::new();
    for args in [
        &["plan", "--json", "--profile", "generic-amd"][..],
        &["topology", "--json"],
        &["inspect", "--json"],
    ] {
        let (plain, named) =
            (session.run(args), session.run(&[args, &["--host-root", "/usr/.."]].concat()));
        assert_eq!(lines(&named), lines(&plain), "{args:?}");
        assert_eq!(
            (text(&named.stderr), named.status.code()),
            (text(&plain.stderr), plain.status.code())
        );
    }
}

#[test]
fn option_is_for_reading_only() {
    let session = Session::new();
    for args in [
        &["apply", "--host-root", "/"][..],
        &["revert", "--host-root", "/"],
        &["seal", "--host-root", "/"],
        &["daemon", "--host-root", "/"],
        &["reboot", "status", "--host-root", "/"],
        &["plan", "--host-root", "/", "--root", "/"],
        &["plan", "--host-root", "/", "--snapshot", "x.bp"],
        &["verify", "--host-root", "/", "--demo", "hgx"],
    ] {
        assert_eq!(session.status(args), 64, "{args:?}");
    }
    let init = session.run(&["profile", "init", "--host-root", "/", "--extends", "generic-amd"]);
    assert!(text(&init.stdout).contains("extends = \"generic-amd\""), "{}", text(&init.stderr));
}
