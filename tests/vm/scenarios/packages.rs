//! Life cycle of the Debian package on a node: installed, enabled, upgraded while a reboot is scheduled, removed,
//! purged.

use std::path::{Path, PathBuf};
use std::process::Command;

use bedplate_tests::lab::machine::{ARM, Arch, BOOKWORM, TRIXIE};
use bedplate_tests::lab::{Case, Machine, Node, Result, Scenario};

use super::daemon::{state, until};
use super::guest::{PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("packages::life", |case| life(case, TRIXIE)),
    ("packages::life_debian_12", |case| life(case, BOOKWORM)),
    ("packages::life_arm64", |case| life(case, ARM)),
];

const POLICY: &str = "[reboot]\npolicy = \"schedule\"\ndelay = \"30m\"\n";
const ANNOUNCED: &str = "[ -e /run/systemd/shutdown/scheduled ]";
/// Lists all files of the package and of bedplate, in any directory.
const REMAINS: &str = "find / -xdev \\( -path /proc -o -path /sys -o -path /tmp -o -path /root \\) -prune \
     -o -name '*bedplate*' -print; ls -d /run/bedplate* 2>/dev/null; true";

/// Builds a package of the program under test for nodes of this architecture.
fn package(case: &Case, arch: Arch, version: &str, directory: &Path) -> Result<PathBuf> {
    let (target, strip) = match arch {
        Arch::X86 => ("x86_64-unknown-linux-gnu", "strip"),
        Arch::Arm => ("aarch64-unknown-linux-musl", "aarch64-linux-gnu-strip"),
    };
    let program = directory.join("bedplate");
    let stripped = Command::new(strip).arg("-o").args([&program, case.program(arch)?]).output()?;
    check!(stripped.status.success(), "strip: {}", String::from_utf8_lossy(&stripped.stderr));
    let built = Command::new("packaging/build")
        .args(["--fast", "--version", version, "--target", target, "--program"])
        .arg(&program)
        .arg("--tool")
        .arg(case.program(Arch::X86)?)
        .arg("--out")
        .arg(directory)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()?;
    check!(built.status.success(), "packaging/build: {}", String::from_utf8_lossy(&built.stderr));
    Ok(directory.join(format!("bedplate_{version}-1_{}.deb", arch.debian())))
}

fn put(case: &Case, node: &Node, arch: Arch, version: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = package(case, arch, version, directory.path())?;
    node.put(&format!("/var/tmp/{version}.deb"), std::fs::read(file)?)
}

fn life(case: &mut Case, machine: Machine) -> Result<()> {
    let node = case.node(machine)?;
    put(case, &node, machine.arch, "1.0.0")?;
    put(case, &node, machine.arch, "1.0.1")?;
    // The lab has installed the program there.
    node.ok("rm -f /usr/bin/bedplate")?;
    installed(&node)?;
    without_profile(&node)?;
    upgraded(&node)?;
    removed(&node)?;
    purged(&node)
}

fn installed(node: &Node) -> Result<()> {
    node.step("installed: everything is there and off, and the host is as it was");
    let host = "cut -d' ' -f1 /proc/modules | sort; sha256sum /proc/cmdline /boot/grub/grub.cfg; \
         cat /sys/bus/pci/devices/*/sriov_numvfs; ls /etc/modprobe.d /etc/modules-load.d /etc/default/grub.d; true";
    let before = node.ok(host)?;
    node.ok("dpkg -i /var/tmp/1.0.0.deb")?;
    same!(node.ok(host)?, before, "what the host is");
    for unit in ["bedplate.service", "bedplate-boot.service"] {
        let states =
            node.run(&format!("systemctl is-enabled {unit}; systemctl is-active {unit}"))?;
        same!(states.stdout.trim(), "disabled\ninactive", "{unit}");
    }
    same!(
        node.ok("stat -c '%U %G %a' /etc/bedplate && ls -A /etc/bedplate")?,
        "root root 755",
        "/etc/bedplate"
    );
    Ok(())
}

fn without_profile(node: &Node) -> Result<()> {
    node.step("enabled without a profile: it looks, and says so");
    node.ok("systemctl enable --now bedplate.service")?;
    until(node, "said", &state("no-profile"))?;
    // It may be observing the host again.
    until(node, "in status", "bedplate status | grep -q 'no profile to enforce'")?;
    same!(node.run(ANNOUNCED)?.status, 1, "a reboot is announced");
    Ok(())
}

fn upgraded(node: &Node) -> Result<()> {
    node.step("upgraded while a reboot is announced: it stays announced, for the same time, and the daemon is the new one");
    node.put(PROFILE_PATH, format!("{PROFILE}\n{POLICY}"))?;
    node.ok("systemctl reload bedplate")?;
    until(node, "announced", ANNOUNCED)?;
    let when = "grep USEC= /run/systemd/shutdown/scheduled";
    let profile = format!("sha256sum {PROFILE_PATH}");
    let pid = "systemctl show -P MainPID bedplate";
    let before = (node.ok(when)?, node.ok(&profile)?);
    let process = node.ok(pid)?;
    node.ok("dpkg -i /var/tmp/1.0.1.deb")?;
    until(node, "the new daemon has looked", &state("waiting-for-boot"))?;
    check!(node.ok(pid)? != process, "the daemon is still process {process}");
    same!((node.ok(when)?, node.ok(&profile)?), before, "announcement and profile");
    until(node, "in status", "bedplate reboot status | grep -q 'scheduled for'")?;
    let states = node.run("systemctl is-enabled bedplate-boot; systemctl is-enabled bedplate")?;
    same!(states.stdout.trim(), "disabled\nenabled", "what was off stays off");
    Ok(())
}

fn removed(node: &Node) -> Result<()> {
    node.step(
        "removed: nothing acts any more, what stays is named, what is the operator's is there",
    );
    let said = node.ok("dpkg -r bedplate 2>&1")?;
    check!(said.contains("zz-bedplate.cfg"), "what stays is not named:\n{said}");
    same!(node.run(ANNOUNCED)?.status, 1, "the reboot is still announced");
    same!(
        node.run("systemctl is-active bedplate.service")?.stdout.trim(),
        "inactive",
        "the daemon"
    );
    node.ok(&format!("[ -e {PROFILE_PATH} ] && [ -e /var/lib/bedplate/ledger.json ] && [ ! -e /usr/bin/bedplate ]"))?;
    same!(node.run("systemctl cat bedplate.service")?.status, 1, "systemd still knows the unit");
    Ok(())
}

fn purged(node: &Node) -> Result<()> {
    node.step("purged: only what it had changed on the host is left, and that is named");
    let said = node.ok("dpkg -P bedplate 2>&1; rm -f /var/tmp/*.deb")?;
    check!(said.contains("zz-bedplate.cfg"), "what stays is not named:\n{said}");
    let left = node.ok(REMAINS)?;
    let foreign: Vec<&str> = left
        .lines()
        // Changes on the host, and data that dpkg and the journal retain for any package.
        .filter(|path| {
            !["/etc/default/grub.d/", "/etc/modules-load.d/", "/etc/modprobe.d/", "/etc/sysctl.d/"]
                .iter()
                .any(|changed| path.starts_with(changed))
        })
        .collect();
    check!(foreign.is_empty(), "left behind: {foreign:?}");
    same!(node.ok("systemctl list-units --failed --no-legend 'bedplate*'")?, "", "failed units");
    Ok(())
}
