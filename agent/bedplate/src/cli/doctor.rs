//! `bedplate doctor`: finds the cause of a symptom on this host.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use clap::Args;

use super::host::{self, OpenHost};
use super::{CliError, Context as _, Exit, HostArgs, output, verify};
use crate::report::doctor as text;
use bedplate_base::terminal::brief;
use bedplate_core::doctor::{
    Answer, Diagnosis, Recognised, Recogniser, SYMPTOMS, Symptom, find, matching, nearest,
};
use bedplate_core::documents as json;
use bedplate_core::verify::Selection;

/// Maximum number of typed characters that an error repeats.
const REPEATED: usize = 80;

/// `bedplate doctor`.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Symptoms:\n{}\nExit status: 0 every symptom was checked and none was found; 4 a cause was found, or a log shows a symptom; 5 no known cause of the \
     one symptom is present, something could not be read, or the log shows nothing known; 64 unknown symptom; 1 error.",
    text::list().lines().map(|line| format!("  {line}\n")).collect::<String>()
))]
pub(crate) struct DoctorArgs {
    /// Symptom (id or words) or log file: NCCL debug output or the kernel log; `-` for standard input.
    ///
    /// Default: every symptom.
    #[arg(value_name = "SYMPTOM|LOG", num_args = 0..)]
    what: Vec<String>,
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
    Everything,
    Symptom(&'static Symptom),
    Log(String, Recognised),
}

/// Finds the cause on every named host.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(json::DOCTOR_SCHEMA).map(|()| Exit::Done);
    }
    let asked = asked(&args.what)?;
    let mut worst = Answer::NotFound;
    let unusable = host::each(&args.host, |opened| {
        worst = worst.max(ask_host(args, opened, &asked)?);
        Ok(())
    })?;
    // A symptom without a known cause does not prove that the host is well.
    let is_whole = !matches!(asked, Question::Symptom(_));
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
            let unreadable = format!("cannot read log {shown}");
            if word == "-" {
                let log = read(std::io::stdin().lock()).context(unreadable)?;
                return Ok(Question::Log("stdin".to_owned(), log));
            }
            if Path::new(word).is_dir() {
                return Err(CliError::usage(format!("{shown} is a directory"))
                    .hinting("pass a log or a symptom; `bedplate doctor --help` lists symptoms"));
            }
            if Path::new(word).exists() || is_path(word) {
                let log = File::open(word).and_then(read).context(unreadable)?;
                if log.is_snapshot {
                    return Err(CliError::usage(format!("{shown} is a snapshot of a host"))
                        .hinting("run `bedplate doctor --snapshot FILE`"));
                }
                return Ok(Question::Log(word.clone(), log));
            }
        }
        several if several.iter().all(|word| Path::new(word).is_file()) => {
            return Err(
                CliError::usage("one log at a time").hinting("run `cat FILES | bedplate doctor -`")
            );
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

/// Reads the whole log through one buffer.
fn read(mut log: impl Read) -> std::io::Result<Recognised> {
    let mut recogniser = Recogniser::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match log.read(&mut buffer) {
            Ok(0) => return Ok(recogniser.finish()),
            Ok(length) => recogniser.feed(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn ask_host(args: &DoctorArgs, opened: &OpenHost, asked: &Question) -> Result<Answer, CliError> {
    let verified = verify::verified(opened, args.profile.as_deref(), &Selection::default())?;
    verify::warn_of_profile(&verified);
    if let Some(loaded) = &verified.loaded {
        output::lints(loaded, &[]);
    }
    let report = &verified.report;
    let found: Vec<Diagnosis> = match asked {
        Question::Everything => {
            SYMPTOMS.iter().map(|symptom| symptom.diagnose(report, &verified.facts)).collect()
        }
        Question::Symptom(symptom) => vec![symptom.diagnose(report, &verified.facts)],
        Question::Log(_, log) => {
            let cited = log.symptoms().map(|(symptom, lines)| Diagnosis {
                lines: lines.first.clone(),
                line_count: lines.count,
                ..symptom.diagnose(report, &verified.facts)
            });
            cited.collect()
        }
    };
    let log = match asked {
        Question::Log(name, log) => Some((name.as_str(), log)),
        Question::Everything | Question::Symptom(_) => None,
    };
    let label = verified.facts.label();
    if args.json {
        let log = log.map(|(file, log)| json::Log {
            file,
            lines: log.lines,
            direct_channels: log.direct,
        });
        output::data(&json::doctor(opened.file.as_deref(), &found, log, &label)?)?;
    } else {
        output::report(&format!("{}{}", opened.heading(), format_answer(asked, &found, &label)))?;
    }
    let causes = found.iter().map(|diagnosis| diagnosis.answer).max().unwrap_or(Answer::NotFound);
    Ok(match log {
        // The symptoms of a log have happened, whether or not this host has a cause of them.
        Some((_, log)) if log.symptoms().next().is_some() => Answer::Found,
        // A log without known content proves nothing.
        Some((_, log)) if log.direct == 0 => Answer::CannotTell,
        _ => causes,
    })
}

fn format_answer(asked: &Question, found: &[Diagnosis], host: &str) -> String {
    let heading = text::heading(host);
    match asked {
        Question::Everything => heading + &text::overview(found),
        Question::Symptom(_) => {
            heading + &found.iter().map(|one| text::diagnosis(one, None)).collect::<String>()
        }
        Question::Log(name, log) => {
            let each = found.iter().map(|one| format!("\n{}", text::diagnosis(one, Some(name))));
            heading + &text::log_line(name, log) + &each.collect::<String>()
        }
    }
}
