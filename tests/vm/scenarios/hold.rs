//! An operator's hold on reboots, with and without the daemon: after `bedplate reboot hold` succeeds, bedplate never
//! reboots and logind has no reboot scheduled.

use std::time::Duration;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, state, until};
use super::guest::{PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] =
    &[("hold::daemon_stopped", daemon_stopped), ("hold::shortly_before", shortly_before)];

const PROFILE: &str = "schema = 1\nname = \"hold\"\n[iommu]\nmode = \"passthrough\"\n\
    [reboot]\npolicy = \"never\"\n";
const SCHEDULED: &str = "[ -e /run/systemd/shutdown/scheduled ]";
const PROPERTY: &str = "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 \
    org.freedesktop.login1.Manager ScheduledShutdown";
const HOLD: &str = "bedplate reboot hold --for 4h --why 'training run 7'";

fn waiting_node(case: &mut Case) -> Result<std::rc::Rc<Node>> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, PROFILE)?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service")?;
    until(&node, "written", &state("waiting-for-boot"))?;
    Ok(node)
}

/// logind has nothing scheduled at this moment.
fn nothing_scheduled(node: &Node, when: &str) -> Result<()> {
    same!(node.ok(PROPERTY)?, "(st) \"\" 18446744073709551615", "logind's schedule {when}");
    Ok(())
}

fn daemon_stopped(case: &mut Case) -> Result<()> {
    let node = waiting_node(case)?;
    let boot = node.boot_id()?;
    node.ok("bedplate reboot schedule --in 40s")?;
    until(&node, "scheduled", SCHEDULED)?;
    node.ok("systemctl stop bedplate")?;
    same!(
        node.run(SCHEDULED)?.status,
        0,
        "an upgrade restarts the daemon: the reboot stays scheduled"
    );
    for command in ["status", "reboot status"] {
        let shown = node.run(&format!("COLUMNS=500 bedplate {command}"))?;
        check!(
            shown.stdout.contains("cancel with `bedplate reboot cancel`"),
            "bedplate {command}:\n{}",
            shown.stdout
        );
    }
    node.ok(HOLD)?;
    nothing_scheduled(&node, "after `hold` without the daemon")?;
    std::thread::sleep(Duration::from_secs(45));
    same!(node.boot_id()?, boot, "the boot, during a hold");

    node.step("`cancel` without the daemon");
    node.ok("systemctl start bedplate && bedplate reboot release")?;
    until(&node, "settled", &state("waiting-for-boot"))?;
    node.ok("bedplate reboot schedule --in 10m")?;
    until(&node, "scheduled", SCHEDULED)?;
    node.ok("systemctl stop bedplate && bedplate reboot cancel")?;
    nothing_scheduled(&node, "after `cancel` without the daemon")?;

    node.step("a reboot that somebody else has scheduled stays");
    node.ok("shutdown -r +30 2>/dev/null")?;
    node.run("bedplate reboot cancel")?;
    check!(node.ok(PROPERTY)?.contains("reboot"), "bedplate cancelled what is not its own");
    node.ok("shutdown -c").map(drop)
}

/// A hold in the last seconds either holds or reports that it is too late.
fn shortly_before(case: &mut Case) -> Result<()> {
    let node = waiting_node(case)?;
    let boot = node.boot_id()?;
    for lead in ["4", "2", "1"] {
        // After `release` the daemon observes the host first: under emulation that takes up to half a minute.
        node.ok("bedplate reboot schedule --in 60s")?;
        until(&node, "scheduled", SCHEDULED)?;
        // Wait until this number of seconds before logind's time.
        let wait = format!(
            "at=$(sed -n 's/^USEC=//p' /run/systemd/shutdown/scheduled); \
             while [ $(($(date +%s%N) / 1000)) -lt $((at - {lead}000000)) ]; do sleep 0.1; done"
        );
        let held = match node.run(&wait).and_then(|_| node.run(HOLD)) {
            // An emulated CPU may need longer to start the command.
            Err(_) if lead != "4" => {
                node.step("too late: the machine is down before `hold` can answer");
                return node.wait_for_another_boot(&boot).map(drop);
            }
            held => held?,
        };
        if held.status != 0 {
            check!(lead != "4", "`hold` {lead} s before the time: {held:?}");
            node.step("too late, and `hold` says so");
            return Ok(());
        }
        nothing_scheduled(&node, &format!("after `hold` {lead} s before its time"))?;
        let status = node.run("bedplate reboot status")?.stdout;
        check!(status.contains("training run 7"), "bedplate reboot status:\n{status}");
        std::thread::sleep(Duration::from_secs(10));
        same!(node.boot_id()?, boot, "the boot, during a hold");
        node.ok("bedplate reboot release")?;
        let status = node.run("bedplate reboot status")?.stdout;
        check!(
            !status.contains("training run 7"),
            "bedplate reboot status after release:\n{status}"
        );
    }
    Ok(())
}
