//! Recommended variables of a collective library for a host.

use super::env::{self, Advice};
use super::library::Library;
use super::ports;
use super::version::Version;
use super::vm_topology;
use bedplate_base::Reading;
use bedplate_facts::Facts;
use bedplate_facts::superchip::{Superchip, superchip};
use bedplate_facts::topology::Distance;
use bedplate_host::Reader;

/// Derives recommended variables for a host. Unknown or absent if its PCI devices are.
pub fn advise_host(
    reader: &dyn Reader,
    facts: &Facts,
    library: Library,
    version: Version,
) -> Reading<Advice> {
    let tree = match &facts.pci {
        Reading::Known(tree) => tree,
        Reading::Absent => return Reading::Absent,
        Reading::Unknown(why) => return Reading::Unknown(why.clone()),
    };
    let ports = ports::of_host(reader, tree);
    let reach = gdr_reach(facts, library, version);
    let mut advice = env::advise(&ports, reach, library, version);
    advice.notes.extend(vm_topology::note(reader, facts, tree, &ports, library));
    Reading::Known(advice)
}

/// Returns the default GDR level of a library on this host.
pub fn gdr_reach(facts: &Facts, library: Library, version: Version) -> Distance {
    // On these superchips NCCL uses the chip-to-chip link, by default since 2.29 (handbook §8.4).
    match superchip(facts) {
        Superchip::No => Distance::Pxb,
        _ if library != Library::Nccl || version < Version(2, 29) => Distance::Pxb,
        _ => Distance::Node,
    }
}
