//! Reboot method `bmc`, from the profile to the last hook of systemd-shutdown: with a BMC that power-cycles, and with
//! one that refuses. In both cases the host boots with the pending change in effect.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::node::bmc::POWER_CYCLE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, state, until};
use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("reboot::bmc", bmc), ("reboot::bmc_refuses", bmc_refuses)];

const PROFILE: &str = "schema = 1\nname = \"cold\"\n[iommu]\nmode = \"passthrough\"\n\
    [reboot]\npolicy = \"schedule\"\nmethods = [\"bmc\"]\ndelay = \"20s\"\n";

fn bmc(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    let bmc = node.with_bmc();
    install(case, &node)?;
    node.cold_cycle()?;
    ready(&node)?;
    check!(bmc.controls().is_empty(), "before anything was asked: {:?}", bmc.controls());
    let before = node.boot_id()?;
    start(&node)?;
    node.power_cycle_by_bmc()?;
    let actions: Vec<u8> = bmc.controls().iter().map(|control| control.action).collect();
    same!(actions, [POWER_CYCLE], "what the BMC was told");
    orderly(&node, &before)?;
    settled(&node)?;
    says(&node, "last boot a power cycle by the BMC, scheduled by bedplate")
}

fn bmc_refuses(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    ready(&node)?;
    let (before, process) = (node.boot_id()?, node.pid());
    let resets = node.events("RESET");
    start(&node)?;
    node.wait_for_another_boot(&before)?;
    same!(node.pid(), process, "QEMU's process: the power was on all the time");
    same!(node.events("SHUTDOWN"), 0, "power-offs");
    same!(node.events("RESET") - resets, 1, "resets");
    let console =
        String::from_utf8_lossy(&std::fs::read(node.dir().join("serial.log"))?).into_owned();
    check!(
        console.contains("the BMC refused `chassis power cycle`"),
        "the console does not show that the BMC was asked:\n{console}"
    );
    orderly(&node, &before)?;
    settled(&node)?;
    // QEMU's BMC does not know the cause of the machine's start.
    says(&node, "unknown whether the BMC did it")
}

/// Requirements of docs/daemon.md for the operator: the drop-ins, and a driver for the BMC.
fn ready(node: &Node) -> Result<()> {
    const RIGHTS: &str =
        include_str!("../../../systemd/bedplate-worker@.service.d/cold-reboot.conf");
    const DRIVER: &str = include_str!("../../../systemd/bedplate-worker.socket.d/cold-reboot.conf");
    for (unit, drop_in) in
        [("bedplate-worker@.service", RIGHTS), ("bedplate-worker.socket", DRIVER)]
    {
        node.put(&format!("/etc/systemd/system/{unit}.d/cold-reboot.conf"), drop_in)?;
    }
    node.ok("systemctl daemon-reload")?;
    let status = node.ok("ipmitool chassis status")?;
    check!(status.contains("System Power         : on"), "the BMC says\n{status}");
    Ok(())
}

/// Enables the daemon, which schedules the reboot with this method.
fn start(node: &Node) -> Result<()> {
    // Simulates a host on which nothing else loads it: systemd derives a unit's device permissions from the devices at
    // its start.
    node.ok("rmmod ipmi_devintf")?;
    node.put(PROFILE_PATH, PROFILE)?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service")?;
    until(
        node,
        "announced",
        "[ -e /run/systemd/shutdown/scheduled ] && [ -s /run/bedplate/power-cycle ]",
    )?;
    let status = node.expect(3, "bedplate reboot status")?;
    check!(status.contains("the BMC cycles the power"), "bedplate reboot status:\n{status}");
    Ok(())
}

/// The previous boot ended orderly: file systems are clean, and services were stopped.
fn orderly(node: &Node, before: &str) -> Result<()> {
    let now = node.ok("journalctl --no-pager -b")?;
    let unclean = ["recovery", "recovering journal", "orphan", "uncleanly shut down"];
    let found: Vec<&str> =
        now.lines().filter(|line| unclean.iter().any(|word| line.contains(word))).collect();
    check!(found.is_empty(), "the boot before left its file systems so: {found:?}");
    // ext4 would recover its journal at the mount.
    check!(
        now.contains("): mounted filesystem"),
        "the log lacks the mount of the root file system"
    );
    let end =
        node.ok(&format!("journalctl --no-pager -b {} | tail -n 40", before.replace('-', "")))?;
    check!(end.contains("Reached target reboot.target"), "how the boot before ended:\n{end}");
    check!(end.contains("Journal stopped"), "how the boot before ended:\n{end}");
    Ok(())
}

/// The boot made the change effective, and no changes are left.
fn settled(node: &Node) -> Result<()> {
    // Not ready: this profile leaves ACS as set by the firmware, with redirect enabled.
    until(node, "converged", &state("converged"))?;
    check!(guest::running(node)?.contains(&"iommu=pt".to_owned()), "/proc/cmdline");
    let status = node.expect(4, "bedplate status")?;
    check!(status.contains("acs.path: "), "bedplate status:\n{status}");
    let status = node.expect(0, "bedplate reboot status")?;
    check!(status.contains("not needed"), "bedplate reboot status:\n{status}");
    check!(
        node.ok("cat /var/lib/bedplate/daemon/reboot.json")?.contains("\"attempts\": []"),
        "the record"
    );
    node.ok("! [ -e /run/bedplate/power-cycle ]").map(drop)
}

/// The reboot cause is in the status and, once, in the journal.
fn says(node: &Node, words: &str) -> Result<()> {
    let status = node.ok("COLUMNS=1000 bedplate reboot status")?;
    check!(status.contains(words), "bedplate reboot status:\n{status}");
    let id = "MESSAGE_ID=0f0cbbfb02ff48b9b4644dccb657b3b7";
    let said = node.ok(&format!("journalctl --no-pager -b -o cat -u bedplate {id}"))?;
    same!(said.lines().count(), 1, "how often it is said in this boot");
    Ok(())
}
