//! Kernel arguments through the host's real GRUB: quoting, duplicates, removal, other entries, a failing generator, a
//! second kernel.

use bedplate_tests::lab::machine::{BIOS, TRIXIE};
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("cmdline::values_duplicates_and_removal", values_duplicates_and_removal),
    ("cmdline::generator_dies", generator_dies),
    ("cmdline::profile_breaks_in_mid_apply", profile_breaks_in_mid_apply),
    ("cmdline::kernel_upgrade", kernel_upgrade),
];

fn profile(rest: &str) -> String {
    format!("schema = 1\nname = \"arguments\"\n[iommu]\nmode = \"passthrough\"\n{rest}")
}

/// Values that a shell, GRUB's script language and the kernel parse differently. A name with a dot is a module
/// parameter; this module does not exist.
const AWKWARD: [&str; 3] =
    ["bedplate.words=\"a b\"", "bedplate.list=1;2;3", "bedplate.money=$HOME"];

fn values_duplicates_and_removal(case: &mut Case) -> Result<()> {
    let node = case.node(BIOS)?;
    // Existing arguments: a repeated key, which the kernel accumulates, and an unmanaged `pci=`.
    node.ok("sed -i 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX=\"console=tty0 console=ttyS0,115200 mitigations=off pci=noaer\"/' \
         /etc/default/grub && update-grub")?;
    let arguments: Vec<String> = AWKWARD.iter().map(|argument| format!("'{argument}'")).collect();
    node.put(
        PROFILE_PATH,
        profile(&format!("[cmdline]\nargs = [{}, \"pci=nommconf\"]\n", arguments.join(", "))),
    )?;
    node.expect(3, "bedplate apply --yes")?;
    let lines = guest::grub_lines(&node)?;
    let recovery: Vec<&String> = lines.iter().filter(|line| line.contains(" single")).collect();
    check!(!recovery.is_empty(), "there is no recovery entry: {lines:#?}");
    for line in recovery {
        check!(
            !line.contains("bedplate.") && !line.contains("iommu=pt") && line.contains("pci=noaer"),
            "the recovery entry is not as it was: {line}"
        );
    }

    node.step("the kernel gets each value as the profile has it");
    node.reboot()?;
    let line = node.ok("cat /proc/cmdline")?;
    for argument in AWKWARD {
        // The kernel passes quotes through; their position in the word does not matter.
        let spelled = [argument.to_owned(), format!("\"{}\"", argument.replace('"', ""))];
        check!(
            spelled.iter().any(|word| line.contains(word.as_str())),
            "{argument} is not in {line}"
        );
    }
    check!(line.contains("console=tty0 console=ttyS0,115200"), "a key given twice: {line}");
    let pci: Vec<&str> = line.split_whitespace().filter(|word| word.starts_with("pci=")).collect();
    // The kernel reads every occurrence. Existing options stay in their variable, which also applies to recovery
    // entries.
    check!(
        ["noaer", "nommconf"].iter().all(|option| pci.iter().any(|word| word.contains(option))),
        "pci=: {pci:?}"
    );
    node.expect(0, "bedplate plan --exit-code")?;
    removed(&node)
}

fn removed(node: &Node) -> Result<()> {
    node.step("dropped from the profile: gone; forbidden: gone, whatever wrote it");
    node.put(PROFILE_PATH, profile("[cmdline]\nabsent = [\"quiet\"]\n"))?;
    node.expect(3, "bedplate apply --yes")?;
    // Run GRUB's own tool again: bedplate's files alone must give this result.
    node.ok("update-grub")?;
    let line = guest::grub_lines(node)?.swap_remove(0);
    check!(
        !line.contains("bedplate.") && !line.contains("nommconf"),
        "an argument that nobody wants: {line}"
    );
    check!(!line.split(' ').any(|word| word == "quiet"), "quiet is forbidden: {line}");
    check!(
        line.contains("console=tty0 console=ttyS0,115200") && line.contains("pci=noaer"),
        "foreign words: {line}"
    );
    node.reboot()?;
    let words = guest::running(node)?;
    let left = |word: &&String| {
        word.starts_with("bedplate.") || word.contains("nommconf") || *word == "quiet"
    };
    same!(
        words.iter().filter(left).collect::<Vec<_>>(),
        [""; 0],
        "what was removed and is booted with"
    );
    check!(words.contains(&"pci=noaer".to_owned()), "foreign words: {words:?}");
    node.expect(0, "bedplate plan --exit-code")?;
    Ok(())
}

/// Replaces update-grub by `script`; `{real}` is the original.
fn replace_update_grub(node: &Node, script: &str) -> Result<()> {
    node.ok(
        "[ -e /usr/sbin/update-grub.real ] || mv /usr/sbin/update-grub /usr/sbin/update-grub.real",
    )?;
    let script = format!("#!/bin/sh\n{}\n", script.replace("{real}", "/usr/sbin/update-grub.real"));
    node.put_program("/usr/sbin/update-grub", script)
}

/// Runs on UEFI, then on BIOS.
fn generator_dies(case: &mut Case) -> Result<()> {
    for machine in [TRIXIE, BIOS] {
        let node = case.node(machine)?;
        node.put(PROFILE_PATH, profile(""))?;
        generator_dies_on(&node)?;
    }
    Ok(())
}

fn generator_dies_on(node: &Node) -> Result<()> {
    let half = "head -c 1500 /boot/grub/grub.cfg >/tmp/half; cat /tmp/half >/boot/grub/grub.cfg";
    // Event, script, and the text that the report must contain in the line that names the failure.
    let scripts = [
        (
            "truncates and fails",
            format!("{half}; echo 'no space left' >&2; exit 1"),
            "no space left",
        ),
        ("is killed half-way", format!("{half}; kill -9 $$"), "killed by signal 9"),
        ("succeeds and writes nothing", "exit 0".to_owned(), "iommu=pt is missing"),
    ];
    for (what, script, reason) in scripts {
        node.step(&format!("update-grub {what}"));
        replace_update_grub(node, &script)?;
        let before = guest::contents(node)?;
        let applied = node.run("bedplate apply --yes")?;
        same!(applied.status, 1, "apply whose update-grub {what}: {applied:?}");
        // stderr has the plan, stdout the result.
        let report =
            applied.stdout.split_once("  failed to ").map(|(_, report)| report).unwrap_or_default();
        check!(report.contains(reason), "the report does not say `{reason}`:\n{}", applied.stdout);
        same!(guest::contents(node)?, before, "files after an update-grub that {what}");
        node.ok("grub-script-check /boot/grub/grub.cfg")?;
    }
    node.step("with the real one it goes through");
    replace_update_grub(node, "exec {real}")?;
    node.expect(3, "bedplate apply --yes")?;
    check!(
        guest::grub_lines(node)?[0].contains("iommu=pt"),
        "iommu=pt is not in the default entry"
    );
    Ok(())
}

/// A plan that fails afterwards must not hide that the host was changed.
fn profile_breaks_in_mid_apply(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, profile(""))?;
    replace_update_grub(&node, "{real} || exit 1\necho '[[[' >>/etc/bedplate/profile.toml")?;
    let applied = node.run("bedplate apply --yes")?;
    same!(applied.status, 1, "apply whose profile is broken at its end: {applied:?}");
    check!(guest::grub_lines(&node)?[0].contains("iommu=pt"), "update-grub did not run");
    check!(
        applied.stderr.contains("zz-bedplate.cfg  done"),
        "what was done is not said:\n{}",
        applied.stderr
    );
    check!(
        applied.stderr.contains("profile.toml"),
        "what is wrong is not said:\n{}",
        applied.stderr
    );
    Ok(())
}

fn kernel_upgrade(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, profile(""))?;
    node.expect(3, "bedplate apply --yes")?;
    node.step("a second kernel comes, by its package");
    node.ok("DEBIAN_FRONTEND=noninteractive dpkg -i /var/lib/vm/linux-image-cloud-amd64/*.deb")?;
    let cloud: Vec<String> = guest::grub_lines(&node)?
        .into_iter()
        .filter(|line| line.contains("cloud") && !line.contains(" single"))
        .collect();
    check!(!cloud.is_empty(), "GRUB has no entry of the new kernel");
    check!(
        cloud.iter().all(|line| line.contains(" iommu=pt")),
        "the new kernel does not inherit it: {cloud:#?}"
    );

    node.step("and boots");
    node.ok("set -e; sub=$(grep -o 'gnulinux-advanced-[0-9a-f-]*' /boot/grub/grub.cfg | head -n1); \
         entry=$(grep -o 'gnulinux-[^ ]*-cloud-amd64-advanced-[0-9a-f-]*' /boot/grub/grub.cfg | head -n1); \
         grub-reboot \"$sub>$entry\"; sync")?;
    node.reboot()?;
    check!(
        node.ok("uname -r")?.contains("cloud"),
        "another kernel booted: {}",
        node.ok("uname -r")?
    );
    check!(
        guest::running(&node)?.contains(&"iommu=pt".to_owned()),
        "the new kernel runs without iommu=pt"
    );
    let types = guest::groups(&node)?;
    check!(types.values().all(|kind| kind == "identity"), "group types: {types:?}");
    node.expect(0, "bedplate plan --exit-code")?;
    Ok(())
}
