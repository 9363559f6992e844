//! Directories of the files that the daemon publishes for other programs.

/// Status, metrics and markers; on tmpfs, so that a boot empties it.
pub const RUN_DIRECTORY: &str = "/run/bedplate";
/// Debian's directory of node_exporter's textfile collector (package prometheus-node-exporter).
pub const COLLECTOR: &str = "/var/lib/prometheus/node-exporter";
/// Metrics in it.
pub const COLLECTED: &str = "bedplate.prom";
/// Where Node Feature Discovery reads local features (its documentation, "local feature source").
pub const FEATURES: &str = "/etc/kubernetes/node-feature-discovery/features.d";
/// Labels in it.
pub const FEATURE_FILE: &str = "bedplate";
