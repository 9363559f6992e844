//! Versioned JSON shapes of what the commands print. A field is only ever added; a change of meaning is a new version.

use schemars::JsonSchema;
use serde::Serialize;

use crate::apply::ApplyReport;
use crate::doctor::Diagnosis;
use crate::plan::Plan;
use crate::verify::Report;
use crate::visible;

/// Version of the plan's JSON shape.
pub const PLAN_VERSION: u32 = 1;

/// What `bedplate plan --json` prints: the difference between a profile and a host, and what stands in the way.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "bedplate plan")]
struct PlanDocument<'a> {
    /// Version of this shape, 1.
    bedplate_plan: u32,
    /// Which snapshot the host was read from; only there where several are planned one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The host: machine, operating system, kernel.
    host: &'a str,
    /// The plan.
    #[serde(flatten)]
    plan: &'a Plan,
}

/// The plan as JSON text with a final newline.
///
/// # Errors
/// When a value cannot be written as JSON, which no plan holds.
pub fn plan(plan: &Plan, host: &str) -> Result<String, serde_json::Error> {
    plan_from(None, plan, host)
}

/// The same, naming the snapshot that the host was read from.
///
/// # Errors
/// As [`plan`].
pub fn plan_from(file: Option<&str>, plan: &Plan, host: &str) -> Result<String, serde_json::Error> {
    document(&PlanDocument { bedplate_plan: PLAN_VERSION, file, host, plan })
}

/// What `bedplate apply --json` prints: what became of every change, and what is left afterwards.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "bedplate apply")]
struct AppliedDocument<'a> {
    /// Version of this shape, 1.
    bedplate_apply: u32,
    /// What was done.
    #[serde(flatten)]
    report: &'a ApplyReport,
    /// The plan made afterwards: empty but for what waits, is deferred or is blocked.
    after: &'a Plan,
}

/// The report of an apply as JSON text.
///
/// # Errors
/// When a value cannot be written as JSON, which no report holds.
pub fn applied(report: &ApplyReport, after: &Plan) -> Result<String, serde_json::Error> {
    document(&AppliedDocument { bedplate_apply: 1, report, after })
}

/// JSON Schema (draft 2020-12) of [`applied`].
pub fn applied_schema() -> schemars::Schema {
    schemars::schema_for!(AppliedDocument<'static>)
}

/// JSON Schema (draft 2020-12) of [`plan`].
pub fn plan_schema() -> schemars::Schema {
    schemars::schema_for!(PlanDocument<'static>)
}

/// What `bedplate verify --json` prints: whether the host is ready, and what each check came to.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "bedplate verify")]
struct VerifyDocument<'a> {
    /// Version of this shape, 1.
    bedplate_verify: u32,
    /// Which snapshot the host was read from; only there where several are verified one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The host: machine, operating system, kernel.
    host: &'a str,
    /// What was found.
    #[serde(flatten)]
    report: &'a Report,
}

/// What was found of a host as JSON text, naming the snapshot that it was read from.
///
/// # Errors
/// When a value cannot be written as JSON, which no report holds.
pub fn verify(
    file: Option<&str>,
    report: &Report,
    host: &str,
) -> Result<String, serde_json::Error> {
    document(&VerifyDocument { bedplate_verify: 1, file, host, report })
}

/// JSON Schema (draft 2020-12) of [`verify`].
pub fn verify_schema() -> schemars::Schema {
    schemars::schema_for!(VerifyDocument<'static>)
}

/// A log that was read for symptoms.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Log<'a> {
    /// Its name, or `stdin`.
    pub file: &'a str,
    /// Lines read.
    pub lines: u64,
    /// Channels of NCCL in it that carry GPU memory directly.
    pub direct_channels: u64,
}

/// What `bedplate doctor --json` prints: symptoms, and the causes that were found on the host.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "bedplate doctor")]
struct DoctorDocument<'a> {
    /// Version of this shape, 1.
    bedplate_doctor: u32,
    /// Which snapshot the host was read from; only there where several are read one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The host: machine, operating system, kernel.
    host: &'a str,
    /// The log that was read, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Log<'a>>,
    /// The symptoms that were asked for, or that the log shows.
    symptoms: &'a [Diagnosis],
}

/// What symptoms come to as JSON text.
///
/// # Errors
/// When a value cannot be written as JSON, which no diagnosis holds.
pub fn doctor(
    file: Option<&str>,
    symptoms: &[Diagnosis],
    log: Option<Log<'_>>,
    host: &str,
) -> Result<String, serde_json::Error> {
    document(&DoctorDocument { bedplate_doctor: 1, file, host, log, symptoms })
}

/// JSON Schema (draft 2020-12) of [`doctor`].
pub fn doctor_schema() -> schemars::Schema {
    schemars::schema_for!(DoctorDocument<'static>)
}

/// Any document, two-space indented, with a final newline.
///
/// # Errors
/// When the value cannot be written as JSON.
pub fn document<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(value).map(|text| visible::json(&text) + "\n")
}
