//! Detection of initramfs rebuilds that an image build made, by the content of every initramfs.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::{Context, cmdline};
use crate::ledger::{self, PendingTool, Sha};
use crate::modules_conf::MODPROBE_PATH;
use bedplate_base::ReadError;
use bedplate_facts::os::installed_kernels;
use bedplate_host::{ModifiedAt, Reader};

/// Paths of the initramfs of a release (`%`).
const IMAGES: [&str; 5] = [
    "/boot/initrd.img-%",
    "/boot/initramfs-%.img",
    "/boot/initrd-%",
    "/lib/modules/%/initramfs.img",
    "/lib/modules/%/initrd",
];

/// File name of the kernel in kernel-install's directories.
const KERNEL: &str = "linux";

/// Returns the SHA-256 of every existing initramfs, by path.
pub(crate) fn digests(reader: &dyn Reader) -> BTreeMap<String, Sha> {
    let releases = installed_kernels(reader);
    let of_kernels = releases.iter().flat_map(|release| images(reader, release));
    let mut paths: BTreeSet<String> = of_kernels.collect();
    paths.extend(cmdline::entry_initrds(reader).unwrap_or_default());
    ledger::contents(reader, paths)
}

/// Whether every kernel has an initramfs, and each of these and of those that boot entries load was built after the tool
/// became pending. The content of a unified kernel image is not visible, but an old one is wrong.
pub(crate) fn is_rebuilt(context: &Context, owed: &PendingTool) -> bool {
    let (reader, releases) = (context.reader, &context.facts.os.installed_kernels);
    let found = (cmdline::entries(reader), cmdline::entry_initrds(reader));
    let (Some(entries), Some(mut checked)) = found else { return false };
    let unified: Vec<String> = entries.into_iter().filter(|path| path.ends_with(".efi")).collect();
    let mut has_one = false;
    for release in releases {
        let images = images(reader, release);
        if images.is_empty() && is_installed(reader, release, &unified) {
            return false;
        }
        has_one |= !images.is_empty();
        checked.extend(images);
    }
    let changed = changed(reader);
    let is_newer = |path: &String| match (reader.modified(path), &changed) {
        (Ok(at), Ok(changed)) => at > *changed,
        _ => false,
    };
    // An image with an earlier digest may be a copy of an old one.
    let is_old = |now: Sha| owed.outputs.values().any(|before| *before == now);
    let is_made = |path: &String| match owed.outputs.is_empty() {
        false => {
            let is_known = owed.outputs.contains_key(path);
            reader.digest(path).is_ok_and(|now| !is_old(now.into())) && (is_known || is_newer(path))
        }
        true => is_newer(path),
    };
    let holds_something =
        |path: &String| reader.read_start(path, 1).is_ok_and(|start| !start.is_empty());
    has_one
        && unified.iter().all(is_newer)
        && checked.iter().all(|path| holds_something(path) && is_made(path))
}

/// Returns the modification time of bedplate's modprobe.d file. If it was removed, its directory has the time of the
/// removal.
fn changed(reader: &dyn Reader) -> Result<ModifiedAt, ReadError> {
    let directory = MODPROBE_PATH.rsplit_once('/').map_or("/", |(directory, _)| directory);
    match reader.modified(MODPROBE_PATH) {
        Err(error) if error.is_absent() => reader.modified(directory),
        written => written,
    }
}

/// Whether a release has a kernel. A modules directory without a kernel is a leftover.
fn is_installed(reader: &dyn Reader, release: &str, unified: &[String]) -> bool {
    let fixed = cmdline::kernel_images(release).into_iter();
    let beside =
        directories(reader, release).into_iter().map(|directory| format!("{directory}/{KERNEL}"));
    let release = [release.to_owned()];
    fixed.chain(beside).any(|path| reader.exists(&path) != Ok(false))
        || unified.iter().any(|path| cmdline::release_of_entry(path, &release).is_some())
}

/// Returns the existing files of [`IMAGES`] for a release, and those of kernel-install (`TOKEN/RELEASE/initrd`).
fn images(reader: &dyn Reader, release: &str) -> Vec<String> {
    let is_there = |path: &String| reader.exists(path) != Ok(false);
    let fixed = IMAGES.iter().map(|path| path.replace('%', release)).filter(is_there);
    let beside = directories(reader, release).into_iter().flat_map(|directory| {
        let names = reader.list(&directory).unwrap_or_default().into_iter();
        let images = names.filter(|name| name.starts_with("init"));
        images.map(|name| format!("{directory}/{name}")).collect::<Vec<_>>()
    });
    fixed.chain(beside).collect()
}

/// Returns the directories where kernel-install may have put the boot files of a release.
fn directories(reader: &dyn Reader, release: &str) -> Vec<String> {
    let of_mount = |mount: &&str| {
        let tokens = reader.list(mount).unwrap_or_default();
        tokens.into_iter().map(|token| format!("{mount}/{token}/{release}")).collect::<Vec<_>>()
    };
    cmdline::BOOT_MOUNTS.iter().flat_map(of_mount).collect()
}
