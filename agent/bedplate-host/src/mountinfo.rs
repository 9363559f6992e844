//! Lines of /proc/PID/mountinfo (proc(5)).

/// A mounted file system, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub point: String,
    /// Directory of the file system that is mounted. For btrfs a subvolume.
    pub root: String,
    /// Device number, `MAJOR:MINOR`. btrfs and ZFS mounts have numbers of their own.
    pub device: String,
    /// File system type.
    pub kind: String,
    /// Device or data set.
    pub source: String,
}

impl Mount {
    /// Whether both mounts are of one file system, or of its subvolumes.
    pub fn is_same_file_system(&self, other: &Mount) -> bool {
        self.device == other.device && self.source == other.source
    }

    /// Parses a line: id, parent, device, root, point, options, optional fields, `-`, type, source, options (proc(5)).
    pub fn parse(line: &str) -> Option<Mount> {
        let (own, other) = line.split_once(" - ")?;
        let mut own = own.split(' ').skip(2);
        let mut other = other.split(' ');
        let (device, root, point) = (own.next()?, own.next()?, own.next()?);
        Some(Mount {
            point: unescaped(point),
            root: unescaped(root),
            device: device.to_owned(),
            kind: other.next()?.to_owned(),
            source: unescaped(other.next().unwrap_or_default()),
        })
    }
}

/// Decodes blanks and backslashes that are written in octal (getmntent(3)).
pub fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}
