//! systemd-boot on Debian trixie, with entries and with unified kernel images: the line is in /etc/kernel/cmdline, and
//! the host's own kernel-install copies it to the boot entry.

use bedplate_tests::lab::machine::{SYSTEMD_BOOT, UKI};
use bedplate_tests::lab::{Case, Machine, Node, Result, Scenario};

use super::guest::{self, PATH_PORTS, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] =
    &[("systemd_boot::entries", entries), ("systemd_boot::unified_image", unified_image)];

fn entries(case: &mut Case) -> Result<()> {
    story(case, SYSTEMD_BOOT, "sed -n 's/^options *//p' /boot/efi/loader/entries/*.conf")
}

fn unified_image(case: &mut Case) -> Result<()> {
    // The image's .cmdline section is plain text between zeros.
    story(
        case,
        UKI,
        "grep -aohE 'root=LABEL=root ro [[:print:]]*' /boot/efi/EFI/Linux/*.efi | head -n1",
    )
}

/// `carried` prints the command line that the loader will pass on.
fn story(case: &mut Case, machine: Machine, carried: &str) -> Result<()> {
    let node = case.node(machine)?;
    node.put(PROFILE_PATH, guest::profile_with_vfs(1))?;
    let before = (node.ok(carried)?, node.ok("cat /etc/kernel/cmdline")?);
    check!(before.0.contains("root=LABEL=root"), "the loader's line: {before:?}");

    node.step("apply edits /etc/kernel/cmdline and has the host's own tool rebuild");
    node.expect(3, "bedplate apply --yes")?;
    let after = (node.ok(carried)?, node.ok("cat /etc/kernel/cmdline")?);
    for line in [&after.0, &after.1] {
        let words: Vec<&str> = line.split_whitespace().collect();
        check!(words.contains(&"iommu=pt"), "iommu=pt is not in {line}");
        // Verbatim: no shell between this file and the kernel needs quotes for `;`.
        let acs = words
            .iter()
            .find(|word| word.starts_with("pci=config_acs="))
            .copied()
            .unwrap_or_default();
        check!(!acs.is_empty() && !acs.contains(['"', '\'', '\\']), "pci= in {line}");
    }
    let kernels =
        "ls /boot/efi/loader/entries /boot/efi/EFI/Linux 2>/dev/null | grep -c -E 'conf$|efi$'";
    same!(node.ok(kernels)?, "1", "entries and images: rebuilt, not added");

    node.step("the boot makes it true; a second apply leaves it");
    node.reboot()?;
    effective(&node)?;
    let files = "find /boot /etc/kernel /etc/modules-load.d /etc/modprobe.d -type f -printf '%p %T@ %s\\n' | grep -v random-seed | sort";
    let settled = node.ok(files)?;
    same!(guest::vfs(&node)?, ["0", "0", "0"], "VFs after a boot: there is something to apply");
    node.expect(0, "bedplate apply --yes")?;
    same!(guest::vfs(&node)?, ["1", "1", "1"], "VFs after the second apply");
    same!(node.ok(files)?, settled, "files after a second apply");
    node.expect(0, "bedplate plan --exit-code")?;

    node.step("revert");
    node.expect(3, "bedplate revert --yes")?;
    same!(
        (node.ok(carried)?, node.ok("cat /etc/kernel/cmdline")?),
        before,
        "the lines after the revert"
    );
    node.reboot()?;
    let words = guest::running(&node)?;
    check!(
        !words.iter().any(|word| word == "iommu=pt" || word.starts_with("pci=")),
        "/proc/cmdline: {words:?}"
    );
    let types = guest::groups(&node)?;
    check!(
        !types.is_empty() && types.values().all(|kind| kind.starts_with("DMA")),
        "group types: {types:?}"
    );
    check!(
        !guest::bits_of(&guest::acs(&node)?, &PATH_PORTS).contains(&"0000"),
        "ACS stays off after the revert's boot"
    );
    Ok(())
}

fn effective(node: &Node) -> Result<()> {
    guest::in_passthrough(node)?;
    same!(guest::bits_of(&guest::acs(node)?, &PATH_PORTS), ["0000"; 6], "ACS after the boot");
    Ok(())
}
