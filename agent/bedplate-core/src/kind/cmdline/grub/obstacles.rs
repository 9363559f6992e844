//! Obstacles to an edit of the files of a GRUB configuration, with the places that cause them.

use std::collections::BTreeSet;

use super::super::Obstacle;
use super::sources::{SourcedFile, places};
use bedplate_cmdline::boot::grub_default::{self, CMDLINE_DEFAULT, GrubDefault};
use bedplate_cmdline::{CommandLine, Finding, Token, fold_name};

/// Returns why the edited files would not result in the desired line.
pub(super) fn in_the_way(
    result: &[SourcedFile],
    own: Option<&str>,
    reached: &CommandLine,
    wrong: &[&Finding],
) -> Obstacle {
    if reached.init_arguments().is_some() {
        let place = places(result, &|word| word == "--");
        return Obstacle {
            reason: format!(
                "the `--` at {place} passes everything after it to init, including bedplate's arguments"
            ),
            fix: format!(
                "move `--` and the text after it to the end of {CMDLINE_DEFAULT}, or remove it"
            ),
        };
    }
    if let Some(source) = own.and_then(|own| overriding_file(result, own)) {
        let path = &source.path;
        let line = source.default.lines_with(&[CMDLINE_DEFAULT], &|_| true).pop().unwrap_or(1);
        return Obstacle {
            reason: format!(
                "{path}:{line} is read after bedplate's drop-in and overwrites {CMDLINE_DEFAULT}"
            ),
            fix: format!(
                "in {path}, write {CMDLINE_DEFAULT}=\"${CMDLINE_DEFAULT} …\", or rename the file so that it sorts before \
                 bedplate's"
            ),
        };
    }
    let wanted: Vec<Token> = wrong.iter().flat_map(|finding| finding.entries.clone()).collect();
    let name = |token: &str| fold_name(token.split('=').next().unwrap_or_default());
    let names: BTreeSet<String> = wanted.iter().map(|token| name(token.as_str())).collect();
    let others: Vec<&SourcedFile> =
        result.iter().filter(|source| Some(source.path.as_str()) != own).collect();
    let place = places(others, &|word| names.contains(&name(word)));
    Obstacle {
        reason: format!("cannot apply {} because of the arguments at {place}", wanted.join(" ")),
        fix: format!("remove the arguments with these names from {place} by hand"),
    }
}

/// Refuses to set a variable that a file has made read-only: the shell would stop there, and grub-mkconfig with it.
pub(super) fn read_only(sources: &[SourcedFile], variable: &str) -> Result<(), Obstacle> {
    let place = sources.iter().find_map(|source| {
        let line = source.default.read_only_at(variable)?;
        Some(format!("{}:{line}", source.path))
    });
    match place {
        None => Ok(()),
        Some(place) => Err(Obstacle {
            reason: format!(
                "{place} makes {variable} read-only; grub-mkconfig would fail in a file that adds to it"
            ),
            fix: format!("remove the `readonly` of {variable} from {place}"),
        }),
    }
}

/// Returns the first file after `own` that drops the arguments which `own` added to the variable.
fn overriding_file<'a>(sources: &'a [SourcedFile], own: &str) -> Option<&'a SourcedFile> {
    let at = sources.iter().position(|source| source.path == own)?;
    let value = |upto: usize, with_own: bool| {
        let read =
            sources[..=upto].iter().enumerate().filter(|(index, _)| with_own || *index != at);
        let files: Vec<&GrubDefault> = read.map(|(_, source)| &source.default).collect();
        grub_default::evaluate(&files, CMDLINE_DEFAULT).ok()
    };
    let behind = (at + 1)..sources.len();
    behind
        .into_iter()
        .find(|index| value(*index, true) == value(*index, false))
        .map(|at| &sources[at])
}
