//! Versioned JSON documents of the commands. Fields are only ever added; a change of meaning requires a new version.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::apply::ApplyReport;
use crate::doctor::Diagnosis;
use crate::plan::Plan;
use crate::verify::Report;
use bedplate_base::terminal;
use bedplate_nccl::job::JobVerdict;

/// Version of the plan's JSON document.
pub(crate) const PLAN_VERSION: u32 = 2;

/// Output of `bedplate plan --json`: the difference between a profile and a host, and obstacles.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate plan"))]
struct PlanDocument<'a> {
    /// Version of this document type, 2.
    bedplate_plan: u32,
    /// Snapshot of the host; present only if several are planned in sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// Host: machine, operating system, kernel.
    host: &'a str,
    /// Plan.
    #[serde(flatten)]
    plan: &'a Plan,
}

/// Returns the plan as JSON text with a final newline.
///
/// # Errors
/// If a value cannot be written as JSON, which does not occur in a plan.
pub fn plan(plan: &Plan, host: &str) -> Result<String, serde_json::Error> {
    plan_from(None, plan, host)
}

/// Returns the plan with the name of the host's snapshot.
///
/// # Errors
/// As [`plan`].
pub fn plan_from(file: Option<&str>, plan: &Plan, host: &str) -> Result<String, serde_json::Error> {
    document(&PlanDocument { bedplate_plan: PLAN_VERSION, file, host, plan })
}

/// Output of `bedplate apply --json`: the result of every change, and the remaining plan.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate apply"))]
struct AppliedDocument<'a> {
    /// Version of this document type, 2.
    bedplate_apply: u32,
    /// Results of the apply.
    #[serde(flatten)]
    report: &'a ApplyReport,
    /// Plan made afterwards: empty except for pending, deferred, and blocked items.
    after: &'a Plan,
}

/// Returns the report of an apply as JSON text.
///
/// # Errors
/// If a value cannot be written as JSON, which does not occur in a report.
pub fn applied(report: &ApplyReport, after: &Plan) -> Result<String, serde_json::Error> {
    document(&AppliedDocument { bedplate_apply: 2, report, after })
}

/// JSON Schema (draft 2020-12) of [`applied`].
pub const APPLIED_SCHEMA: &str = include_str!("../schemas/apply.json");

/// JSON Schema (draft 2020-12) of [`plan`].
pub const PLAN_SCHEMA: &str = include_str!("../schemas/plan.json");

/// Output of `bedplate verify --json`: whether the host is ready, and the result of each check.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate verify"))]
struct VerifyDocument<'a> {
    /// Version of this document type, 2.
    bedplate_verify: u32,
    /// Snapshot of the host; present only if several are verified in sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// Host: machine, operating system, kernel.
    host: &'a str,
    /// Exit status for this host alone.
    exit_status: u8,
    /// Time of the evaluation of a running host.
    #[serde(flatten)]
    moment: Option<Moment>,
    /// Findings.
    #[serde(flatten)]
    report: &'a Report,
}

/// Time, boot, machine and program of an evaluation: results of one boot need not hold in the next.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Moment {
    /// UTC, `2026-03-03 03:10:12 UTC`; omitted if the daemon has not observed the host yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluated_at: Option<String>,
    /// Version of the bedplate that evaluated the host.
    pub program_version: String,
    /// /etc/machine-id, which Kubernetes shows as `machineID` of a node; omitted if unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The kernel's id of this boot (/proc/sys/kernel/random/boot_id); omitted if unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// Frame of a verify document: file, host, exit status, time.
pub struct JudgementFrame<'a> {
    /// Snapshot, if several are verified in sequence.
    pub file: Option<&'a str>,
    /// Label of the host.
    pub host: &'a str,
    /// Exit status for this host alone.
    pub exit_status: u8,
    /// Time, for a running host.
    pub moment: Option<Moment>,
}

/// Returns a host's report as JSON text.
///
/// # Errors
/// If a value cannot be written as JSON, which does not occur in a report.
pub fn verify(judging: JudgementFrame<'_>, report: &Report) -> Result<String, serde_json::Error> {
    let JudgementFrame { file, host, exit_status, moment } = judging;
    document(&VerifyDocument { bedplate_verify: 2, file, host, exit_status, moment, report })
}

/// JSON Schema (draft 2020-12) of [`verify`].
pub const VERIFY_SCHEMA: &str = include_str!("../schemas/verify.json");

/// A log that was scanned for symptoms.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Log<'a> {
    /// File names, or `stdin`.
    pub file: &'a str,
    /// Number of lines.
    pub lines: u64,
    /// Number of NCCL channels in it that carry GPU memory directly.
    pub direct_channels: u64,
}

/// Output of `bedplate doctor --json`: symptoms, and their causes on the host.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate doctor"))]
struct DoctorDocument<'a> {
    /// Version of this document type, 2.
    bedplate_doctor: u32,
    /// Snapshot of the host; present only if several are read in sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// Host: machine, operating system, kernel; absent: the log does not name the inspected host.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    /// Scanned log, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Log<'a>>,
    /// Verdict on the job, if the log has lines of NCCL or a result table.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a JobVerdict>,
    /// Requested symptoms, or those in the log.
    symptoms: &'a [Diagnosis],
}

/// Returns diagnoses as JSON text.
///
/// # Errors
/// If a value cannot be written as JSON, which does not occur in a diagnosis.
pub fn doctor(
    file: Option<&str>,
    symptoms: &[Diagnosis],
    log: Option<Log<'_>>,
    job: Option<&JobVerdict>,
    host: Option<&str>,
) -> Result<String, serde_json::Error> {
    document(&DoctorDocument { bedplate_doctor: 2, file, host, log, job, symptoms })
}

/// JSON Schema (draft 2020-12) of [`doctor`].
pub const DOCTOR_SCHEMA: &str = include_str!("../schemas/doctor.json");

/// Returns the text of each file in `schemas/`, by its name, generated from the types. A test compares the files with
/// it.
///
/// # Errors
/// If a schema cannot be serialized.
#[cfg(feature = "schemars")]
pub fn generated_schemas() -> Result<[(&'static str, String); 5], serde_json::Error> {
    Ok([
        ("apply", document(&schemars::schema_for!(AppliedDocument<'static>))?),
        ("doctor", document(&schemars::schema_for!(DoctorDocument<'static>))?),
        ("plan", document(&schemars::schema_for!(PlanDocument<'static>))?),
        ("profile", document(&crate::profile::generated_schema())?),
        ("verify", document(&schemars::schema_for!(VerifyDocument<'static>))?),
    ])
}

/// Returns any document as JSON text, two-space indented, with a final newline.
///
/// # Errors
/// If the value cannot be written as JSON.
pub fn document<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    write(&mut text, value)?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

/// Writes a document piece by piece: one of a large host is never in memory as a whole.
///
/// # Errors
/// If the value cannot be written as JSON, or not to `out`.
pub fn write<T: Serialize>(mut out: impl Write, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut Serializer::with_formatter(&mut out, EscapingWriter::default()))?;
    out.write_all(b"\n").map_err(serde_json::Error::io)
}

/// serde_json's layout. Terminal control characters in strings are escaped as `\u009b`; programs read the same values.
///
/// The layout is written here because serde_json writes an indentation two blanks at a time, which takes a third of the
/// time for the document of a large host.
#[derive(Default)]
struct EscapingWriter {
    depth: usize,
    /// Whether the innermost array or object has an element.
    filled: bool,
}

impl EscapingWriter {
    fn open<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn close<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled {
            self.line(out, b"")?;
        }
        // It is an element of the enclosing array or object.
        self.filled = true;
        out.write_all(bracket)
    }

    fn line<W: Write + ?Sized>(&self, out: &mut W, before: &[u8]) -> io::Result<()> {
        const BLANKS: [u8; 64] = [b' '; 64];
        out.write_all(before)?;
        out.write_all(b"\n")?;
        let mut left = 2 * self.depth;
        while left > 0 {
            let part = left.min(BLANKS.len());
            out.write_all(&BLANKS[..part])?;
            left -= part;
        }
        Ok(())
    }
}

impl Formatter for EscapingWriter {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.line(out, if first { b"" } else { b"," })
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.line(out, if first { b"" } else { b"," })
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Without an early exit from the loop, the compiler can vectorize it.
        let plain = fragment.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
        match plain {
            true => out.write_all(fragment.as_bytes()),
            false => out.write_all(terminal::json(fragment).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal to serde_json's layout byte for byte, except for control characters.
    #[test]
    fn layout_equals_serde_json_and_escapes_controls() {
        let value = serde_json::json!({
            "empty": [[], {}],
            "deep": [{"a": 1, "b": [true, null, 1.5]}, "x\ty\n\"\\"],
            "\u{9b}key": "\u{202e}tp é 日本 \u{7f}",
        });
        let expected = terminal::json(&serde_json::to_string_pretty(&value).unwrap()) + "\n";
        let written = document(&value).unwrap();
        assert_eq!(written, expected);
        assert!(written.contains("\\u009bkey") && written.contains("\\u202etp é 日本 \\u007f"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
    }

    #[test]
    fn closed_reader_is_reported_as_broken_pipe() {
        struct ClosedWriter;
        impl Write for ClosedWriter {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = write(ClosedWriter, &[1, 2]).unwrap_err();
        assert_eq!(error.io_error_kind(), Some(io::ErrorKind::BrokenPipe));
    }
}
