//! The daemon's own resource usage for Prometheus, under the names that every exporter uses.

use bedplate_host::process;

/// Returns both metric families, or an empty string if the usage is unknown.
///
/// node_exporter, which reads the file, exports the same families about itself. It drops a sample if its HELP text differs
/// from node_exporter's own, or if its labels do not distinguish it.
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
    fn both_families_match_node_exporter_format() {
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
