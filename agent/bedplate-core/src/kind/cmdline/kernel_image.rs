//! Names and paths of kernel images, by which bedplate finds kernels and their releases.

use bedplate_host::Reader;

/// Names of images in packages, without the release. kernel-install gets only images with these names. On 64-bit Arm,
/// SUSE uses `Image` (openSUSE/kernel-source, rpm/kernel-binary.spec.in).
const OF_PACKAGES: [&str; 2] = ["vmlinuz", "Image"];
/// Other names of images in /boot.
const OTHERS: [&str; 4] = ["vmlinux", "linux", "kernel", "bzImage"];

/// Returns the text after the name in the file name of an image: the release, unless it is a rescue image.
pub(super) fn release_part(file_name: &str) -> Option<&str> {
    let mut names = OF_PACKAGES.iter().chain(&OTHERS);
    names.find_map(|name| file_name.strip_prefix(name)?.strip_prefix('-'))
}

/// Returns all paths at which the image of a release may be.
pub(crate) fn paths(release: &str) -> Vec<String> {
    let others = OTHERS.iter().map(|name| format!("/boot/{name}-{release}"));
    of_packages(release).into_iter().chain(others).collect()
}

/// Returns the paths at which packages put the image of a release. /lib/modules is not a link on every host.
pub(super) fn of_packages(release: &str) -> Vec<String> {
    let of = |name: &&str| {
        [
            format!("/usr/lib/modules/{release}/{name}"),
            format!("/lib/modules/{release}/{name}"),
            format!("/boot/{name}-{release}"),
        ]
    };
    OF_PACKAGES.iter().flat_map(of).collect()
}

/// Returns the path of a kernel's image for `kernel-install add`: next to its modules, as documented in
/// kernel-install(8), or in /boot, as in Debian's linux-image packages. kernel-install does not search for it.
pub(super) fn for_kernel_install(reader: &dyn Reader, release: &str) -> String {
    let beside = |name: &str| format!("/usr/lib/modules/{release}/{name}");
    let listed = reader.list("/boot").unwrap_or_default();
    let mut candidates = OF_PACKAGES.iter().map(|name| beside(name));
    let found = candidates.find(|path| reader.exists(path) == Ok(true));
    let in_boot = || {
        let mut files = OF_PACKAGES.iter().map(|name| format!("{name}-{release}"));
        files.find(|file| listed.contains(file)).map(|file| format!("/boot/{file}"))
    };
    found.or_else(in_boot).unwrap_or_else(|| beside(OF_PACKAGES[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::kind_of_command;
    use bedplate_host::snapshot::{Node, Snapshot};

    const RELEASE: &str = "6.12.9-1-default";

    /// Returns the image for kernel-install on a host with these files only.
    fn found(files: &[&str]) -> String {
        let mut host = Snapshot::new(true);
        host.insert("/boot", Node::Dir(None));
        host.insert(&format!("/usr/lib/modules/{RELEASE}"), Node::Dir(None));
        files.iter().for_each(|file| host.insert(&file.replace('%', RELEASE), Node::Present));
        host.complete();
        for_kernel_install(&host, RELEASE).replace(RELEASE, "%")
    }

    #[test]
    fn image_is_found_by_either_name_of_packages() {
        let (beside, in_boot) = ("/usr/lib/modules/%/Image", "/boot/Image-%");
        for (files, expected) in [
            (&[][..], "/usr/lib/modules/%/vmlinuz"),
            (&["/boot/vmlinuz-%"], "/boot/vmlinuz-%"),
            (&["/boot/vmlinuz-%", "/usr/lib/modules/%/vmlinuz"], "/usr/lib/modules/%/vmlinuz"),
            (&[in_boot], in_boot),
            (&[in_boot, beside], beside),
            (&["/boot/vmlinux-%"], "/usr/lib/modules/%/vmlinuz"),
        ] {
            assert_eq!(found(files), expected, "{files:?}");
            assert!(files.iter().all(|file| paths("%").iter().any(|path| path == file)));
        }
    }

    #[test]
    fn ledger_may_give_each_image_of_packages_to_kernel_install() {
        for name in OF_PACKAGES {
            for image in
                [format!("/usr/lib/modules/{RELEASE}/{name}"), format!("/boot/{name}-{RELEASE}")]
            {
                let argv = ["kernel-install", "add", RELEASE, &image].map(str::to_owned);
                assert!(kind_of_command(&argv).is_some(), "{image}");
            }
        }
    }

    #[test]
    fn release_follows_name_of_image() {
        for (file, expected) in [
            ("vmlinuz-6.8.0-45-generic", Some("6.8.0-45-generic")),
            ("Image-6.12.9-1-default", Some("6.12.9-1-default")),
            ("vmlinuz-0-rescue-0123", Some("0-rescue-0123")),
            ("vmlinuz", None),
            ("Images-6.1", None),
            ("initrd-6.12.9-1-default", None),
        ] {
            assert_eq!(release_part(file), expected, "{file}");
        }
    }
}
