//! Sandboxes of the installed units: a probe in the place of bedplate tries to break each unit's restrictions from
//! inside; then the daemon works in these units.

use std::collections::BTreeSet;

use bedplate_tests::lab::machine::{BOOKWORM, SYSTEMD_BOOT, TRIXIE};
use bedplate_tests::lab::{Case, Machine, Node, Result, Scenario};

use super::daemon::{install, state, until};
use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("confined::promises", |case| promises(case, TRIXIE)),
    // systemd 252, whose sandboxes differ.
    ("confined::promises_older", |case| promises(case, BOOKWORM)),
    ("upkeep::confined", confined),
];

const ENABLE: &str = "systemctl enable --now bedplate-boot.service bedplate.service";
/// A profile that needs one cold boot and nothing else.
const PASSTHROUGH: &str = "schema = 1\nname = \"passthrough\"\n[iommu]\nmode = \"passthrough\"\n";

/// Runs kernel-install and initramfs tools from the unit with all its restrictions (update-grub: daemon::life).
fn confined(case: &mut Case) -> Result<()> {
    let node = case.node(SYSTEMD_BOOT)?;
    install(case, &node)?;
    node.step("the unit rebuilds the boot entry and the initramfs");
    let options = "options = { virtio_blk = { queue_depth = 64 } }";
    node.put(PROFILE_PATH, format!("{PASSTHROUGH}[modules]\n{options}\n"))?;
    node.ok(ENABLE)?;
    until(&node, "written", &state("waiting-for-boot"))?;
    let line = node.ok("sed -n 's/^options *//p' /boot/efi/loader/entries/*.conf")?;
    check!(line.contains("iommu=pt"), "the entry: {line}");
    let held = node.ok("lsinitramfs /boot/initrd.img-$(uname -r)")?;
    check!(held.contains("modprobe.d/zz-bedplate.conf"), "the initramfs lacks the options");
    let said = node.ok("journalctl -b -u bedplate -o cat --no-pager")?;
    check!(!said.contains("failed"), "something failed:\n{said}");
    node.step("and the boot takes both");
    node.reboot()?;
    until(&node, "converged", &state("converged"))?;
    check!(guest::running(&node)?.contains(&"iommu=pt".to_owned()), "/proc/cmdline");
    same!(
        node.ok("cat /sys/module/virtio_blk/parameters/queue_depth")?,
        "64",
        "an option from the initramfs"
    );
    Ok(())
}

const PROBE: &str = include_str!("probe.pl");
/// A server that every process with a network can connect to.
const LISTENER: &str = "#!/usr/bin/perl\nuse Socket;\n\
    socket(S, AF_INET, SOCK_STREAM, 0) or die; bind(S, sockaddr_in(8080, INADDR_LOOPBACK)) or die; listen(S, 5) or die;\n\
    exit if fork; close C while accept(C, S);\n";
/// Starts a unit as the daemon does, and prints the response.
const ASK: &str = "perl -MSocket -e \
    'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or die \"$!\\n\"; print while <S>'";

/// Sends one request to a unit, and prints the response.
const SEND: &str = "perl -MSocket -e \
    'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or die \"$!\\n\"; \
    syswrite S, \"$ARGV[1]\\n\"; print while <S>'";

/// Permissions that `bedplate apply` needs.
const CHANGES: &[&str] = &[
    "write /etc",
    "write /var/lib/bedplate",
    "write /var/lib/bedplate/daemon",
    "write /run/bedplate",
    "write /boot",
    "write /sys",
    "write /proc/sys",
    "read a disk",
    "see containers' mounts",
    "read /etc/shadow",
];

/// Actions that the kernel allows every root process against a root process without capabilities (kernel/ptrace.c,
/// `__ptrace_may_access`), except with Yama, or from a user namespace of its own; documented in docs/security.md.
const OF_ROOT: &[&str] = &[
    "see process 1",
    "signal a process of root's",
    "write /usr by way of a process without rights",
    "write the memory of a process without rights",
];

/// Probe actions that succeed in each unit, and its capabilities.
const UNITS: [(&str, &[&[&str]]); 5] = [
    (
        "observer",
        &[&[
            "see process 1",
            "signal a process of root's",
            "read a disk",
            "read /etc/shadow",
            "CapBnd:\t0000000000200004",
        ]],
    ),
    ("worker", &[CHANGES, OF_ROOT, &["CapBnd:\t000000000020000a"]]),
    ("loader", &[CHANGES, OF_ROOT, &["load a module", "CapBnd:\t000000000021000a"]]),
    (
        "holders",
        &[&[
            "see process 1",
            "see containers' mounts",
            "see the files of process 1",
            "read the memory of process 1",
            "read /root by way of process 1",
            "read /etc/shadow",
            "CapBnd:\t0000000000080004",
        ]],
    ),
    // Root with CAP_SYS_PTRACE, as for the operator's check before; the unit documents it.
    (
        "check",
        &[
            OF_ROOT,
            &[
                "write /var",
                "see containers' mounts",
                "write /var/lib/bedplate",
                "write /var/lib/bedplate/daemon",
                "read /etc/shadow",
                "write /run",
                "write /run/bedplate",
                "write /run/systemd/system",
                "write /usr by way of process 1",
                "write /etc by way of process 1",
                "read /root by way of process 1",
                "see the files of process 1",
                "read the memory of process 1",
                "write the memory of process 1",
                "CapBnd:\t0000000000080002",
            ],
        ],
    ),
];

/// Probe actions that succeed in the daemon, its boot service and its ready service.
const SERVICES: [(&str, &[&[&str]]); 3] = [
    (
        "bedplate",
        &[
            &["see process 1"],
            &["write /var/lib/bedplate/daemon", "write /run/bedplate", "CapBnd:\t0000000000000000"],
        ],
    ),
    (
        "bedplate-ready",
        &[OF_ROOT, &["see containers' mounts", "read /etc/shadow", "CapBnd:\t0000000000000000"]],
    ),
    ("bedplate-boot", &[CHANGES, OF_ROOT, &["load a module", "CapBnd:\t0000000000211000"]]),
];

/// Probe actions that must succeed outside of any unit; some unit forbids each.
const FREE: [&str; 35] = [
    "write /dev",
    "write core_pattern",
    "see containers' mounts",
    "write /usr",
    "write /var",
    "write /etc/systemd/system",
    "write /etc/bedplate",
    "write /usr by way of process 1",
    "read /root",
    "read /etc/shadow",
    "read /root by way of process 1",
    "write /dev/kmsg",
    "write a disk",
    "open a character device",
    "open /dev/mem",
    "see the files of process 1",
    "read the memory of process 1",
    "write the memory of process 1",
    "write /usr by way of a process without rights",
    "write the memory of a process without rights",
    "signal a process of root's",
    "open an Internet socket",
    "reach the network",
    "load a module",
    "call process_vm_writev",
    "trace a process",
    "use keys",
    "make a namespace",
    "mount",
    "set the clock",
    "use raw I/O ports",
    "use swap",
    "map memory to write and run",
    "make a set-user-ID file",
    "write /home",
];

fn promises(case: &mut Case, machine: Machine) -> Result<()> {
    let node = case.node(machine)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, PASSTHROUGH)?;
    node.put_program("/usr/local/sbin/probe", PROBE)?;
    node.put_program("/usr/local/sbin/listener", LISTENER)?;
    node.ok("echo secret >~root/secret")?;
    node.ok(
        "ip link set lo up && systemd-run -q -p Type=forking /usr/local/sbin/listener && mkdir -p /run/bedplate /var/lib/bedplate/daemon /run/containerd && \
         touch /run/containerd/mounts",
    )?;
    // With Yama enabled, processes cannot access each other's memory.
    node.ok(
        "systemd-run -q --unit=victim setpriv --bounding-set=-all --inh-caps=-all sleep infinity && \
         systemctl show -P MainPID victim >/etc/bedplate-victim && \
         { sysctl -qw kernel.yama.ptrace_scope=0 2>/dev/null || true; }",
    )?;

    node.step("outside of any unit all of it is possible: the probe can fail");
    let free = node.ok("unshare -m /usr/local/sbin/probe; rmmod dummy")?;
    for what in FREE {
        check!(free.lines().any(|line| line == what), "{what} is not possible anywhere:\n{free}");
    }
    // Users outside of root's group then see no processes of other users (fs/proc/base.c, has_pid_permissions).
    node.ok("mount -o remount,hidepid=2 /proc")?;
    for (unit, can) in UNITS {
        node.step(&format!("bedplate-{unit}@.service"));
        started(&node, unit, "", can)?;
        let refused =
            node.run(&format!("runuser -u nobody -- {ASK} /run/bedplate-helpers/{unit}"))?;
        check!(refused.status != 0, "nobody has started {unit}: {refused:?}");
        // Even with a socket it cannot reach anything.
        let sockets = [can, &[&["open an Internet socket"]]].concat();
        started(&node, unit, "RestrictAddressFamilies=AF_INET\n", &sockets)?;
    }
    node.ok("mount -o remount,hidepid=0 /proc")?;
    for (unit, can) in SERVICES {
        node.step(&format!("{unit}.service"));
        let drop_in = format!("/etc/systemd/system/{unit}.service.d/probe.conf");
        // RestartForceExitStatus= is rejected together with Type=oneshot.
        let once = "Type=oneshot\nRestart=no\nRestartForceExitStatus=\nWatchdogSec=0\n\
                    StandardOutput=truncate:/var/tmp/probe.out\n";
        node.put(&drop_in, format!("{INSTEAD}{once}"))?;
        node.ok(&format!("systemctl daemon-reload && systemctl start {unit}.service"))?;
        did(unit, &node.ok("cat /var/tmp/probe.out")?, can)?;
        node.ok(&format!(
            "systemctl stop {unit}.service bedplate.service; rm {drop_in}; rmmod dummy 2>/dev/null; true"
        ))?;
    }
    node.ok("systemctl stop victim")?;
    at_work(&node)
}

/// Replaces bedplate by the probe.
const INSTEAD: &str = "[Service]\nExecStart=\nExecStart=/usr/local/sbin/probe\n";

/// Starts a unit as the daemon does, with additional settings, and checks that exactly these actions succeed.
fn started(node: &Node, unit: &str, settings: &str, can: &[&[&str]]) -> Result<()> {
    let drop_in = format!("/etc/systemd/system/bedplate-{unit}@.service.d/probe.conf");
    node.put(&drop_in, format!("{INSTEAD}{settings}"))?;
    node.ok(&format!("systemctl daemon-reload && systemctl start bedplate-{unit}.socket"))?;
    did(unit, &node.ok(&format!("{ASK} /run/bedplate-helpers/{unit}"))?, can)?;
    node.ok(&format!("rm {drop_in}; rmmod dummy 2>/dev/null; systemctl daemon-reload"))?;
    Ok(())
}

fn did(unit: &str, said: &str, can: &[&[&str]]) -> Result<()> {
    let did: BTreeSet<&str> = said.lines().collect();
    let can: BTreeSet<&str> = can.iter().flat_map(|part| part.iter().copied()).collect();
    let (more, less): (Vec<_>, Vec<_>) =
        (did.difference(&can).collect(), can.difference(&did).collect());
    check!(more.is_empty() && less.is_empty(), "{unit} can {more:?} as well, and not {less:?}");
    Ok(())
}

/// A compromised daemon cannot make a unit run its own command, or the profile's command in the wrong unit.
fn foreign_tasks(node: &Node) -> Result<()> {
    node.step("a busy command is run by the unit for it, and that of the profile only");
    let busy =
        "[reboot]\npolicy = \"never\"\nbusy_command = [\"/bin/touch\", \"/var/cache/ours\"]\n";
    node.put(PROFILE_PATH, format!("{PASSTHROUGH}{busy}"))?;
    let program = node.ok("stat -c %d:%i /usr/bin/bedplate")?;
    let ask = |unit: &str, task: serde_json::Value| {
        let request = serde_json::json!({
            "program": program.trim(), "arguments": ["helper"], "input": task.to_string()
        });
        node.ok(&format!("{SEND} /run/bedplate-helpers/{unit} '{request}'"))
    };
    let task = serde_json::json!({ "task": "busy-command" });
    for unit in ["observer", "worker", "loader", "holders"] {
        let said = ask(unit, task.clone())?;
        check!(said.contains(&format!("bedplate-{unit} does not do this task")), "{said}");
    }
    node.ok("! [ -e /var/cache/ours ]")?;
    let said = ask("check", task)?;
    check!(said.contains("\"code\":0"), "{said}");
    node.ok("[ -e /var/cache/ours ]")?;
    let argv = ["/bin/touch", "/var/cache/theirs"];
    for unit in ["observer", "worker", "loader", "holders", "check"] {
        let said = ask(unit, serde_json::json!({ "task": "busy-command", "argv": argv }))?;
        check!(said.contains("unknown task"), "{unit}: {said}");
    }
    node.ok("! [ -e /var/cache/theirs ]")?;
    Ok(())
}

/// The daemon in these units remediates without rights of its own, detects users of devices, and leaves nothing behind.
fn at_work(node: &Node) -> Result<()> {
    node.step("the daemon at work");
    let policy = "[modules]\nload = [\"tun\"]\n[reboot]\npolicy = \"mark\"\n";
    node.put(PROFILE_PATH, format!("{PASSTHROUGH}{policy}"))?;
    let since = node.ok("journalctl --sync; date +%s.%6N")?;
    node.ok("systemctl daemon-reload && systemctl start bedplate.service")?;
    until(node, "written", &state("waiting-for-boot"))?;
    check!(guest::loaded(node, "tun")?, "tun is not loaded");
    until(
        node,
        "marked",
        "grep -qx bedplate /run/reboot-required.pkgs && [ -e /run/reboot-required ]",
    )?;
    let rights = node.ok(
        "grep -h ^Cap /proc/$(systemctl show -P MainPID bedplate)/status | cut -f2 | sort -u",
    )?;
    same!(rights, "0000000000000000", "capabilities of the daemon");
    let said = node.ok(&format!(
        "journalctl --since=@{} -u bedplate -u 'bedplate-*' -o cat --no-pager",
        since.trim()
    ))?;
    check!(!said.contains("cannot") && !said.contains("failed"), "something failed:\n{said}");
    check!(!said.contains("Deactivated"), "each look is news:\n{said}");

    foreign_tasks(node)?;

    node.step("who holds a device is seen although the daemon sees no process");
    node.ok("mknod /dev/nvidia0 c 1 3 && systemd-run -q --unit=job sh -c 'exec sleep 600 </dev/nvidia0'")?;
    node.put(PROFILE_PATH, format!("{PASSTHROUGH}{}", policy.replace("mark", "schedule")))?;
    until(
        node,
        "it is in the way",
        "bedplate reboot status | grep -q 'sleep (pid .* uses /dev/nvidia0'",
    )?;
    node.ok("! [ -e /run/reboot-required ]")?;
    // A reload waits for an observation, and must not block its start.
    node.ok("timeout 30 systemctl reload bedplate")?;
    node.ok("systemctl stop bedplate")?;
    gone(node)?;
    stopped_before_a_look_begins(node)?;
    node.ok("systemctl start bedplate")?;
    without_user_namespaces(node)?;
    sockets(node)
}

/// Checks that nothing runs for the daemon. Units that PID 1 starts after the stop end by themselves.
fn gone(node: &Node) -> Result<()> {
    until(node, "gone", "! systemctl --no-legend list-units 'bedplate-*@*' | grep .").map(drop)
}

/// While PID 1 reloads its units, the daemon requests an observation and is told to stop. PID 1 queues the stop first,
/// and the daemon must not wait for an observation that waits for the daemon's own end.
fn stopped_before_a_look_begins(node: &Node) -> Result<()> {
    node.step("a stop that comes before a look has begun");
    let generator = "/etc/systemd/system-generators/slow";
    node.ok("mkdir -p /etc/systemd/system-generators")?;
    node.put(generator, "#!/bin/sh\nsleep 4\n")?;
    node.ok(&format!("chmod +x {generator}"))?;
    // The order in which PID 1 reads requests varies.
    for _ in 0..3 {
        node.ok("systemctl start bedplate && sleep 4")?;
        node.ok("daemon=$(systemctl show -P MainPID bedplate); systemctl daemon-reload & \
             sleep 2; kill -HUP $daemon; sleep 1; systemctl stop bedplate; wait")?;
        gone(node)?;
    }
    let said = node.ok("journalctl --sync; journalctl -b -u bedplate -o cat --no-pager")?;
    check!(!said.contains("does not end"), "it was waited for:\n{said}");
    node.ok(&format!("rm {generator} && systemctl daemon-reload"))?;
    Ok(())
}

const NO_USER_NAMESPACE: &str =
    include_str!("../../../systemd/bedplate.service.d/no-user-namespace.conf");

/// Hardened hosts forbid all user namespaces: there the drop-in is required and sufficient.
fn without_user_namespaces(node: &Node) -> Result<()> {
    node.step("where user namespaces are forbidden the daemon runs with the drop-in for that");
    let drop_in = "/etc/systemd/system/bedplate.service.d/no-user-namespace.conf";
    node.ok("systemctl stop bedplate && sysctl -qw user.max_user_namespaces=0")?;
    let refused = node.run("systemctl start bedplate")?;
    check!(refused.status != 0, "it runs without the drop-in: {refused:?}");
    node.put(drop_in, NO_USER_NAMESPACE)?;
    node.ok("systemctl stop bedplate && systemctl daemon-reload && systemctl start bedplate")?;
    until(node, "it works", &state("waiting-for-boot"))?;
    node.ok(&format!("rm {drop_in} && sysctl -qw user.max_user_namespaces=10000"))?;
    node.ok("systemctl daemon-reload && systemctl restart bedplate")?;
    Ok(())
}

/// systemd restarts a socket that ends; the daemon replaces one with a deleted file at its next start.
fn sockets(node: &Node) -> Result<()> {
    let socket = "bedplate-observer.socket";
    let back = format!("systemctl is-active -q {socket} && [ -S /run/bedplate-helpers/observer ]");
    node.step("a socket that goes away is started again");
    node.ok(&format!("systemctl stop {socket}"))?;
    until(node, "started again", &back)?;
    node.ok("timeout 60 systemctl reload bedplate")?;
    until(node, "it works", &state("waiting-for-boot"))?;
    node.step("one that is there and leads nowhere is replaced with a restart of the daemon");
    node.ok("rm /run/bedplate-helpers/observer && systemctl restart bedplate")?;
    until(node, "replaced", &back)?;
    until(node, "it works", &state("waiting-for-boot"))?;
    node.step("and none is left without the daemon");
    node.ok(&format!("systemctl stop bedplate && ! systemctl is-active -q {socket} && ! [ -e /run/bedplate-helpers/observer ]"))?;
    Ok(())
}
