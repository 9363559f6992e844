//! Exports of the status: Prometheus (a textfile for node_exporter's collector), Kubernetes (a local feature file for Node
//! Feature Discovery), and a JSON file. Pure rendering, and one function that writes the files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::checks::{Checked, OUTCOMES};
use super::status::{State, Status, Verdict};
use super::usage;
use bedplate_base::terminal;
use bedplate_core::plan::RebootNeed;
use bedplate_host::file::{self, under};
use bedplate_host::published::{self, COLLECTED, COLLECTOR, FEATURE_FILE, FEATURES};
use bedplate_host::write::replace_public_file;

/// Path of the metrics if node_exporter's directory (as in Debian) is missing.
pub(crate) const METRICS: &str = published::METRICS;

/// Renders the Prometheus text format 0.0.4.
pub fn metrics(status: &Status) -> String {
    let mut families = Families(String::new());
    host_metrics(status, &mut families);
    check_metrics(status, &mut families);
    reboot_metrics(status, &mut families);
    daemon_metrics(status, &mut families);
    families.0
}

/// Metric families as text.
struct Families(String);

impl Families {
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: &[(String, f64)]) {
        let out = &mut self.0;
        let _ = writeln!(out, "# HELP bedplate_{name} {help}\n# TYPE bedplate_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "bedplate_{name}{labels} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help, &[(String::new(), value)]);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, &[(String::new(), number(value))]);
    }
}

fn flag(on: bool) -> f64 {
    if on { 1.0 } else { 0.0 }
}

/// Returns whole seconds since 1970; 0: never.
fn seconds(time: Option<jiff::Timestamp>) -> f64 {
    time.map_or(0.0, |time| time.as_duration().as_secs_f64().floor())
}

fn host_metrics(status: &Status, out: &mut Families) {
    let states = State::ALL
        .map(|state| (format!("{{state=\"{}\"}}", state.name()), flag(state == status.state)));
    out.family("state", "gauge", "State of the host: 1 for the current one.", &states);
    let help = "1 if the profile is in effect and no check blocks readiness.";
    out.gauge("ready", help, flag(status.verdict == Verdict::Ready));
    let help = "1 if the host stage is ready: settings and checks that need no GPU driver.";
    out.gauge("host_stage_ready", help, flag(status.host_stage.verdict == Verdict::Ready));
    let sample = |((kind, effect), count)| {
        (format!("{{kind=\"{kind}\",effect=\"{effect}\"}}"), number(count))
    };
    let counts: Vec<_> = status.counts().into_iter().map(sample).collect();
    let help = "Differences from the profile, by resource type and by when they take effect.";
    out.family("pending_changes", "gauge", help, &counts);
    let count = |n: usize| number(u64::try_from(n).unwrap_or(u64::MAX));
    out.gauge("blockers", "Items that require operator action.", count(status.blockers.len()));
    out.gauge("unknowns", "Values that could not be read.", count(status.unknowns.len()));
    let help = "Changes that something else keeps reverting.";
    out.gauge("conflicts", help, count(status.conflicts.len()));
}

/// Adds a series for every check and outcome, so that an alert is `bedplate_check{outcome="fail"} == 1`.
fn check_metrics(status: &Status, out: &mut Families) {
    let mut checks: Vec<&Checked> = status.checks.iter().flatten().collect();
    checks.sort_by_key(|checked| &checked.id);
    let of_one = |checked: &&Checked| {
        let (id, now) = (checked.id.clone(), checked.outcome);
        OUTCOMES.map(|outcome| {
            let labels = format!("{{id=\"{id}\",outcome=\"{}\"}}", outcome.name());
            (labels, flag(outcome == now))
        })
    };
    let samples: Vec<_> = checks.iter().flat_map(of_one).collect();
    let help = "Checks of bedplate verify: 1 for the current outcome; no samples while settings of the host stage differ.";
    out.family("check", "gauge", help, &samples);
}

fn reboot_metrics(status: &Status, out: &mut Families) {
    let need = |need: RebootNeed, name: &str| {
        (format!("{{class=\"{name}\"}}"), flag(status.reboot.need == Some(need)))
    };
    let needs = [need(RebootNeed::Reboot, "ordinary"), need(RebootNeed::Cold, "cold")];
    out.family("reboot_needed", "gauge", "Whether a reboot is needed, by class.", &needs);
    let states = crate::reboot::state::names()
        .map(|name| (format!("{{state=\"{name}\"}}"), flag(status.reboot.state.name() == name)));
    out.family("reboot_state", "gauge", "State of the reboot: 1 for the current one.", &states);
    let help = "Reboots requested since the daemon started.";
    out.counter("reboots_requested_total", help, status.reboot.requested);
}

fn daemon_metrics(status: &Status, out: &mut Families) {
    let help = "When the host was last converged; 0: not yet.";
    out.gauge("last_converged_timestamp_seconds", help, seconds(status.last_converged));
    let help = "When the daemon last wrote this file; alert if older than two intervals.";
    out.gauge("heartbeat_timestamp_seconds", help, seconds(status.heartbeat));
    let help = "Observations of the host since the daemon started.";
    out.counter("observations_total", help, status.observations);
    let took = number(status.last_observation_ms) / 1000.0;
    out.gauge("last_observation_seconds", "Duration of the last observation or change.", took);
}

#[allow(clippy::cast_precision_loss)] // Prometheus has no other numbers.
fn number(count: u64) -> f64 {
    count as f64
}

/// Labels of a host for Node Feature Discovery.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    /// End of validity: NFD then removes them.
    pub until: Option<jiff::Timestamp>,
    /// Whether the host is ready. An unknown is not ready.
    pub ready: bool,
    /// Whether the host stage is ready.
    pub host_ready: bool,
    /// State; only a daemon has one.
    pub state: Option<State>,
    /// Results of the checks.
    pub checks: Option<&'a [Checked]>,
    /// Facts, as names and values.
    pub facts: &'a BTreeMap<String, String>,
}

/// Renders the labels of a status.
fn features(status: &Status) -> String {
    labels(&Labels {
        until: status.fresh_until,
        ready: status.verdict == Verdict::Ready,
        host_ready: status.host_stage.verdict == Verdict::Ready,
        state: Some(status.state),
        checks: status.checks.as_deref(),
        facts: &status.facts,
    })
}

/// Renders one `name=value` per line.
pub fn labels(labels: &Labels<'_>) -> String {
    let mut out = String::new();
    // A label that is not renewed in time expires (NFD, "feature files": expiry-time).
    if let Some(until) = labels.until {
        let _ = writeln!(out, "# +expiry-time={}", until.strftime("%Y-%m-%dT%H:%M:%SZ"));
    }
    let Labels { ready, host_ready, .. } = labels;
    let _ = writeln!(out, "bedplate.ready={ready}\nbedplate.host-ready={host_ready}");
    if let Some(state) = labels.state {
        let _ = writeln!(out, "bedplate.state={}", state.name());
    }
    if let Some(checks) = labels.checks {
        let failed: Vec<&Checked> = checks.iter().filter(|checked| checked.fails()).collect();
        let _ = writeln!(out, "bedplate.failed-checks={}", failed.len());
        // Only the first failed check: a list of all might exceed the length of a label value.
        if let Some(first) = failed.first() {
            let _ = writeln!(out, "bedplate.failed-check={}", first.id);
        }
    }
    for (name, value) in labels.facts {
        // Label values are letters, digits, `-`, `_` and `.` (Kubernetes, labels and selectors).
        let value: String = value
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
            .collect();
        let _ = writeln!(out, "bedplate.{name}={value}");
    }
    out
}

/// Reads the status that the daemon last wrote.
pub fn read(root: &Path) -> Option<Status> {
    Status::parse(&file::text(&under(root, super::status::FILE)).ok()?)
}

/// Writes all exports below `root`. Returns a message for each failure; the rest is written.
pub(crate) fn write(root: &Path, status: &Status, said: &mut WrittenFiles) -> Vec<String> {
    let at = |path: &str| under(root, path);
    let mut wrong = Vec::new();
    // The daemon's own usage changes constantly; that alone is no reason to write.
    let mut put = |path: &str, text: String, usage: fn() -> String| {
        let target = at(path);
        if said.get(path) == Some(&text) && target.exists() {
            return;
        }
        match replace_public_file(&target, format!("{text}{}", usage()).as_bytes()) {
            Ok(()) => _ = said.insert(path.to_owned(), text),
            Err(error) => wrong.push(format!("cannot write {path}: {error}")),
        }
    };
    let collector = if at(COLLECTOR).is_dir() {
        format!("{COLLECTOR}/{COLLECTED}")
    } else {
        METRICS.to_owned()
    };
    put(&collector, metrics(status), usage::metrics);
    if at(FEATURES).is_dir() {
        put(&format!("{FEATURES}/{FEATURE_FILE}"), features(status), String::new);
    }
    // Serializing a struct of plain data does not fail.
    let json = terminal::json(&serde_json::to_string_pretty(status).unwrap_or_default()) + "\n";
    put(super::status::FILE, json, String::new);
    wrong
}

/// Texts last written, by path. Unchanged texts are not written again, so that no watcher wakes up needlessly.
pub(crate) type WrittenFiles = std::collections::BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Difference;
    use bedplate_core::plan::{Effect, KindId, Pending};

    fn waiting() -> Status {
        let mut status = Status::starting("b".into());
        status.profile = "p".into();
        status.changes.push(Difference {
            id: "acs/x".into(),
            kind: KindId::Acs,
            subject: "x".into(),
            effect: Effect::EveryBoot,
            live: true,
            modules: false,
            items: Vec::new(),
        });
        status.pending.push(Pending {
            kind: KindId::Cmdline,
            subject: "iommu=pt".into(),
            running: None,
            next: Some("iommu=pt".into()),
            effect: Effect::ColdBoot,
        });
        status.reboot.need = Some(RebootNeed::Cold);
        status.facts.insert("iommu".into(), "DMA-FQ, mixed".into());
        status.last_converged = Some("2026-03-03T03:00:00.9Z".parse().unwrap());
        status
    }

    #[test]
    fn metrics_have_prometheus_format() {
        let text = metrics(&waiting());
        for line in [
            "bedplate_state{state=\"starting\"} 1",
            "bedplate_state{state=\"converged\"} 0",
            "bedplate_ready 0",
            "bedplate_reboot_state{state=\"unknown\"} 1",
            "bedplate_reboot_state{state=\"scheduled\"} 0",
            "bedplate_pending_changes{kind=\"acs\",effect=\"every-boot\"} 1",
            "bedplate_pending_changes{kind=\"cmdline\",effect=\"cold-boot\"} 1",
            "bedplate_reboot_needed{class=\"cold\"} 1",
            "bedplate_reboot_needed{class=\"ordinary\"} 0",
            "bedplate_last_converged_timestamp_seconds 1772506800",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
        for line in text.lines() {
            let good = line.starts_with("# HELP bedplate_")
                || line.starts_with("# TYPE bedplate_")
                || (line.starts_with("bedplate_")
                    && line.rsplit(' ').next().unwrap().parse::<f64>().is_ok());
            assert!(good, "{line}");
        }
    }

    #[test]
    fn feature_values_are_valid_labels() {
        assert_eq!(
            features(&waiting()),
            "bedplate.ready=false\nbedplate.host-ready=false\nbedplate.state=starting\nbedplate.iommu=DMA-FQ__mixed\n"
        );
        let mut status = waiting();
        (status.verdict, status.state) = (Verdict::Ready, State::Converged);
        status.fresh_until = Some("2026-03-03T03:30:00.9Z".parse().unwrap());
        assert!(features(&status).starts_with(
            "# +expiry-time=2026-03-03T03:30:00Z\nbedplate.ready=true\nbedplate.host-ready=false\nbedplate.state=converged\n"
        ));
    }

    #[test]
    fn exports_are_written_to_existing_directories() {
        let root = tempfile::tempdir().unwrap();
        let mut said = WrittenFiles::new();
        assert_eq!(write(root.path(), &waiting(), &mut said), [""; 0]);
        let prom = std::fs::read_to_string(root.path().join("run/bedplate/bedplate.prom")).unwrap();
        assert!(prom.contains("\nbedplate_ready 0\n"), "{prom}");
        assert!(prom.contains("\nprocess_resident_memory_bytes{process=\"bedplate\"} "), "{prom}");
        assert!(!root.path().join("etc/kubernetes").exists());
        let text = std::fs::read_to_string(root.path().join("run/bedplate/status.json")).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), waiting());
        for directory in
            ["var/lib/prometheus/node-exporter", "etc/kubernetes/node-feature-discovery/features.d"]
        {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        write(root.path(), &waiting(), &mut said);
        assert!(root.path().join("var/lib/prometheus/node-exporter/bedplate.prom").exists());
        let features =
            root.path().join("etc/kubernetes/node-feature-discovery/features.d/bedplate");
        for path in [&features, &root.path().join("run/bedplate/status.json")] {
            let mode =
                std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o644, "{}", path.display());
        }
        assert!(std::fs::read_to_string(features).unwrap().contains("bedplate.ready=false\n"));
    }
}
