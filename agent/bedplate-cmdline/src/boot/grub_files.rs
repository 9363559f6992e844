//! Files next to a generated `grub.cfg` that affect it: the environment block, other files, BLS entries.

use super::bls::BlsEntry;
use super::grubenv::Grubenv;

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
}

impl GrubFiles<'_> {
    /// Whether the directory of `grub.cfg` lacks a file.
    pub(super) fn lacks(&self, name: &str) -> bool {
        !self.files.contains(&name)
    }

    /// Whether a file named in a script exists; known only in the directory of `grub.cfg`.
    pub(super) fn has_path(&self, path: &str) -> Option<bool> {
        match name_in_grub_directory(path)? {
            "grubenv" => Some(self.grubenv.is_some()),
            name => Some(!self.lacks(name)),
        }
    }

    /// Returns the text of a file in that directory.
    pub(super) fn text_of(&self, path: &str) -> Option<&str> {
        let name = name_in_grub_directory(path)?;
        self.texts.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str())
    }
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
