//! Name and path of the backup copy that exists while a file is replaced on FAT (`write/fat.rs`). Pure.

/// Suffix of backup copies; no boot loader reads files of this name (`*.conf`, `*.efi`, `*.cfg`).
const OLD: &str = ".bedplate-old";

/// Returns the name of the copy, in the same directory as the file `of`.
pub(super) fn name(of: &str) -> String {
    format!(".{of}{OLD}")
}

/// Returns the path of the copy.
pub fn path(of: &str) -> String {
    let (directory, file) = of.rsplit_once('/').unwrap_or(("", of));
    format!("{directory}/{}", name(file))
}
