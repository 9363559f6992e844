//! `bedplate doctor`: finds the cause of a symptom on this host.

mod log;

use std::path::Path;

use clap::Args;

use super::host::{self, OpenHost};
use super::{CliError, Exit, HostArgs, output, verify};
use crate::report::doctor as text;
use bedplate_base::terminal::brief;
use bedplate_core::doctor::{Answer, Diagnosis, SYMPTOMS, Symptom, find, matching, nearest};
use bedplate_core::documents as json;
use bedplate_core::engine::VerifyOutcome;
use bedplate_core::verify::Selection;

/// Maximum number of typed characters that an error repeats.
const REPEATED: usize = 80;

/// `bedplate doctor`.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Symptoms:\n{}\nExit status: 0 every symptom was checked and none was found, or the log shows a job without faults (see `bedplate nccl job`); 4 a \
     cause was found, or a log shows a symptom or a fault; 5 no known cause of the one symptom is present, something could not be read, or the log does \
     not show enough; 64 unknown symptom; 1 error.",
    text::list().lines().map(|line| format!("  {line}\n")).collect::<String>()
))]
pub(crate) struct DoctorArgs {
    /// Symptom (id or words), or logs: output of a job or the kernel log; plain, gzip or zstd; `-` for standard input.
    ///
    /// Default: every symptom.
    #[arg(value_name = "SYMPTOM|LOG", num_args = 0..)]
    what: Vec<String>,
    /// Look for causes on this machine even if the log does not name it. Kernel logs without host names (dmesg) need it.
    #[arg(long, conflicts_with = "which_host", help_heading = "Host")]
    this_host: bool,
    #[command(flatten)]
    host: HostArgs,
    /// Also check against this profile, as `bedplate verify` does.
    #[arg(long, short, value_name = "NAME|FILE|DIR", help_heading = "Profile")]
    profile: Option<String>,
    /// Print JSON (schema: `bedplate doctor --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
}

/// Requested diagnosis.
enum Question {
    /// Every symptom.
    Everything,
    /// One symptom.
    Symptom(&'static Symptom),
    /// Logs.
    Logs,
}

/// Finds the cause on every named host.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(json::DOCTOR_SCHEMA).map(|()| Exit::Done);
    }
    let one = match asked(&args.what)? {
        Question::Logs => return log::run(args, &args.what),
        Question::Everything => None,
        Question::Symptom(symptom) => Some(symptom),
    };
    let mut worst = Answer::NotFound;
    let unusable = host::each(&args.host, |opened| {
        worst = worst.max(ask_host(args, opened, one)?);
        Ok(())
    })?;
    // A symptom without a known cause does not prove that the host is well.
    let is_whole = one.is_none();
    Ok(match (unusable.is_empty(), worst) {
        (false, _) => Exit::Failed,
        (true, Answer::NotFound) if !is_whole => Exit::CannotTell,
        (true, Answer::NotFound) => Exit::Done,
        (true, Answer::CannotTell) => Exit::CannotTell,
        (true, Answer::Found) => Exit::Blocked,
    })
}

fn asked(words: &[String]) -> Result<Question, CliError> {
    match words {
        [] => return Ok(Question::Everything),
        [word] => {
            if let Some(symptom) = find(word) {
                return Ok(Question::Symptom(symptom));
            }
            let shown = brief(word, REPEATED);
            if word == "-" {
                return Ok(Question::Logs);
            }
            if Path::new(word).is_dir() {
                return Err(CliError::usage(format!("{shown} is a directory"))
                    .hinting("pass a log or a symptom; `bedplate doctor --help` lists symptoms"));
            }
            if Path::new(word).exists() || is_path(word) {
                return Ok(Question::Logs);
            }
        }
        several if several.iter().all(|word| Path::new(word).is_file()) => {
            return Ok(Question::Logs);
        }
        _ => {}
    }
    let text = words.join(" ");
    let said = brief(&text, REPEATED);
    match matching(&text).as_slice() {
        [symptom] => Ok(Question::Symptom(symptom)),
        [] => Err(CliError::usage(format!("`{said}` is not a known symptom or an existing file"))
            .hinting(match nearest(&text).as_slice() {
                [] => "run `bedplate doctor` for all symptoms; `bedplate doctor --help` lists them"
                    .to_owned(),
                near => {
                    let ids: Vec<&str> = near.iter().map(|symptom| symptom.id).collect();
                    let perhaps = if ids.len() == 1 { "perhaps" } else { "perhaps one of" };
                    format!("{perhaps}: {}; `bedplate doctor --help` lists all", ids.join(", "))
                }
            })),
        several => {
            let ids: Vec<&str> = several.iter().map(|symptom| symptom.id).collect();
            Err(CliError::usage(format!("`{said}` matches several symptoms"))
                .hinting(format!("name one: {}", ids.join(", "))))
        }
    }
}

/// Whether a word is a path of a log. A symptom may contain a slash, too: `NET/Socket fallback`, `GB/s`.
fn is_path(word: &str) -> bool {
    let has_directory = Path::new(word).parent().is_some_and(|parent| parent.is_dir());
    let starts = ["/", "./", "../"].iter().any(|start| word.starts_with(start));
    word.contains('/')
        && !word.contains(char::is_whitespace)
        && matching(word).is_empty()
        && (starts || has_directory || Path::new(word).extension().is_some())
}

/// Verifies a host, against the profile if there is one.
fn verified(args: &DoctorArgs, opened: &OpenHost) -> Result<VerifyOutcome, CliError> {
    let verified = verify::verified(opened, args.profile.as_deref(), &Selection::default())?;
    verify::warn_of_profile(verified.unusable.as_ref());
    if let Some(loaded) = &verified.loaded {
        output::lints(loaded, &[]);
    }
    Ok(verified)
}

/// Diagnoses one symptom on a host, or all.
fn ask_host(
    args: &DoctorArgs,
    opened: &OpenHost,
    one: Option<&'static Symptom>,
) -> Result<Answer, CliError> {
    let verified = verified(args, opened)?;
    let symptoms = one.map_or(SYMPTOMS, std::slice::from_ref);
    let diagnose = |symptom: &Symptom| symptom.diagnose(&verified.report, &verified.facts);
    let found: Vec<Diagnosis> = symptoms.iter().map(diagnose).collect();
    let label = verified.facts.label();
    if args.json {
        let file = opened.file.as_deref();
        output::data(&json::doctor(file, &found, None, None, Some(&label))?)?;
    } else {
        let answer = match one {
            None => text::overview(&found),
            Some(_) => found.iter().map(|one| text::diagnosis(one, None)).collect(),
        };
        output::report(&(opened.heading() + &text::heading(&label) + &answer))?;
    }
    Ok(found.iter().map(|diagnosis| diagnosis.answer).max().unwrap_or(Answer::NotFound))
}
