//! Id of an installation (machine-id(5)).

use super::Reader;

/// Path of the machine id, inside the host.
const PATH: &str = "/etc/machine-id";

/// Returns the machine id of a host. `None` if it is unreadable or not set yet.
pub fn read(reader: &dyn Reader) -> Option<String> {
    reader.attribute(PATH).ok().filter(|id| !id.is_empty() && id != "uninitialized")
}
