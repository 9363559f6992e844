//! What the daemon itself uses, for Prometheus, under the names that every exporter uses.

use bedplate_host::process;

/// Both families, or nothing where it is not known.
///
/// node_exporter, which reads the file, says the same of itself. It drops a sample whose HELP differs from its own or
/// whose labels do not tell it apart.
pub(crate) fn metrics() -> String {
    let Some(usage) = process::own_usage() else { return String::new() };
    format!(
        "# HELP process_resident_memory_bytes Resident memory size in bytes.\n\
         # TYPE process_resident_memory_bytes gauge\n\
         process_resident_memory_bytes{{process=\"bedplate\"}} {}\n\
         # HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.\n\
         # TYPE process_cpu_seconds_total counter\n\
         process_cpu_seconds_total{{process=\"bedplate\"}} {}\n",
        usage.resident_bytes, usage.cpu_seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_said_as_node_exporter_says_them() {
        let text = metrics();
        let [_, kind, resident, _, counter, seconds] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        assert_eq!(kind, "# TYPE process_resident_memory_bytes gauge");
        assert_eq!(counter, "# TYPE process_cpu_seconds_total counter");
        let value = |line: &str, name: &str| {
            line.strip_prefix(name).and_then(|value| value.parse::<f64>().ok())
        };
        assert!(
            value(resident, "process_resident_memory_bytes{process=\"bedplate\"} ") > Some(0.0)
        );
        assert!(value(seconds, "process_cpu_seconds_total{process=\"bedplate\"} ") >= Some(0.0));
    }
}
