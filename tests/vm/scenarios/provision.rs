//! From a fresh node to a provisioned one without remaining changes.

use std::collections::BTreeMap;
use std::rc::Rc;

use bedplate_tests::lab::machine::{Arch, BOOKWORM, TRIXIE};
use bedplate_tests::lab::{Case, Machine, Node, Result, Scenario};
use serde_json::Value;

use super::guest::{self, OTHER_PORTS, PATH_PORTS, PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("provision::from_zero", |case| from_zero(case, TRIXIE).map(drop)),
    ("provision::debian_12", |case| from_zero(case, BOOKWORM).map(drop)),
    ("provision::idempotence", idempotence),
];

const UNIT: &str = include_str!("../../../systemd/bedplate-boot.service");

/// Provisions a node of this machine; returns it after the boot.
pub(super) fn from_zero(case: &mut Case, machine: Machine) -> Result<Rc<Node>> {
    let node = case.node(machine)?;
    let passthrough = guest::passthrough(&node);
    node.put(PROFILE_PATH, PROFILE)?;

    node.step("the plan shows every kind");
    let plan = guest::plan(&node)?;
    let kinds: Vec<String> = guest::kinds(&plan).into_keys().collect();
    same!(kinds, ["acs", "cmdline", "modules", "sriov"], "kinds in the plan");
    node.expect(2, "bedplate plan --exit-code")?;
    same!(
        guest::bits_of(&guest::acs(&node)?, &PATH_PORTS),
        ["001d"; 6],
        "ACS as Linux leaves it, before"
    );

    node.step("apply: ACS, VFs and modules are true at once, the boot entry is written");
    node.expect(3, "bedplate apply --yes")?;
    now_true(&node)?;
    let lines = guest::grub_lines(&node)?;
    check!(
        lines[0].split(' ').any(|word| word == passthrough),
        "the default entry lacks {passthrough}: {lines:#?}"
    );
    let types = guest::groups(&node)?;
    check!(
        types.values().all(|kind| kind == "DMA"),
        "groups keep their type until the boot: {types:?}"
    );

    node.step("the boot makes the rest true; the unit re-applies what it took away");
    node.put("/etc/systemd/system/bedplate-boot.service", UNIT)?;
    node.ok("systemctl daemon-reload && systemctl enable bedplate-boot.service")?;
    node.reboot()?;
    same!(node.ok("systemctl is-active bedplate-boot.service")?, "active", "the unit");
    guest::in_passthrough(&node)?;
    check!(guest::loaded(&node, "dummy")?, "dummy is to be loaded by the boot");
    now_true(&node)?;

    node.step("nothing is left, and inspect agrees with the guest's own tools");
    node.expect(0, "bedplate plan --exit-code")?;
    same!(guest::kinds(&guest::plan(&node)?), BTreeMap::new(), "changes left");
    inspect_agrees(&node)?;
    Ok(node)
}

/// Checks the runtime half of the profile.
fn now_true(node: &Node) -> Result<()> {
    let acs = guest::acs(node)?;
    let cleared = guest::cleared_acs(node);
    same!(guest::bits_of(&acs, &PATH_PORTS), [cleared; 6], "ACS control on the GPU-NIC ways");
    same!(guest::bits_of(&acs, &OTHER_PORTS), ["001d"; 2], "ACS control elsewhere");
    same!(guest::vfs(node)?, ["7"; 3], "sriov_numvfs");
    // 82576 Virtual Function (pci.ids).
    same!(node.ok("lspci -D -d 8086:10ca | wc -l")?, "21", "VFs that lspci sees");
    check!(guest::loaded(node, "tun")?, "tun is not loaded");
    Ok(())
}

/// Compares every function that lspci lists between bedplate, sysfs and setpci.
fn inspect_agrees(node: &Node) -> Result<()> {
    let ours = guest::json(node, "bedplate inspect --json --all")?;
    let functions = ours["pci"]["value"]["functions"].as_object().cloned().unwrap_or_default();
    let theirs = node.ok("lspci -Dn | while read a c v rest; do d=/sys/bus/pci/devices/$a; \
         echo \"$a $v $(basename $(readlink $d/driver || echo none)) $(cat $d/numa_node) \
$(basename $(readlink $d/iommu_group || echo none)) $(setpci -s $a ECAP_ACS+6.w 2>/dev/null || echo none) \
$(cat $d/sriov_numvfs 2>/dev/null || echo none) $(cat $d/sriov_totalvfs 2>/dev/null || echo none)\"; done")?;
    same!(functions.len(), theirs.lines().count(), "number of functions");
    for line in theirs.lines() {
        let address = line.split(' ').next().unwrap_or_default();
        same!(said_of(&functions[address]), line, "{address} as bedplate shows it");
    }
    let lspci = node.ok("lspci -vvv -s 22:00.0")?;
    // SV and UF.
    let rest = if guest::cleared_acs(node) == "0011" { '+' } else { '-' };
    let bits = format!("ACSCtl:\tSrcValid{rest} TransBlk- ReqRedir- CmpltRedir- UpstreamFwd{rest}");
    check!(lspci.contains(&bits), "lspci says: {lspci}");
    let unit = match node.machine.arch {
        Arch::X86 => "dmar0",
        // Address of the SMMU (QEMU's hw/arm/virt.c, base_memmap).
        Arch::Arm => "smmu3.0x0000000009050000",
    };
    let active = ours["iommu"]["active"]["value"].to_string();
    check!(active.contains(unit), "active IOMMU: {active}");
    same!(
        ours["iommu"]["groups"].as_object().map(serde_json::Map::len),
        Some(guest::groups(node)?.len()),
        "groups"
    );
    Ok(())
}

/// Formats a function of `inspect --json` like the shell line above.
fn said_of(function: &Value) -> String {
    let known = |value: &Value| match (&value["state"], &value["value"]) {
        (state, value) if state == "known" => value.to_string().replace('"', ""),
        _ => "none".into(),
    };
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let (acs, sriov) = (&function["acs"], &function["sriov"]);
    let numa = match known(&function["numa_node"]) {
        none if none == "none" || none == "null" => "-1".into(),
        node => node,
    };
    [
        text(&function["address"]),
        format!("{}:{}", text(&function["vendor"]), text(&function["device"])),
        text(&function["driver"]),
        numa,
        known(&function["iommu_group"]),
        if acs["state"] == "known" { text(&acs["value"]["control"]) } else { "none".into() },
        if sriov["state"] == "known" { known(&sriov["value"]["enabled"]) } else { "none".into() },
        if sriov["state"] == "known" { known(&sriov["value"]["total"]) } else { "none".into() },
    ]
    .join(" ")
}

fn idempotence(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, PROFILE)?;
    node.expect(3, "bedplate apply --yes")?;
    let before = guest::everything(&node)?;
    for round in 2..=3 {
        node.step(&format!("apply, the {round}. time"));
        // A reboot is still pending: 3, not 0.
        node.expect(3, "bedplate apply --yes")?;
        same!(guest::everything(&node)?, before, "what apply left");
    }
    node.step("strace: nothing is written, made, renamed or started");
    node.expect(
        3,
        "strace -f -o /tmp/trace -e trace=openat,open,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,\
         symlinkat,linkat,chmod,fchmod,fchmodat,fchownat,ftruncate,write,pwrite64,execve,init_module,finit_module \
         bedplate apply --yes",
    )?;
    // Allowed: output (write to 1 and 2), its lock, and its own start.
    let written = node.ok(
        "grep -E '(O_WRONLY|O_RDWR|O_CREAT)|^[0-9]+ +(creat|rename|unlink|mkdir|symlink|link|f?chmod|fchown|ftruncate|p?write|execve|f?init_module)' \
           /tmp/trace | grep -vE 'write\\([12], |execve\\(\"/usr/bin/bedplate\"|exited|/dev/null' || true",
    )?;
    let other: Vec<&str> = written.lines().filter(|line| !line.contains("lock")).collect();
    check!(other.is_empty(), "a run with nothing to do does: {other:#?}");
    Ok(())
}
