//! Symbolic links as GRUB follows them: within their file system, where an absolute target begins at its root
//! (`grub-core/fs/fshelp.c`).

use crate::kind::cmdline::mounts::{Mounts, below};
use bedplate_base::Reason;
use bedplate_host::{Reader, symlink};

/// Links on the way to one file; at the eighth GRUB gives up.
const MOST_LINKS: usize = 7;

/// What a path leads to.
pub(super) enum Followed {
    /// No link is on the way.
    Plain,
    /// Another path of this host.
    To(String),
    /// A part of the file system that is not mounted.
    NotKnown(Reason),
}

/// Follows the links of a path on this host.
pub(super) fn followed(reader: &dyn Reader, mounts: &Mounts, path: &str) -> Followed {
    let Some(mount) = mounts.covering(path) else { return Followed::Plain };
    // Links of ZFS data sets are left to the kernel.
    if mount.kind == "zfs" {
        return Followed::Plain;
    }
    let host = |inside: &str| super::places(mounts, mount, inside).into_iter().next();
    let root = mount.root.trim_end_matches('/');
    let inside = format!("{root}{}", below(path, &mount.point).unwrap_or_default());
    let link = |inside: &str| host(inside).and_then(|host| reader.link(&host).ok());
    let Some((at, links)) = symlink::follow(&inside, MOST_LINKS, link) else {
        return Followed::NotKnown(format!("{path} is a link that leads on too often").into());
    };
    match (links, host(&at)) {
        (0, _) => Followed::Plain,
        (_, Some(host)) => Followed::To(host),
        (_, None) => Followed::NotKnown(
            format!("{path} is a link to {at} of its file system, which is not to be seen here")
                .into(),
        ),
    }
}
