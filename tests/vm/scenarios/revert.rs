//! Reverts everything exactly after two changes of the profile and a boot in between.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Result, Scenario};

use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("revert::after_two_changes", after_two_changes)];

/// The second profile: other arguments, other modules, fewer VFs, all of ACS off. It sets nothing in modprobe.d,
/// because Debian's initramfs includes that and no two builds have equal bytes.
fn second() -> String {
    format!(
        "{}\n[cmdline]\nargs = [\"hugepagesz=2M\", \"hugepages=4\"]\n",
        guest::profile_with_vfs(1)
            .replace("load = [\"tun\", ", "load = [")
            .replace("\"direct-p2p\"", "\"clear\"")
    )
}

fn after_two_changes(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    let files = guest::contents(&node)?;
    let acs = guest::acs(&node)?;
    let line = node.ok("cat /proc/cmdline")?;

    node.put(PROFILE_PATH, guest::profile_with_vfs(2))?;
    node.expect(3, "bedplate apply --yes")?;
    node.put(PROFILE_PATH, second())?;
    node.expect(3, "bedplate apply --yes")?;
    same!(guest::vfs(&node)?, ["1"; 3], "VFs of the second profile");
    check!(
        guest::grub_lines(&node)?[0].contains("hugepages=4"),
        "the second profile is not in the default entry"
    );
    check!(guest::contents(&node)? != files, "two profiles changed no file");

    node.step("revert");
    // Nothing running came from a boot with bedplate's arguments, so no change is pending.
    node.expect(0, "bedplate revert --yes")?;
    node.ok("rm -r /etc/bedplate")?;
    let back = guest::contents(&node)?;
    for path in files.keys().chain(back.keys()) {
        same!(back.get(path), files.get(path), "{path} after the revert");
    }
    same!(guest::acs(&node)?, acs, "ACS after the revert");
    same!(guest::vfs(&node)?, ["0"; 3], "VFs after the revert");
    check!(
        !guest::loaded(&node, "tun")? || node.ok("bedplate history")?.contains("tun"),
        "tun stays without a word"
    );

    node.step("and it boots as it did");
    node.reboot()?;
    same!(node.ok("cat /proc/cmdline")?, line, "/proc/cmdline");
    same!(guest::acs(&node)?, acs, "ACS after the boot");
    check!(
        guest::groups(&node)?.values().all(|kind| kind == "DMA"),
        "the groups are not translated again"
    );
    Ok(())
}
