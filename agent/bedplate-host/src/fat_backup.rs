//! Where the old content of a file is kept while it is replaced on FAT (`write/fat.rs`). Pure.

/// End of the names of old copies: no boot loader reads them (`*.conf`, `*.efi`, `*.cfg`).
const OLD: &str = ".bedplate-old";

/// The copy's name, in the directory of a file of this name.
pub(super) fn name(of: &str) -> String {
    format!(".{of}{OLD}")
}

/// The copy's path.
pub fn path(of: &str) -> String {
    let (directory, file) = of.rsplit_once('/').unwrap_or(("", of));
    format!("{directory}/{}", name(file))
}
