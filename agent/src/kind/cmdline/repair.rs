//! Commands that make a boot entry sound again, by the family of the boot loader.

use crate::facts::{BootLoader, Facts};

/// The command that makes the entries again.
fn entries(facts: &Facts, release: &str) -> String {
    match &facts.boot {
        BootLoader::GrubDebian => "update-grub".into(),
        BootLoader::GrubRhel | BootLoader::GrubSuse => {
            "grub2-mkconfig -o /boot/grub2/grub.cfg".into()
        }
        BootLoader::RpmOstree => "rpm-ostree kargs".into(),
        _ => format!("kernel-install add {release} /usr/lib/modules/{release}/vmlinuz"),
    }
}

/// Where the kernel image is missing.
pub fn kernel(facts: &Facts, release: &str) -> String {
    match &facts.boot {
        BootLoader::RpmOstree | BootLoader::Bootc => {
            "boot the previous deployment: `rpm-ostree rollback` or `bootc rollback`".into()
        }
        _ => {
            let kernel = match release {
                "" => "that kernel".to_owned(),
                release => format!("Linux {release}"),
            };
            format!(
                "install the package of {kernel} again, or take that kernel off the menu: `{}`",
                entries(facts, release)
            )
        }
    }
}

/// Where the initrd is missing.
pub fn initrd(facts: &Facts, release: &str) -> String {
    match &facts.boot {
        BootLoader::GrubDebian => {
            let kernel = if release.is_empty() { "all" } else { release };
            format!(
                "check the free space of /boot, then `update-initramfs -c -k {kernel} && update-grub`"
            )
        }
        BootLoader::GrubRhel | BootLoader::GrubSuse => format!(
            "check the free space of /boot, then `dracut --force --kver {release} && {}`",
            entries(facts, release)
        ),
        BootLoader::GrubBls => {
            format!("check the free space of /boot, then `dracut --force --kver {release}`")
        }
        BootLoader::RpmOstree | BootLoader::Bootc => kernel(facts, release),
        _ => format!(
            "check the free space of the boot partition, then `{}`",
            entries(facts, release)
        ),
    }
}

/// Where the modules are missing.
pub fn modules(facts: &Facts, release: &str) -> String {
    let again = match &facts.boot {
        BootLoader::GrubDebian => {
            format!("apt-get install --reinstall linux-modules-{release} linux-image-{release}")
        }
        BootLoader::GrubRhel | BootLoader::GrubBls => format!("dnf reinstall 'kernel*-{release}'"),
        BootLoader::GrubSuse => "zypper install --force kernel-default".into(),
        _ => return format!("install the modules of Linux {release}, or choose another entry"),
    };
    format!("`{again}`, or choose another entry")
}

/// Where the root file system is another one.
pub fn root(facts: &Facts) -> String {
    let by_hand = "if the new root is meant, reboot by hand";
    match &facts.boot {
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse => format!(
            "make the menu again with `{}` and compare its root with that of /proc/cmdline; {by_hand}",
            entries(facts, "")
        ),
        _ => format!("put the root of /proc/cmdline into the entry; {by_hand}"),
    }
}

/// Where the menu waits for a key for ever.
pub fn timeout(facts: &Facts) -> String {
    format!("set GRUB_TIMEOUT in /etc/default/grub to a number of seconds, then `{}`", menu(facts))
}

/// Where GRUB asks for a password before it boots.
pub fn password(facts: &Facts) -> String {
    format!(
        "add --unrestricted to CLASS in /etc/grub.d/10_linux, so that only changes of an entry need the password, then `{}`",
        menu(facts)
    )
}

/// Where files of the entry, or the entry itself, cannot be looked up.
pub fn unknown(facts: &Facts) -> String {
    let again = match &facts.boot {
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse => {
            format!("; `{}` makes the menu again", menu(facts))
        }
        BootLoader::GrubBls => "; `grubby --info DEFAULT` shows the entry".to_owned(),
        BootLoader::SystemdBoot { .. } => "; `bootctl list` shows the entries".to_owned(),
        BootLoader::RpmOstree | BootLoader::Bootc => {
            "; `rpm-ostree status` shows the deployments".to_owned()
        }
        BootLoader::Unmanaged { remedy, .. } | BootLoader::Unknown { remedy, .. } => {
            return remedy.clone();
        }
    };
    format!(
        "check that every file system of /etc/fstab is mounted, and look at the default boot entry{again}"
    )
}

/// The command that makes the menu of GRUB again.
fn menu(facts: &Facts) -> String {
    match &facts.boot {
        BootLoader::GrubDebian => entries(facts, ""),
        _ => "grub2-mkconfig -o /boot/grub2/grub.cfg".into(),
    }
}
