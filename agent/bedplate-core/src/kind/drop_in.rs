//! Directories of configuration in which the files of several places count together (modules-load.d, modprobe.d,
//! sysctl.d): which of them are read, and in which order.

use std::collections::BTreeMap;

use crate::plan::{KindId, KindPlan, Note};
use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_host::Reader;

/// Directories by priority, highest first (handbook §9). A file name in a higher one hides it in the lower ones.
const PREFIXES: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];

/// One configuration file that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfFile {
    /// Its path.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Notes what could not be read.
pub(crate) fn unknown(kind: KindId, section: &mut KindPlan, subject: &str, error: &ReadError) {
    section.unknowns.push(kind.unknown(subject, error.to_string()));
}

/// The vendor file: one of the same name as `ours` that an image brings below /usr, and that counts, for there is none in /etc or /run.
pub(crate) fn vendor_file<'f>(files: &'f [ConfFile], ours: &str) -> Option<&'f ConfFile> {
    files.iter().find(|file| is_vendor_file(&file.path, ours))
}

/// Whether a path is that of a [`vendor_file`].
pub(crate) fn is_vendor_file(path: &str, ours: &str) -> bool {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    path.starts_with("/usr/") && name(path) == name(ours)
}

/// That what an image says is in force, and the profile asks for none of it.
pub(crate) fn left_in_image(kind: KindId, path: &str) -> Note {
    kind.note(
        path.to_owned(),
        "of the image, is in force, and the profile asks for nothing that is in it: build the image without it",
    )
}

/// The files that sort after `ours`: what they set wins.
pub(crate) fn after<'f>(files: &'f [ConfFile], ours: &str) -> impl Iterator<Item = &'f ConfFile> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let ours = name(ours);
    files.iter().filter(move |file| name(&file.path) > ours)
}

/// Every file of `PREFIX/directory` that counts, in the order of reading (sorted by file name).
///
/// # Errors
/// The first file or directory that is there and cannot be read: what it says is unknown.
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
            // A link to /dev/null masks the name; a dangling link says nothing either.
            Err(error) if error.is_absent() => {}
            Err(ReadError::Failed { .. })
                if reader.link(&path).is_ok_and(|target| target == "/dev/null") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
