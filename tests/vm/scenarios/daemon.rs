//! The daemon from an operator's view: installed by the project's own script, enabled, left alone. It converges the
//! host, remediates manual changes, reboots once, and does not reboot again if that did not help.

use std::time::{Duration, Instant};

use bedplate_tests::lab::machine::{Arch, TRIXIE};
use bedplate_tests::lab::{Case, Node, Result, Scenario, fail};

use super::guest::{self, PATH_PORTS, PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] =
    &[("daemon::life", life), ("daemon::idle", idle), ("daemon::stuck", stuck)];

/// Installs everything that install.sh installs; the program itself is already in the guest.
pub(super) fn install(case: &Case, node: &Node) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let done = std::process::Command::new("./install.sh")
        .arg("--destdir")
        .arg(directory.path())
        .env("BEDPLATE_PROGRAM", case.program(Arch::X86)?)
        .current_dir(root)
        .output()?;
    check!(done.status.success(), "install.sh: {}", String::from_utf8_lossy(&done.stderr));
    let mut open = vec![directory.path().to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            let inside = format!("/{}", path.strip_prefix(directory.path())?.display());
            if path.is_dir() {
                open.push(path);
            } else if inside.contains("/system-shutdown/") {
                node.put_program(&inside, std::fs::read(&path)?)?;
            } else if inside != "/usr/bin/bedplate" && !inside.contains("/man/") {
                node.put(&inside, std::fs::read(&path)?)?;
            }
        }
    }
    // Final steps of install.sh when it installs on the running system.
    node.ok("journalctl --update-catalog && systemctl daemon-reload && \
         busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig")?;
    Ok(())
}

/// Time limit of [`until`] on x86_64: without KVM, `update-initramfs` alone may take two minutes.
const PATIENCE: Duration = Duration::from_secs(300);
/// Interval of its attempts. Each runs a command on the node, which slows what it waits for.
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a command succeeds; returns the time it took.
pub(super) fn until(node: &Node, what: &str, command: &str) -> Result<Duration> {
    let begun = Instant::now();
    let patience = node.patience(PATIENCE);
    while begun.elapsed() < patience {
        if node.run(command)?.status == 0 {
            node.step(&format!("{what}: after {:.1} s", begun.elapsed().as_secs_f32()));
            return Ok(begun.elapsed());
        }
        std::thread::sleep(INTERVAL);
    }
    let status = node.run("bedplate status; journalctl -u bedplate -n 40 --no-pager")?;
    fail(format!(
        "not so within {} s: {what}\n{}{}",
        patience.as_secs(),
        status.stdout,
        status.stderr
    ))
}

/// Returns a command that succeeds if the daemon reports this state.
pub(super) fn state(state: &str) -> String {
    format!("grep -q '\"state\": \"{state}\"' /run/bedplate/status.json")
}

/// Returns a command that succeeds if redirect is disabled on this port.
pub(super) fn is_cleared(node: &Node, port: &str) -> String {
    format!("[ $(setpci -s {port} ECAP_ACS+6.w) = {} ]", guest::cleared_acs(node))
}

/// Enables redirect on a port by hand, and waits until the daemon has disabled it.
pub(super) fn redirect_is_put_back(node: &Node) -> Result<()> {
    let port = PATH_PORTS[1];
    node.ok(&format!("setpci -s {port} ECAP_ACS+6.w=001d"))?;
    until(node, "ACS", &is_cleared(node, port)).map(drop)
}

const POLICY: &str =
    "[reboot]\npolicy = \"schedule\"\ndelay = \"3s\"\n[agent]\nready_timeout = \"60s\"\n";
/// Minimum value for a profile.
const HURRY: &str = "boot_timeout = \"5s\"\n";
/// Replaces the boot service's worker: reads the profile and then never ends. The duration of VF creation depends on
/// the machine that runs the scenario.
const SLOW_WORKER: &str =
    "#!/bin/sh\ncase \"$*\" in *settings*) exec /usr/bin/bedplate \"$@\" ;; esac\nexec sleep 600\n";
const SLOW: &str = "[Service]\nExecStart=\nExecStart=/usr/bin/bedplate boot --worker /usr/local/sbin/slow-worker\n";
/// Must be in the initramfs, which has the disk's driver.
const OPTIONS: &str = "options = { virtio_blk = { queue_depth = 64 } }";

fn life(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    let profile = PROFILE.replace("[modules]", &format!("[modules]\n{OPTIONS}")) + guest::STAND_INS;
    enabled(&node, &profile)?;
    read_by_anybody(&node)?;
    put_back(&node)?;
    rebooted(&node, &profile)?;
    judged(&node)?;
    boot_file_put_back(&node)?;
    killed(&node)
}

fn enabled(node: &Node, profile: &str) -> Result<()> {
    node.step("enabled with a profile that leaves reboots to people: everything live is put right, the rest is written");
    node.put(PROFILE_PATH, profile)?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service")?;
    until(node, "converged but for the boot", &state("waiting-for-boot"))?;
    guest::assert_acs_and_vfs(node, "7")?;
    check!(guest::loaded(node, "tun")?, "tun is not loaded");
    check!(guest::grub_lines(node)?[0].contains(" iommu=pt"), "grub.cfg lacks iommu=pt");
    let held = node.ok("lsinitramfs /boot/initrd.img-$(uname -r)")?;
    check!(held.contains("modprobe.d/zz-bedplate.conf"), "the initramfs lacks the options");
    let status = node.expect(3, "bedplate status")?;
    check!(
        status.contains("not ready: pending reboot: iommu=pt and 2 more"),
        "bedplate status:\n{status}"
    );
    let status = node.expect(3, "bedplate reboot status")?;
    check!(
        status.contains("never: an operator reboots this host"),
        "bedplate reboot status:\n{status}"
    );
    Ok(())
}

fn read_by_anybody(node: &Node) -> Result<()> {
    node.step("anybody may read; who is not root needs polkit to change something");
    let nobody = "runuser -u nobody -- busctl";
    let object = "org.bedplate.Agent1 /org/bedplate/Agent1 org.bedplate.Agent1";
    same!(
        node.ok(&format!("{nobody} get-property {object} State"))?,
        "s \"waiting-for-boot\"",
        "the state, as nobody sees it"
    );
    let refused = node.run(&format!("{nobody} call {object} Reconcile"))?;
    check!(
        refused.status != 0 && refused.stderr.contains("Access denied"),
        "Reconcile, asked by nobody: {refused:?}"
    );
    node.ok("systemctl reload bedplate")?;
    Ok(())
}

fn put_back(node: &Node) -> Result<()> {
    node.step("what is changed by hand is put back");
    redirect_is_put_back(node)?;
    node.ok("rmmod tun")?;
    until(node, "a module", "grep -q '^tun ' /proc/modules")?;
    node.ok("rm /etc/default/grub.d/zz-bedplate.cfg")?;
    until(node, "GRUB's drop-in", "grep -q iommu=pt /etc/default/grub.d/zz-bedplate.cfg")?;
    let pf = guest::PFS[0];
    node.ok(&format!("echo 0 >/sys/bus/pci/devices/{pf}/sriov_numvfs"))?;
    until(node, "VFs", &format!("[ $(cat /sys/bus/pci/devices/{pf}/sriov_numvfs) = 7 ]"))?;
    until(node, "settled", &state("waiting-for-boot"))?;
    let told = node.ok("journalctl -u bedplate -o json --no-pager | grep -c BEDPLATE_SUBJECT")?;
    check!(told.parse::<u32>().is_ok_and(|count| count >= 4), "messages with fields: {told}");
    let explained = node.ok("journalctl -x -u bedplate --no-pager")?;
    check!(
        explained.contains("drifted from the profile") && explained.contains("bedplate history"),
        "catalog:\n{explained}"
    );
    Ok(())
}

fn rebooted(node: &Node, profile: &str) -> Result<()> {
    node.step("a profile that lets bedplate reboot: one reboot, by itself, and then it is ready");
    let before = node.boot_id()?;
    node.put_program("/usr/local/sbin/slow-worker", SLOW_WORKER)?;
    node.put("/etc/systemd/system/bedplate-boot.service.d/slow.conf", SLOW)?;
    node.ok("systemctl daemon-reload")?;
    node.put(PROFILE_PATH, format!("{profile}{POLICY}{HURRY}"))?;
    until(node, "announced", "[ -e /run/systemd/shutdown/scheduled ] || [ -e /run/nologin ]")?;
    node.wait_for_another_boot(&before)?;
    bounded(node)?;
    until(node, "converged", &state("converged"))?;
    same!(
        node.ok("cat /sys/module/virtio_blk/parameters/queue_depth")?,
        "64",
        "an option from the initramfs"
    );
    check!(guest::running(node)?.contains(&"iommu=pt".to_owned()), "/proc/cmdline");
    check!(guest::groups(node)?.values().all(|kind| kind == "identity"), "group types");
    same!(guest::vfs(node)?, ["7", "7", "7"], "VFs after the boot");
    node.expect(0, "bedplate status")?;
    let status = node.expect(0, "bedplate reboot status")?;
    check!(status.contains("not needed"), "bedplate reboot status:\n{status}");
    node.ok("systemctl start bedplate-ready.target && systemctl is-active bedplate-ready.target")?;
    until(node, "the target follows", "systemctl is-active bedplate-is-ready.target")?;
    check!(
        node.ok("cat /var/lib/bedplate/daemon/reboot.json")?.contains("\"attempts\": []"),
        "the record"
    );
    Ok(())
}

/// Readiness by the checks of `verify`, in the unit's sandbox.
fn judged(node: &Node) -> Result<()> {
    const UNIT: &str = "/etc/systemd/system/slurmd.service";
    let metric = |value: &str| {
        let line = format!("bedplate_check{{id=\"limits.memlock\",outcome=\"{value}\"}} 1");
        format!("grep -qx '{line}' /run/bedplate/bedplate.prom")
    };
    node.step("what a check finds is not ready, also where the host is what its profile says");
    // The unit has no /dev/kmsg, only the journal's copy.
    node.ok("bedplate status --json | grep -A1 '\"id\": \"pcie.log\"' | grep pass")?;
    node.put(UNIT, "[Service]\nExecStart=/bin/true\n")?;
    node.run("bedplate reconcile")?;
    let status = node.expect(4, "bedplate status")?;
    check!(
        status.contains("limits.memlock: jobs of slurmd") && status.contains("converged"),
        "bedplate status:\n{status}"
    );
    node.ok(&metric("fail"))?;
    // The latch target stays active.
    node.ok("sleep 1; ! systemctl is-active -q bedplate-is-ready.target && systemctl is-active bedplate-ready.target")?;
    node.ok("! systemctl start bedplate-is-ready.target || ! systemctl is-active -q bedplate-is-ready.target")?;
    node.ok(&format!("rm {UNIT}"))?;
    node.run("bedplate reconcile")?;
    node.expect(0, "bedplate status")?;
    until(node, "the target follows", "systemctl is-active bedplate-is-ready.target")?;
    node.ok(&format!("! {}", metric("fail")))?;

    node.step("the clock is set: the age of the last verdict stays right");
    for by in ["1 hour", "1 hour ago"] {
        node.ok(&format!("date -s \"$(date -R -d '{by}')\""))?;
        until(node, "a verdict", "bedplate verify --since-boot --quiet")?;
    }
    Ok(())
}

fn boot_file_put_back(node: &Node) -> Result<()> {
    node.step("a boot file of a converged host is put back without a reboot");
    let booted = node.boot_id()?;
    let drop_in = "/etc/default/grub.d/zz-bedplate.cfg";
    node.ok(&format!("sed -i 's/ iommu=pt//' {drop_in} && update-grub"))?;
    until(node, "put back", "grep -q iommu=pt /etc/default/grub.d/zz-bedplate.cfg")?;
    until(node, "converged", &state("converged"))?;
    node.expect(0, "bedplate status")?;
    node.expect(0, "bedplate reboot status")?;
    // A reboot would be scheduled 3 s ahead.
    std::thread::sleep(Duration::from_secs(6));
    same!(node.run("[ -e /run/systemd/shutdown/scheduled ]")?.status, 1, "a reboot is announced");
    same!(node.boot_id()?, booted, "the boot");
    Ok(())
}

fn killed(node: &Node) -> Result<()> {
    node.step("killed, it comes back by itself");
    node.ok("systemctl kill -s KILL bedplate")?;
    redirect_is_put_back(node)
}

/// Left alone, then with many events.
fn idle(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, guest::profile_with_vfs(1))?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service")?;
    until(&node, "converged but for the boot", &state("waiting-for-boot"))?;

    node.step("idle: nothing runs, little memory");
    node.ok("systemctl stop bedplate && systemctl start bedplate")?;
    until(&node, "settled", &state("waiting-for-boot"))?;
    std::thread::sleep(Duration::from_secs(5));
    let idle = node.run_for(
        "p=$(systemctl show -P MainPID bedplate); s() { cat /proc/$p/task/*/status | awk '/ctxt_switches/ { n += $2 } END { print n }'; }; \
         a=$(s); sleep 60; b=$(s); echo $((b - a)) $(awk '/VmRSS/ { print $2 }' /proc/$p/status)",
        Duration::from_secs(100),
    )?;
    node.step(&format!("wake-ups in 60 s, resident KiB: {}", idle.stdout.trim()));
    let (wakes, resident) = idle.stdout.trim().split_once(' ').unwrap_or_default();
    same!(wakes, "0", "wake-ups in a minute without events");
    // A program passed in is usually a debug build.
    let most = if std::env::var_os("BEDPLATE_VM_PROGRAM").is_some() { 16 * 1024 } else { 6 * 1024 };
    check!(
        resident.parse::<u32>().is_ok_and(|kib| (500..=most).contains(&kib)),
        "resident: {resident} KiB"
    );
    storm(&node)?;
    let exposure = node.ok("systemd-analyze security bedplate.service --no-pager | tail -n1")?;
    node.step(&exposure);
    Ok(())
}

/// A thousand events cause one observation.
fn storm(node: &Node) -> Result<()> {
    let observations =
        || node.ok("bedplate status --json | sed -n 's/.*\"observations\": \\([0-9]*\\).*/\\1/p'");
    let before: u32 = observations()?.parse()?;
    let pf = guest::PFS[2];
    // Records other kernel events too: the units that the daemon has started must not wake it.
    node.ok("systemd-run -q --unit=monitor -p StandardOutput=file:/var/tmp/events udevadm monitor --kernel && sleep 2")?;
    let took = node.ok(&format!(
        "s=$(cat /sys/kernel/uevent_seqnum); t=$(date +%s%N); \
         perl -e 'open F, \">\", \"/sys/bus/pci/devices/{pf}/uevent\" or die; for (1..1000) {{ syswrite F, \"change\" or die }}'; \
         echo $(($(cat /sys/kernel/uevent_seqnum) - s)) $((($(date +%s%N) - t) / 1000000))"
    ))?;
    node.step(&format!("uevents, and the milliseconds they took: {took}"));
    let figures: Vec<u32> = took.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    check!(figures.len() == 2 && figures[0] >= 1000, "{took}");
    std::thread::sleep(Duration::from_secs(10));
    let after: u32 = observations()?.parse()?;
    let others = node.ok(&format!(
        "systemctl stop monitor; grep '^KERNEL\\[' /var/tmp/events | grep -v {pf} || true"
    ))?;
    // Only a burst longer than a second is observed before it ends, and once more afterwards (`SHORTEST` in
    // agent/bedplate-daemon/src/debounce.rs); the second observation is delayed by two more seconds.
    let most = if figures[1] < 1000 { 1 } else { 2 };
    check!(figures[1] < 3000, "too slow to be told from events without end: {took}");
    check!(
        (1..=most).contains(&(after - before)),
        "{} observations of the host, at most {most}; other events:\n{others}",
        after - before
    );
    Ok(())
}

/// A worker that takes far longer than the boot may wait: the boot service lets the boot continue.
fn bounded(node: &Node) -> Result<()> {
    let ended = "systemctl is-active -q bedplate-boot.service";
    until(node, "the early unit has let the boot go on", ended)?;
    let held = node.ok(
        "systemctl show -P InactiveExitTimestampMonotonic -P ActiveEnterTimestampMonotonic bedplate-boot.service | \
         { read a; read b; echo $(((b - a) / 1000000)); }",
    )?;
    node.step(&format!("it held up the boot for {held} s"));
    check!(
        held.parse::<u32>().is_ok_and(|seconds| (5..30).contains(&seconds)),
        "held for {held} s, not for 5"
    );
    let said = node.ok("journalctl -b -u bedplate-boot.service -o cat --no-pager")?;
    check!(said.contains("took more than 5 s"), "what it says:\n{said}");
    Ok(())
}

/// A loader that reads another configuration: one reboot, and never a second one.
fn stuck(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    // Firmware starts a GRUB that reads another directory: an earlier copy.
    node.put(
        "/var/tmp/early.cfg",
        "search --no-floppy --label --set=root root\nset prefix=($root)/boot/other\n",
    )?;
    node.ok("cp -r /boot/grub /boot/other && mount /boot/efi && \
         grub-mkimage -O x86_64-efi -o /boot/efi/EFI/BOOT/BOOTX64.EFI -c /var/tmp/early.cfg -p /boot/other \
           part_gpt fat ext2 search search_label normal configfile linux serial terminal echo test all_video && \
         umount /boot/efi && sync")?;
    node.put(
        PROFILE_PATH,
        format!("schema = 1\nname = \"stuck\"\n[iommu]\nmode = \"passthrough\"\n{POLICY}"),
    )?;
    let mut boot = node.boot_id()?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service")?;
    node.step("one reboot, by itself");
    node.wait_for_another_boot(&boot)?;
    for times in 1..=3 {
        boot = node.boot_id()?;
        check!(
            !guest::running(&node)?.contains(&"iommu=pt".to_owned()),
            "GRUB took the entry that has it"
        );
        until(&node, "stuck", &state("attempts-exhausted"))?;
        let status = node.expect(4, "bedplate status")?;
        check!(status.contains("another entry was chosen"), "the cause:\n{status}");
        std::thread::sleep(Duration::from_secs(8));
        same!(node.ok("busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager ScheduledShutdown")?,
            "(st) \"\" 18446744073709551615", "what logind has scheduled");
        same!(node.boot_id()?, boot, "the boot");
        if times < 3 {
            node.reboot()?;
        }
    }
    check!(
        node.ok("cat /run/bedplate/bedplate.prom")?
            .contains("bedplate_state{state=\"attempts-exhausted\"} 1"),
        "metrics"
    );
    node.step("a record that the next boot forgets counts nothing: no reboot");
    boot = node.boot_id()?;
    node.ok("systemctl stop bedplate && mount -t tmpfs none /var/lib/bedplate && systemctl start bedplate")?;
    until(&node, "said", "COLUMNS=500 bedplate reboot status | grep -q 'is on tmpfs'")?;
    std::thread::sleep(Duration::from_secs(8));
    same!(node.boot_id()?, boot, "the boot");
    Ok(())
}
