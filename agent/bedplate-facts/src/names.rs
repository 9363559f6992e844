//! Names of PCI devices for people, from the pci.ids file of the host's distribution (package `pci.ids` or `hwdata`).
//! They stand beside the numbers in reports; nothing is decided from them, so they are no part of [`Facts`]. The file is
//! read when the first name is asked for: it is a megabyte, and most plans need no name.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use pciid_parser::Database;

use super::Facts;
use super::pci::Function;
use bedplate_base::Reading;
use bedplate_base::value::{PciAddress, PciId};
use bedplate_host::Reader;

/// Where distributions have the file: Debian and kin, RHEL and SUSE and kin.
pub const FILES: [&str; 2] = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"];

/// The names of one host's functions.
pub struct Names<'a> {
    reader: Option<&'a dyn Reader>,
    facts: &'a Facts,
    database: OnceCell<Option<Database>>,
}

impl<'a> Names<'a> {
    /// From the host's own file.
    pub fn new(reader: &'a dyn Reader, facts: &'a Facts) -> Self {
        Names { reader: Some(reader), facts, database: OnceCell::new() }
    }

    /// No names: numbers alone.
    pub fn none(facts: &'a Facts) -> Self {
        Names { reader: None, facts, database: OnceCell::new() }
    }

    /// The function at an address, if there is one.
    pub fn function(&self, address: PciAddress) -> Option<&'a Function> {
        self.facts.pci.known()?.get(address)
    }

    /// A vendor, as the file has it (`NVIDIA Corporation`).
    pub fn vendor(&self, vendor: PciId) -> Option<&str> {
        self.database()?.vendors.get(&vendor.0).map(|vendor| vendor.name.as_str())
    }

    /// A device, as the file has it (`GH100 [H100 SXM5 80GB]`).
    pub fn device(&self, vendor: PciId, device: PciId) -> Option<&str> {
        let devices = &self.database()?.vendors.get(&vendor.0)?.devices;
        devices.get(&device.0).map(|device| device.name.as_str())
    }

    fn database(&self) -> Option<&Database> {
        let read = || {
            let (_, text) = file(self.reader?)?;
            // Without the other 40,000 lines there is nothing to parse, and no line of theirs to fail at.
            Database::parse_db(excerpt(&text, self.facts).as_bytes()).ok()
        };
        self.database.get_or_init(read).as_ref()
    }
}

/// The host's file: its path and its text.
pub(crate) fn file(reader: &dyn Reader) -> Option<(&'static str, String)> {
    let read = |path| Some((path, reader.read(path).ok()?));
    let (path, bytes) = FILES.into_iter().find_map(read)?;
    Some((path, String::from_utf8_lossy(&bytes).into_owned()))
}

/// The lines of a pci.ids file that name these functions.
pub fn excerpt(text: &str, facts: &Facts) -> String {
    let Reading::Known(tree) = &facts.pci else { return String::new() };
    let ids = tree.functions.values().map(|function| (function.vendor.0, function.device.0));
    excerpt_of(text, &ids.collect())
}

/// `10de  NVIDIA Corporation`, below it `<tab>2330  GH100 [H100 SXM5 80GB]`; classes come last (man pci.ids).
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
    fn an_excerpt_has_the_lines_of_the_ids_that_occur() {
        let ids = |ids: &[(u16, u16)]| excerpt_of(TEXT, &ids.iter().copied().collect());
        assert_eq!(
            ids(&[(0x10de, 0x2330), (0x10de, 0x01de)]),
            "10de  NVIDIA Corporation\n\t01de  Old\n\t2330  GH100 [H100 SXM5 80GB]\n"
        );
        assert_eq!(ids(&[(0x15b3, 0x9999)]), "15b3  Mellanox Technologies\n");
        assert_eq!(ids(&[(0x8086, 0x2330)]), "");
        assert_eq!(ids(&[]), "");
        // What was cut once stays as it is: a snapshot of a snapshot.
        let once = ids(&[(0x15b3, 0x1021)]);
        assert_eq!(excerpt_of(&once, &[(0x15b3, 0x1021)].into()), once);
    }
}
