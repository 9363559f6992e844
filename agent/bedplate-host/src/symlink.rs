//! Symbolic links: those of sysfs, which name the driver of a PCI function and the VFs of a PF, and path components.

use super::Reader;
use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;

const DEVICES: &str = "/sys/bus/pci/devices";
/// Number of links that the kernel follows (include/linux/namei.h, MAXSYMLINKS).
pub const MOST_LINKS: usize = 40;

/// Returns the driver of a PCI function, or `None` if it is unbound.
///
/// # Errors
/// The driver is unknown; that differs from an unbound function.
pub fn driver(reader: &dyn Reader, function: &str) -> Result<Option<String>, ReadError> {
    name(reader, &format!("{DEVICES}/{function}/driver")).optional()
}

/// Returns the PCI address of a VF, by its number.
///
/// # Errors
/// The PF has no VF of this number, or it is unknown.
pub fn virtual_function(
    reader: &dyn Reader,
    pf: PciAddress,
    number: u16,
) -> Result<String, ReadError> {
    name(reader, &format!("{DEVICES}/{pf}/virtfn{number}"))
}

/// Returns `path` without its links, as far as they are readable. Returns `path` itself if they form a loop.
pub fn resolved(reader: &dyn Reader, path: &str) -> String {
    let followed = follow(path, MOST_LINKS, |path| reader.link(path).ok());
    followed.map_or_else(|| path.to_owned(), |(resolved, _)| resolved)
}

/// Follows the links of an absolute path. Returns the path without them and their number, or `None` if there are more
/// than `most`. `link` returns the target of a path that is a link.
pub fn follow(
    path: &str,
    most: usize,
    link: impl Fn(&str) -> Option<String>,
) -> Option<(String, usize)> {
    let mut links = 0;
    let walked = walk(path, |_, next, _| match link(next) {
        Some(_) if links == most => Err(()),
        target => {
            links += usize::from(target.is_some());
            Ok(target)
        }
    });
    Some((walked.ok()?, links))
}

/// Walks an absolute path and returns it without the followed links. `link` gets a directory, the path of the next
/// component in it, and whether that is the last one so far. It returns the target of a link to follow.
///
/// # Errors
/// An error of `link` ends the walk.
pub fn walk<E>(
    path: &str,
    mut link: impl FnMut(&str, &str, bool) -> Result<Option<String>, E>,
) -> Result<String, E> {
    let (mut rest, mut at) = (components(path), String::new());
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.truncate(at.rfind('/').unwrap_or(0));
            continue;
        }
        let next = format!("{at}/{name}");
        match link(&at, &next, rest.is_empty())? {
            Some(target) => {
                if target.starts_with('/') {
                    at.clear();
                }
                rest.extend(components(&target));
            }
            None => at = next,
        }
    }
    Ok(at)
}

/// Returns the components of a path in reverse, to be popped. Keeps `..`, because its result depends on links.
pub(crate) fn components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).rev().map(str::to_owned).collect()
}

/// Returns the last component of a link's target.
fn name(reader: &dyn Reader, path: &str) -> Result<String, ReadError> {
    let text = reader.link(path)?;
    let named = last_part(&text).map(str::to_owned);
    named.ok_or_else(|| ReadError::Failed {
        path: path.to_owned(),
        reason: format!("link target {text:?} names nothing"),
    })
}

/// Resolves the target of a link at `path`, without `.` and `..`.
pub fn target(path: &str, text: &str) -> String {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let whole = if text.starts_with('/') { text.to_owned() } else { format!("{directory}/{text}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether a path is absolute, without `.`, `..` or empty components. Not `/` itself.
pub fn is_plain(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// Returns the last part of a link's text. In copies of sysfs some links end in a slash.
pub fn last_part(link: &str) -> Option<&str> {
    link.rsplit('/').find(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Node, Snapshot};

    const PF: &str = "0000:18:00.0";

    fn host(name: &str, target: &str) -> Snapshot {
        let mut host = Snapshot::new(true);
        host.insert(&format!("{DEVICES}/{PF}/{name}"), Node::Link(target.into()));
        host.complete();
        host
    }

    #[test]
    fn trailing_slash_of_link_is_ignored() {
        for end in ["", "/", "//"] {
            let bound = host("driver", &format!("../../../bus/pci/drivers/mlx5_core{end}"));
            assert_eq!(driver(&bound, PF), Ok(Some("mlx5_core".into())), "{end:?}");
            let made = host("virtfn3", &format!("../0000:18:00.4{end}"));
            let found = virtual_function(&made, PF.parse().unwrap(), 3);
            assert_eq!(found, Ok("0000:18:00.4".into()), "{end:?}");
        }
    }

    #[test]
    fn links_in_parent_directories_are_resolved() {
        let mut host = Snapshot::new(true);
        for (path, target) in
            [("/run", "var/run"), ("/var/run", "/srv/a/../run"), ("/loop", "/loop")]
        {
            host.insert(path, Node::Link(target.into()));
        }
        host.complete();
        for (path, expected) in [
            ("/run/bedplate", "/srv/run/bedplate"),
            ("/var/lib/bedplate", "/var/lib/bedplate"),
            ("/loop/x", "/loop/x"),
        ] {
            assert_eq!(resolved(&host, path), expected);
        }
    }

    #[test]
    fn driver_is_none_only_if_known_absent() {
        let unbound = host("vendor", "x");
        assert_eq!(driver(&unbound, PF), Ok(None));
        assert!(virtual_function(&unbound, PF.parse().unwrap(), 0).unwrap_err().is_absent());
        assert!(matches!(driver(&host("driver", "/"), PF), Err(ReadError::Failed { .. })));
        let unrecorded = Snapshot::new(true);
        assert!(matches!(driver(&unrecorded, PF), Err(ReadError::NotRecorded { .. })));
    }
}
