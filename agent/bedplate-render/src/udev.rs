//! Target `udev`: rules that create VFs as soon as their PF has its driver.

use bedplate_core::desired::{FunctionSelector, SriovRule, VfDriver};
use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::sriov;

use super::agent::{Agent, of_machine};
use super::common::{Unsupported, heading};
use super::vf_rules::{Group, Pfs, groups, of_vfs};
use super::{Inexpressible, Options, OutFile, RenderError, RenderResult, Target};

const ELSEWHERE: Unsupported = Unsupported {
    why: "udev rules are rendered only for VFs",
    instead: "render the target of the image's boot loader as well (grub, kernel-install, bootc …)",
};

pub(crate) const TARGET: Target = Target::new(
    "udev",
    "udev rules that create VFs",
    &[
        "etc/udev/rules.d/70-bedplate-sriov.rules",
        "etc/bedplate/profile.toml",
        "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
    ],
    render,
)
.for_vfs();

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    rendered.files.extend(rules(build, options));
    let agent = Agent::of_image(build, options);
    rendered.files.extend(agent.files(build));
    rendered.add(agent.rest);
    ELSEWHERE.leave(build, options.arch, |_| false, &mut rendered)?;
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

impl Agent {
    /// For the image of a host whose VFs are created by [`rules`].
    pub(crate) fn of_image(build: &ImageConfig, options: &Options) -> Self {
        Agent::with_rest(
            build,
            options,
            leftovers(build, options).chain(of_machine(build)).collect(),
        )
    }
}

/// Succeeds if no network interface of the device is up. Drivers may stop a port's traffic while they create VFs, and
/// an image cannot know which port has the default route, which must not be interrupted. At boot the rules run before
/// the network; an interface that is already up then carries the root file system, or the host is running. `flags` is
/// `IFF_UP` and more (include/uapi/linux/if.h). `$$` is `$` (udev(7)).
const NOTHING_UP: &str = "/bin/sh -c 'for f in /sys%p/net/*/flags; do [ -e $$f ] || continue; read x <$$f; \
                          [ $$((x & 1)) = 0 ] || exit 1; done'";

/// Comment in the file that explains [`NOTHING_UP`].
const GUARD: &str = "# VFs are created only while no network interface of the port is up, as at boot: the default route may use it.\n\
                     # `allow_disruption = true` in the rule of the profile creates them anyway.\n";

/// Label that ends the rules for a PF once one of them has matched it.
const END: &str = "bedplate_sriov_end";

/// Returns the rules, if there are VFs to create.
///
/// A PF without its driver rejects the count, so the relevant event is `bind`, or `add` of a device that is already
/// bound (udevadm trigger after the initramfs). A change from N to M must pass through 0, and VFs may be in use: the
/// rules change only a PF without VFs (Linux drivers/pci/iov.c).
pub(super) fn rules(build: &ImageConfig, options: &Options) -> Option<OutFile> {
    let (groups, _) = all(build, options);
    if groups.iter().all(|group| group.count == 0) {
        return None;
    }
    let mut text = heading(build, "# ");
    if groups.iter().any(|group| group.count > 0 && !group.rule.allow_disruption) {
        text.push_str(GUARD);
    }
    for (n, group) in groups.iter().enumerate() {
        text.push('\n');
        let is_last = n + 1 == groups.len();
        for pf in matches(group) {
            let pf = format!("ACTION==\"add|bind\", SUBSYSTEM==\"pci\", {pf}");
            text.push_str(&of_group(group, &pf));
            // The first rule that selects a PF applies.
            if !is_last {
                text.push_str(&format!("{pf}, GOTO=\"{END}\"\n"));
            }
        }
    }
    if groups.len() > 1 {
        text.push_str(&format!("\nLABEL=\"{END}\"\n"));
    }
    let path = format!("{}/{}", sriov::UDEV_DIRECTORIES[0], sriov::UDEV_RULES);
    Some(OutFile::new(path.trim_start_matches('/'), text))
}

fn of_group(group: &Group<'_>, pf: &str) -> String {
    if group.count == 0 {
        return String::new();
    }
    let guard = match group.rule.allow_disruption {
        true => String::new(),
        false => format!(", PROGRAM==\"{NOTHING_UP}\""),
    };
    let pf = format!("{pf}, DRIVER==\"?*\", ATTR{{sriov_numvfs}}==\"0\"{guard}");
    let mut text = String::new();
    if group.rule.vf_driver != VfDriver::Auto {
        // VFs that get another driver, or no driver, must not be bound to the kernel's choice first.
        text.push_str(&format!("{pf}, ATTR{{sriov_drivers_autoprobe}}=\"0\"\n"));
    }
    text.push_str(&format!("{pf}, ATTR{{sriov_numvfs}}=\"{}\"\n", group.count));
    text
}

fn all<'a>(build: &'a ImageConfig, options: &Options) -> (Vec<Group<'a>>, Vec<Inexpressible>) {
    groups(build, build.own_vfs(), options, |rule| {
        rule.select.interface.is_some().then_some(
            "the rules create VFs when the PCI device appears, before its interface has a name",
        )
    })
}

/// Returns match keys for the PFs of a group, one text per line.
fn matches(group: &Group<'_>) -> Vec<String> {
    match &group.pfs {
        Pfs::Addresses(addresses) => {
            addresses.iter().map(|address| format!("KERNEL==\"{address}\"")).collect()
        }
        Pfs::Selected(select) => vec![selected(select)],
    }
}

/// Formats a selector as udev keys. sysfs has the ids as `0x15b3` (Linux drivers/pci/pci-sysfs.c).
fn selected(select: &FunctionSelector) -> String {
    let keys = [
        select.address.map(|address| format!("KERNEL==\"{address}\"")),
        select.vendor.map(|id| format!("ATTR{{vendor}}==\"0x{id}\"")),
        select.device.map(|id| format!("ATTR{{device}}==\"0x{id}\"")),
        select.driver.as_ref().map(|driver| format!("DRIVER==\"{driver}\"")),
        select.numa_node.map(|node| format!("ATTR{{numa_node}}==\"{node}\"")),
        // Any device that supports VFs and is not a VF itself.
        Some("ATTR{sriov_totalvfs}!=\"0\"".to_owned())
            .filter(|_| *select == FunctionSelector::default()),
    ];
    keys.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns VFs that the rules cannot create, and drivers by name, which they cannot bind.
pub(super) fn leftovers(
    build: &ImageConfig,
    options: &Options,
) -> impl Iterator<Item = Inexpressible> {
    let (_, items) = all(build, options);
    items.into_iter().chain(build.own_vfs().filter_map(driver_choice))
}

fn driver_choice(rule: &SriovRule) -> Option<Inexpressible> {
    let VfDriver::Named(driver) = &rule.vf_driver else { return None };
    Some(of_vfs(
        rule,
        "vf_driver",
        "udev cannot match a VF by its PF, and driver_override must be set before the driver is bound (Linux \
        Documentation/ABI/testing/sysfs-bus-pci); the VFs stay without a driver",
        format!(
            "run `bedplate apply` at every boot of the host, or `driverctl set-override ADDRESS {driver}` for each VF"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired};
    use super::*;

    const RULES: &str = "etc/udev/rules.d/70-bedplate-sriov.rules";

    #[test]
    fn rule_creates_vfs_once_driver_is_bound() {
        let mut desired = desired();
        desired.sriov[0].rule.vf_driver = VfDriver::Named("vfio-pci".to_owned());
        desired.sriov[0].rule.allow_disruption = true;
        let rendered = render(&build(&desired), &Options::default()).unwrap();
        let text = &rendered.file(RULES).unwrap().text;
        let pf = "ACTION==\"add|bind\", SUBSYSTEM==\"pci\", KERNEL==\"0000:18:00.0\", DRIVER==\"?*\", ATTR{sriov_numvfs}==\"0\"";
        let expected = format!(
            "\n{pf}, ATTR{{sriov_drivers_autoprobe}}=\"0\"\n{pf}, ATTR{{sriov_numvfs}}=\"8\"\n"
        );
        assert!(text.ends_with(&expected), "{text}");
        let what = "VFs of rule compute with driver vfio-pci";
        assert!(rendered.inexpressible.iter().any(|item| item.what == what));
    }

    /// Runs the rule's program in a shell on a directory that replaces /sys.
    #[test]
    fn port_with_interface_up_is_not_changed() {
        let rendered = render(&build(&desired()), &Options::default()).unwrap();
        let text = &rendered.file(RULES).unwrap().text;
        let rule = text.lines().last().unwrap();
        let (_, program) = rule.split_once(", PROGRAM==\"").unwrap();
        let (program, set) = program.split_once("\", ").unwrap();
        assert_eq!(set, "ATTR{sriov_numvfs}=\"8\"");
        let script = program.strip_prefix("/bin/sh -c '").unwrap().strip_suffix('\'').unwrap();
        let directory = tempfile::tempdir().unwrap();
        let script = script.replace("/sys%p", &directory.path().display().to_string());
        let script = script.replace("$$", "$");
        let makes_vfs = || {
            let status = std::process::Command::new("/bin/sh").args(["-euc", &script]).status();
            status.unwrap().success()
        };
        assert!(makes_vfs(), "{script}");
        for (interface, flags, makes) in
            [("eth0", "0x1002\n", true), ("eth1", "0x1003\n", false), ("eth1", "0x1002\n", true)]
        {
            let net = directory.path().join("net").join(interface);
            std::fs::create_dir_all(&net).unwrap();
            std::fs::write(net.join("flags"), flags).unwrap();
            assert_eq!(makes_vfs(), makes, "{interface} {flags}");
        }
    }
}
