//! An image that was made with `apply --root`: what is true at its very first boot.

use std::collections::BTreeMap;
use std::path::Path;

use bedplate_tests::lab::machine::BOOKWORM;
use bedplate_tests::lab::{Case, Result, Scenario};

use super::guest::{self, OTHER_PORTS, PATH_PORTS, PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("image::first_boot", first_boot)];

/// What the build of an image runs on its root tree: installed, a profile, applied, enabled. GRUB is set up afterwards, by the
/// image's own tools. The build machine's hardware is not that of the nodes.
fn in_tree(program: &Path) -> String {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let program = program.display();
    // The ports of a node are not known to its image: as arguments, ACS would take a second boot.
    let profile = PROFILE.replace("persistence = \"auto\"", "persistence = \"live\"");
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
    let script = in_tree(case.program());
    let node = case.first_boot(BOOKWORM, &script)?;

    node.step("the first boot has the arguments and the modules, and groups are in passthrough");
    guest::in_passthrough(&node)?;
    for module in ["tun", "dummy"] {
        check!(guest::loaded(&node, module)?, "{module} is not loaded");
    }

    node.step("the enabled unit has made the VFs and set ACS");
    same!(node.ok("systemctl is-active bedplate-boot.service")?, "active", "the unit");
    same!(guest::vfs(&node)?, ["7"; 3], "sriov_numvfs");
    let acs = guest::acs(&node)?;
    same!(guest::of(&acs, &PATH_PORTS), ["0000"; 6], "ACS control on the GPU-NIC ways");
    same!(guest::of(&acs, &OTHER_PORTS), ["001d"; 2], "ACS control elsewhere");

    node.step("nothing is left to do, and no reboot is wanted");
    node.expect(0, "bedplate plan --exit-code")?;
    same!(guest::kinds(&guest::plan(&node)?), BTreeMap::new(), "changes left");
    same!(node.run("[ -e /run/reboot-required ]")?.status, 1, "a reboot is wanted");
    same!(node.ok("systemctl is-active bedplate.service")?, "active", "the daemon");
    let boots = node.ok("journalctl --list-boots --no-pager | grep -cE '[0-9a-f]{32}'")?;
    same!(boots, "1", "boots of this disk");

    node.step("what the build applied is put back on the node");
    node.expect(3, "bedplate revert --hold --yes")?;
    let lines = guest::grub_lines(&node)?;
    check!(!lines.is_empty() && !lines[0].contains("iommu=pt"), "after the revert: {lines:#?}");
    Ok(())
}
