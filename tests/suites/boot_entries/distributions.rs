//! Distributions that no other test covers: configuration in the form that their packages write
//! (`tests/data/distributions`, one directory for each; handbook §9 and §10), and scripts with the effect of their tools.

use std::path::Path;

use bedplate_tests::fixtures;
use serde_json::Value;

use crate::root::Root;

const PROFILE: &str = "schema = 1\nname = \"t\"\n[cmdline]\nargs = [\"hugepages=8\"]\nabsent = [\"quiet\"]\n\
                       [modules.options]\nnvidia = { NVreg_EnableMSI = \"1\" }\n";
/// State in a plan of an argument that is in the default entry and not yet in use.
const CONFIGURED: &str = "configured, next boot";

/// A distribution, and the effect of `apply` there.
struct Distribution {
    /// Directory with its files.
    name: &'static str,
    /// Releases of its kernels, that of the default entry first.
    kernels: [&'static str; 2],
    /// Kernel and initramfs of a release (`%`).
    images: [&'static str; 2],
    /// Tools and their text.
    tools: &'static [(&'static str, &'static str)],
    /// Commands that `apply` runs.
    runs: &'static [&'static str],
    /// Files, and a line that they have afterwards (`%`: the first release).
    lines: &'static [(&'static str, &'static str)],
}

const ENTRY: &str = "boot/loader/entries/0123456789abcdef0123456789abcdef-%.conf";
const DONE: &str = "#!/bin/sh\n";
const FAILS: &str = "#!/bin/sh\nexit 1\n";
/// Replaces the arguments of Debian's normal entries, as update-grub does.
const UPDATE_GRUB: &str = "#!/bin/sh\nset -e\n. /etc/default/grub\n\
    for x in /etc/default/grub.d/*.cfg; do [ ! -e \"$x\" ] || . \"$x\"; done\n\
    args=\"$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\"\n\
    sed -i \"/ recovery /!{/^\t*linux\t/{s| ro [^\\$]*| ro $args |; s| \\$||}}\" /boot/grub/grub.cfg\n";
/// Replaces the arguments of SUSE's entries.
const GRUB2_MKCONFIG: &str = "#!/bin/sh\nset -e\n[ \"$*\" = '-o /boot/grub2/grub.cfg' ]\n. /etc/default/grub\n\
    args=\"$GRUB_CMDLINE_LINUX \\${extra_cmdline} $GRUB_CMDLINE_LINUX_DEFAULT\"\n\
    sed -i \"/^\t*linux\t/s|\\(root=UUID=[^ ]*\\) .*|\\1 $args|\" \"$2\"\n";

/// RHEL and its relatives. bedplate runs neither grubby nor grub2-mkconfig there.
const RED_HAT: Distribution = Distribution {
    name: "",
    kernels: ["", ""],
    images: ["boot/vmlinuz-%", "boot/initramfs-%.img"],
    tools: &[
        ("usr/sbin/grubby", FAILS),
        ("usr/sbin/grub2-mkconfig", FAILS),
        ("usr/bin/kernel-install", FAILS),
        ("usr/bin/dracut", DONE),
    ],
    runs: &["dracut --force --regenerate-all"],
    lines: &[],
};

const ALL: [Distribution; 7] = [
    Distribution {
        name: "ubuntu-26.04",
        kernels: ["7.0.0-14-generic", "7.0.0-10-generic"],
        images: ["boot/vmlinuz-%", "boot/initrd.img-%"],
        tools: &[
            ("usr/sbin/update-grub", UPDATE_GRUB),
            ("usr/sbin/update-initramfs", DONE),
            ("usr/bin/dracut", FAILS),
        ],
        runs: &["update-grub", "update-initramfs -u -k all"],
        lines: &[(
            "boot/grub/grub.cfg",
            "vmlinuz-% root=UUID=0f3cbe26-1f4f-4f3a-9a5c-6a7a2f1c7b11 ro  splash hugepages=8\n",
        )],
    },
    Distribution {
        name: "dgx-os-7",
        kernels: ["6.8.0-1044-nvidia", "6.8.0-60-generic"],
        images: ["boot/vmlinuz-%", "boot/initrd.img-%"],
        tools: &[("usr/sbin/update-grub", UPDATE_GRUB), ("usr/sbin/update-initramfs", DONE)],
        runs: &["update-grub", "update-initramfs -u -k all"],
        lines: &[(
            "boot/grub/grub.cfg",
            " iommu=pt console=tty0 console=ttyS0,115200n8 pci=realloc=off dyndbg=\"file pciehp* +p\" splash hugepages=8 $vt_handoff\n",
        )],
    },
    Distribution {
        name: "rhel-10",
        kernels: ["6.12.0-55.40.1.el10_0.x86_64", "6.12.0-55.9.1.el10_0.x86_64"],
        lines: &[
            (ENTRY, " rhgb $tuned_params hugepages=8\n"),
            ("etc/kernel/cmdline", " rhgb hugepages=8"),
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"crashkernel=2G-64G:256M,64G-:512M "),
        ],
        ..RED_HAT
    },
    Distribution {
        name: "fedora-43",
        kernels: ["6.17.12-300.fc43.x86_64", "6.17.4-300.fc43.x86_64"],
        lines: &[
            (ENTRY, " rhgb hugepages=8\n"),
            ("etc/kernel/cmdline", " rhgb hugepages=8"),
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"rhgb hugepages=8\"\n"),
        ],
        ..RED_HAT
    },
    Distribution {
        name: "fedora-44",
        kernels: ["6.19.10-300.fc44.x86_64", "6.19.8-300.fc44.x86_64"],
        lines: &[
            (ENTRY, " rhgb hugepages=8\n"),
            ("etc/kernel/cmdline", " rhgb hugepages=8"),
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"rhgb hugepages=8\"\n"),
        ],
        ..RED_HAT
    },
    Distribution {
        name: "amazon-linux-2023",
        kernels: ["6.12.90-120.164.amzn2023.x86_64", "6.1.186-228.374.amzn2023.x86_64"],
        lines: &[
            (ENTRY, " security=selinux hugepages=8\n"),
            ("etc/kernel/cmdline", " security=selinux hugepages=8"),
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"hugepages=8\"\n"),
        ],
        ..RED_HAT
    },
    Distribution {
        name: "sles-16",
        kernels: ["6.12.0-160000.9-default", "6.12.0-160000.5-default"],
        images: ["usr/lib/modules/%/vmlinuz", "boot/initrd-%"],
        tools: &[("usr/sbin/grub2-mkconfig", GRUB2_MKCONFIG), ("usr/bin/dracut", DONE)],
        runs: &["grub2-mkconfig -o /boot/grub2/grub.cfg", "dracut --force --regenerate-all"],
        lines: &[(
            "boot/grub2/grub.cfg",
            "vmlinuz-% root=UUID=07873a6c-1afe-419f-bafd-439c3ed97f93  ${extra_cmdline} mitigations=auto security=selinux selinux=1 hugepages=8\n",
        )],
    },
];

impl Distribution {
    fn root(&self) -> Root {
        let root = Root::new("", &[], &[]);
        root.put("etc/bedplate/profile.toml", PROFILE);
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/distributions").join(self.name);
        root.put_all(&data);
        std::os::unix::fs::symlink("usr/lib", root.at("lib")).expect("ours");
        for release in self.kernels {
            root.put(&format!("usr/lib/modules/{release}/modules.dep"), "");
            for image in self.images {
                root.put(&image.replace('%', release), "image");
            }
        }
        for (path, text) in self.tools {
            root.tool(path, text);
        }
        root.programs(&["/bin/sh", "/bin/sed"]);
        root
    }
}

fn state<'v>(plan: &'v Value, subject: &str) -> Option<&'v str> {
    let mut items = plan["unchanged"].as_array()?.iter();
    items.find(|item| item["subject"] == subject)?["state"].as_str()
}

#[test]
#[cfg_attr(not(has = "root"), ignore = "needs root")]
fn profile_is_applied_once_and_reverted() {
    fixtures::root();
    for distribution in ALL {
        let (name, root) = (distribution.name, distribution.root());
        let before = root.files();
        let plan = root.plan();
        assert_eq!(plan.code, Some(2), "{name}: {}", plan.text);
        for command in distribution.runs {
            assert!(plan.text.contains(&format!("run {command}")), "{name}: {}", plan.text);
        }
        let done = root.apply(&["--chroot-tools"]);
        assert_eq!(done.code, Some(0), "{name}: {}", done.text);
        let plan = root.plan_json();
        assert_eq!(plan["changes"], Value::Array(Vec::new()), "{name}");
        assert_eq!(state(&plan, "hugepages=8"), Some(CONFIGURED), "{name}: {plan}");
        let after = root.files();
        for (path, line) in distribution.lines {
            let [path, line] = [path, line].map(|text| text.replace('%', distribution.kernels[0]));
            let text = root.text(&path);
            assert!(text.contains(&line), "{name}: {line} is not in {path}:\n{text}");
        }
        let again = root.apply(&["--chroot-tools"]);
        assert_eq!(again.code, Some(0), "{name}: {}", again.text);
        assert_eq!(root.files(), after, "{name}");
        let back = root.image("revert", &["--yes", "--chroot-tools"]);
        assert_eq!(back.code, Some(0), "{name}: {}", back.text);
        assert_eq!(root.files(), before, "{name}");
    }
}
