//! Edits the lines of BLS entries: in the entry files, and in `kernelopts` of the environment block where entries use
//! that variable (RHEL 8).

use super::loader::{Config, Loader};
use super::{ENTRIES, VARIABLE};
use crate::kind::cmdline::check_line::check_line;
use crate::kind::cmdline::{Context, Obstacle, boot_files};
use crate::plan::Action;
use bedplate_base::Reading;
use bedplate_cmdline::boot::bls::BlsEntry;
use bedplate_cmdline::boot::grub_quote;
use bedplate_cmdline::{CommandLine, Edit};

/// Returns the file replacements that make every entry satisfy the edit.
///
/// # Errors
/// [`Obstacle`] if a file cannot be edited safely, or if the default entry would still be wrong or would lose an
/// argument that the profile does not name.
pub(crate) fn actions(
    context: &Context,
    before: &Loader,
    edit: &Edit,
) -> Result<Vec<Action>, Obstacle> {
    let after = edited(before, edit)?;
    keeps_the_rest(context, before, &after, edit)?;
    let files = before.entries.iter().zip(&after.entries).filter_map(|(old, new)| {
        boot_files::replace(&old.path, Some(old.entry.text()), Some(new.entry.text()))
    });
    let block = before.config.environment.as_ref().zip(after.config.environment.as_ref());
    let block = block.and_then(|((old, _), (new, _))| {
        boot_files::replace(&before.config.environment_path, Some(old), Some(new))
    });
    Ok(files.chain(block).collect())
}

/// Returns the files with every line edited. The rescue entry stays unchanged: it is for boots where the arguments are
/// the problem. So do entries without a kernel: a unified kernel image has its own arguments.
fn edited(before: &Loader, edit: &Edit) -> Result<Loader, Obstacle> {
    let mut after = before.clone();
    let lookup = |name: &str| before.config.value(name).ok();
    let mut by_variable = false;
    let is_edited = |entry: &BlsEntry| entry.linux().is_some() && !entry.id().ends_with("-rescue");
    for file in after.entries.iter_mut().filter(|file| is_edited(&file.entry)) {
        if file.entry.grub_variables().contains(&VARIABLE) && has_variable(&before.config)? {
            by_variable = true;
            continue;
        }
        let text = file
            .entry
            .edited(edit, &lookup)
            .map_err(|error| boot_files::cannot(&file.path, &error))?;
        file.entry = BlsEntry::parse(&file.name, &text);
    }
    if by_variable {
        set_variable(&mut after.config, edit)?;
    }
    Ok(after)
}

/// Whether `kernelopts` adds arguments and can be set in the environment block.
fn has_variable(config: &Config) -> Result<bool, Obstacle> {
    if config.environment.is_none() {
        return Ok(false);
    }
    let value = config.value(VARIABLE).map_err(|reason| Obstacle {
        reason: format!("the boot entries take their arguments from ${VARIABLE}: {reason}"),
        fix: format!(
            "store the whole line, with root=: `grub2-editenv - set {VARIABLE}=…`, then plan again"
        ),
    })?;
    Ok(!value.trim().is_empty())
}

/// Stores the edited value. A value in the environment block disables the fallback of `grub.cfg`
/// (util/grub.d/10_linux.in of Red Hat's GRUB), so it must have all arguments of the fallback.
fn set_variable(config: &mut Config, edit: &Edit) -> Result<(), Obstacle> {
    let path = config.environment_path.clone();
    let old = config
        .value(VARIABLE)
        .map_err(|reason| Obstacle { reason, fix: format!("correct {path}, then plan again") })?;
    let new =
        grub_quote::edit_text(&old, edit).map_err(|error| boot_files::cannot(&path, &error))?;
    if new == old {
        return Ok(());
    }
    let Some((text, environment)) = &mut config.environment else { return Ok(()) };
    environment.set(VARIABLE, &new).map_err(|error| boot_files::cannot(&path, &error))?;
    *text = environment.render();
    Ok(())
}

/// Refuses an edit after which the default entry would lose an argument or lack a desired one, for example because GRUB
/// takes its arguments from other files.
fn keeps_the_rest(
    context: &Context,
    before: &Loader,
    after: &Loader,
    edit: &Edit,
) -> Result<(), Obstacle> {
    let old = known(before)?;
    let new = known(after)?;
    let target = edit.apply(&old).map_err(|error| boot_files::cannot(ENTRIES, &error))?;
    let refused = |reason: String| {
        Err(Obstacle {
            reason,
            fix: format!(
                "check the variables that {} sets and the `options` of its default entry, then plan again",
                before.config.path()
            ),
        })
    };
    if let Some(lost) = first_lost(&old, &target, &new) {
        return refused(format!("the default boot entry would lose {lost}"));
    }
    let wanted = &context.desired.cmdline;
    match check_line(context.reader, context.facts, &new, &wanted.set, &wanted.absent) {
        Ok(()) => Ok(()),
        Err(wrong) => refused(format!(
            "the default boot entry does not use the arguments of the files to edit: {wrong}"
        )),
    }
}

/// Returns the line of the default entry, which the check after the change must be able to read.
fn known(loader: &Loader) -> Result<CommandLine, Obstacle> {
    let refused = |why: &str| Obstacle {
        reason: format!("the next boot's command line is unknown: {why}"),
        fix: format!(
            "write the `options` of the entry in {ENTRIES}, and what they use of {}, without values that only GRUB knows",
            loader.config.path()
        ),
    };
    match loader.line_once_made() {
        Reading::Known(line) => Ok(line),
        Reading::Absent => Err(refused(&format!("{ENTRIES} does not exist"))),
        Reading::Unknown(why) => Err(refused(&why)),
    }
}

/// Returns the first argument that stays in `target` and is missing in `new`.
fn first_lost(old: &CommandLine, target: &CommandLine, new: &CommandLine) -> Option<String> {
    let count = |line: &CommandLine, text: &str| {
        line.tokens().filter(|token| token.as_str() == text).count()
    };
    let stays = |text: &&str| count(old, text).min(count(target, text)) > count(new, text);
    old.tokens().map(|token| token.as_str()).find(stays).map(str::to_owned)
}
