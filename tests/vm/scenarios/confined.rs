//! The sandboxes of the units as installed: a program in the place of bedplate tries, from inside each, to break what the
//! units promise; then the daemon does its work in them.

use bedplate_tests::lab::machine::{BOOKWORM, SYSTEMD_BOOT};
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, state, until};
use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] =
    &[("confined::promises", promises), ("upkeep::confined", confined)];

const ENABLE: &str = "systemctl enable --now bedplate-boot.service bedplate.service";
/// Asks for one cold boot and nothing else.
const PASSTHROUGH: &str = "schema = 1\nname = \"passthrough\"\n[iommu]\nmode = \"passthrough\"\n";

/// kernel-install and the initramfs's tools, started by the unit with all that is forbidden to it (update-grub:
/// daemon::life).
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
/// What everybody may connect to who has a network.
const LISTENER: &str = "#!/usr/bin/perl\nuse Socket;\n\
    socket(S, AF_INET, SOCK_STREAM, 0) or die; bind(S, sockaddr_in(8080, INADDR_LOOPBACK)) or die; listen(S, 5) or die;\n\
    exit if fork; close C while accept(C, S);\n";
/// Starts a unit as the daemon does, and prints what comes back.
const ASK: &str = "perl -MSocket -e \
    'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or die \"$!\\n\"; print while <S>'";

/// What each unit can do of what the probe tries, and its capabilities.
const UNITS: [(&str, &[&str]); 4] = [
    (
        "worker",
        &[
            "write /etc",
            "write /var",
            "write /var/lib/bedplate",
            "write /run/bedplate",
            "write /boot",
            "write /sys",
            "write /proc/sys",
            "read a disk",
            "see process 1",
            "CapBnd:\t000000000020000a",
        ],
    ),
    (
        "loader",
        &[
            "write /etc",
            "write /var",
            "write /var/lib/bedplate",
            "write /run/bedplate",
            "write /boot",
            "write /sys",
            "write /proc/sys",
            "read a disk",
            "see process 1",
            "load a module",
            "CapBnd:\t000000000021000a",
        ],
    ),
    ("holders", &["see process 1", "see the files of process 1", "CapBnd:\t0000000000080004"]),
    // Root with CAP_SYS_PTRACE, as the operator's check has always been: its unit says so.
    (
        "check",
        &[
            "write /var",
            "write /var/lib/bedplate",
            "write /run",
            "write /run/bedplate",
            "write /run/systemd/system",
            "write /proc/1/root/usr",
            "write /proc/1/root/etc",
            "write /usr by way of another process",
            "see process 1",
            "see the files of process 1",
            "CapBnd:\t0000000000080002",
        ],
    ),
];

/// What a lone unit that bedplate's daemon or its early part is can do.
const SERVICES: [(&str, &[&str]); 2] = [
    (
        "bedplate",
        &[
            "write /var/lib/bedplate",
            "write /run/bedplate",
            "see process 1",
            "CapBnd:\t0000000000000000",
        ],
    ),
    (
        "bedplate-boot",
        &[
            "write /etc",
            "write /var",
            "write /var/lib/bedplate",
            "write /run/bedplate",
            "write /boot",
            "write /sys",
            "write /proc/sys",
            "read a disk",
            "see process 1",
            "load a module",
            "CapBnd:\t0000000000211000",
        ],
    ),
];

fn promises(case: &mut Case) -> Result<()> {
    let node = case.node(BOOKWORM)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, PASSTHROUGH)?;
    node.put_program("/usr/local/sbin/probe", PROBE)?;
    node.put_program("/usr/local/sbin/listener", LISTENER)?;
    node.ok(
        "ip link set lo up && systemd-run -q -p Type=forking /usr/local/sbin/listener && mkdir -p /run/bedplate /var/lib/bedplate",
    )?;

    node.step("outside of any unit all of it is possible: the probe can fail");
    let free = node.ok("unshare -m /usr/local/sbin/probe; rmmod dummy")?;
    for what in [
        "write /usr",
        "write /proc/1/root/usr",
        "write /dev/kmsg",
        "write a disk",
        "use the network",
        "use packet sockets",
        "load a module",
        "write another process's memory",
        "use keys",
        "make a namespace",
        "mount",
        "make a set-user-ID file",
        "see the files of process 1",
    ] {
        check!(free.lines().any(|line| line == what), "{what} is not possible anywhere:\n{free}");
    }

    let probe = "[Service]\nExecStart=\nExecStart=/usr/local/sbin/probe\n";
    for (unit, can) in UNITS {
        node.step(&format!("bedplate-{unit}@.service"));
        let drop_in = format!("/etc/systemd/system/bedplate-{unit}@.service.d/probe.conf");
        node.put(&drop_in, probe)?;
        node.ok(&format!("systemctl daemon-reload && systemctl start bedplate-{unit}.socket"))?;
        let did = node.ok(&format!("{ASK} /run/bedplate-helpers/{unit}"))?;
        same!(did.lines().collect::<Vec<_>>(), can, "what {unit} can do");
        let refused =
            node.run(&format!("runuser -u nobody -- {ASK} /run/bedplate-helpers/{unit}"))?;
        check!(refused.status != 0, "nobody has started {unit}: {refused:?}");
        node.ok(&format!("rm {drop_in}; rmmod dummy 2>/dev/null; true"))?;
    }
    for (unit, can) in SERVICES {
        node.step(&format!("{unit}.service"));
        let drop_in = format!("/etc/systemd/system/{unit}.service.d/probe.conf");
        let once =
            "Type=oneshot\nRestart=no\nWatchdogSec=0\nStandardOutput=truncate:/var/tmp/probe.out\n";
        node.put(&drop_in, format!("{probe}{once}"))?;
        node.ok(&format!("systemctl daemon-reload && systemctl start {unit}.service"))?;
        let did = node.ok("cat /var/tmp/probe.out")?;
        same!(did.lines().collect::<Vec<_>>(), can, "what {unit} can do");
        node.ok(&format!(
            "systemctl stop {unit}.service; rm {drop_in}; rmmod dummy 2>/dev/null; true"
        ))?;
    }
    at_work(&node)
}

/// The daemon in these units: it puts right, without rights of its own; who holds a device is seen; nothing is left behind.
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

    node.step("who holds a device is seen although the daemon sees no process");
    node.ok("mknod /dev/nvidia0 c 1 3 && systemd-run -q --unit=job sh -c 'exec sleep 600 </dev/nvidia0'")?;
    node.put(PROFILE_PATH, format!("{PASSTHROUGH}{}", policy.replace("mark", "schedule")))?;
    until(
        node,
        "it is in the way",
        "bedplate reboot status | grep -q 'sleep (pid .* uses /dev/nvidia0'",
    )?;
    node.ok("! [ -e /run/reboot-required ]")?;
    // A reload waits for a look, and must not be in the way of its start.
    node.ok("timeout 30 systemctl reload bedplate")?;
    node.ok(
        "systemctl stop bedplate && ! systemctl --no-legend list-units 'bedplate-*@*' | grep .",
    )?;
    node.ok("systemctl start bedplate")?;
    sockets(node)
}

/// They are there for as long as the daemon is, whatever becomes of one.
fn sockets(node: &Node) -> Result<()> {
    let socket = "bedplate-worker.socket";
    let back = format!("systemctl is-active -q {socket} && [ -S /run/bedplate-helpers/worker ]");
    node.step("a socket that goes away is started again");
    node.ok(&format!("systemctl stop {socket}"))?;
    until(node, "started again", &back)?;
    node.ok("timeout 60 systemctl reload bedplate")?;
    until(node, "it works", &state("waiting-for-boot"))?;
    node.step("one that is there and leads nowhere is replaced with a restart of the daemon");
    node.ok("rm /run/bedplate-helpers/worker && systemctl restart bedplate")?;
    until(node, "replaced", &back)?;
    until(node, "it works", &state("waiting-for-boot"))?;
    node.step("and none is left without the daemon");
    node.ok(&format!("systemctl stop bedplate && ! systemctl is-active -q {socket} && ! [ -e /run/bedplate-helpers/worker ]"))?;
    Ok(())
}
