//! Services around the daemon: a restarted message bus, the targets that follow readiness, and an uninstall on a node
//! that has lost its ledger.

use std::time::Duration;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, state, until};
use super::guest::{self, PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("services::bus_restarted", bus_restarted),
    ("services::ready_target_follows_verdict", ready_target_follows_verdict),
    ("services::state_directory_lost", state_directory_lost),
];

const SCHEDULED: &str = "[ -e /run/systemd/shutdown/scheduled ]";

fn bus_restarted(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    node.put(
        PROFILE_PATH,
        "schema = 1\nname = \"bus\"\n[iommu]\nmode = \"passthrough\"\n[reboot]\npolicy = \"never\"\n",
    )?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service")?;
    until(&node, "written", &state("waiting-for-boot"))?;
    for round in 1..=3 {
        node.step(&format!("the bus and logind start again, round {round}"));
        node.ok("systemctl restart dbus.service systemd-logind.service")?;
        let took = until(&node, "a reboot can be scheduled", "bedplate reboot schedule --in 30m")?;
        check!(took < Duration::from_secs(30), "it took {took:?}");
        until(&node, "scheduled", SCHEDULED)?;
        node.ok("bedplate reboot cancel")?;
        same!(node.run(SCHEDULED)?.status, 1, "still scheduled after `cancel`");
    }
    Ok(())
}

const LATCH: &str = "systemctl is-active -q bedplate-ready.target";
const IS_READY: &str = "systemctl is-active -q bedplate-is-ready.target";

fn ready_target_follows_verdict(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    let profile = PROFILE.replace("vfs = 7", "vfs = 1") + guest::STAND_INS;
    node.put(PROFILE_PATH, format!("{profile}[agent]\nmode = \"observe\"\n"))?;
    node.expect(3, "bedplate apply --yes")?;
    node.reboot()?;
    // The PFs' driver may still be loading.
    until(&node, "applied", "bedplate apply --yes")?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service && systemctl start bedplate-ready.target")?;
    until(&node, "ready", "bedplate status")?;
    until(&node, "the target follows", IS_READY)?;
    node.ok(LATCH)?;
    let pf = guest::PFS[0];
    for _ in 0..2 {
        node.ok(&format!("echo 0 >/sys/bus/pci/devices/{pf}/sriov_numvfs"))?;
        until(&node, "not ready: the target is stopped", &format!("! {IS_READY}"))?;
        node.ok(LATCH)?;
        node.ok(&format!("echo 1 >/sys/bus/pci/devices/{pf}/sriov_numvfs"))?;
        until(&node, "ready again: the target is active", IS_READY)?;
    }
    node.step("the daemon ends: nobody keeps the host, so the target does not say so either");
    node.ok("systemctl stop bedplate")?;
    until(&node, "stopped", &format!("! {IS_READY}"))?;
    node.ok("systemctl start bedplate")?;
    until(&node, "active again", IS_READY)?;
    uninstaller(&node)?;
    node.ok("sh /usr/local/src/bedplate/install.sh --uninstall")?;
    for target in [LATCH, IS_READY] {
        check!(node.run(target)?.status != 0, "active after the uninstall: {target}");
    }
    Ok(())
}

/// Copies the parts of the checkout that an uninstall reads.
fn uninstaller(node: &Node) -> Result<()> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for file in ["install.sh", "packaging/scripts/drop-ins.sh"] {
        node.put(
            &format!("/usr/local/src/bedplate/{file}"),
            std::fs::read(format!("{root}/{file}"))?,
        )?;
    }
    Ok(())
}

fn state_directory_lost(case: &mut Case) -> Result<()> {
    const OWN: &str = "/etc/default/grub.d/zz-bedplate.cfg";
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, "schema = 1\nname = \"lost\"\n[iommu]\nmode = \"passthrough\"\n")?;
    node.expect(3, "bedplate apply --yes")?;
    node.ok(&format!("[ -e {OWN} ] && rm -rf /var/lib/bedplate"))?;
    for command in ["bedplate plan -v", "bedplate revert --dry-run"] {
        let shown = node.run(&format!("COLUMNS=500 {command}"))?;
        let text = shown.stdout + &shown.stderr;
        check!(text.contains(OWN), "{command}:\n{text}");
        check!(!text.contains("has no record of changes"), "{command}:\n{text}");
    }
    uninstaller(&node)?;
    let shown =
        node.run("COLUMNS=500 sh /usr/local/src/bedplate/install.sh --uninstall --revert 2>&1")?;
    check!(shown.stdout.contains(OWN), "install.sh --uninstall --revert:\n{}", shown.stdout);
    check!(!shown.stdout.contains("has no record of changes"), "{}", shown.stdout);
    Ok(())
}
