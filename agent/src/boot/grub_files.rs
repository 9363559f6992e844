//! What lies beside a generated `grub.cfg` and decides with it: the environment block, other files, BLS entries.

use super::bls::BlsEntry;
use super::grubenv::Grubenv;

/// What lies beside the configuration.
#[derive(Debug, Clone, Default)]
pub struct GrubFiles<'a> {
    /// The environment block; `None` when there is none.
    pub grubenv: Option<&'a Grubenv>,
    /// Names of the files in the directory of `grub.cfg` (`custom.cfg` matters).
    pub files: &'a [&'a str],
    /// Entries of /boot/loader/entries, in any order, for a configuration that calls `blscfg`.
    pub bls: &'a [BlsEntry],
}

impl GrubFiles<'_> {
    /// Whether the directory of `grub.cfg` lacks a file.
    pub(super) fn lacks(&self, name: &str) -> bool {
        !self.files.contains(&name)
    }

    /// Whether a file that a script asks for exists; known only in the directory of `grub.cfg`.
    pub(super) fn has_path(&self, path: &str) -> Option<bool> {
        let (directory, name) = path.rsplit_once('/')?;
        match directory {
            "$prefix" | "$config_directory" if name == "grubenv" => Some(self.grubenv.is_some()),
            "$prefix" | "$config_directory" => Some(!self.lacks(name)),
            _ => None,
        }
    }
}
