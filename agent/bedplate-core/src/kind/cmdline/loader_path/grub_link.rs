//! Follows symbolic links as GRUB does: within their file system, at whose root an absolute target starts
//! (`grub-core/fs/fshelp.c`).

use crate::kind::cmdline::mounts::{Mounts, below};
use bedplate_base::Reason;
use bedplate_host::{Reader, symlink};

/// Maximum number of links on one path. GRUB fails at the eighth.
const MOST_LINKS: usize = 7;

/// Result of following the links of a path.
pub(super) enum Followed {
    /// The path has no link.
    Plain,
    /// Another path of this host.
    To(String),
    /// Unknown target: not mounted here, or too many links.
    NotKnown(Reason),
}

/// Follows the links of a path on this host.
pub(super) fn followed(reader: &dyn Reader, mounts: &Mounts, path: &str) -> Followed {
    let Some(mount) = mounts.covering(path) else { return Followed::Plain };
    // The kernel follows the links of ZFS data sets.
    if mount.kind == "zfs" {
        return Followed::Plain;
    }
    let host = |inside: &str| super::places(mounts, mount, inside).into_iter().next();
    let root = mount.root.trim_end_matches('/');
    let inside = format!("{root}{}", below(path, &mount.point).unwrap_or_default());
    let link = |inside: &str| host(inside).and_then(|host| reader.link(&host).ok());
    let Some((at, links)) = symlink::follow(&inside, MOST_LINKS, link) else {
        return Followed::NotKnown(
            format!("{path} leads over more links than GRUB follows").into(),
        );
    };
    match (links, host(&at)) {
        (0, _) => Followed::Plain,
        (_, Some(host)) => Followed::To(host),
        (_, None) => Followed::NotKnown(
            format!("{path} is a link to {at} of its file system, which is not visible here")
                .into(),
        ),
    }
}
