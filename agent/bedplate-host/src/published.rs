//! Paths of the files that the daemon publishes for other programs.

/// Status, metrics and markers; on tmpfs, so a boot empties it.
pub const RUN_DIRECTORY: &str = "/run/bedplate";
/// Status for readers without a bus. World-readable.
pub const STATUS: &str = "/run/bedplate/status.json";
/// Path for metrics if node_exporter's directory is missing.
pub const METRICS: &str = "/run/bedplate/bedplate.prom";
/// Exists while the verdict is `ready`.
pub const READY: &str = "/run/bedplate/ready";
/// The request for a power cycle, read by a hook of systemd-shutdown.
pub const POWER_CYCLE: &str = "/run/bedplate/power-cycle";
/// Identity of the `/run/reboot-required` that bedplate created.
pub const REBOOT_MADE: &str = "/run/bedplate/reboot-required.made";
/// Every file that bedplate writes in [`RUN_DIRECTORY`].
pub const RUN_FILES: [&str; 5] = [STATUS, METRICS, READY, POWER_CYCLE, REBOOT_MADE];
/// Debian's directory of node_exporter's textfile collector (package prometheus-node-exporter).
pub const COLLECTOR: &str = "/var/lib/prometheus/node-exporter";
/// Metrics in it.
pub const COLLECTED: &str = "bedplate.prom";
/// Directory from which Node Feature Discovery reads local features (its documentation, "local feature source").
pub const FEATURES: &str = "/etc/kubernetes/node-feature-discovery/features.d";
/// Labels in it.
pub const FEATURE_FILE: &str = "bedplate";
