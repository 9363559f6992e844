//! Replacements of the files that configure GRUB.

use super::super::Obstacle;
use super::super::boot_files::{self, replace};
use super::obstacles::{in_the_way, read_only};
use super::remove_arguments::Removal;
use super::sources::{SourcedFile, line, sources};
use super::{Family, next};
use crate::plan::Action;
use bedplate_base::Reading;
use bedplate_cmdline::boot::grub_default::{self, CMDLINE, CMDLINE_DEFAULT, MAIN};
use bedplate_cmdline::boot::grub_quote;
use bedplate_cmdline::{Edit, Finding, KernelDefaults, LineDiff, Token};
use bedplate_host::Reader;

/// Heading of the drop-in.
pub(super) const NOTE: &str = "written by bedplate; changes made here are overwritten";

/// Returns the file replacements that make the configured line satisfy the edit. Empty if it already does.
pub(crate) fn edit_files(
    reader: &dyn Reader,
    family: &Family,
    edit: &Edit,
) -> Result<Vec<Action>, Obstacle> {
    let sources = sources(reader, family)?;
    let old = match line(&sources) {
        Ok(line) => line,
        Err(error) if error.is_not_text() => {
            return Err(Obstacle {
                reason: error.to_string(),
                fix: "write the value in ASCII".into(),
            });
        }
        Err(error) => return edit_unfollowable(reader, &sources, family, edit, &error.to_string()),
    };
    let target = edit.apply(&old).map_err(|error| boot_files::cannot(MAIN, &error))?;
    if target == old {
        return Ok(Vec::new());
    }
    let own = family.own();
    let (ours, others): (Vec<SourcedFile>, Vec<SourcedFile>) =
        sources.into_iter().partition(|source| Some(&source.path) == own.as_ref());
    let removed = edit.difference(&old, &target).removed;
    let reordered = edit.reordered(&old, &target);
    let cut = Removal { edit, variable: family.variable, target: &target, removed, reordered };
    let cut = cut.apply(&others)?;
    let kept = line(&cut).map_err(|error| boot_files::cannot(MAIN, &error))?;
    let added = LineDiff::between(&kept, &target).added;
    let added: Vec<Token> = added.iter().filter_map(|token| edit.missing(token, &kept)).collect();
    let result = match &own {
        Some(own) => with_drop_in(cut, own, family, &added)?,
        None => with_main(cut, family, &added)?,
    };
    let reached = line(&result).map_err(|error| boot_files::cannot(MAIN, &error))?;
    let findings = edit.satisfied_by(&reached, &KernelDefaults::default());
    let wrong: Vec<&Finding> =
        findings.iter().filter(|finding| !finding.status.is_satisfied()).collect();
    if !wrong.is_empty() {
        return Err(in_the_way(&result, own.as_deref(), &reached, &wrong));
    }
    Ok(differences(&others, ours.first(), &result, own.as_deref()))
}

fn with_drop_in(
    mut sources: Vec<SourcedFile>,
    own: &str,
    family: &Family,
    added: &[Token],
) -> Result<Vec<SourcedFile>, Obstacle> {
    if !added.is_empty() {
        read_only(&sources, family.variable)?;
        // An argument that cannot be written is from another file, so the error does not name bedplate's own.
        let text = grub_default::write_drop_in(family.variable, added, NOTE)
            .map_err(|error| boot_files::cannot(MAIN, &error))?;
        sources.push(SourcedFile { path: own.to_owned(), default: grub_default::parse(&text) });
        sources.sort_by(|a, b| (a.path != MAIN, &a.path).cmp(&(b.path != MAIN, &b.path)));
    }
    Ok(sources)
}

fn with_main(
    sources: Vec<SourcedFile>,
    family: &Family,
    added: &[Token],
) -> Result<Vec<SourcedFile>, Obstacle> {
    let mut result = Vec::new();
    for source in sources {
        // Drop-ins that the main file sources stay unchanged.
        if source.path != MAIN {
            result.push(source);
            continue;
        }
        let own = |error| boot_files::cannot(&source.path, &error);
        let old = source.default.value(family.variable, None).map_err(own)?.unwrap_or_default();
        let words = added.iter().map(grub_quote::grub_token).collect::<Result<Vec<_>, _>>();
        let words = words.map_err(|error| boot_files::cannot(&source.path, &error))?.join(" ");
        let new = if old.trim().is_empty() || words.is_empty() {
            format!("{old}{words}")
        } else {
            format!("{old} {words}")
        };
        let text = source.default.edited(family.variable, &new, None).map_err(own)?;
        result.push(SourcedFile { default: source.default.with_text(&text), path: source.path });
    }
    Ok(result)
}

/// Returns the replacements of all files whose text changes.
fn differences(
    others: &[SourcedFile],
    ours: Option<&SourcedFile>,
    result: &[SourcedFile],
    own: Option<&str>,
) -> Vec<Action> {
    let text = |sources: &[SourcedFile], path: &str| {
        sources
            .iter()
            .find(|source| source.path == path)
            .map(|source| source.default.text().to_owned())
    };
    let mut actions: Vec<Action> = others
        .iter()
        .filter_map(|source| {
            replace(
                &source.path,
                Some(source.default.text()),
                text(result, &source.path).as_deref(),
            )
        })
        .collect();
    if let Some(own) = own {
        actions.extend(replace(
            own,
            ours.map(|source| source.default.text()),
            text(result, own).as_deref(),
        ));
    }
    actions
}

/// Adds the arguments by the drop-in alone if the main file cannot be evaluated, and leaves the main file unchanged.
/// This can remove no argument, and may add a second `pci=` next to an unmanaged one, which the read-back detects.
fn edit_unfollowable(
    reader: &dyn Reader,
    sources: &[SourcedFile],
    family: &Family,
    edit: &Edit,
    why: &str,
) -> Result<Vec<Action>, Obstacle> {
    let Some(own) = family.own() else {
        return Err(Obstacle {
            reason: format!("{why}: bedplate does not execute it"),
            fix: format!("write {} in {MAIN} as one plain assignment", family.variable),
        });
    };
    if let Reading::Known(line) = next(reader, family)
        && let Some(found) = edit.first_unwanted(&line)
    {
        return Err(Obstacle {
            reason: format!("{why}: cannot find the source of `{found}` without executing it"),
            fix: format!(
                "write {CMDLINE} and {CMDLINE_DEFAULT} as plain assignments there, or remove `{found}` by hand"
            ),
        });
    }
    let rendered = edit.rendered().map_err(|error| boot_files::cannot(&own, &error))?;
    let tokens: Vec<Token> = rendered.tokens().cloned().collect();
    if !tokens.is_empty() {
        read_only(sources, family.variable)?;
    }
    let text = grub_default::write_drop_in(family.variable, &tokens, NOTE)
        .map_err(|error| boot_files::cannot(&own, &error))?;
    let text = (!tokens.is_empty()).then_some(text.as_str());
    let old = sources.iter().find(|source| source.path == own).map(|source| source.default.text());
    Ok(replace(&own, old, text).into_iter().collect())
}
