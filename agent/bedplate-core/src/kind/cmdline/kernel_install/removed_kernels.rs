//! Removed kernels, for which kernel-install had made entries.

use super::BOOT_MOUNTS;
use super::made_entries::release_of;
use crate::kind::cmdline::kernel_image;
use crate::kind::cmdline::mounts::unmounted;
use bedplate_base::{OptionalRead as _, Reading};
use bedplate_host::Reader;

/// Returns the release argument of a `kernel-install add` command.
pub(crate) fn installed_release(argv: &[String]) -> Option<&str> {
    match argv {
        [tool, command, release, _] if tool == "kernel-install" && command == "add" => {
            Some(release)
        }
        _ => None,
    }
}

/// Returns the one of `releases` to which an entry file belongs.
pub(crate) fn release_of_entry<'a>(path: &str, releases: &'a [String]) -> Option<&'a str> {
    release_of(path.rsplit('/').next().unwrap_or(path), releases)
}

/// Whether a kernel is proved to have neither image nor entry.
pub(crate) fn is_kernel_gone(reader: &dyn Reader, release: &str) -> bool {
    let has_image =
        kernel_image::of_packages(release).iter().any(|path| reader.exists(path) != Ok(false));
    let is_mounted = || unmounted(reader, "/boot") == Reading::Absent;
    let Some(files) = entries(reader).filter(|_| !has_image && is_mounted()) else {
        return false;
    };
    let release = [release.to_owned()];
    // No entry at all means that the boot partition is another one, or lost.
    !files.is_empty() && files.iter().all(|path| release_of_entry(path, &release).is_none())
}

/// Returns the paths of all entries and unified kernel images. `None` if some may be unread.
pub(crate) fn entries(reader: &dyn Reader) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for (below, ending) in [("loader/entries", ".conf"), ("EFI/Linux", ".efi")] {
        for mount in BOOT_MOUNTS {
            let directory = format!("{mount}/{below}");
            let names = reader.list(&directory).optional().ok()?.unwrap_or_default();
            let entries = names.iter().filter(|name| name.ends_with(ending));
            all.extend(entries.map(|name| format!("{directory}/{name}")));
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::HostSpec;

    #[test]
    fn kernel_with_any_image_is_not_gone() {
        let release = "6.12.9-1-default";
        let is_gone = |files: &str| {
            let spec = format!("machine = 'plain'\nloader = 'systemd-boot'\n[files]\n{files}");
            is_kernel_gone(&HostSpec::from_toml(&spec).unwrap().build(), release)
        };
        assert!(is_gone(""));
        for image in [
            "/boot/vmlinuz-%",
            "/boot/Image-%",
            "/usr/lib/modules/%/Image",
            "/lib/modules/%/vmlinuz",
        ] {
            let path = image.replace('%', release);
            assert!(!is_gone(&format!("'{path}' = 'x'")), "{path}");
        }
    }
}
