//! Human-readable names of PCI devices, from the distribution's pci.ids file (package `pci.ids` or `hwdata`). Reports
//! show them next to the numbers; no decision depends on them, so they are not in [`Facts`]. The file has a megabyte
//! and most plans need no name, so it is read for the first name only.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use pciid_parser::Database;

use super::Facts;
use super::pci::Function;
use bedplate_base::Reading;
use bedplate_base::value::{PciAddress, PciId};
use bedplate_host::Reader;

/// Paths of the file: Debian and derivatives; RHEL, SUSE and derivatives.
pub const FILES: [&str; 2] = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"];

/// Names of one host's functions.
pub struct Names<'a> {
    reader: Option<&'a dyn Reader>,
    facts: &'a Facts,
    database: OnceCell<Option<Database>>,
}

impl<'a> Names<'a> {
    /// Uses the host's own file.
    pub fn new(reader: &'a dyn Reader, facts: &'a Facts) -> Self {
        Names { reader: Some(reader), facts, database: OnceCell::new() }
    }

    /// Has no names: reports show numbers only.
    pub fn none(facts: &'a Facts) -> Self {
        Names { reader: None, facts, database: OnceCell::new() }
    }

    /// Returns the function at an address.
    pub fn function(&self, address: PciAddress) -> Option<&'a Function> {
        self.facts.pci.known()?.get(address)
    }

    /// Returns the vendor name as in the file (`NVIDIA Corporation`).
    pub fn vendor(&self, vendor: PciId) -> Option<&str> {
        self.database()?.vendors.get(&vendor.0).map(|vendor| vendor.name.as_str())
    }

    /// Returns the device name as in the file (`GH100 [H100 SXM5 80GB]`).
    pub fn device(&self, vendor: PciId, device: PciId) -> Option<&str> {
        let devices = &self.database()?.vendors.get(&vendor.0)?.devices;
        devices.get(&device.0).map(|device| device.name.as_str())
    }

    fn database(&self) -> Option<&Database> {
        let read = || {
            let (_, text) = file(self.reader?)?;
            // An excerpt avoids parsing the other 40,000 lines, and failing on a bad one.
            Database::parse_db(excerpt(&text, self.facts).as_bytes()).ok()
        };
        self.database.get_or_init(read).as_ref()
    }
}

/// Returns the path and text of the host's file.
pub(crate) fn file(reader: &dyn Reader) -> Option<(&'static str, String)> {
    let read = |path| Some((path, reader.read(path).ok()?));
    let (path, bytes) = FILES.into_iter().find_map(read)?;
    Some((path, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the lines of a pci.ids file that name the functions in `facts`.
pub fn excerpt(text: &str, facts: &Facts) -> String {
    let Reading::Known(tree) = &facts.pci else { return String::new() };
    let ids = tree.functions.values().map(|function| (function.vendor.0, function.device.0));
    excerpt_of(text, &ids.collect())
}

/// Returns the vendors and devices with these ids. Input lines: `10de  NVIDIA Corporation`, below it `<tab>2330  GH100
/// [H100 SXM5 80GB]`; classes are last (man pci.ids).
fn excerpt_of(text: &str, ids: &BTreeSet<(u16, u16)>) -> String {
    let vendors: BTreeSet<u16> = ids.iter().map(|(vendor, _)| *vendor).collect();
    let mut out = String::new();
    let mut current = None;
    for line in text.lines().take_while(|line| !line.starts_with("C ")) {
        let wanted = match line.strip_prefix('\t') {
            // Subsystems are not shown.
            Some(rest) if rest.starts_with('\t') => false,
            Some(device) => current
                .is_some_and(|vendor| id(device).is_some_and(|id| ids.contains(&(vendor, id)))),
            None if line.starts_with('#') || line.is_empty() => false,
            None => {
                current = id(line).filter(|id| vendors.contains(id));
                current.is_some()
            }
        };
        if wanted {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn id(line: &str) -> Option<u16> {
    let (id, _) = line.split_once("  ")?;
    if id.len() == 4 { u16::from_str_radix(id, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#\n#\tVersion: 2026.01.01\n\n0001  SafeNet (wrong ID)\n10de  NVIDIA Corporation\n\
                        \t01de  Old\n\t2330  GH100 [H100 SXM5 80GB]\n\t\t10de 16c1  Board\n\tbad line\n\
                        15b3  Mellanox Technologies\n\t2330  Another\n\t1021  MT2910 Family [ConnectX-7]\n\
                        C 02  Network controller\n\t00  Ethernet controller\n";

    #[test]
    fn excerpt_has_only_lines_of_given_ids() {
        let ids = |ids: &[(u16, u16)]| excerpt_of(TEXT, &ids.iter().copied().collect());
        assert_eq!(
            ids(&[(0x10de, 0x2330), (0x10de, 0x01de)]),
            "10de  NVIDIA Corporation\n\t01de  Old\n\t2330  GH100 [H100 SXM5 80GB]\n"
        );
        assert_eq!(ids(&[(0x15b3, 0x9999)]), "15b3  Mellanox Technologies\n");
        assert_eq!(ids(&[(0x8086, 0x2330)]), "");
        assert_eq!(ids(&[]), "");
        // An excerpt of an excerpt is unchanged, as in a snapshot of a snapshot.
        let once = ids(&[(0x15b3, 0x1021)]);
        assert_eq!(excerpt_of(&once, &[(0x15b3, 0x1021)].into()), once);
    }
}
