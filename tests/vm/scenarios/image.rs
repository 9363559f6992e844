//! An image made with `apply --root`: its state at the first boot.

use std::collections::BTreeMap;
use std::path::Path;

use bedplate_tests::lab::machine::{Arch, TRIXIE};
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{state, until};
use super::guest::{self, OTHER_PORTS, PATH_PORTS, PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("image::first_boot", first_boot), ("image::clones", clones)];

/// [`guest::PROFILE`] for nodes with ports that their image does not know: ACS as arguments would need a second boot.
fn live_profile() -> String {
    PROFILE.replace("persistence = \"auto\"", "persistence = \"live\"")
}

/// Script that an image build runs on its root tree: install, write a profile, apply, enable. The image's own tools
/// configure GRUB afterwards. The build machine's hardware differs from the nodes'.
fn in_tree(program: &Path, profile: &str) -> String {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let program = program.display();
    format!(
        "#!/bin/sh\n\
         set -eux\n\
         exec >&2\n\
         {repository}/install.sh --program {program} --destdir \"$1\"\n\
         cat >\"$1{PROFILE_PATH}\" <<'PROFILE'\n{profile}PROFILE\n\
         {program} plan --root \"$1\" --cpu intel\n\
         status=0; {program} apply --root \"$1\" --cpu intel --yes || status=$?\n\
         # 6: update-grub, which the build runs later.\n\
         test $status = 6\n\
         # The same again, and nothing is written.\n\
         find \"$1/etc\" -type f -printf '%p %T@\\n' | sort >\"$1/before\"\n\
         status=0; {program} apply --root \"$1\" --cpu intel --yes || status=$?\n\
         test $status = 6\n\
         find \"$1/etc\" -type f -printf '%p %T@\\n' | sort | cmp - \"$1/before\"\n\
         rm \"$1/before\"\n\
         systemctl --root=\"$1\" enable bedplate-boot bedplate\n"
    )
}

fn first_boot(case: &mut Case) -> Result<()> {
    let script = in_tree(case.program(Arch::X86)?, &live_profile());
    let node = case.first_boot(TRIXIE, &script)?;

    node.step("the first boot has the arguments and the modules, and groups are in passthrough");
    guest::in_passthrough(&node)?;
    for module in ["tun", "dummy"] {
        check!(guest::loaded(&node, module)?, "{module} is not loaded");
    }

    node.step("the enabled unit has made the VFs and set ACS");
    same!(node.ok("systemctl is-active bedplate-boot.service")?, "active", "the unit");
    same!(guest::vfs(&node)?, ["7"; 3], "sriov_numvfs");
    let acs = guest::acs(&node)?;
    same!(guest::bits_of(&acs, &PATH_PORTS), ["0000"; 6], "ACS control on the GPU-NIC ways");
    same!(guest::bits_of(&acs, &OTHER_PORTS), ["001d"; 2], "ACS control elsewhere");

    node.step("nothing is left to do, and no reboot is wanted");
    node.expect(0, "bedplate plan --exit-code")?;
    same!(guest::kinds(&guest::plan(&node)?), BTreeMap::new(), "changes left");
    same!(node.run("[ -e /run/reboot-required ]")?.status, 1, "a reboot is wanted");
    same!(node.ok("systemctl is-active bedplate.service")?, "active", "the daemon");
    boots(&node, "1")?;

    node.step("what the build applied is put back on the node");
    node.expect(3, "bedplate revert --hold --yes")?;
    let lines = guest::grub_lines(&node)?;
    check!(!lines.is_empty() && !lines[0].contains("iommu=pt"), "after the revert: {lines:#?}");
    Ok(())
}

/// A host that has run, with its disk as the golden image of two clones. docs/render.md promises one boot with
/// `persistence = "live"`, and two if the daemon adds ACS arguments on the node.
fn clones(case: &mut Case) -> Result<()> {
    let profile = live_profile() + guest::STAND_INS;
    let script = in_tree(case.program(Arch::X86)?, &profile);
    let golden = case.first_boot(TRIXIE, &script)?;
    until(&golden, "the golden host has converged", &state("converged"))?;
    seal(&golden)?;
    golden.shut_down()?;

    let mut ids = Vec::new();
    for name in ["clone-1", "clone-2"] {
        let clone = case.clone_of(&golden, name)?;
        ids.push(clone.ok("cat /etc/machine-id")?);
        until(&clone, "ready", "bedplate status")?;
        boots(&clone, "1")?;
        starts_anew(&clone)?;
        if name == "clone-2" {
            with_arguments(&clone)?;
        }
        clone.shut_down()?;
    }
    check!(ids[0].len() == 32 && ids[0] != ids[1], "machine ids of the clones: {ids:?}");
    Ok(())
}

/// Runs `bedplate seal` on the running host, and the steps of other tools before a disk is captured.
fn seal(node: &Node) -> Result<()> {
    node.step("seal: refused while the daemon runs, then complete, then without anything to do");
    node.ok("bedplate reboot hold --for 4h --why 'the golden host stays up'")?;
    check!(
        node.expect(4, "bedplate seal --yes")?.contains("systemctl stop bedplate"),
        "the refusal names no fix"
    );
    node.ok("systemctl stop bedplate.service")?;
    // The build ran update-grub after `apply --root`; the ledger has it as pending until an apply sees the boot entry.
    node.expect(0, "bedplate apply --yes")?;
    node.expect(2, "bedplate seal --dry-run --exit-code")?;
    let state = "ls -A /var/lib/bedplate/daemon; ls /var/lib/bedplate/*hold.json /run/bedplate 2>/dev/null; true";
    check!(node.ok(state)?.contains("hold.json"), "there is no hold to remove");
    node.expect(0, "bedplate seal --yes")?;
    same!(node.ok(state)?, "", "state of the host after the seal");
    node.expect(0, "bedplate seal --dry-run --exit-code")?;
    let boot = node.ok("cat /proc/sys/kernel/random/boot_id")?;
    let machine = node.ok("cat /etc/machine-id")?;
    let named = format!("grep -rlE '{boot}|{machine}' /var/lib/bedplate");
    same!(node.run(&named)?.status, 1, "files that name the boot or the machine");
    node.ok(": >/etc/machine-id && sync")?;
    Ok(())
}

/// No state of the golden host holds the clone or counts against it, and changes applied in the image are still known.
fn starts_anew(node: &Node) -> Result<()> {
    node.expect(0, "bedplate plan --exit-code")?;
    same!(guest::kinds(&guest::plan(node)?), BTreeMap::new(), "changes left");
    let record = node.ok("cat /var/lib/bedplate/daemon/reboot.json 2>/dev/null; true")?;
    check!(record.is_empty() || record.contains("\"attempts\": []"), "attempts: {record}");
    same!(node.run("[ -e /var/lib/bedplate/hold.json ]")?.status, 1, "a hold");
    let steps = guest::json(node, "bedplate revert --dry-run --json")?;
    check!(
        steps["steps"].as_array().is_some_and(|steps| !steps.is_empty()),
        "nothing could be reverted: {steps}"
    );
    Ok(())
}

/// ACS as arguments of this node: the second boot that docs/render.md promises, and no third.
fn with_arguments(node: &Node) -> Result<()> {
    node.step("ACS by arguments: the daemon adds them, and one more boot makes the node ready");
    let policy = "[reboot]\npolicy = \"schedule\"\ndelay = \"3s\"\n";
    let profile = format!("{PROFILE}{}{policy}", guest::STAND_INS);
    let before = node.boot_id()?;
    node.put(PROFILE_PATH, profile)?;
    node.ok("systemctl reload bedplate")?;
    node.wait_for_another_boot(&before)?;
    until(node, "ready", "bedplate status")?;
    let status = node.expect(0, "bedplate reboot status")?;
    check!(status.contains("not needed"), "bedplate reboot status:\n{status}");
    Ok(())
}

/// Checks the number of boots with this machine id, by its journal.
fn boots(node: &Node, expected: &str) -> Result<()> {
    let found = node.ok("journalctl --list-boots --no-pager | grep -cE '[0-9a-f]{32}'")?;
    same!(found, expected, "boots of this disk");
    Ok(())
}
