//! Fixes for an unsound boot entry, by boot loader family.

use super::{grub, kernel_image};
use bedplate_facts::boot::KEEP_ENTRIES;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Returns the command that regenerates the entries, or `None` if no command is known.
fn entries(reader: &dyn Reader, facts: &Facts, release: &str) -> Option<String> {
    match &facts.boot {
        BootLoader::GrubDebian => Some("update-grub".into()),
        BootLoader::GrubRhel | BootLoader::GrubSuse => {
            let path = grub::menu_paths(reader, &facts.boot).into_iter().next();
            let path = path.as_deref().unwrap_or("/boot/grub2/grub.cfg");
            Some(format!("grub2-mkconfig -o {path}"))
        }
        BootLoader::RpmOstree => Some("rpm-ostree kargs".into()),
        _ if release.is_empty() || reader.exists("/usr/bin/kernel-install") != Ok(true) => None,
        _ => {
            let image = kernel_image::for_kernel_install(reader, release);
            Some(format!("kernel-install add {release} {image}"))
        }
    }
}

/// Returns the name of a kernel for a fix. An empty release means the kernel of the default entry.
fn named(release: &str) -> String {
    match release {
        "" => "the kernel of the default boot entry".into(),
        release => format!("Linux {release}"),
    }
}

/// Returns the fix for a missing kernel image.
pub(crate) fn kernel(reader: &dyn Reader, facts: &Facts, release: &str) -> String {
    match &facts.boot {
        BootLoader::RpmOstree | BootLoader::Bootc => {
            "boot the previous deployment: `rpm-ostree rollback` or `bootc rollback`".into()
        }
        _ => {
            let again = format!("reinstall the package of {}", named(release));
            match entries(reader, facts, release) {
                Some(command) => {
                    format!("{again}, or remove that kernel from the menu: `{command}`")
                }
                None => format!("{again}, or choose another entry"),
            }
        }
    }
}

/// Returns the fix for a missing initrd.
pub(crate) fn initrd(reader: &dyn Reader, facts: &Facts, release: &str) -> String {
    let of_dracut = || match release {
        "" => "dracut --force --regenerate-all".to_owned(),
        release => format!("dracut --force --kver {release}"),
    };
    let commands = match &facts.boot {
        BootLoader::GrubDebian => {
            let kernel = if release.is_empty() { "all" } else { release };
            Some(format!("update-initramfs -c -k {kernel} && update-grub"))
        }
        BootLoader::GrubRhel | BootLoader::GrubSuse => {
            entries(reader, facts, release).map(|menu| format!("{} && {menu}", of_dracut()))
        }
        BootLoader::GrubBls => Some(of_dracut()),
        BootLoader::Sdbootutil { .. } => Some("sdbootutil mkinitrd".to_owned()),
        BootLoader::RpmOstree | BootLoader::Bootc => return kernel(reader, facts, release),
        _ => entries(reader, facts, release),
    };
    let place = match facts.boot {
        BootLoader::SystemdBoot { .. } | BootLoader::Sdbootutil { .. } => "the boot partition",
        _ => "/boot",
    };
    match commands {
        Some(commands) => format!("check the free space of {place}, then run `{commands}`"),
        None => format!(
            "check the free space of {place}, then rebuild the initrd of {}, or choose another entry",
            named(release)
        ),
    }
}

/// Returns the fix for missing modules.
pub(super) fn modules(facts: &Facts, release: &str) -> String {
    let again = match &facts.boot {
        BootLoader::GrubDebian => {
            format!("apt-get install --reinstall linux-modules-{release} linux-image-{release}")
        }
        BootLoader::GrubRhel | BootLoader::GrubBls => format!("dnf reinstall 'kernel*-{release}'"),
        BootLoader::GrubSuse => "zypper install --force kernel-default".into(),
        _ => return format!("install the modules of Linux {release}, or choose another entry"),
    };
    format!("run `{again}`, or choose another entry")
}

/// Returns the fix for a different root file system.
pub(crate) fn root(reader: &dyn Reader, facts: &Facts) -> String {
    let by_hand = "if the new root is intended, reboot by hand";
    let is_generated = !matches!(facts.boot, BootLoader::RpmOstree);
    match entries(reader, facts, "").filter(|_| is_generated) {
        Some(command) => format!(
            "regenerate the menu with `{command}` and compare its root with that of /proc/cmdline; {by_hand}"
        ),
        None => format!("write the root of /proc/cmdline to the entry; {by_hand}"),
    }
}

/// Returns the fix for a menu that waits for a key forever.
pub(crate) fn timeout(reader: &dyn Reader, facts: &Facts) -> String {
    format!(
        "set GRUB_TIMEOUT in /etc/default/grub to a number of seconds, then run `{}`",
        menu(reader, facts)
    )
}

/// Returns the fix for a password prompt before the boot.
pub(crate) fn password(reader: &dyn Reader, facts: &Facts) -> String {
    format!(
        "add --unrestricted to CLASS in /etc/grub.d/10_linux, so that only changes of an entry need the password, then run \
         `{}`",
        menu(reader, facts)
    )
}

/// Returns the fix if the entry or its files cannot be checked.
pub(crate) fn unknown(facts: &Facts) -> String {
    let again = match &facts.boot {
        BootLoader::GrubDebian => "; `update-grub` regenerates the menu".to_owned(),
        BootLoader::GrubRhel | BootLoader::GrubSuse => {
            "; `grub2-mkconfig` regenerates the menu".to_owned()
        }
        BootLoader::GrubBls => "; `grubby --info DEFAULT` shows the entry".to_owned(),
        BootLoader::SystemdBoot { .. } | BootLoader::Sdbootutil { .. } => {
            "; `bootctl list` shows the entries".to_owned()
        }
        BootLoader::RpmOstree | BootLoader::Bootc => {
            "; `rpm-ostree status` shows the deployments".to_owned()
        }
        BootLoader::Unmanaged { fix, .. } | BootLoader::Unknown { fix, .. } => {
            return fix.clone();
        }
    };
    format!(
        "check that every file system of /etc/fstab is mounted, and inspect the default boot entry{again}"
    )
}

/// Returns the command that regenerates GRUB's menu.
fn menu(reader: &dyn Reader, facts: &Facts) -> String {
    match &facts.boot {
        // Without the option, many builds also overwrite the entries (handbook §10.3).
        BootLoader::GrubBls => {
            Some(format!("grub2-mkconfig {KEEP_ENTRIES} -o /boot/grub2/grub.cfg"))
        }
        _ => entries(reader, facts, ""),
    }
    .unwrap_or_else(|| "update-grub".to_owned())
}
