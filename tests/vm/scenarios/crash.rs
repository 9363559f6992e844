//! Power cuts during `apply`, at ten moments: three of them in CI.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario, fail};
use serde_json::Value;

use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] =
    &[("crash::three_power_cuts", three_power_cuts), ("crash::seven_power_cuts", seven_power_cuts)];

/// Number of parts of apply's duration; each is cut once.
const PARTS: u32 = 10;

/// Arguments that a boot may show all together or not at all.
const ARGUMENTS: [&str; 2] = ["iommu=pt", "pci=config_acs="];

fn three_power_cuts(case: &mut Case) -> Result<()> {
    power_cuts(case, &[1, 5, 8])
}

fn seven_power_cuts(case: &mut Case) -> Result<()> {
    power_cuts(case, &[0, 2, 3, 4, 6, 7, 9])
}

/// Cuts once in each of these parts.
fn power_cuts(case: &mut Case, parts: &[u32]) -> Result<()> {
    let node = case.node(TRIXIE)?;
    let takes = duration(&node)?;
    let mut seen = BTreeMap::new();
    for part in parts {
        // A random moment in the part.
        let random = RandomState::new().hash_one(part) % 1000;
        let moment = takes.mul_f64((f64::from(*part) + random as f64 / 1000.0) / f64::from(PARTS));
        let node = case.node(TRIXIE)?;
        prepare(&node)?;
        node.step(&format!(
            "part {} of {PARTS}: cut {} ms into apply",
            part + 1,
            moment.as_millis()
        ));
        let began = Instant::now();
        node.ok("setsid bedplate apply --yes </dev/null >/dev/null 2>&1 &")?;
        sleep(moment.saturating_sub(began.elapsed()));
        node.power_cut()?;
        node.boot()?;
        let state = before_or_after(&node)?;
        *seen.entry(state).or_insert(0) += 1;
        finish(&node, state)?;
    }
    eprintln!("boots after a cut: {seen:?}");
    Ok(())
}

/// Writes the profile to disk, as on a host that has had it for a while. Few VFs, because most moments would otherwise
/// fall into their creation, where nothing is written.
fn prepare(node: &Node) -> Result<()> {
    node.put(PROFILE_PATH, guest::profile_with_vfs(1))?;
    node.ok("sync").map(drop)
}

fn duration(node: &Node) -> Result<Duration> {
    prepare(node)?;
    let began = Instant::now();
    node.expect(3, "bedplate apply --yes")?;
    Ok(began.elapsed())
}

/// The machine has booted, and no file that it booted from is torn.
fn before_or_after(node: &Node) -> Result<&'static str> {
    node.ok("grub-script-check /boot/grub/grub.cfg")?;
    let running = guest::running(node)?.join(" ");
    let carried = guest::grub_lines(node)?;
    for line in [&running, &carried[0]] {
        let found = ARGUMENTS.iter().filter(|argument| line.contains(*argument)).count();
        check!(found == 0 || found == ARGUMENTS.len(), "half of the arguments: {line}");
    }
    // A file of bedplate is complete or missing: an interrupted write leaves its data next to it, under another name.
    let drop_in = node.run("cat /etc/default/grub.d/zz-bedplate.cfg")?;
    check!(
        drop_in.status != 0 || ARGUMENTS.iter().all(|argument| drop_in.stdout.contains(argument)),
        "a torn drop-in: {:?}",
        drop_in.stdout
    );
    let list = node.run("cat /etc/modules-load.d/bedplate.conf")?;
    check!(
        list.status != 0 || ["tun", "dummy"].iter().all(|module| list.stdout.contains(module)),
        "a torn module list: {:?}",
        list.stdout
    );
    Ok(if running.contains("iommu=pt") { "after" } else { "before" })
}

/// `plan` reports the host's state, `apply` finishes, and the file for the next boot is correct.
fn finish(node: &Node, state: &str) -> Result<()> {
    let plan = node.run("bedplate plan --exit-code --json")?;
    // VFs never survive a boot, so there is always something to do.
    same!(plan.status, 2, "plan --exit-code after the boot; it says {}", plan.stdout);
    let plan: Value = serde_json::from_str(&plan.stdout)?;
    let need = if state == "before" { "cold" } else { "none" };
    same!(plan["reboot"], need, "the reboot in the plan of a host that is {state}: {plan}");
    node.expect(if state == "before" { 3 } else { 0 }, "bedplate apply --yes")?;
    let line = guest::grub_lines(node)?.swap_remove(0);
    check!(ARGUMENTS.iter().all(|argument| line.contains(argument)), "the default entry: {line}");
    guest::assert_acs_and_vfs(node, "1")?;
    let left = node.ok(
        "find /etc /boot /var/lib/bedplate -xdev -name '*bedplate*' \\( -name '*.tmp*' -o -name '.*' \\)",
    )?;
    if left.is_empty() { Ok(()) } else { fail(format!("leavings of the interrupted run:\n{left}")) }
}
