//! Target `udev`: rules that make VFs as soon as the driver of their PF is there.

use crate::desired::VfDriver;
use crate::kind::contribution::Contributions;

use super::common::{Elsewhere, heading, live_only, vf_attributes, vf_driver};
use super::{Inexpressible, Options, OutFile, RenderError, Rendered};

const RULES: &str = "etc/udev/rules.d/70-bedplate-sriov.rules";

const ELSEWHERE: Elsewhere = Elsewhere {
    why: "udev rules are rendered for VFs alone",
    instead: "render the target of the image's boot loader beside this one (grub, kernel-install, bootc …)",
};

pub(super) fn render(build: &Contributions, options: &Options) -> Result<Rendered, RenderError> {
    let mut rendered = Rendered::default();
    rendered.files.extend(rules(build));
    rendered.inexpressible.extend(driver_choices(build));
    rendered.inexpressible.extend(vf_attributes(
        build,
        "render target networkd, or run `bedplate apply` at every boot of the host",
    ));
    rendered.inexpressible.extend(ELSEWHERE.arguments(build, options.arch)?);
    rendered.inexpressible.extend(ELSEWHERE.settings(build, |_| false));
    rendered.inexpressible.extend(live_only(build, |live| &live.with_agent));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// Ends with success where no network interface of the device is up. Drivers may stop a port's traffic while they make VFs,
/// and bedplate makes none on the port of the default route; which one that is, an image cannot know. At boot the rules come
/// before the network; an interface that is up then carries the root file system, or the host runs already. `flags` is
/// `IFF_UP` and more (include/uapi/linux/if.h). `$$` is `$` (udev(7)).
const NOTHING_UP: &str = "/bin/sh -c 'for f in /sys%p/net/*/flags; do [ -e $$f ] || continue; read x <$$f; \
                          [ $$((x & 1)) = 0 ] || exit 1; done'";

/// Says in the file what [`NOTHING_UP`] does.
const GUARD: &str = "# VFs are made only while no network interface of the port is up, as at boot: the default route may go through it.\n\
                     # With `allow_disruption = true` in its rule of the profile they are made all the same.\n";

/// The rules, if there are VFs to make.
///
/// A PF without its driver refuses the count, so that the event that counts is `bind`, or `add` of a device that is bound
/// already (udevadm trigger after the initramfs). From N to M there is 0 in between, and VFs may be in use: only a PF
/// without VFs is touched (Linux drivers/pci/iov.c).
pub(super) fn rules(build: &Contributions) -> Option<OutFile> {
    if build.vfs.is_empty() {
        return None;
    }
    let mut text = heading(build, "# ");
    if build.vfs.iter().any(|wanted| !wanted.allow_disruption) {
        text.push_str(GUARD);
    }
    for wanted in &build.vfs {
        let guard = match wanted.allow_disruption {
            true => String::new(),
            false => format!(", PROGRAM==\"{NOTHING_UP}\""),
        };
        let pf = format!(
            "ACTION==\"add|bind\", SUBSYSTEM==\"pci\", KERNEL==\"{}\", DRIVER==\"?*\", ATTR{{sriov_numvfs}}==\"0\"{guard}",
            wanted.pf
        );
        text.push('\n');
        if wanted.vf_driver != VfDriver::Auto {
            // VFs that are to get another driver, or none, must not meet the kernel's choice first.
            text.push_str(&format!("{pf}, ATTR{{sriov_drivers_autoprobe}}=\"0\"\n"));
        }
        text.push_str(&format!("{pf}, ATTR{{sriov_numvfs}}=\"{}\"\n", wanted.count));
    }
    Some(OutFile::new(RULES, text))
}

/// Drivers of VFs by name: the rules leave such VFs without one.
pub(super) fn driver_choices(build: &Contributions) -> impl Iterator<Item = Inexpressible> {
    build.vfs.iter().filter_map(|wanted| {
        let VfDriver::Named(driver) = &wanted.vf_driver else { return None };
        Some(Inexpressible {
            what: format!("VFs of {}{}", wanted.pf, vf_driver(&wanted.vf_driver)),
            why: "udev does not know of a VF which PF it belongs to, and the driver is chosen by driver_override before it is bound \
                  (Linux Documentation/ABI/testing/sysfs-bus-pci); the VFs are left without a driver"
                .to_owned(),
            instead: format!(
                "run `bedplate apply` at every boot of the host, or `driverctl set-override ADDRESS {driver}` for each VF"
            ),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired, nothing};
    use super::*;

    #[test]
    fn a_pf_gets_its_vfs_once_its_driver_is_there() {
        let mut desired = desired();
        desired.sriov[0].vf_driver = VfDriver::Named("vfio-pci".to_owned());
        desired.sriov[0].allow_disruption = true;
        let rendered = render(&build(&desired), &Options::default()).unwrap();
        let text = &rendered.file(RULES).unwrap().text;
        let pf = "ACTION==\"add|bind\", SUBSYSTEM==\"pci\", KERNEL==\"0000:18:00.0\", DRIVER==\"?*\", ATTR{sriov_numvfs}==\"0\"";
        let expected = format!(
            "\n{pf}, ATTR{{sriov_drivers_autoprobe}}=\"0\"\n{pf}, ATTR{{sriov_numvfs}}=\"8\"\n"
        );
        assert!(text.ends_with(&expected), "{text}");
        let what = "VFs of 0000:18:00.0 with driver vfio-pci";
        assert!(rendered.inexpressible.iter().any(|item| item.what == what));
    }

    /// The program of the rule, run by a shell over a directory in place of /sys.
    #[test]
    fn a_port_with_an_interface_that_is_up_is_left_alone() {
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

    #[test]
    fn without_vfs_there_is_no_file() {
        assert_eq!(render(&build(&nothing()), &Options::default()).unwrap(), Rendered::default());
    }
}
