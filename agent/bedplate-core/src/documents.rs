//! Versioned JSON shapes of what the commands print. A field is only ever added; a change of meaning is a new version.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::apply::ApplyReport;
use crate::doctor::Diagnosis;
use crate::plan::Plan;
use crate::verify::Report;
use bedplate_base::terminal;

/// Version of the plan's JSON shape.
pub(crate) const PLAN_VERSION: u32 = 1;

/// What `bedplate plan --json` prints: the difference between a profile and a host, and what stands in the way.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate plan"))]
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
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate apply"))]
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
pub const APPLIED_SCHEMA: &str = include_str!("../schemas/apply.json");

/// JSON Schema (draft 2020-12) of [`plan`].
pub const PLAN_SCHEMA: &str = include_str!("../schemas/plan.json");

/// What `bedplate verify --json` prints: whether the host is ready, and what each check came to.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate verify"))]
struct VerifyDocument<'a> {
    /// Version of this shape, 1.
    bedplate_verify: u32,
    /// Which snapshot the host was read from; only there where several are verified one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The host: machine, operating system, kernel.
    host: &'a str,
    /// The exit status that this host alone would give.
    exit_status: u8,
    /// When a running host was judged.
    #[serde(flatten)]
    moment: Option<Moment>,
    /// Findings.
    #[serde(flatten)]
    report: &'a Report,
}

/// When a running host was judged: what is true of one boot need not be of the next.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Moment {
    /// UTC, `2026-03-03 03:10:12 UTC`.
    pub judged: String,
    /// The kernel's id of this boot (/proc/sys/kernel/random/boot_id); left out: it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// The frame of a judgement: file, host, exit status, time.
pub struct JudgementFrame<'a> {
    /// The snapshot, where several are verified one after the other.
    pub file: Option<&'a str>,
    /// The host's label.
    pub host: &'a str,
    /// The exit status that this host alone would give.
    pub exit_status: u8,
    /// When, of a running host.
    pub moment: Option<Moment>,
}

/// A host's report as JSON text.
///
/// # Errors
/// When a value cannot be written as JSON, which no report holds.
pub fn verify(judging: JudgementFrame<'_>, report: &Report) -> Result<String, serde_json::Error> {
    let JudgementFrame { file, host, exit_status, moment } = judging;
    document(&VerifyDocument { bedplate_verify: 1, file, host, exit_status, moment, report })
}

/// JSON Schema (draft 2020-12) of [`verify`].
pub const VERIFY_SCHEMA: &str = include_str!("../schemas/verify.json");

/// A log that was read for symptoms.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Log<'a> {
    /// Its name, or `stdin`.
    pub file: &'a str,
    /// Lines read.
    pub lines: u64,
    /// Channels of NCCL in it that carry GPU memory directly.
    pub direct_channels: u64,
}

/// What `bedplate doctor --json` prints: symptoms, and the causes that were found on the host.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate doctor"))]
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
pub const DOCTOR_SCHEMA: &str = include_str!("../schemas/doctor.json");

/// The text of each file in `schemas/`, by its name, as the types give it. A test compares the files with these.
///
/// # Errors
/// A schema cannot be serialized.
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

/// Any document, two-space indented, with a final newline.
///
/// # Errors
/// When the value cannot be written as JSON.
pub fn document<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    write(&mut text, value)?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

/// The same, written piece by piece: that of a large host is never in memory as a whole.
///
/// # Errors
/// When the value cannot be written as JSON, or not there.
pub fn write<T: Serialize>(mut out: impl Write, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut Serializer::with_formatter(&mut out, EscapingWriter::default()))?;
    out.write_all(b"\n").map_err(serde_json::Error::io)
}

/// serde_json's layout; inside of strings what steers a terminal stands as `\u009b`: the same values for programs.
///
/// The layout is written here because serde_json's own writes an indentation two blanks at a time: a third of the time
/// that the document of a large host takes.
#[derive(Default)]
struct EscapingWriter {
    depth: usize,
    /// Whether the innermost array or object has something in it.
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
        // It is something in what it stands in.
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
        // Without a way out of the loop the compiler looks at many bytes at once.
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

    /// Byte for byte what serde_json lays out, but for what steers.
    #[test]
    fn it_is_laid_out_as_ever_and_steers_nothing() {
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
    fn a_reader_that_goes_away_is_told_apart() {
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
