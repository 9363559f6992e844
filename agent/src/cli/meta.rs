//! Completions and man pages: made from the same definitions as the help.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, CliError, Exit, output};

/// `bedplate completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// `bedplate man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write into.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bedplate", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Writes `bedplate.1`, `bedplate-plan.1`, ….
pub fn man(args: &ManArgs) -> Result<Exit, CliError> {
    std::fs::create_dir_all(&args.out)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.out))
        .map_err(|error| {
            CliError::while_doing(format!("cannot write man pages to {}", args.out.display()), error)
        })?;
    Ok(Exit::Done)
}
