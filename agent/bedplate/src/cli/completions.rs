//! Completions and man pages, generated from the definitions of the help. Hidden commands and options are left out.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Cli, CliError, Context as _, Exit, manual, output};

/// `bedplate completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to generate the script for.
    shell: Shell,
}

/// `bedplate man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Output directory; pages go into `man1`, `man5` and `man7` below it.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Returns the command without hidden parts. Hidden commands are for units and the daemon itself (`reboot power-cycle`
/// cycles the power), and some generators do not skip them.
fn visible(command: &Command) -> Command {
    let mut seen = Command::new(command.get_name().to_owned());
    seen = seen.args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned());
    if let Some(about) = command.get_about() {
        seen = seen.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        seen =
            seen.version(version.to_owned()).propagate_version(command.is_propagate_version_set());
    }
    seen.subcommands(
        command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible),
    )
}

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(&Cli::command()), "bedplate", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Writes `man1/bedplate.1`, `man1/bedplate-plan.1`, …, `man5/bedplate-profile.5` and `man7/bedplate-checks.7`.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, CliError> {
    let written = || {
        let [commands, formats, more] = ["man1", "man5", "man7"].map(|below| args.out.join(below));
        for directory in [&commands, &formats, &more] {
            std::fs::create_dir_all(directory)?;
        }
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        page(&command, &commands)?;
        std::fs::write(formats.join("bedplate-profile.5"), manual::profile_format())?;
        std::fs::write(more.join("bedplate-checks.7"), manual::checks())
    };
    written().context(format!("cannot write man pages to {}", args.out.display()))?;
    Ok(Exit::Done)
}

/// Writes the pages of a command and its subcommands.
fn page(command: &Command, directory: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        page(below, directory)?;
    }
    let page = Man::new(command.clone()).manual(manual::TITLE).source(manual::SOURCE);
    let mut text = Vec::new();
    if command.get_name() == "bedplate" {
        manual::of_the_program(command, &page, &mut text)?;
    } else {
        manual::of_a_command(command, &page, &mut text)?;
    }
    std::fs::write(directory.join(page.get_filename()), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &Command) {
        for option in command.get_opts() {
            let values = option.get_num_args().map_or(1, |range| range.max_values());
            assert!(values <= 1, "{}: {option} takes {values} values", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }

    /// An option with several values would take the words after it as values. Options are repeated instead.
    #[test]
    fn options_take_at_most_one_value() {
        check(&Cli::command());
    }
}
