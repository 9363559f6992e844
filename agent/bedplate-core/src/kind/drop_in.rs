//! Drop-in configuration directories (modules-load.d, modprobe.d, sysctl.d): which of their files are read, in which order.

use std::collections::BTreeMap;

use crate::plan::{KindId, KindPlan, Note};
use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_host::Reader;

/// Directories by priority, highest first (handbook §9). A file in one hides files of the same name in lower ones.
const PREFIXES: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];

/// One configuration file that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfFile {
    /// Absolute path.
    pub path: String,
    /// Content.
    pub text: String,
}

/// Records an unknown for a failed read.
pub(crate) fn unknown(kind: KindId, section: &mut KindPlan, subject: &str, error: &ReadError) {
    section.unknowns.push(kind.unknown(subject, error.to_string()));
}

/// Returns the vendor file: the one below /usr with the name of `ours`, if no file in /etc or /run hides it.
pub(crate) fn vendor_file<'f>(files: &'f [ConfFile], ours: &str) -> Option<&'f ConfFile> {
    files.iter().find(|file| is_vendor_file(&file.path, ours))
}

/// Whether `path` is that of a [`vendor_file`].
pub(crate) fn is_vendor_file(path: &str, ours: &str) -> bool {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    path.starts_with("/usr/") && name(path) == name(ours)
}

/// Returns the note that an image's file is in force although the profile requests nothing in it.
pub(crate) fn left_in_image(kind: KindId, path: &str) -> Note {
    kind.note(
        path.to_owned(),
        "file of the image, in force although the profile requests nothing in it; rebuild the image without it",
    )
}

/// Returns the files that sort after `ours` and therefore override it.
pub(crate) fn after<'f>(files: &'f [ConfFile], ours: &str) -> impl Iterator<Item = &'f ConfFile> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let ours = name(ours);
    files.iter().filter(move |file| name(&file.path) > ours)
}

/// Returns every file of `PREFIX/directory` that is read, sorted by file name, which is the reading order.
///
/// # Errors
/// The first file or directory that exists and cannot be read.
pub(crate) fn files(reader: &dyn Reader, directory: &str) -> Result<Vec<ConfFile>, ReadError> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for prefix in PREFIXES {
        let directory = format!("{prefix}/{directory}");
        let Some(names) = reader.list(&directory).optional()? else { continue };
        for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
            let path = format!("{directory}/{name}");
            by_name.entry(name).or_insert(path);
        }
    }
    let mut found = Vec::new();
    for path in by_name.into_values() {
        match reader.text(&path) {
            Ok(text) => found.push(ConfFile { path, text }),
            // A link to /dev/null masks the name; a dangling link has no content either.
            Err(error) if error.is_absent() => {}
            Err(ReadError::Failed { .. })
                if reader.link(&path).is_ok_and(|target| target == "/dev/null") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
