//! What a directory tree holds, to be compared with what it held before.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Everything below a directory, one line an entry: type, mode, owner, and content or target.
pub fn everything(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    walk(root, root, &mut |path, meta| {
        all.insert(path.to_owned(), describe(&root.join(path), meta));
    });
    all
}

/// The same without bedplate's own state.
pub fn foreign(root: &Path) -> BTreeMap<String, String> {
    let mut all = everything(root);
    all.retain(|path, _| {
        path != "var" && path != "var/lib" && !path.starts_with("var/lib/bedplate")
    });
    all
}

/// When everything below a directory was last changed, in any way.
pub fn times(root: &Path) -> BTreeMap<String, (i64, i64, i64, i64, u64)> {
    let mut all = BTreeMap::new();
    walk(root, root, &mut |path, meta| {
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec(), meta.ino());
        all.insert(path.to_owned(), times);
    });
    all
}

/// Names of temporary files that were left behind.
pub fn leftovers(root: &Path) -> Vec<String> {
    everything(root).into_keys().filter(|path| path.contains(".bedplate-")).collect()
}

fn walk(root: &Path, directory: &Path, see: &mut dyn FnMut(&str, &fs::Metadata)) {
    let entries = fs::read_dir(directory).expect("a directory can be listed");
    for entry in entries {
        let path = entry.expect("a directory can be listed").path();
        let meta = fs::symlink_metadata(&path).expect("an entry can be looked at");
        let name = path
            .strip_prefix(root)
            .expect("it is below")
            .to_str()
            .expect("names are UTF-8")
            .to_owned();
        see(&name, &meta);
        if meta.is_dir() {
            walk(root, &path, see);
        }
    }
}

fn describe(path: &Path, meta: &fs::Metadata) -> String {
    let what = if meta.is_symlink() {
        format!("link to {}", fs::read_link(path).expect("a link can be read").display())
    } else if meta.is_dir() {
        "directory".to_owned()
    } else if !meta.is_file() {
        "neither file nor directory".to_owned()
    } else {
        format!("{:?}", String::from_utf8_lossy(&fs::read(path).expect("a file can be read")))
    };
    format!("{:o} {}:{} {what}", meta.mode(), meta.uid(), meta.gid())
}
