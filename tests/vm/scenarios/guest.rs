//! State of the guest by its own kernel and tools: /sys, /proc, setpci, lspci. Never queries bedplate, except for JSON
//! output.

use std::collections::BTreeMap;

use bedplate_tests::lab::machine::Arch;
use bedplate_tests::lab::{Node, Result, Suite, fail};
use serde_json::Value;

/// Asserts with a message: the error of a scenario shows the observed values.
macro_rules! check {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return bedplate_tests::lab::fail(format!("{}\n({}, {}:{})", format_args!($($words)+), stringify!($condition), file!(), line!()));
        }
    };
}
pub(crate) use check;

/// A profile like a shipped one, for this node.
pub const PROFILE: &str = include_str!("../profile.toml");

/// Returns [`PROFILE`] with another number of VFs per PF, where VFs are not the subject: under emulation igb needs
/// almost a second for each.
pub fn profile_with_vfs(vfs: u32) -> String {
    PROFILE.replace("vfs = 7", &format!("vfs = {vfs}"))
}

/// Checks that a node without GPUs and RDMA cannot pass: its emulated devices have no driver, and igb is not an RDMA
/// NIC. For profiles of nodes that must become ready.
pub const STAND_INS: &str = "
[verify.severity]
\"modules.driver\" = { level = \"ignore\", reason = \"no driver takes a stand-in\" }
\"modules.gpudirect\" = { level = \"ignore\", reason = \"no driver takes a stand-in\" }
\"sriov.drivers\" = { level = \"ignore\", reason = \"the kernel of the node has no igbvf\" }
\"limits.device-nodes\" = { level = \"ignore\", reason = \"no driver takes a stand-in\" }
\"firmware.above-4g\" = { level = \"warn\", reason = \"a stand-in has no large window\" }
\"firmware.bar1-size\" = { level = \"ignore\", reason = \"a stand-in has no large window\" }
\"rdma.port-state\" = { level = \"ignore\", reason = \"igb has no RDMA\" }
";

/// Path of bedplate's profile.
pub const PROFILE_PATH: &str = "/etc/bedplate/profile.toml";

/// Ports on the paths between a GPU and a NIC below the same switch, including root ports.
pub const PATH_PORTS: [&str; 6] = [
    "0000:20:00.0",
    "0000:22:00.0",
    "0000:22:01.0",
    "0000:80:00.0",
    "0000:82:00.0",
    "0000:82:01.0",
];

/// Ports with ACS that are not on a path.
pub const OTHER_PORTS: [&str; 2] = ["0000:20:01.0", "0000:80:01.0"];

/// Physical functions.
pub const PFS: [&str; 3] = ["0000:24:00.0", "0000:84:00.0", "0000:86:00.0"];

/// ACS control of every function with the capability, from `setpci`: four hexadecimal digits.
pub fn acs(node: &Node) -> Result<BTreeMap<String, String>> {
    let said = node.ok("for f in /sys/bus/pci/devices/*; do a=${f##*/}; \
         v=$(setpci -s $a ECAP_ACS+6.w 2>/dev/null) && [ -n \"$v\" ] && echo $a $v; done; true")?;
    Ok(pairs(&said))
}

/// Values of [`acs`] for `ports`.
pub fn bits_of<'a>(acs: &'a BTreeMap<String, String>, ports: &[&str]) -> Vec<&'a str> {
    ports.iter().map(|port| acs.get(*port).map_or("none", String::as_str)).collect()
}

/// Type of every IOMMU group (/sys/kernel/iommu_groups/N/type).
pub fn groups(node: &Node) -> Result<BTreeMap<String, String>> {
    let said = node.ok(
        "cd /sys/kernel/iommu_groups && for g in *; do [ -e $g/type ] && echo $g $(cat $g/type); done; true",
    )?;
    Ok(pairs(&said))
}

/// Kernel argument for passthrough on the architecture of this node.
pub fn passthrough(node: &Node) -> &'static str {
    match node.machine.arch {
        Arch::X86 => "iommu=pt",
        Arch::Arm => "iommu.passthrough=1",
    }
}

/// ACS control of the ports on a path after `direct-p2p` is applied. `pci=config_acs=` clears SV, RR, CR and UF, and a live
/// write clears the same bits. Linux 6.1 knows only `pci=disable_acs_redir=`, which leaves SV and UF on.
pub fn cleared_acs(node: &Node) -> &'static str {
    match node.machine.suite {
        Suite::Bookworm => "0011",
        Suite::Trixie => "0000",
    }
}

/// Asserts that the kernel was booted with passthrough, and that it takes effect.
pub fn in_passthrough(node: &Node) -> Result<()> {
    let words = running(node)?;
    let passthrough = passthrough(node);
    check!(
        words.contains(&passthrough.to_owned()),
        "{passthrough} is not in /proc/cmdline: {words:?}"
    );
    let types = groups(node)?;
    check!(
        !types.is_empty() && types.values().all(|kind| kind == "identity"),
        "group types: {types:?}"
    );
    Ok(())
}

/// IOMMU group of a function.
pub fn group_of(node: &Node, function: &str) -> Result<String> {
    node.ok(&format!("basename $(readlink /sys/bus/pci/devices/{function}/iommu_group)"))
}

/// Number of VFs of each PF (sriov_numvfs).
pub fn vfs(node: &Node) -> Result<Vec<String>> {
    let files: Vec<String> =
        PFS.iter().map(|pf| format!("/sys/bus/pci/devices/{pf}/sriov_numvfs")).collect();
    Ok(node.ok(&format!("cat {}", files.join(" ")))?.lines().map(str::to_owned).collect())
}

/// The running kernel's command line as words (no test here has a quoted value).
pub fn running(node: &Node) -> Result<Vec<String>> {
    Ok(node.ok("cat /proc/cmdline")?.split_whitespace().map(str::to_owned).collect())
}

/// The `linux` lines of grub.cfg, in order; the first belongs to the default entry.
pub fn grub_lines(node: &Node) -> Result<Vec<String>> {
    let said = node.ok("grep -E '^[[:space:]]*linux[[:space:]]' /boot/grub/grub.cfg")?;
    Ok(said.lines().map(|line| line.trim().to_owned()).collect())
}

/// Whether a module is loaded (/proc/modules).
pub fn loaded(node: &Node, module: &str) -> Result<bool> {
    Ok(node.run(&format!("grep -q '^{module} ' /proc/modules"))?.status == 0)
}

/// Everything that `apply` could have changed, with mtimes: files and links of /etc, /boot and /var/lib/bedplate, ACS
/// registers, VF counts, modules.
pub fn everything(node: &Node) -> Result<String> {
    node.ok(&format!(
        "find /etc /boot /var/lib/bedplate -xdev \\( -type f -o -type l \\) -printf '%p %T@ %m %u:%g %s %l\\n' 2>/dev/null \
           | grep -v ' /etc/machine-id\\| /etc/resolv.conf' | sort; \
         for f in /sys/bus/pci/devices/*; do echo ${{f##*/}} $(setpci -s ${{f##*/}} ECAP_ACS+6.w 2>/dev/null) \
           $(readlink $f/driver); done; \
         cat {}; cut -d' ' -f1 /proc/modules | sort",
        PFS.map(|pf| format!("/sys/bus/pci/devices/{pf}/sriov_numvfs")).join(" ")
    ))
}

/// Content, mode and owner of all files and links below /etc and /boot.
pub fn contents(node: &Node) -> Result<BTreeMap<String, String>> {
    let said = node
        .ok("cd / && find etc boot -xdev \\( -type f -o -type l \\) -printf '%p %m:%u:%g:%l\\n' | sort; \
         find etc boot -xdev -type f -print0 | xargs -0 sha256sum | awk '{ print $2 \"#\", $1 }' | sort")?;
    Ok(pairs(&said))
}

/// Output of `bedplate plan --json`.
pub fn plan(node: &Node) -> Result<Value> {
    json(node, "bedplate plan --json")
}

/// Output of a command, as JSON.
pub fn json(node: &Node, command: &str) -> Result<Value> {
    let said = node.ok(command)?;
    serde_json::from_str(&said).or_else(|err| fail(format!("{command}: no JSON ({err}): {said}")))
}

/// Number of changes in a plan, by kind.
pub fn kinds(plan: &Value) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for change in plan["changes"].as_array().into_iter().flatten() {
        *kinds.entry(change["kind"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    kinds
}

/// Parses lines of "key value".
fn pairs(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Asserts that two values are equal; the error shows both.
macro_rules! same {
    ($left:expr, $right:expr, $($words:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    return bedplate_tests::lab::fail(format!(
                        "{}: {left:?} is not {right:?} ({}:{})", format_args!($($words)+), file!(), line!()
                    ));
                }
            }
        }
    };
}
pub(crate) use same;

/// Asserts that redirect is disabled on every port on a path, and that every PF has `vfs_of_each` VFs.
pub fn assert_acs_and_vfs(node: &Node, vfs_of_each: &str) -> Result<()> {
    same!(bits_of(&acs(node)?, &PATH_PORTS), [cleared_acs(node); 6], "ACS");
    same!(vfs(node)?, [vfs_of_each; 3], "VFs");
    Ok(())
}
