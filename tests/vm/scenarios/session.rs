//! An operator's complete session with the commands in docs/tutorial.md: install, own profile, plan, apply, daemon,
//! holds, reboot, drift, revert, uninstall; with Debian's node_exporter installed.

use std::time::Duration;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{is_cleared, state, until};
use super::guest::{self, PATH_PORTS, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("session::operator", operator)];

const DROP_IN: &str = "/etc/default/grub.d/zz-bedplate.cfg";
const METRICS: &str = "/var/lib/prometheus/node-exporter/bedplate.prom";
const FEATURES: &str = "/etc/kubernetes/node-feature-discovery/features.d";
const ANNOUNCED: &str = "[ -e /run/systemd/shutdown/scheduled ]";

/// An operator at a terminal.
struct Operator<'a>(&'a Node);

impl Operator<'_> {
    /// Runs a command that must exit with `status`, and searches its output for `expected`. Prints everything: the
    /// transcript in docs/tutorial.md is the output of this scenario.
    fn types(&self, status: i64, command: &str, expected: &[&str]) -> Result<()> {
        let said = self.0.expect(status, &format!("export COLUMNS=80; {{ {command}; }} 2>&1"))?;
        self.0.step(&format!("exit status {status}\n# {command}\n{said}"));
        // Lines are wrapped at 80 columns.
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in expected {
            check!(words.contains(text), "`{command}` does not say `{text}`:\n{said}");
        }
        Ok(())
    }
}

fn operator(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    let ops = Operator(&node);
    checkout(&node)?;
    exporter(&node)?;
    node.ok(&format!("mkdir -p {FEATURES}"))?;
    install(&ops)?;
    apply(&ops)?;
    hold(&ops)?;
    call_off(&ops)?;
    reboot(&ops)?;
    drift(&ops)?;
    no_profile(&ops)?;
    revert(&ops)?;
    uninstall(&ops)
}

/// Result of `git clone` and `cargo build`; nothing is installed.
fn checkout(node: &Node) -> Result<()> {
    let tar = std::process::Command::new("tar")
        .args(["-C", concat!(env!("CARGO_MANIFEST_DIR"), "/.."), "-cf", "-"])
        .args(["install.sh", "systemd", "packaging", "profiles/example.toml"])
        .output()?;
    check!(tar.status.success(), "tar: {}", String::from_utf8_lossy(&tar.stderr));
    node.put("/usr/src/bedplate/src.tar", tar.stdout)?;
    node.ok("cd /usr/src/bedplate && tar xf src.tar && rm src.tar && mv /usr/bin/bedplate .")
        .map(drop)
}

/// Installs Debian's package with its default configuration.
fn exporter(node: &Node) -> Result<()> {
    node.ok("ip link set lo up && dpkg -i /var/lib/vm/prometheus-node-exporter/*.deb")?;
    until(node, "node_exporter answers", &scrape("node_exporter_build_info"))?;
    Ok(())
}

/// Returns a command that succeeds if node_exporter shows a line that starts with `line`.
fn scrape(line: &str) -> String {
    format!(
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9100 && printf \"GET /metrics HTTP/1.0\\r\\n\\r\\n\" >&3 && cat <&3' | \
         grep '^{line}'"
    )
}

fn install(ops: &Operator) -> Result<()> {
    ops.types(
        0,
        "cd /usr/src/bedplate && ./install.sh --program ./bedplate",
        &["installed. Next: `bedplate profile init`"],
    )?;
    ops.types(
        0,
        "bedplate profile init",
        &["wrote /etc/bedplate/profile.toml, which extends generic-intel"],
    )?;
    // Simulates an editor: enables the VFs in the comment, but fewer, and ACS off where GPU and NIC share a switch.
    ops.0.ok(&format!(
        "sed -i -e '/^#\\[\\[sriov/,/^#vfs/s/^#//' -e 's/^vfs = 7/vfs = 1/' {PROFILE_PATH} && \
         printf '\\n[acs]\\npolicy = \"direct-p2p\"\\n' >>{PROFILE_PATH}"
    ))?;
    ops.types(
        0,
        "bedplate profile check",
        &["`windows = [\"never\"]` never opens", "usable: 0 errors, 1 warning"],
    )
}

fn apply(ops: &Operator) -> Result<()> {
    let node = ops.0;
    let fix = "Set `gpudirect = \"none\"` in [modules] of the profile";
    ops.types(
        0,
        "bedplate plan",
        &["+ iommu=pt", "then run update-grub", "Cold reboot required", fix],
    )?;
    node.ok(&format!("printf '\n[modules]\ngpudirect = \"none\"\n' >>{PROFILE_PATH}"))?;
    node.put("/var/tmp/stand-ins.toml", guest::STAND_INS)?;
    node.ok(&format!("cat /var/tmp/stand-ins.toml >>{PROFILE_PATH}"))?;
    ops.types(3, "bedplate apply --yes", &["… run update-grub", "waiting for a reboot"])?;
    guest::assert_acs_and_vfs(node, "1")?;
    check!(guest::grub_lines(node)?[0].contains(" iommu=pt"), "grub.cfg lacks iommu=pt");
    ops.types(0, "systemctl enable --now bedplate-boot bedplate", &["Created symlink"])?;
    until(node, "the daemon has looked", &state("waiting-for-boot"))?;
    ops.types(
        3,
        "bedplate status",
        &["not ready: pending reboot: iommu=pt", "daemon enforces the profile"],
    )?;
    ops.types(
        3,
        "bedplate reboot status",
        &["reboot needed: through firmware", "policy schedule", "window"],
    )?;
    same!(node.run(ANNOUNCED)?.status, 1, "a reboot is announced without a window");
    exports(ops, "bedplate_ready 0")
}

/// Checks the published files and metrics, and that Debian's node_exporter reads them.
fn exports(ops: &Operator, ready: &str) -> Result<()> {
    let node = ops.0;
    until(node, ready, &scrape(ready))?;
    for line in [
        ready,
        "node_textfile_scrape_error 0",
        "node_textfile_mtime_seconds{file=\"/var/lib/prometheus/node-exporter/bedplate.prom\"}",
    ] {
        node.ok(&scrape(line))?;
    }
    for file in ["/run/bedplate/status.json", METRICS, &format!("{FEATURES}/bedplate")] {
        let read = node.ok(&format!("runuser -u nobody -- cat {file}"))?;
        check!(read.contains("ready"), "{file}, as nobody reads it:\n{read}");
    }
    Ok(())
}

fn hold(ops: &Operator) -> Result<()> {
    let node = ops.0;
    // This node may reboot at any hour; the reboot is scheduled fifteen minutes ahead.
    node.ok(&format!("sed -i 's/^windows = .*/windows = []/' {PROFILE_PATH}"))?;
    until(node, "announced", ANNOUNCED)?;
    ops.types(
        3,
        "bedplate reboot status",
        &["scheduled for", "cancel with `bedplate reboot cancel`"],
    )?;
    ops.types(0, "bedplate reboot hold --for 4h --why 'training run 7'", &["training run 7"])?;
    until(node, "taken back", &format!("! {ANNOUNCED}"))?;
    // logind changes a moment before the daemon reports it.
    until(node, "said", "bedplate reboot status | grep -q 'reboot release'")?;
    ops.types(
        3,
        "bedplate reboot status",
        &["training run 7; end it with `bedplate reboot release`"],
    )?;
    ops.types(0, "bedplate reboot release", &["hold released"])?;
    until(node, "announced again", ANNOUNCED)?;
    ops.types(3, "bedplate reboot status", &["scheduled for"])
}

/// `shutdown -c` is noticed, and stays in effect.
fn call_off(ops: &Operator) -> Result<()> {
    let node = ops.0;
    ops.types(0, "shutdown -c", &[])?;
    let heard = "bedplate reboot status | grep -q 'cancelled  *through logind'";
    until(node, "heard", heard)?;
    ops.types(
        3,
        "bedplate reboot status",
        &[
            "cancelled through logind, as by `shutdown -c`",
            "`bedplate reboot schedule` requests it again",
        ],
    )?;
    std::thread::sleep(Duration::from_secs(6));
    same!(node.run(ANNOUNCED)?.status, 1, "it is announced again");
    node.ok("systemctl restart bedplate")?;
    until(node, "the new daemon knows", &format!("{} && {heard}", state("waiting-for-boot")))?;
    std::thread::sleep(Duration::from_secs(6));
    same!(node.run(ANNOUNCED)?.status, 1, "it is announced again by a new daemon");
    Ok(())
}

fn reboot(ops: &Operator) -> Result<()> {
    let node = ops.0;
    let before = node.boot_id()?;
    // The node goes down immediately, possibly before the answer.
    let _ = node.run("bedplate reboot schedule --in now --why 'the run is over'");
    node.wait_for_another_boot(&before)?;
    until(node, "converged", &state("converged"))?;
    ops.types(0, "bedplate status", &["ready: "])?;
    ops.types(0, "bedplate reboot status", &["reboot not needed"])?;
    check!(guest::running(node)?.contains(&"iommu=pt".to_owned()), "/proc/cmdline");
    check!(guest::groups(node)?.values().all(|kind| kind == "identity"), "group types");
    guest::assert_acs_and_vfs(node, "1")?;
    exports(ops, "bedplate_ready 1")
}

fn drift(ops: &Operator) -> Result<()> {
    let (node, port) = (ops.0, PATH_PORTS[1]);
    ops.types(0, &format!("setpci -s {port} ECAP_ACS+6.w=001d"), &[])?;
    until(node, "ACS is put back", &is_cleared(node, port))?;
    ops.types(0, &format!("sed -i 's/iommu=pt//' {DROP_IN} && update-grub"), &[])?;
    let whole = format!("grep -q iommu=pt {DROP_IN} && grep -q iommu=pt /boot/grub/grub.cfg");
    until(node, "the argument is put back", &format!("{whole} && {}", state("converged")))?;
    ops.types(
        0,
        "journalctl -u bedplate -b -n 6 -o cat --no-pager",
        &["drifted: port", "done: /etc/default/grub.d"],
    )?;
    ops.types(0, "bedplate reboot status", &["reboot not needed"])?;
    same!(node.run(ANNOUNCED)?.status, 1, "a reboot is announced for what runs already");
    Ok(())
}

/// Nothing is enforced without the operator's profile.
fn no_profile(ops: &Operator) -> Result<()> {
    let node = ops.0;
    let touched = || node.ok(&format!("stat -c '%Y %i' {DROP_IN} /boot/grub/grub.cfg"));
    let before = touched()?;
    ops.types(0, &format!("mv {PROFILE_PATH} /var/tmp/profile.toml"), &[])?;
    until(node, "said", &state("no-profile"))?;
    ops.types(4, "bedplate status", &["no-profile"])?;
    same!(touched()?, before, "the boot files");
    node.ok(&format!("mv /var/tmp/profile.toml {PROFILE_PATH}"))?;
    until(node, "the profile is back", &state("converged"))?;
    same!(touched()?, before, "the boot files");
    Ok(())
}

fn revert(ops: &Operator) -> Result<()> {
    let node = ops.0;
    let line =
        || Ok::<_, Box<dyn std::error::Error + Send + Sync>>(guest::grub_lines(node)?[0].clone());
    ops.types(
        4,
        "bedplate revert --yes",
        &["would undo this within seconds; nothing was reverted"],
    )?;
    check!(line()?.contains("iommu=pt"), "a refused revert has changed grub.cfg");
    // The drop-in was edited by hand (see `drift`): the operator must decide about it.
    ops.types(4, "bedplate revert --hold --yes", &["zz-bedplate.cfg: edited between", "--force"])?;
    ops.types(3, "bedplate revert --hold --force --yes", &[])?;
    until(node, "held", "bedplate status | grep -q 'paused: observes only'")?;
    std::thread::sleep(Duration::from_secs(6));
    ops.types(
        4,
        "bedplate status",
        &["enforcement paused since", "`bedplate release` resumes it"],
    )?;
    check!(!line()?.contains("iommu=pt"), "the daemon has undone the revert");
    same!(guest::vfs(node)?, ["0"; 3], "VFs after the revert");
    ops.types(0, "bedplate release", &["pause ended: bedplate.service resumes enforcement"])?;
    until(node, "right again", &state("converged"))?;
    check!(line()?.contains("iommu=pt"), "grub.cfg lacks iommu=pt");
    Ok(())
}

fn uninstall(ops: &Operator) -> Result<()> {
    let node = ops.0;
    ops.types(
        0,
        "cd /usr/src/bedplate && ./install.sh --uninstall --revert",
        &["bedplate is uninstalled"],
    )?;
    for gone in [
        "/usr/bin/bedplate",
        "/run/bedplate",
        "/usr/lib/systemd/system/bedplate*",
        METRICS,
        DROP_IN,
        &format!("{FEATURES}/bedplate"),
    ] {
        same!(node.run(&format!("ls {gone}"))?.stdout, "", "{gone}");
    }
    same!(node.ok("systemctl list-units --all --plain --no-legend 'bedplate*'")?, "", "units");
    same!(node.run("grep iommu=pt /boot/grub/grub.cfg")?.status, 1, "grub.cfg has iommu=pt");
    same!(guest::vfs(node)?, ["0"; 3], "VFs");
    node.ok(&scrape("node_textfile_scrape_error 0"))?;
    same!(node.run(&scrape("bedplate_"))?.status, 1, "bedplate's metrics are exported");
    Ok(())
}
