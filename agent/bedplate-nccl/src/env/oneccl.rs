//! oneCCL's list of NICs.

use super::{ChosenPorts, PlacedPort, Setting, prefix_matches};

/// Returns `CCL_MNIC_NAME`: device names without ports, each a prefix that matches all names starting with it.
pub(super) fn nics(chosen: &ChosenPorts, ports: &[PlacedPort], notes: &mut Vec<String>) -> Setting {
    let mut names: Vec<String> = chosen.names();
    names.iter_mut().for_each(|name| name.truncate(name.find(':').unwrap_or(name.len())));
    names.dedup();
    let more = prefix_matches(chosen, ports);
    if !more.is_empty() {
        notes.push(format!("oneCCL only supports prefixes and also matches {}", more.join(", ")));
    }
    notes.push(
        "oneCCL reads CCL_MNIC_NAME only with CCL_ATL_TRANSPORT=ofi; with MPI, its default, the MPI library selects \
         the NICs"
            .to_owned(),
    );
    if names.len() > 1 {
        notes.push(
            "without CCL_MNIC=local or global, oneCCL uses only the first of these NICs".to_owned(),
        );
    }
    Setting { name: "CCL_MNIC_NAME", value: names.join(","), why: chosen.why.clone() }
}
