//! Operator report of a symptom on a host: causes with evidence and fixes, excluded causes, unknown checks.

use std::fmt::Write as _;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use super::verify::{SEEN, evidence, fix};
use bedplate_base::terminal::one_line;
use bedplate_core::doctor::{Answer, CheckAnswer, Diagnosis, Recognised, SYMPTOMS, Symptom};
use bedplate_core::verify::Verdict;

/// Formats the first line of a report.
pub(crate) fn heading(host: &str) -> String {
    format!("{} {}\n", paint(HEAD, "host"), one_line(host))
}

/// Formats one symptom in full. `log` is the name of the cited log file, with whether its host was diagnosed.
pub(crate) fn diagnosis(diagnosis: &Diagnosis, log: Option<(&str, bool)>) -> String {
    let Diagnosis { symptom, title, means, .. } = diagnosis;
    let mut out = format!("{} ({symptom}): {means}\n", paint(HEAD, title));
    cited(&mut out, diagnosis, log.map(|(name, _)| name));
    for (number, cause) in diagnosis.causes.iter().enumerate() {
        one_cause(&mut out, cause, if number == 0 { "cause" } else { "also" });
    }
    let _ = match diagnosis.answer {
        _ if matches!(log, Some((_, false))) => {
            writeln!(
                out,
                "  {}: the log does not name this host: run `bedplate doctor {symptom}` on the host that wrote it, or pass \
                 its snapshot; --this-host looks for causes here",
                paint(WARN, "unknown")
            )
        }
        Answer::Found => Ok(()),
        Answer::NotFound if log.is_some() => {
            writeln!(
                out,
                "  {}, but no known cause is present on this host now: check the host that wrote the log; a repair or a \
                 reboot may have removed the cause",
                paint(WARN, "the log shows it")
            )
        }
        Answer::NotFound => {
            writeln!(
                out,
                "  {}: no known cause is present; check the log of the job or the kernel too: `dmesg | bedplate doctor - --this-host`",
                paint(GOOD, "not found here")
            )
        }
        Answer::CannotTell => {
            writeln!(
                out,
                "  {}: no cause found, but some items could not be read",
                paint(WARN, "unknown")
            )
        }
    };
    for asked in &diagnosis.unknown {
        let _ = writeln!(
            out,
            "  {} {}: unknown: {}",
            paint(WARN, "?"),
            asked.check,
            one_line(&asked.finding)
        );
        fix(&mut out, asked.fix.as_deref());
    }
    for asked in &diagnosis.excluded {
        let sign = if asked.verdict == Verdict::NotApplicable { "n/a:" } else { "ruled out:" };
        let _ =
            writeln!(out, "  {} {}: {}", paint(FAINT, sign), asked.check, one_line(&asked.finding));
    }
    out
}

fn cited(out: &mut String, diagnosis: &Diagnosis, log: Option<&str>) {
    let Some(log) = log else { return };
    for citation in &diagnosis.lines {
        let file = citation.file.as_deref().unwrap_or(log);
        let at = format!("{}:{}:", one_line(file), citation.line);
        let _ = writeln!(out, "  {} {}", paint(FAINT, &at), one_line(&citation.text));
    }
    let more = diagnosis.line_count.saturating_sub(diagnosis.lines.len() as u64);
    if more > 0 {
        let _ = writeln!(out, "  {}", paint(FAINT, &format!("and {more} more similar lines")));
    }
}

fn one_cause(out: &mut String, cause: &CheckAnswer, word: &str) {
    let sign = if cause.verdict == Verdict::Fail { paint(BAD, "✗") } else { paint(WARN, "!") };
    let _ = writeln!(out, "  {sign} {word}: {} ({})", one_line(&cause.finding), cause.check);
    if let Some(explains) = cause.explains {
        let _ = writeln!(out, "      {} {explains}", paint(FAINT, "why:"));
    }
    let where_all = format!(": `bedplate verify -v --check {}`", cause.check);
    evidence(out, &cause.evidence, SEEN, &where_all);
    fix(out, cause.fix.as_deref());
}

/// Lists every symptom in one line: with its first cause on this host, if it has one.
pub(crate) fn overview(all: &[Diagnosis]) -> String {
    let mut out = format!("{}\n", paint(HEAD, "causes found on this host, by symptom"));
    let width = SYMPTOMS.iter().map(|symptom| symptom.id.len()).max().unwrap_or_default();
    for diagnosis in all {
        let (sign, text) = match (diagnosis.answer, diagnosis.causes.first()) {
            (Answer::Found, Some(cause)) => (
                paint(if cause.verdict == Verdict::Fail { BAD } else { WARN }, "✗"),
                format!("{} ({})", one_line(&cause.finding), cause.check),
            ),
            (Answer::CannotTell, _) => {
                let checks: Vec<&str> = diagnosis.unknown.iter().map(|asked| asked.check).collect();
                (paint(WARN, "?"), format!("unknown: {}", checks.join(", ")))
            }
            _ => (paint(GOOD, "·"), "not found here".to_owned()),
        };
        let id = format!("{:<width$}", diagnosis.symptom);
        let _ = writeln!(out, "  {sign} {id}  {text}");
    }
    out.push_str("Run `bedplate doctor SYMPTOM` for evidence and fixes, or `bedplate doctor LOG` to scan a log\n");
    out
}

/// Summarizes a log in one line.
pub(crate) fn log_line(name: &str, log: &Recognised, symptoms: usize, has_job: bool) -> String {
    let direct = match log.direct {
        0 => String::new(),
        count => format!("; {count} with GPUDirect RDMA (/GDRDMA)"),
    };
    let found = match (symptoms, log.direct) {
        (0, 0) if log.lines == 0 => "the file is empty".to_owned(),
        (0, 0) if has_job => "symptoms: 0".to_owned(),
        (0, 0) => "no known symptom; NCCL logs more with NCCL_DEBUG=INFO".to_owned(),
        (count, _) => format!("symptoms: {count}"),
    };
    let (name, lines) = (one_line(name), log.lines);
    let s = if lines == 1 { "" } else { "s" };
    format!("{} {name}: {lines} line{s}{direct}; {found}\n", paint(HEAD, "log"))
}

/// Lists the symptoms, one per line.
pub(crate) fn list() -> String {
    let width = SYMPTOMS.iter().map(|symptom| symptom.id.len()).max().unwrap_or_default();
    let line = |symptom: &Symptom| {
        format!("{:<width$}  {}: {}\n", symptom.id, symptom.title, symptom.means)
    };
    SYMPTOMS.iter().map(line).collect()
}

/// Generates docs/doctor.md from the registry of symptoms.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Symptoms\n\n\
         Symptoms that `bedplate doctor` knows, from the registry in `agent/bedplate-core/src/doctor/table.rs`. A cause is reported only if its\n\
         check ([checks.md](checks.md)) does not pass on the host. Causes are in order of likelihood.\n",
    );
    for symptom in SYMPTOMS {
        let Symptom { id, title, means, phrases, lines, causes } = symptom;
        let _ = write!(out, "\n## `{id}`: {title}\n\n{}.\n\n", sentence(means));
        let _ = writeln!(out, "- **Phrases**: {}", phrases.join(", "));
        for pattern in *lines {
            let lacks =
                pattern.lacks.iter().map(|text| format!(", without `{text}`")).collect::<String>();
            let has: Vec<String> =
                pattern.has.iter().map(|text| format!("`{}`", text.trim())).collect();
            let _ = writeln!(out, "- **In logs**: {}{lacks}", has.join(" … "));
        }
        out.push_str("\n| check | why |\n|---|---|\n");
        for cause in *causes {
            let _ = writeln!(out, "| `{}` | {} |", cause.check, cause.explains);
        }
    }
    out
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
