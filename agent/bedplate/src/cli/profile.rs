//! `bedplate profile`: show, check, schema, explain. `init`, `edit` and `list` have their own files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::profile_edit::{self, EditArgs};
use super::profile_init::{self, InitArgs};
use super::profile_list::{self, ListArgs};
use super::{CliError, Exit, HostArgs, ProfileArgs, conclude, host, output};
use crate::report::style::{BAD, GOOD, WARN, paint};
use bedplate_base::counted;
use bedplate_core::documents as json;
use bedplate_core::engine;
use bedplate_core::engine::profile_source::{self, ChosenProfile, Layer, SourceError};
use bedplate_core::profile;
use bedplate_facts::Depth;

/// `bedplate profile …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Write a commented profile for this host, to start from.
    Init(InitArgs),
    /// Edit the host's profile: opens $EDITOR, checks the result, shows the plan, installs it.
    Edit(EditArgs),
    /// List the shipped profiles, and why each fits this host or not.
    List(ListArgs),
    /// Print the merged profile as TOML.
    Show(ShowArgs),
    /// Parse, merge, validate and lint profile files or the installed profiles.
    Check(CheckArgs),
    /// Print the JSON Schema (draft 2020-12) of profile files, for editors.
    Schema,
    /// Explain a key: meaning, values, source.
    Explain(ExplainArgs),
}

/// `profile show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    host: HostArgs,
    /// Show the file and line of every value.
    #[arg(long)]
    origin: bool,
    /// Print the typed profile as JSON.
    #[arg(long, conflicts_with = "origin")]
    json: bool,
}

/// `profile check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Profile file and its overlays, in order. Default: the profiles in /etc/bedplate, with the overlays in profile.d.
    #[arg(value_name = "FILE", conflicts_with = "which_host")]
    files: Vec<PathBuf>,
    /// Same as one FILE, as in other commands.
    #[arg(long, short, value_name = "NAME|FILE", conflicts_with_all = ["files", "which_host"])]
    profile: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
}

/// `profile explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Dotted key such as `acs.policy`. Default: list all keys.
    key: Option<String>,
}

/// Runs the command.
pub(crate) fn run(command: &ProfileCommand) -> Result<Exit, CliError> {
    match command {
        ProfileCommand::Init(args) => profile_init::run(args),
        ProfileCommand::Edit(args) => profile_edit::run(args),
        ProfileCommand::List(args) => profile_list::run(args),
        ProfileCommand::Show(args) => show(args),
        ProfileCommand::Check(args) => check(args),
        ProfileCommand::Schema => output::data(profile::SCHEMA).map(|()| Exit::Done),
        ProfileCommand::Explain(args) => explain(args),
    }
}

fn show(args: &ShowArgs) -> Result<Exit, CliError> {
    let opened = host::open_one(&args.host)?;
    let mut facts = opened.facts(Depth::Plan);
    let reader = opened.reader.as_ref();
    let ChosenProfile { loaded, .. } = engine::choose(reader, &mut facts, &args.profile.request())?;
    output::lints(&loaded, &[]);
    let text = match args.json {
        true => json::document(&loaded.profile)?,
        false => profile::show(&loaded, args.origin),
    };
    output::data(&text)?;
    Ok(Exit::Done)
}

fn check(args: &CheckArgs) -> Result<Exit, CliError> {
    let files: Vec<&PathBuf> = args.files.iter().chain(&args.profile).collect();
    if files.is_empty() {
        return check_installed(args);
    }
    let layers = files
        .into_iter()
        .map(|path| profile_source::file_or_shipped(path))
        .collect::<Result<Vec<_>, _>>()?;
    check_layers(&layers, args.strict)
}

/// Checks every profile that the host may use, each with its overlays.
fn check_installed(args: &CheckArgs) -> Result<Exit, CliError> {
    let host = host::open_one(&args.host)?;
    let (profiles, layers) = profile_source::installed(host.reader.as_ref())?;
    if profiles.is_empty() {
        let none = format!(
            "no profile is installed: neither {} nor a file in {} exists",
            profile_source::HOST_PROFILE,
            profile_source::HOST_PROFILES
        );
        let hint = "run `bedplate profile init`, or pass the file to check";
        return Err(CliError::new(none).hinting(hint));
    }
    let mut worst = Exit::Done;
    for profile in profiles {
        let stack: Vec<Layer> = std::iter::once(profile).chain(layers.iter().cloned()).collect();
        // An invalid profile does not prevent the check of the rest.
        worst = match check_layers(&stack, args.strict)? {
            Exit::Done => worst,
            failed => failed,
        };
    }
    Ok(worst)
}

fn check_layers(layers: &[Layer], strict: bool) -> Result<Exit, CliError> {
    let names = layers.iter().map(Layer::path).collect::<Vec<_>>().join(" + ");
    let loaded = match profile_source::finish(layers) {
        Err(error @ SourceError::Invalid(_)) => {
            conclude::print(&error.into());
            output::status(&format!("{names}: {}", paint(BAD, "invalid")));
            return Ok(Exit::Failed);
        }
        loaded => loaded?,
    };
    output::print_lints(&loaded.lints);
    if loaded.lints.is_empty() {
        output::status(&format!("{names}: {}", paint(GOOD, "valid")));
        return Ok(Exit::Done);
    }
    let is_error = |lint: &&profile::Diagnostic| lint.severity == profile::Severity::Error;
    let errors = loaded.lints.iter().filter(is_error).count();
    let wrong = engine::LintVerdict::new(&loaded, &[]).stopping().len();
    let warnings = loaded.lints.len() - errors;
    let (verdict, exit) = match (wrong, warnings, strict) {
        (0, 1.., true) => (paint(BAD, "invalid (--strict)"), Exit::Failed),
        (0, _, _) => (paint(WARN, "usable"), Exit::Done),
        (_, _, _) => (paint(BAD, "invalid"), Exit::Failed),
    };
    let let_pass = match errors - wrong {
        0 => String::new(),
        n => format!(", {} allowed", counted(n, "error")),
    };
    output::status(&format!(
        "{names}: {verdict}: {}, {}{let_pass}",
        counted(wrong, "error"),
        counted(warnings, "warning")
    ));
    Ok(exit)
}

fn explain(args: &ExplainArgs) -> Result<Exit, CliError> {
    let Some(key) = &args.key else {
        let keys: String = profile::explained_keys().iter().map(|key| format!("{key}\n")).collect();
        output::data(&keys)?;
        return Ok(Exit::Done);
    };
    match profile::explain(key) {
        Some(text) => output::data(&text)?,
        None => {
            let meant = profile::similar_key(key).map(|near| format!("did you mean `{near}`? "));
            let hint =
                format!("{}run `bedplate profile explain` for the list", meant.unwrap_or_default());
            return Err(CliError::new(format!("unknown key `{key}`")).hinting(hint));
        }
    }
    Ok(Exit::Done)
}
