//! Symbolic links as GRUB follows them: within their file system, where an absolute target begins at its root
//! (`grub-core/fs/fshelp.c`).

use crate::host::{Reader, Reason, link};
use crate::kind::cmdline::mounts::{Mounts, below};

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
    let mut rest =
        link::components(&format!("{root}{}", below(path, &mount.point).unwrap_or_default()));
    let (mut at, mut links) = (String::new(), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.truncate(at.rfind('/').unwrap_or(0));
            continue;
        }
        let next = format!("{at}/{name}");
        match host(&next).and_then(|host| reader.link(&host).ok()) {
            Some(_) if links == MOST_LINKS => {
                return Followed::NotKnown(
                    format!("{path} is a link that leads on too often").into(),
                );
            }
            Some(target) => {
                links += 1;
                if target.starts_with('/') {
                    at.clear();
                }
                rest.extend(link::components(&target));
            }
            None => at = next,
        }
    }
    match (links, host(&at)) {
        (0, _) => Followed::Plain,
        (_, Some(host)) => Followed::To(host),
        (_, None) => Followed::NotKnown(
            format!("{path} is a link to {at} of its file system, which is not to be seen here")
                .into(),
        ),
    }
}
