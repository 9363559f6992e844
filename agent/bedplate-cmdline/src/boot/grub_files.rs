//! Files next to a generated `grub.cfg` that affect it: the environment block, other files, BLS entries.

use super::bls::BlsEntry;
use super::grubenv::Grubenv;
use bedplate_base::Reading;

/// Menu of bootable snapshots, which SUSE's grub.cfg sources (grub2-snapper-plugin, `80_suse_btrfs_snapshot`). It
/// sources a file for each snapshot, in a submenu.
pub const SNAPSHOT_MENU: &str = "/.snapshots/grub-snapshot.cfg";

/// The files next to the configuration.
#[derive(Debug, Clone, Default)]
pub struct GrubFiles<'a> {
    /// The environment block, if it exists.
    pub grubenv: Option<&'a Grubenv>,
    /// Names of the files in the directory of `grub.cfg` (`custom.cfg` matters).
    pub files: &'a [&'a str],
    /// Texts of those that the configuration may read, by name.
    pub texts: &'a [(String, String)],
    /// Entries of /boot/loader/entries, in any order, for a configuration that calls `blscfg`.
    pub bls: &'a [BlsEntry],
    /// Second environment block, outside of files, that `env_block` of the first one names. `None` if it was not read.
    pub header_block: Option<&'a Reading<Grubenv>>,
    /// Text of [`SNAPSHOT_MENU`], if it was read.
    pub snapshot_menu: Option<&'a Reading<String>>,
}

impl GrubFiles<'_> {
    /// Whether the directory of `grub.cfg` lacks a file.
    pub(super) fn lacks(&self, name: &str) -> bool {
        !self.files.contains(&name)
    }

    /// Whether a file named in a script exists; known only in the directory of `grub.cfg`, and for [`SNAPSHOT_MENU`].
    pub(super) fn has_path(&self, path: &str) -> Option<bool> {
        if path == SNAPSHOT_MENU {
            let text = self.snapshot_menu?.optional().ok()?;
            return Some(text.is_some());
        }
        match name_in_grub_directory(path)? {
            "grubenv" => Some(self.grubenv.is_some()),
            name => Some(!self.lacks(name)),
        }
    }

    /// Returns the text of one of these files.
    pub(super) fn text_of(&self, path: &str) -> Option<&str> {
        if path == SNAPSHOT_MENU {
            return self.snapshot_menu?.known().map(String::as_str);
        }
        let name = name_in_grub_directory(path)?;
        self.texts.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str())
    }
}

/// Whether this is the file of one snapshot, `/.snapshots/2/grub-snapshot.cfg`: it adds an entry that loads the
/// configuration of that snapshot.
pub(super) fn is_of_snapshot(path: &str) -> bool {
    let number =
        path.strip_prefix("/.snapshots/").and_then(|rest| rest.strip_suffix("/grub-snapshot.cfg"));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns the name of a file in the directory of `grub.cfg`.
fn name_in_grub_directory(path: &str) -> Option<&str> {
    let (directory, name) = path.rsplit_once('/')?;
    matches!(directory, "$prefix" | "$config_directory").then_some(name)
}

/// Returns those of `names` that the configuration may read from its own directory, so that following it needs their
/// texts. `user.cfg` holds only a password (grub2-setpassword).
pub fn read_by<'a>(cfg: &'a str, names: &'a [String]) -> impl Iterator<Item = &'a String> {
    let is_read = move |name: &&String| {
        name.ends_with(".cfg")
            && !matches!(name.as_str(), "grub.cfg" | "user.cfg")
            && cfg.contains(name.as_str())
    };
    names.iter().filter(is_read)
}
