//! All boot entries, not the default one alone: their contents, and the initrds that they load.

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
/// In paths of rescue images, which the tools that rebuild initrds leave alone.
const RESCUE: &str = "0-rescue";

/// Contents of GRUB's menus and of the files of all other entries, by path.
pub(crate) fn entry_contents(reader: &dyn Reader) -> BTreeMap<String, Sha> {
    let menus = MENUS.map(str::to_owned);
    ledger::contents(reader, menus.into_iter().chain(entries(reader).unwrap_or_default()))
}

/// Paths of the initrds that are there, wherever file systems are usually mounted; `None` where some entry cannot be read. Microcode
/// and rescue images are left out: they hold no configuration of this host.
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
