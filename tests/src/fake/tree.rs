//! Content of a directory tree, for comparisons over time.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Lists everything below a directory, one line per entry: type, mode, owner, and content or target.
pub fn everything(root: &Path) -> BTreeMap<String, String> {
    except(root, &[])
}

/// Lists the same without bedplate's own state.
pub fn foreign(root: &Path) -> BTreeMap<String, String> {
    let mut all = except(root, &["var/lib/bedplate"]);
    all.remove("var");
    all.remove("var/lib");
    all
}

/// Lists the same without paths that start with one of `begins`; these are not read.
pub fn except(root: &Path, begins: &[&str]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut see = |path: &str, entry: &DirEntry, meta: &Metadata| {
        all.insert(path.to_owned(), describe(&entry.path(), meta));
    };
    walk(root, "", begins, &mut see);
    all
}

/// Modification and change times and inodes of everything below a directory.
pub fn times(root: &Path) -> BTreeMap<String, (i64, i64, i64, i64, u64)> {
    let mut all = BTreeMap::new();
    walk(root, "", &[], &mut |path, _, meta| {
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec(), meta.ino());
        all.insert(path.to_owned(), times);
    });
    all
}

/// Names of leftover temporary files.
pub fn leftovers(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(root, "", &[], &mut |path, _, _| {
        if path.contains(".bedplate-") {
            found.push(path.to_owned());
        }
    });
    found.sort();
    found
}

/// Calls `see` for every entry below a directory, with its path from the root, except paths that start with one of
/// `but`.
fn walk(
    directory: &Path,
    path: &str,
    but: &[&str],
    see: &mut dyn FnMut(&str, &DirEntry, &Metadata),
) {
    let entries = fs::read_dir(directory).expect("a directory can be listed");
    for entry in entries {
        let entry = entry.expect("a directory can be listed");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let path = if path.is_empty() { name } else { format!("{path}/{name}") };
        if but.iter().any(|begin| path.starts_with(begin)) {
            continue;
        }
        let meta = entry.metadata().expect("an entry can be looked at");
        see(&path, &entry, &meta);
        if meta.is_dir() {
            walk(&entry.path(), &path, but, see);
        }
    }
}

fn describe(path: &Path, meta: &Metadata) -> String {
    let what = if meta.is_symlink() {
        format!("link to {}", fs::read_link(path).expect("a link can be read").display())
    } else if meta.is_dir() {
        "directory".to_owned()
    } else if !meta.is_file() {
        "neither file nor directory".to_owned()
    } else {
        // Escaping the content would dominate the cost.
        let bytes = fs::read(path).expect("a file can be read");
        format!("file: {}", String::from_utf8_lossy(&bytes))
    };
    format!("{:o} {}:{} {what}", meta.mode(), meta.uid(), meta.gid())
}
