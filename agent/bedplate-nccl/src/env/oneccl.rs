//! oneCCL's list of NICs.

use super::{ChosenPorts, PlacedPort, Setting, prefix_matches};

/// Returns `CCL_MNIC_NAME`: device names without ports, each a prefix that matches all names starting with it.
pub(super) fn nics(chosen: &ChosenPorts, ports: &[PlacedPort], notes: &mut Vec<String>) -> Setting {
    let mut names: Vec<String> = chosen.names();
    names.iter_mut().for_each(|name| name.truncate(name.find(':').unwrap_or(name.len())));
    names.dedup();
    let more = prefix_matches(chosen, ports);
    if !more.is_empty() {
        notes.push(format!("oneCCL knows prefixes alone, and takes {} along", more.join(", ")));
    }
    notes.push(
        "oneCCL reads CCL_MNIC_NAME with CCL_ATL_TRANSPORT=ofi alone; with MPI, its default, the MPI library chooses the NICs"
            .to_owned(),
    );
    if names.len() > 1 {
        notes.push(
            "without CCL_MNIC=local or global oneCCL uses the first of these NICs alone".to_owned(),
        );
    }
    Setting { name: "CCL_MNIC_NAME", value: names.join(","), why: chosen.why.clone() }
}
