//! The daemon under disturbances: clock jumps, power cuts, unmanaged reboots, a kernel that ignores its arguments, and
//! a reboot lock for the fleet.

use std::time::Duration;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, state, until};
use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] =
    &[("upkeep::interrupted", interrupted), ("upkeep::fleet", fleet)];

const ENABLE: &str = "systemctl enable --now bedplate-boot.service bedplate.service";
/// A profile that needs one cold boot and nothing else.
const PASSTHROUGH: &str = "schema = 1\nname = \"passthrough\"\n[iommu]\nmode = \"passthrough\"\n";

/// Waits to show that nothing unexpected happens.
fn rest(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

fn scheduled(node: &Node) -> Result<String> {
    node.ok("sed -n 's/^USEC=//p' /run/systemd/shutdown/scheduled")
}

/// Events between the scheduling of a reboot and the reboot.
fn interrupted(case: &mut Case) -> Result<()> {
    const POLICY: &str = "[reboot]\npolicy = \"schedule\"\ndelay = \"20m\"\n";
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    // From the next boot on a group has another type than the command line requests.
    let pf = guest::PFS[0];
    node.put_program("/usr/local/sbin/translate", translate(pf))?;
    node.put("/etc/systemd/system/translate.service", TRANSLATE)?;
    node.ok("mv /usr/bin/journalctl /usr/bin/journalctl.real")?;
    node.put_program("/usr/bin/journalctl", journal())?;
    node.ok("systemctl daemon-reload && systemctl enable translate.service")?;
    node.put(PROFILE_PATH, format!("{PASSTHROUGH}{POLICY}"))?;
    node.ok(ENABLE)?;
    until(&node, "announced", "[ -e /run/systemd/shutdown/scheduled ]")?;
    let (at, boot) = (scheduled(&node)?, node.boot_id()?);

    node.step("kill -9, and clocks that jump: the announcement stays the same one");
    node.ok("systemctl kill -s KILL bedplate")?;
    until(&node, "it is back", "systemctl is-active -q bedplate")?;
    for jump in ["+3 minutes", "-2 hours", "+119 minutes"] {
        node.ok(&format!("date -s '{jump}'"))?;
        rest(2);
        node.ok("systemctl reload bedplate")?;
        same!(scheduled(&node)?, at, "after the clock jumped by {jump}");
    }
    let attempts =
        "sed -n '/\"attempts\"/,/]/p' /var/lib/bedplate/daemon/reboot.json | grep -c boot_id";
    same!(node.ok(attempts)?, "1", "attempts");

    node.step("the power fails before the time has come");
    node.cold_cycle()?;
    let (before, boot) = (boot, node.boot_id()?);
    check!(boot != before, "another boot");

    node.step(
        "the kernel has the argument, and translates all the same: stuck, and no second reboot",
    );
    let group = guest::group_of(&node, pf)?;
    until(&node, "translated", &format!("grep -q ^DMA /sys/kernel/iommu_groups/{group}/type"))?;
    check!(guest::running(&node)?.contains(&"iommu=pt".to_owned()), "/proc/cmdline");
    until(&node, "stuck", &state("attempts-exhausted"))?;
    let status = node.expect(4, "bedplate status")?;
    check!(status.contains(&format!("rejected it: {COMPLAINT}")), "the cause:\n{status}");
    rest(5);
    same!(node.boot_id()?, boot, "the boot");
    same!(node.run("[ -e /run/systemd/shutdown/scheduled ]")?.status, 1, "nothing is announced");
    node.ok(&format!("{} && systemctl disable translate.service", retype(pf, "identity")))?;
    until(&node, "repaired, it is right without a boot", &state("converged"))?;
    same!(node.boot_id()?, boot, "the boot");
    check!(
        node.ok("cat /var/lib/bedplate/daemon/reboot.json")?.contains("\"attempts\": []"),
        "the record"
    );

    foreign_reboot(&node, POLICY)
}

/// A reboot by another program replaces the scheduled one.
fn foreign_reboot(node: &Node, policy: &str) -> Result<()> {
    node.step("another program reboots before the time has come");
    node.put(PROFILE_PATH, format!("{PASSTHROUGH}[cmdline]\nargs = [\"audit=0\"]\n{policy}"))?;
    until(node, "announced", "[ -e /run/systemd/shutdown/scheduled ]")?;
    node.reboot()?;
    until(node, "converged", &state("converged"))?;
    check!(guest::running(node)?.contains(&"audit=0".to_owned()), "/proc/cmdline");
    check!(
        node.ok("cat /var/lib/bedplate/daemon/reboot.json")?.contains("\"attempts\": []"),
        "the record"
    );
    let boot = node.boot_id()?;
    rest(5);
    same!(node.boot_id()?, boot, "the boot");
    same!(node.run("[ -e /run/systemd/shutdown/scheduled ]")?.status, 1, "nothing is announced");
    Ok(())
}

/// Changes the type of a function's IOMMU group; no driver may be bound at that time.
fn retype(function: &str, kind: &str) -> String {
    format!(
        "echo {function} >/sys/bus/pci/devices/{function}/driver/unbind && \
         echo {kind} >/sys/bus/pci/devices/{function}/iommu_group/type && echo {function} >/sys/bus/pci/drivers_probe"
    )
}

/// Script that simulates firmware or a device in every boot, before bedplate runs.
fn translate(function: &str) -> String {
    format!("#!/bin/sh\nudevadm settle\n{}\n", retype(function, "DMA"))
}

/// Message in the kernel's wording.
const COMPLAINT: &str = "Malformed early option 'iommu'";

/// Replaces journalctl: adds a kernel message, which a program cannot write itself.
fn journal() -> String {
    let record = format!("{{\"MESSAGE\":\"{COMPLAINT}\",\"SYSLOG_FACILITY\":\"0\"}}");
    format!(
        "#!/bin/sh\n/usr/bin/journalctl.real \"$@\"\ncase \"$*\" in *--dmesg*) cat <<'EOF'\n{record}\nEOF\nesac\n"
    )
}

const TRANSLATE: &str = "[Unit]\nBefore=bedplate-boot.service\nDefaultDependencies=no\n\
    After=local-fs.target systemd-udev-trigger.service\nConditionKernelCommandLine=iommu=pt\n\
    [Service]\nType=oneshot\nExecStart=/usr/local/sbin/translate\n[Install]\nWantedBy=multi-user.target\n";

/// A lock server that records its requests, from systemd sockets and a shell.
const LOCK: &str = "#!/bin/bash\nread -r _ path _\nlength=0\n\
    while IFS= read -r line; do\n  line=${line%$'\\r'}\n  [ -n \"$line\" ] || break\n\
    case ${line,,} in content-length:*) length=${line#*: } ;; esac\ndone\n\
    body=$(head -c \"$length\")\necho \"$path $body\" >>/var/lib/asked\n\
    printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n'\n";

const FLEETLOCK: &str = include_str!("../../../systemd/bedplate.service.d/fleetlock.conf");
const COLD_REBOOT: &str =
    include_str!("../../../systemd/bedplate-worker@.service.d/cold-reboot.conf");

/// The reboot lock over a network that the unit has only with its drop-in, and a cold reboot by the firmware, which
/// needs another drop-in.
fn fleet(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    node.put_program("/usr/local/sbin/lock", LOCK)?;
    node.put(
        "/etc/systemd/system/lock.socket",
        "[Socket]\nListenStream=127.0.0.1:8080\nAccept=yes\n[Install]\nWantedBy=sockets.target\n",
    )?;
    node.put(
        "/etc/systemd/system/lock@.service",
        "[Service]\nExecStart=-/usr/local/sbin/lock\nStandardInput=socket\n",
    )?;
    node.ok("ip link set lo up && systemctl daemon-reload && systemctl enable --now lock.socket")?;
    let fleet = "[reboot.fleetlock]\nurl = \"http://127.0.0.1:8080\"\ngroup = \"gpu\"\n";
    node.put(
        PROFILE_PATH,
        format!(
            "{PASSTHROUGH}[reboot]\npolicy = \"schedule\"\nmethods = [\"firmware\"]\ndelay = \"20s\"\n{fleet}"
        ),
    )?;
    let drop_in = |unit: &str, name: &str, text| {
        node.put(&format!("/etc/systemd/system/{unit}.service.d/{name}.conf"), text)
    };
    drop_in("bedplate-worker@", "cold-reboot", COLD_REBOOT)?;
    let boot = node.boot_id()?;
    node.ok(&format!("systemctl daemon-reload && {ENABLE}"))?;
    node.step("without the drop-in there is no network, so no slot and no reboot");
    until(&node, "asked in vain", "grep -q '\"waits_for\": \"lock\"' /run/bedplate/status.json")?;
    until(&node, "settled", &state("waiting-for-boot"))?;
    rest(5);
    same!(node.run("[ -e /var/lib/asked ]")?.status, 1, "the server was reached");
    same!(node.run("[ -e /run/systemd/shutdown/scheduled ]")?.status, 1, "something is announced");
    node.step(&node.run("bedplate reboot status")?.stdout);

    node.step(
        "with it: a slot, and the kernel's last step is made a cold one; a cancelled reboot undoes that",
    );
    let last_step = || node.ok("cat /sys/kernel/reboot/mode /sys/kernel/reboot/type");
    let before = last_step()?;
    drop_in("bedplate", "fleetlock", FLEETLOCK)?;
    node.ok("systemctl daemon-reload && systemctl restart bedplate")?;
    let announced = "[ -e /run/systemd/shutdown/scheduled ]";
    until(&node, "announced", announced)?;
    same!(last_step()?, "cold\nefi", "mode and type of the kernel's reboot; they were {before}");
    node.ok("bedplate reboot cancel")?;
    same!(node.run(announced)?.status, 1, "what is announced after cancelling");
    same!(last_step()?, before, "mode and type after cancelling");

    node.step("one reboot, and the slot is given back");
    // A busy machine needs longer for the decision than the profile's delay, and would go down before it answers.
    node.ok("bedplate reboot schedule --in 1m --why again")?;
    until(&node, "announced", announced)?;
    same!(last_step()?, "cold\nefi", "mode and type of the kernel's reboot");
    node.wait_for_another_boot(&boot)?;
    until(&node, "converged", &state("converged"))?;
    until(&node, "the slot is given back", "grep -q steady-state /var/lib/asked")?;
    let asked = node.ok("cut -d' ' -f1 /var/lib/asked | uniq")?;
    let calls: Vec<&str> = asked.lines().collect();
    check!(
        matches!(calls.as_slice(), [.., "/v1/pre-reboot", "/v1/steady-state"]),
        "what the server was asked for: {calls:?}"
    );
    check!(node.ok("cat /var/lib/asked")?.contains("\"group\":\"gpu\""), "the group");
    Ok(())
}
