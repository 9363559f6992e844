//! Release of the kernel that the default boot entry starts. Directories in /lib/modules prove nothing: leftovers,
//! and pinned or saved defaults, are common (handbook §14.2).

use super::{bls, grub, kernel_image, kernel_install, ostree, sdbootutil};
use bedplate_base::Reading;
use bedplate_cmdline::boot::bls::BlsEntry;
use bedplate_cmdline::boot::uki;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{HostKind, Reader};

/// Text in place of the release in the name of a rescue image.
const RESCUE: &str = "0-rescue";

/// Returns the release. `Absent` if there is no boot entry.
pub(crate) fn next_kernel(reader: &dyn Reader, facts: &Facts) -> Reading<String> {
    let image = match &facts.boot {
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse => {
            grub::image(reader, facts)
        }
        BootLoader::GrubBls => bls::image(reader),
        BootLoader::SystemdBoot { uki: true } => return of_uki(reader, facts),
        BootLoader::SystemdBoot { uki: false } => {
            return of_entry(kernel_install::default_entry(reader), facts);
        }
        BootLoader::Sdbootutil { .. } => {
            return of_entry(
                sdbootutil::placed_entry(reader, facts).map(|(_, entry)| entry),
                facts,
            );
        }
        BootLoader::RpmOstree | BootLoader::Bootc => {
            return of_entry(ostree::first_entry(reader), facts);
        }
        BootLoader::Unmanaged { reason, .. } => return only_kernel(facts, reason),
        BootLoader::Unknown { reason, .. } => return Reading::unknown(reason.clone()),
    };
    match image {
        Reading::Known(image) => named(&image, facts),
        other => other,
    }
}

/// Returns the kernels of the next boot and of the running host if they differ.
pub(crate) fn other_kernel(facts: &Facts) -> Option<(&str, &str)> {
    let (next, running) = (facts.os.next_kernel.known()?, facts.os.kernel.known()?);
    (next != running && facts.host != HostKind::Image).then_some((next, running))
}

/// Returns the running kernel if it is the only installed one. Systems that are one image (Talos) have one kernel.
fn only_kernel(facts: &Facts, reason: &str) -> Reading<String> {
    match (facts.os.installed_kernels.as_slice(), facts.os.kernel.known()) {
        ([only], Some(running)) if only == running => Reading::Known(running.clone()),
        _ => Reading::unknown(reason.to_owned()),
    }
}

/// Returns the release by the image's name, else by `version`, which kernel-install writes and operators may omit.
fn of_entry(entry: Reading<BlsEntry>, facts: &Facts) -> Reading<String> {
    let is_installed = |version: &str| facts.os.installed_kernels.iter().any(|one| one == version);
    entry.and_then(|entry| {
        match (release(entry.linux().unwrap_or_default(), facts), entry.version()) {
            (Some(release), _) => Reading::Known(release),
            (None, Some(version)) if is_installed(version) => Reading::Known(version.to_owned()),
            _ => Reading::unknown(UNNAMED),
        }
    })
}

/// Returns the release by the image's own data (UAPI UKI specification, `.uname`), else by its file name,
/// `<machine>-<release>.efi`.
fn of_uki(reader: &dyn Reader, facts: &Facts) -> Reading<String> {
    kernel_install::newest_uki(reader).and_then(|path| {
        let said = reader.read_start(&path, uki::PREFIX_BYTES).ok();
        match said.and_then(|bytes| uki::release(&bytes).ok().flatten()) {
            Some(release) => Reading::Known(release),
            None => named(path.trim_end_matches(".efi"), facts),
        }
    })
}

fn named(image: &str, facts: &Facts) -> Reading<String> {
    release(image, facts).map_or_else(|| Reading::unknown(UNNAMED), Reading::Known)
}

/// Omits the image's path, which is from a file of the boot loader: plans are visible to more users than that file.
const UNNAMED: &str = "the image path of the default boot entry does not name a kernel release";

/// Returns the release in an image's path: an installed release that equals or ends a part of the path, else the text
/// after the usual prefix of images, for kernels whose modules are elsewhere.
fn release(image: &str, facts: &Facts) -> Option<String> {
    let parts = || image.rsplit('/');
    let is_in = |release: &&String| {
        parts().any(|part| {
            part.strip_suffix(release.as_str())
                .is_some_and(|before| before.is_empty() || before.ends_with('-'))
        })
    };
    // The longest match: `6.8.0-45-generic`, not a directory that an operator named `generic`.
    let installed = facts.os.installed_kernels.iter().filter(is_in).max_by_key(|one| one.len());
    let name = parts().next().unwrap_or_default();
    let behind = || {
        let rest = kernel_image::release_part(name)?;
        // dracut names the rescue image `vmlinuz-0-rescue-<machine id>`, for any kernel (51-dracut-rescue.install).
        let release = rest.starts_with(|c: char| c.is_ascii_digit()) && !rest.starts_with(RESCUE);
        release.then(|| rest.to_owned())
    };
    installed.cloned().or_else(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_facts::{Depth, observe};
    use bedplate_testhosts::HostSpec;

    fn next(description: &str) -> Reading<String> {
        let host = HostSpec::from_toml(description).unwrap().build();
        next_kernel(&host, &observe(&host, Depth::Identity))
    }

    #[test]
    fn every_loader_names_the_kernel_of_its_default_entry() {
        for loader in
            ["debian", "rhel9", "rhel8", "suse", "systemd-boot", "uki", "rpm-ostree", "bootc"]
        {
            let host = format!(
                "machine = 'plain'\nloader = '{loader}'\nkernel = '6.8.0-45-generic'\n\
                 [files]\n'/usr/lib/modules/6.99.0-1-left/modules.dep' = ''\n"
            );
            assert_eq!(next(&host), Reading::Known("6.8.0-45-generic".into()), "{loader}");
        }
        let talos = "machine = 'plain'\nloader = 'talos'\nkernel = '6.12.31-talos'";
        assert_eq!(next(talos), Reading::Known("6.12.31-talos".into()));
        for several in ["loader = 'none'", "loader = 'talos'\nolder-kernels = ['6.1.0']"] {
            let host = format!("machine = 'plain'\n{several}");
            assert!(matches!(next(&host), Reading::Unknown(_)), "{several}");
        }
        let gone = "machine = 'plain'\nremove = ['/boot/grub/grub.cfg']";
        assert_eq!(next(gone), Reading::Absent);
    }

    #[test]
    fn chosen_entry_gives_the_next_kernel() {
        let env = format!("{:#<1024}", "# GRUB Environment Block\nnext_entry=1>2\n");
        let mut host = HostSpec::from_toml(
            "machine = 'plain'\nkernel = '6.17.0-3-generic'\nolder-kernels = ['6.8.0-45-generic']",
        )
        .unwrap();
        host.files.insert("/boot/grub/grubenv".into(), env);
        let host = host.build();
        let facts = observe(&host, Depth::Identity);
        assert_eq!(next_kernel(&host, &facts), Reading::Known("6.8.0-45-generic".into()));
    }

    /// Returns the next kernel of systemd-boot with two kernels, an EFI variable that may choose one, and loader.conf.
    fn chosen(loader: &str, variable: Option<(&str, &[u8])>, conf: &str) -> Reading<String> {
        let description = format!(
            "machine = 'plain'\nloader = '{loader}'\nkernel = '6.17.0-3-generic'\nolder-kernels = ['6.8.0-45-generic']"
        );
        let mut host = HostSpec::from_toml(&description).unwrap().build();
        let mount = ["/efi", "/boot", "/boot/efi"].into_iter().find(|mount| {
            ["loader/entries", "EFI/Linux"]
                .iter()
                .any(|directory| host.list(&format!("{mount}/{directory}")).is_ok())
        });
        let mount = mount.expect("a boot partition");
        let text = bedplate_host::snapshot::Node::File(conf.as_bytes().to_vec());
        host.insert(&format!("{mount}/loader/loader.conf"), text);
        if let Some((name, bytes)) = variable {
            let path =
                format!("/sys/firmware/efi/efivars/{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f");
            host.insert(&path, bedplate_host::snapshot::Node::File(bytes.to_vec()));
        }
        next_kernel(&host, &observe(&host, Depth::Identity))
    }

    fn variable(text: &str) -> Vec<u8> {
        let units = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        [7, 0, 0, 0].into_iter().chain(units).collect()
    }

    #[test]
    fn efi_variable_overrides_loader_conf() {
        let (old, new) = ("6.8.0-45-generic", "6.17.0-3-generic");
        let known = |release: &str| Reading::Known(release.to_owned());
        for loader in ["systemd-boot", "uki"] {
            assert_eq!(chosen(loader, None, "timeout 3\n"), known(new), "{loader}");
            assert_eq!(chosen(loader, None, "default *6.8*\n"), known(old), "{loader}");
            for name in ["LoaderEntryDefault", "LoaderEntryOneShot"] {
                let told = variable("*6.8*");
                assert_eq!(chosen(loader, Some((name, &told)), "default *6.17*\n"), known(old));
            }
            for unclear in [variable("@saved"), vec![7, 0, 0, 0, b'x']] {
                let next = chosen(loader, Some(("LoaderEntryDefault", &unclear)), "");
                assert!(matches!(next, Reading::Unknown(_)), "{loader}: {next:?}");
            }
        }
    }

    /// systemd src/boot/boot.c, config_defaults_load_from_file.
    #[test]
    fn last_default_of_loader_conf_takes_effect() {
        let (old, new) = ("6.8.0-45-generic", "6.17.0-3-generic");
        let table = [
            ("default *6.17*\ndefault *6.8*\n", Some(old)),
            ("default *6.8*\ndefault @current\n", Some(old)),
            ("default @oneshot\n", Some(new)),
            ("#default *6.8*\ndefault-entry *6.8*\n", Some(new)),
            ("default\t\"*6.8*\"\n", Some(old)),
            ("default @Saved\n", None),
            ("default @saved\ndefault *6.8*\n", Some(old)),
        ];
        for (conf, release) in table {
            for loader in ["systemd-boot", "uki"] {
                let next = chosen(loader, None, conf);
                match release {
                    Some(release) => assert_eq!(next, Reading::Known(release.into()), "{conf}"),
                    None => assert!(matches!(next, Reading::Unknown(_)), "{conf}: {next:?}"),
                }
            }
        }
    }

    #[test]
    fn release_is_found_in_image_name() {
        let host = HostSpec::from_toml("machine = 'plain'\nkernel = '6.8.0-45-generic'").unwrap();
        let facts = observe(&host.build(), Depth::Identity);
        let table = [
            ("/boot/vmlinuz-6.8.0-45-generic", Some("6.8.0-45-generic")),
            ("/0123/6.8.0-45-generic/linux", Some("6.8.0-45-generic")),
            ("($root)/vmlinuz-5.14.0-427.el9.x86_64", Some("5.14.0-427.el9.x86_64")),
            ("/boot/efi/EFI/Linux/0123-6.8.0-45-generic", Some("6.8.0-45-generic")),
            ("/boot/vmlinuz-16.8.0-45-generic", Some("16.8.0-45-generic")),
            ("/boot/Image-6.12.9-1-default", Some("6.12.9-1-default")),
            ("/vmlinuz", None),
            ("/boot/vmlinuz-mine", None),
            ("/vmlinuz-0-rescue-0123456789abcdef0123456789abcdef", None),
            ("", None),
        ];
        for (image, expected) in table {
            assert_eq!(release(image, &facts).as_deref(), expected, "{image}");
        }
    }
}
