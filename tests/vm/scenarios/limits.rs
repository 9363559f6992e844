//! Limits of jobs, as systemd, /proc and a login show them. Copies of sleep(1) stand in for the daemons.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, until};
use super::guest::{PROFILE_PATH, check};

pub const SCENARIOS: &[Scenario] =
    &[("limits::services_sessions_and_shared_memory", services_sessions_and_shared_memory)];

const DROP_IN: &str = "/etc/systemd/system/slurmd.service.d/zz-bedplate.conf";
const SESSIONS: &str = "/etc/security/limits.d/zz-bedplate.conf";
/// Tests the size of /dev/shm that the profile sets.
const SIZE: &str = "findmnt -no OPTIONS /dev/shm | grep -q size=1048576k";

fn profile(node: &Node, section: &str) -> Result<()> {
    let text = format!(
        "schema = 1\nname = \"limits\"\n[agent]\ninterval = \"30s\"\n[limits]\n{section}\n"
    );
    node.put(PROFILE_PATH, text)
}

/// Starts a service whose process has the name of a program that starts jobs.
fn start(node: &Node, unit: &str, program: &str) -> Result<()> {
    node.put(
        &format!("/etc/systemd/system/{unit}.service"),
        format!("[Service]\nExecStart=/usr/local/bin/{program} infinity\nLimitMEMLOCK=8M\n"),
    )?;
    node.ok(&format!(
        "cp /usr/bin/sleep /usr/local/bin/{program} && systemctl daemon-reload && systemctl start {unit}"
    ))?;
    Ok(())
}

/// Returns the process of slurmd with its limit of locked memory.
fn running(node: &Node) -> Result<String> {
    let text = node.ok("pid=$(systemctl show -p MainPID --value slurmd) && \
         echo $pid $(awk '/Max locked/ {print $4}' /proc/$pid/limits)")?;
    Ok(text.trim().to_owned())
}

/// Returns a property of slurmd, as systemd knows it.
fn property(node: &Node, name: &str) -> Result<String> {
    Ok(node.ok(&format!("systemctl show -p {name} --value slurmd"))?.trim().to_owned())
}

fn services_sessions_and_shared_memory(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    by_hand(&node)?;
    beside_containers(&node)?;
    smaller_than_its_files(&node)?;
    by_the_daemon(case, &node)?;
    reverted(&node)
}

/// systemd has the new limits at once. The service keeps its process and its limit, which the plan names.
fn by_hand(node: &Node) -> Result<()> {
    start(node, "slurmd", "slurmd")?;
    let before = running(node)?;
    check!(before.ends_with(" 8388608"), "{before}");
    profile(node, "memlock = \"unlimited\"\nstack = \"64M\"\ntasks_max = 5000\nshm_size = \"1G\"")?;
    node.expect(2, "bedplate plan --exit-code")?;
    node.ok("bedplate apply")?;
    for (name, value) in
        [("LimitMEMLOCK", "infinity"), ("LimitSTACK", "67108864"), ("TasksMax", "5000")]
    {
        check!(property(node, name)? == value, "{name}: {}", property(node, name)?);
    }
    check!(running(node)? == before, "{before} {}", running(node)?);
    let plan = node.expect(0, "bedplate plan --exit-code")?;
    check!(plan.contains("slurmd: running with other limits: locked memory 8M"), "{plan}");
    let login = node.ok("su -l nobody -s /bin/sh -c 'ulimit -l; ulimit -s'")?;
    check!(login.split_whitespace().collect::<Vec<_>>() == ["unlimited", "65536"], "{login}");
    let mounted = node.ok(&format!("{SIZE} && findmnt -no OPTIONS /dev/shm"))?;
    check!(mounted.contains("nosuid,nodev"), "{mounted}");
    node.ok("systemctl restart slurmd")?;
    check!(running(node)?.ends_with(" unlimited"), "{}", running(node)?);
    let plan = node.expect(0, "bedplate plan --exit-code")?;
    check!(!plan.contains("slurmd: running"), "{plan}");
    Ok(())
}

/// While a container runtime runs, here in a unit of its own, systemd is not reloaded. The plan names that unit.
fn beside_containers(node: &Node) -> Result<()> {
    start(node, "own-runtime", "dockerd")?;
    let plan = node.expect(0, "bedplate plan --exit-code")?;
    check!(plan.contains("own-runtime.service: starts jobs without the limits"), "{plan}");
    profile(node, "memlock = \"1G\"\nshm_size = \"1G\"")?;
    node.ok("bedplate apply")?;
    check!(property(node, "LimitMEMLOCK")? == "infinity", "systemd has read its units again");
    check!(property(node, "NeedDaemonReload")? == "yes", "the drop-in is as before");
    node.ok("systemctl disable --now own-runtime; rm /etc/systemd/system/own-runtime.service")?;
    Ok(())
}

/// The kernel refuses a size below that of the files.
fn smaller_than_its_files(node: &Node) -> Result<()> {
    profile(node, "memlock = \"unlimited\"\nshm_size = \"65%\"")?;
    node.ok("bedplate apply && dd if=/dev/zero of=/dev/shm/file bs=1M count=1100 status=none")?;
    profile(node, "memlock = \"unlimited\"\nshm_size = \"1G\"")?;
    let failed = node.run("bedplate apply 2>&1")?;
    check!(failed.status != 0, "{}", failed.stdout);
    check!(failed.stdout.contains("files there use more"), "{}", failed.stdout);
    node.ok("rm /dev/shm/file && bedplate apply")?;
    node.ok(SIZE)?;
    Ok(())
}

/// The daemon as shipped may write no unit, and names the drop-in that allows it. With that it heals all three.
fn by_the_daemon(case: &Case, node: &Node) -> Result<()> {
    install(case, node)?;
    node.ok(&format!("rm {DROP_IN} && systemctl enable --now bedplate.service"))?;
    let told = "journalctl -b -t bedplate | grep -q 'bedplate-worker@.service.d/limits.conf'";
    until(node, "the daemon names the drop-in", told)?;
    let is_there = node.run(&format!("test -e {DROP_IN}"))?.status == 0;
    check!(!is_there, "a shipped unit has written a drop-in");
    node.ok("systemctl stop bedplate.service")?;
    for (unit, text) in [
        (
            "bedplate-worker@",
            include_str!("../../../systemd/bedplate-worker@.service.d/limits.conf"),
        ),
        ("bedplate-boot", include_str!("../../../systemd/bedplate-boot.service.d/limits.conf")),
    ] {
        node.put(&format!("/etc/systemd/system/{unit}.service.d/limits.conf"), text)?;
    }
    node.ok("systemctl daemon-reload && systemctl enable bedplate-boot.service && \
             systemctl start bedplate.service")?;
    until(node, "the daemon writes the drop-in", &format!("grep -q infinity {DROP_IN}"))?;
    node.ok(&format!("mount -o remount,size=50% /dev/shm && rm {SESSIONS}"))?;
    until(node, "the daemon sets the size again", SIZE)?;
    let sessions = format!("grep -q unlimited {SESSIONS}");
    until(node, "the daemon writes the file of pam_limits", &sessions)?;

    // The boot service sets the size before services start.
    node.reboot()?;
    node.ok(SIZE)?;
    let boot = node.ok("journalctl -b -u bedplate-boot.service")?;
    check!(boot.contains("/dev/shm"), "{boot}");
    node.ok("systemctl disable --now bedplate.service bedplate-boot.service")?;
    Ok(())
}

/// A revert restores the files, the size, and the limit that systemd knows.
fn reverted(node: &Node) -> Result<()> {
    node.ok("bedplate revert")?;
    node.ok(&format!("test ! -e {DROP_IN} && test ! -e {SESSIONS}"))?;
    check!(property(node, "LimitMEMLOCK")? == "8388608", "{}", property(node, "LimitMEMLOCK")?);
    let size = "findmnt -bno SIZE /dev/shm";
    let sizes = node.ok(&format!("{size} && mount -o remount,size=50% /dev/shm && {size}"))?;
    let sizes: Vec<u64> = sizes.split_whitespace().filter_map(|size| size.parse().ok()).collect();
    check!(sizes.len() == 2 && sizes[0].abs_diff(sizes[1]) < 65536, "{sizes:?}");
    Ok(())
}
