//! Links: those of sysfs, which name the driver of a PCI function and the VFs of a PF, and the components of paths.

use super::Reader;
use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;

const DEVICES: &str = "/sys/bus/pci/devices";
/// As many links as the kernel follows (include/linux/namei.h, MAXSYMLINKS).
pub const MOST_LINKS: usize = 40;

/// The driver of a PCI function; `None` = it has none.
///
/// # Errors
/// It is not known: that is not a function without a driver.
pub fn driver(reader: &dyn Reader, function: &str) -> Result<Option<String>, ReadError> {
    name(reader, &format!("{DEVICES}/{function}/driver")).optional()
}

/// The PCI address of a VF, by its number.
///
/// # Errors
/// The PF has no such VF, or it is not known.
pub fn virtual_function(
    reader: &dyn Reader,
    pf: PciAddress,
    number: u16,
) -> Result<String, ReadError> {
    name(reader, &format!("{DEVICES}/{pf}/virtfn{number}"))
}

/// `path` without its links, as far as they can be read; `path` itself where they lead in a circle.
pub fn resolved(reader: &dyn Reader, path: &str) -> String {
    let followed = follow(path, MOST_LINKS, |path| reader.link(path).ok());
    followed.map_or_else(|| path.to_owned(), |(resolved, _)| resolved)
}

/// Follows the links of an absolute path: the path without them, and how many they were. `None`: they are more than `most`.
/// `link`: the target of a path that is a link.
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

/// Walks an absolute path, and returns it without the links that were followed. `link` gets a directory, the path of the next
/// component in it, and whether that is the last one so far; it returns the target of a link that is to be followed.
///
/// # Errors
/// Those of `link`, which end the walk.
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

/// The components of a path in reverse, so that the next one can be popped. `..` stays: what is above it depends on links.
pub(crate) fn components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).rev().map(str::to_owned).collect()
}

/// What a link names.
fn name(reader: &dyn Reader, path: &str) -> Result<String, ReadError> {
    let text = reader.link(path)?;
    let named = last_part(&text).map(str::to_owned);
    named.ok_or_else(|| ReadError::Failed {
        path: path.to_owned(),
        reason: format!("it is a link to {text:?}, which names nothing"),
    })
}

/// Where a link at `path` leads, `.` and `..` taken out.
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

/// The last part of a link's text. In copies of sysfs some links end in a slash.
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
    fn a_link_that_ends_in_a_slash_names_the_same() {
        for end in ["", "/", "//"] {
            let bound = host("driver", &format!("../../../bus/pci/drivers/mlx5_core{end}"));
            assert_eq!(driver(&bound, PF), Ok(Some("mlx5_core".into())), "{end:?}");
            let made = host("virtfn3", &format!("../0000:18:00.4{end}"));
            let found = virtual_function(&made, PF.parse().unwrap(), 3);
            assert_eq!(found, Ok("0000:18:00.4".into()), "{end:?}");
        }
    }

    #[test]
    fn links_on_the_way_are_resolved() {
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
    fn only_a_driver_that_is_known_not_to_be_there_is_none() {
        let unbound = host("vendor", "x");
        assert_eq!(driver(&unbound, PF), Ok(None));
        assert!(virtual_function(&unbound, PF.parse().unwrap(), 0).unwrap_err().is_absent());
        assert!(matches!(driver(&host("driver", "/"), PF), Err(ReadError::Failed { .. })));
        let unrecorded = Snapshot::new(true);
        assert!(matches!(driver(&unrecorded, PF), Err(ReadError::NotRecorded { .. })));
    }
}
