//! All boot entries, not only the default one: digests of their contents, and the initrds that they load.

use std::collections::{BTreeMap, BTreeSet};

use super::entries;
use super::kernel_install::BOOT_MOUNTS;
use super::loader_path::usual_paths;
use super::menu::Menu;
use super::{bls, soundness};
use crate::ledger::{self, Sha};
use bedplate_base::OptionalRead as _;
use bedplate_host::Reader;

/// Menus of GRUB.
const MENUS: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];
/// Part of the paths of rescue images, which the tools that rebuild initrds do not touch.
const RESCUE: &str = "0-rescue";

/// Returns the digests of GRUB's menus and of the files of all other entries, by path.
pub(crate) fn entry_contents(reader: &dyn Reader) -> BTreeMap<String, Sha> {
    let menus = MENUS.map(str::to_owned);
    ledger::contents(reader, menus.into_iter().chain(entries(reader).unwrap_or_default()))
}

/// Returns the paths of the existing initrds of all entries, at the usual mount points. `None` if an entry cannot be
/// read. Omits microcode and rescue images, which have no configuration of this host.
pub(crate) fn entry_initrds(reader: &dyn Reader) -> Option<BTreeSet<String>> {
    let mut named = Vec::new();
    for mount in BOOT_MOUNTS {
        let files = bls::entry_files(reader, &format!("{mount}/loader/entries"));
        for file in files.optional().ok()?.unwrap_or_default() {
            named.extend(file.entry.initrds(&|_| None));
        }
    }
    for path in MENUS {
        if let Some(menu) = Menu::read(reader, path).optional().ok()? {
            named.extend(menu.initrds()?);
        }
    }
    let is_rebuilt = |path: &String| !soundness::is_microcode(path) && !path.contains(RESCUE);
    let named = named.iter().map(|path| soundness::initrd_path(path).to_owned());
    let on_host = named.filter(is_rebuilt).flat_map(|path| {
        // `($root)/initrd`.
        let path = path.rsplit(')').next().unwrap_or_default();
        usual_paths(path)
    });
    Some(on_host.filter(|path| reader.exists(path) != Ok(false)).collect())
}
