//! Huge pages of each NUMA node, by the kernel's own numbers.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, until};
use super::guest::{PROFILE_PATH, check};

pub const SCENARIOS: &[Scenario] = &[
    ("hugepages::healed_and_reverted", healed_and_reverted),
    ("hugepages::short_memory_gives_some_pages", short_memory_gives_some_pages),
];

const NUMBERS: &str = "cd /sys/devices/system/node && \
                       echo $(cat node[01]/hugepages/hugepages-2048kB/nr_hugepages)";
/// Creates a file of 12 pages on node 0.
const USE: &str = "mkdir -p /mnt/huge && mount -t hugetlbfs none /mnt/huge && \
                   taskset -c 0 fallocate -l 24M /mnt/huge/file";

fn numbers(node: &Node) -> Result<String> {
    Ok(node.ok(NUMBERS)?.trim().to_owned())
}

fn profile(node: &Node, section: &str) -> Result<()> {
    let text = format!("schema = 1\nname = \"pages\"\n[hugepages]\n{section}\n");
    node.put(PROFILE_PATH, text)
}

fn healed_and_reverted(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    // 1. Numbers for each node, and another one for node 1.
    profile(&node, "per_node = { \"2M\" = 16 }\nnodes = { \"1\" = { \"2M\" = 20 } }")?;
    node.expect(2, "bedplate plan --exit-code")?;
    check!(numbers(&node)? == "0 0", "plan has written");
    node.ok("bedplate apply")?;
    check!(numbers(&node)? == "16 20", "{}", numbers(&node)?);
    node.expect(0, "bedplate plan --exit-code")?;

    // 2. The daemon restores a number that a program changed, and sets all of them after a boot.
    install(case, &node)?;
    node.ok("systemctl enable --now bedplate.service")?;
    let write = "echo 3 >/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
    let right = format!("[ \"$({NUMBERS})\" = '16 20' ]");
    node.ok(write)?;
    until(&node, "the daemon restores the number", &right)?;
    node.reboot()?;
    until(&node, "the daemon sets the numbers after the boot", &right)?;
    node.ok("systemctl disable --now bedplate.service")?;

    // 3. Pages in use stay, whether the profile or a revert removes them; those of the other node do not.
    node.ok(USE)?;
    profile(&node, "per_node = { \"2M\" = 8 }")?;
    let plan = node.run("bedplate plan; bedplate apply")?.stdout;
    check!(plan.contains("programs use or have reserved 12 of 16 pages"), "{plan}");
    check!(numbers(&node)? == "16 8", "{}\n{plan}", numbers(&node)?);
    let revert = node.run("bedplate revert --force")?;
    check!(revert.status != 0, "{}", revert.stdout);
    check!(numbers(&node)? == "16 0", "{}\n{}", numbers(&node)?, revert.stdout);
    node.ok("rm /mnt/huge/file && bedplate revert")?;
    check!(numbers(&node)? == "0 0", "{}", numbers(&node)?);
    Ok(())
}

/// A node whose memory is in use cannot have all pages. The change fails, and the pages that the kernel provided stay.
fn short_memory_gives_some_pages(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    profile(&node, "nodes = { \"0\" = { \"2M\" = 400 }, \"1\" = { \"2M\" = 4 } }")?;
    node.ok("mount -o remount,size=90% /dev/shm && \
             taskset -c 0 dd if=/dev/zero of=/dev/shm/fill bs=1M count=600 status=none")?;
    let apply = node.run("bedplate apply 2>&1")?;
    check!(apply.status != 0, "{}", apply.stdout);
    check!(apply.stdout.contains("of 400 pages; they stay"), "{}", apply.stdout);
    let got = numbers(&node)?;
    let some = got.strip_suffix(" 4").and_then(|number| number.parse::<u32>().ok());
    check!(some.is_some_and(|some| (1..400).contains(&some)), "{got}\n{}", apply.stdout);
    // They can be reverted. With free memory the same profile succeeds.
    node.ok("bedplate revert")?;
    check!(numbers(&node)? == "0 0", "{}", numbers(&node)?);
    node.ok("rm /dev/shm/fill && bedplate apply")?;
    check!(numbers(&node)? == "400 4", "{}", numbers(&node)?);
    Ok(())
}
