//! Reads a generated `grub.cfg`: which entry boots next, and its command line.
//!
//! Chooses like GRUB: the header sets `default` (once from `next_entry`, else the configured value or `saved_entry`),
//! then `grub-core/normal/menu.c` finds it by id, title or position; `>` leads into submenus.

use std::collections::BTreeMap;

use serde::Serialize;

use super::NotUnderstood;
use super::bls::{self, BlsEntry};
pub use super::grub_device::Device;
use super::grub_files::GrubFiles;
use super::grub_run::{Item, ItemKind, Linux, Run};
use super::grub_script::parse;
use super::grub_vars::{State, Value};
use crate::CommandLine;

/// A boot entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Title in the menu, with the submenus before it.
    pub title: Vec<String>,
    /// Ids in the same order: joined with `>` they are the argument of `grub-reboot` and the value of `saved_entry`.
    pub id: Vec<String>,
    /// The kernel image as GRUB names it.
    pub image: String,
    /// The arguments after the image, as the kernel sees them. GRUB puts `BOOT_IMAGE=…` before them.
    pub cmdline: String,
    /// The same with other values of variables that the machine chooses (Ubuntu's `$vt_handoff`).
    pub others: Vec<String>,
    /// Known values of the variables in it; empty for an entry file.
    pub variables: BTreeMap<String, String>,
    /// Variables in it that only GRUB can expand; they stay as `$name`.
    pub unresolved: Vec<String>,
    /// The initrd files, as GRUB names them.
    pub initrds: Vec<String>,
    /// Device of image and initrd. For entries from files: the device of those files.
    pub device: Device,
    /// Reasons why the machine may wait at the menu; determined only for the default entry.
    pub waits: Vec<Wait>,
    /// Line in `grub.cfg` (the `linux` line, or `blscfg`).
    pub line: usize,
}

/// Reason why the menu does not boot the entry by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// `timeout` is not a number: the menu waits for a key forever (`grub-core/normal/menu.c`).
    Key,
    /// `superusers` is set and the entry is not `--unrestricted`: GRUB asks for a password (`grub-core/normal/auth.c`).
    Password,
    /// Only the machine knows whether GRUB asks for a password.
    PasswordUnknown,
}

impl Entry {
    /// Returns the command line, with all alternatives that the machine may choose.
    pub fn line(&self) -> CommandLine {
        let parse = |text: &String| CommandLine::parse(text);
        parse(&self.cmdline).or(self.others.iter().map(parse))
    }
}

/// Returns the entry that boots without user input.
///
/// # Errors
/// [`NotUnderstood`] with the line that cannot be followed, or that makes the choice machine-dependent.
pub fn default_entry(cfg: &str, around: &GrubFiles<'_>) -> Result<Entry, NotUnderstood> {
    let mut run = Run::new(cfg, around, State::default());
    run.commands(&parse(cfg)?)?;
    let Some(spec) = run.state.get("default") else {
        let at = cfg.find("default=").unwrap_or_default();
        let why = "which entry is the default depends on the machine";
        return Err(NotUnderstood::at(cfg, at, why));
    };
    run.check_ended()?;
    let items = expand(&run.items, cfg, around)?;
    let mut chosen = descend(&run, &items, &spec, Vec::new(), Vec::new())?;
    chosen.waits.extend(waits_for_key(&run.state));
    Ok(chosen)
}

/// Detects a timeout that never expires. Ignores an unset timeout: the author of the menu is responsible for that.
fn waits_for_key(state: &State) -> Option<Wait> {
    let timeout = state.get("timeout").filter(|_| state.is_set("timeout"))?;
    let is_number = timeout.trim_start().starts_with(|c: char| c.is_ascii_digit());
    (!is_number).then_some(Wait::Key)
}

/// Whether GRUB asks for a password at this line of the menu.
fn waits_for_password(state: &State, restricted: Option<bool>) -> Option<Wait> {
    match (restricted, state.get("superusers")) {
        (Some(false), _) => None,
        (_, Some(users)) if users.is_empty() => None,
        (Some(true), Some(_)) => Some(Wait::Password),
        _ => Some(Wait::PasswordUnknown),
    }
}

/// Returns all entries of the menu and its submenus that load a Linux kernel, in menu order.
///
/// # Errors
/// As [`default_entry`].
pub fn entries(cfg: &str, around: &GrubFiles<'_>) -> Result<Vec<Entry>, NotUnderstood> {
    let mut run = Run::new(cfg, around, State::default());
    run.commands(&parse(cfg)?)?;
    let mut all = Vec::new();
    collect(&run, &expand(&run.items, cfg, around)?, &[], &[], &mut all)?;
    Ok(all)
}

/// A menu line, with `blscfg` replaced by the entries of its files.
struct Line<'a> {
    title: Value,
    id: Value,
    /// As in [`Item`].
    restricted: Option<bool>,
    certain: bool,
    at: usize,
    boots: Boots<'a>,
}

/// Target of a menu line.
enum Boots<'a> {
    Item(&'a ItemKind),
    /// An entry from a file, and the variables at the `blscfg` command.
    Bls(&'a BlsEntry, &'a State),
}

fn expand<'a>(
    items: &'a [Item],
    cfg: &str,
    around: &'a GrubFiles<'a>,
) -> Result<Vec<Line<'a>>, NotUnderstood> {
    let mut lines = Vec::new();
    for Item { kind, title, id, restricted, certain, at } in items {
        let (certain, at) = (*certain, *at);
        let ItemKind::Bls(state) = kind else {
            let (title, id, boots) = (title.clone(), id.clone(), Boots::Item(kind));
            lines.push(Line { title, id, restricted: *restricted, certain, at, boots });
            continue;
        };
        if around.bls.is_empty() {
            let why = "the entries come from boot loader specification files, but there are none";
            return Err(NotUnderstood::at(cfg, at, why));
        }
        lines.extend(bls::grub_menu(around.bls).into_iter().map(|entry| {
            let title = entry.title().or(entry.image()).map(str::to_owned);
            let certain = certain && entry.efi_program().is_none();
            // Entries from files restrict users with `grub_users`; without it, all users may boot them (`blscfg.c`).
            let users = entry.grub_users(&|name: &str| state.get(name));
            let restricted = (!users.contains('$')).then(|| !users.trim().is_empty());
            let (id, boots) = (Some(entry.id().to_owned()), Boots::Bls(entry, state));
            Line { title, id, restricted, certain, at, boots }
        }));
    }
    Ok(lines)
}

fn descend(
    run: &Run<'_>,
    lines: &[Line<'_>],
    spec: &str,
    mut title: Vec<String>,
    mut id: Vec<String>,
) -> Result<Entry, NotUnderstood> {
    let (own, rest) = split_spec(spec);
    let line = pick(run.text, lines, &own, rest.is_some())?;
    title.push(line.title.clone().unwrap_or_default());
    id.push(line.id.clone().unwrap_or_default());
    let password = waits_for_password(&run.state, line.restricted);
    let mut chosen = if let Boots::Item(ItemKind::Submenu(body)) = line.boots {
        let inner = run.submenu(body)?;
        inner.check_ended()?;
        let lines = expand(&inner.items, run.text, run.around)?;
        // Without a rest, a submenu boots its first entry: `default` is not exported, so submenus do not see it.
        descend(&inner, &lines, rest.unwrap_or_default(), title, id)?
    } else {
        let (entry, ended) = entry(run, line, title, id)?;
        let entry = entry.ok_or_else(|| {
            NotUnderstood::at(run.text, line.at, "the default entry loads no Linux kernel")
        })?;
        ended.map_or(Ok(entry), Err)?
    };
    let password = password.filter(|wait| !chosen.waits.contains(wait));
    chosen.waits.extend(password);
    Ok(chosen)
}

/// Splits a menu path at its first `>`; a doubled one is part of the name (`menu.c`, `menuentry_eq`).
fn split_spec(spec: &str) -> (String, Option<&str>) {
    let mut own = String::new();
    let mut chars = spec.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '>' && chars.next_if(|(_, next)| *next == '>').is_none() {
            let rest = &spec[at + 1..];
            return (own, (!rest.is_empty()).then_some(rest));
        }
        own.push(c);
    }
    (own, None)
}

/// Finds the menu line with this name or position. `is_path`: a line of its submenu follows.
fn pick<'a, 'b>(
    text: &str,
    lines: &'b [Line<'a>],
    name: &str,
    is_path: bool,
) -> Result<&'b Line<'a>, NotUnderstood> {
    let depends = |line: &Line<'_>| {
        let why = "whether this entry is in the menu depends on the machine";
        Err(NotUnderstood::at(text, line.at, why))
    };
    let digits = name.chars().take_while(char::is_ascii_digit).count();
    let position = match digits == name.len() && (name == "0" || !name.starts_with('0')) {
        true => name.parse::<usize>().ok(),
        false => None,
    };
    let named = |value: &Value| value.as_deref() == Some(name);
    let by_id = lines.iter().position(|line| named(&line.id));
    let by_either = lines.iter().position(|line| named(&line.id) || named(&line.title));
    // Upstream GRUB reads leading digits as a position before it compares names, and then uses the first line whose id
    // or title matches. Red Hat's GRUB prefers ids to titles to positions. Among the families whose menus bedplate
    // follows, only Red Hat's has entries from files.
    let red_hat = lines.iter().any(|line| matches!(line.boots, Boots::Bls(..)));
    if let Some(found) = by_either {
        let line = &lines[if red_hat { by_id.unwrap_or(found) } else { found }];
        let differ =
            by_id.is_some_and(|by_id| by_id != found) || (digits > 0 && position != Some(found));
        if differ && !red_hat {
            let why = "builds of GRUB differ on which entry is the default";
            return Err(NotUnderstood::at(text, line.at, why));
        }
        let is_open = |line: &&Line<'_>| line.id.is_none() && line.title.is_none();
        if let Some(unknown) = lines[..found].iter().find(is_open) {
            return depends(unknown);
        }
        return if line.certain { Ok(line) } else { depends(line) };
    }
    // Red Hat's GRUB takes the first entry, unless the whole name is a number (`menu.c`, `get_entry_number_helper`).
    let is_no_number =
        digits < name.len() && !name.starts_with("0x") && !name.contains(char::is_whitespace);
    let is_unclear = position.is_none() || red_hat && is_path;
    if digits > 0 && is_unclear && !(red_hat && is_no_number) {
        let why = "builds of GRUB differ on a default that starts with digits";
        return Err(NotUnderstood::at(text, text.find("default=").unwrap_or_default(), why));
    }
    let is_unnamed = |line: &&Line<'_>| line.id.is_none() || line.title.is_none();
    if let Some(unknown) = lines.iter().find(is_unnamed).filter(|_| position.is_none()) {
        return depends(unknown);
    }
    // GRUB boots the first entry if it finds no match, or if the position is beyond the end.
    let at = position.filter(|at| *at < lines.len()).unwrap_or(0);
    let beyond = position.is_some_and(|position| position >= lines.len());
    let counted = if beyond { lines } else { lines.get(..=at).unwrap_or(lines) };
    match (counted.iter().find(|line| !line.certain), lines.get(at)) {
        (Some(line), _) => depends(line),
        (None, Some(line)) => Ok(line),
        (None, None) => Err(NotUnderstood::at(text, 0, "the menu has no entry")),
    }
}

/// Returns the entry, if it loads Linux, and the command in it that leaves the entry.
fn entry(
    run: &Run<'_>,
    line: &Line<'_>,
    title: Vec<String>,
    id: Vec<String>,
) -> Result<(Option<Entry>, Option<NotUnderstood>), NotUnderstood> {
    let (linux, ended) = match line.boots {
        Boots::Bls(entry, _) if entry.linux().is_none() => return Ok((None, None)),
        Boots::Bls(entry, state) => {
            let boot = entry.grub_boot(&|name: &str| state.get(name))?;
            let bls::GrubBoot { image, cmdline, unresolved, initrds } = boot;
            let at = line.at;
            (Some(Linux { image, cmdline, unresolved, initrds, at, ..Linux::default() }), None)
        }
        Boots::Item(ItemKind::Entry(body)) => {
            let mut inner = run.entry(body)?;
            if let Some(doubtful) = inner.linux.iter().find(|linux| !linux.certain) {
                let why = "which kernel this entry loads depends on the machine";
                return Err(NotUnderstood::at(run.text, doubtful.at, why));
            }
            (inner.linux.pop(), inner.check_ended().err())
        }
        Boots::Item(_) => return Ok((None, None)),
    };
    let entry = linux.map(|linux| Entry {
        title,
        id,
        image: linux.image,
        cmdline: linux.cmdline,
        others: linux.others,
        variables: linux.variables,
        unresolved: linux.unresolved,
        initrds: linux.initrds,
        device: linux.device,
        waits: Vec::new(),
        line: run.line_number(linux.at),
    });
    Ok((entry, ended))
}

fn collect(
    run: &Run<'_>,
    lines: &[Line<'_>],
    titles: &[String],
    ids: &[String],
    all: &mut Vec<Entry>,
) -> Result<(), NotUnderstood> {
    for line in lines {
        let with =
            |list: &[String], own: &Value| [list, &[own.clone().unwrap_or_default()]].concat();
        let (title, id) = (with(titles, &line.title), with(ids, &line.id));
        if let Boots::Item(ItemKind::Submenu(body)) = line.boots {
            let inner = run.submenu(body)?;
            collect(&inner, &expand(&inner.items, run.text, run.around)?, &title, &id, all)?;
        } else {
            all.extend(entry(run, line, title, id)?.0);
        }
    }
    Ok(())
}
