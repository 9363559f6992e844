//! Boot loader specification type 1 entries (`/boot/loader/entries/*.conf`): reading, ordering, choosing and editing.
//!
//! Two readers with different rules (handbook §10.3, §10.4): Red Hat's GRUB expands `$variables` and parses `options`
//! as GRUB script; systemd-boot passes the text on verbatim.

mod order;

use super::NotUnderstood;
use super::grub_quote::{self, GrubQuoteError};
use crate::Edit;

pub use order::{grub_menu, grub_order, systemd_default, systemd_order};

/// Boot loader that reads the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Red Hat's GRUB (`blscfg`): variables, quotes, only the first `options`.
    Grub,
    /// systemd-boot: verbatim, all `options` joined.
    SystemdBoot,
}

/// Reason why an entry cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BlsError {
    what: String,
    source: Option<GrubQuoteError>,
}

/// The variable that GRUB uses as the options of an entry without any.
const DEFAULT_OPTIONS: &str = "default_kernelopts";

/// A line `key value`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    key: String,
    /// Byte range of the value in the text.
    value: std::ops::Range<usize>,
    /// Byte range of the whole line with its end.
    line: std::ops::Range<usize>,
}

/// An entry file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlsEntry {
    id: String,
    tries_left: Option<u32>,
    text: String,
    fields: Vec<Field>,
}

/// Result of GRUB reading an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GrubBoot {
    pub image: String,
    pub cmdline: String,
    pub unresolved: Vec<String>,
    pub initrds: Vec<String>,
}

impl BlsEntry {
    /// Parses an entry. `file_name` is the name in the directory, e.g. `0123-5.14.0.conf` or `arch+3.conf`.
    pub fn parse(file_name: &str, text: &str) -> BlsEntry {
        let stem = file_name.strip_suffix(".conf").unwrap_or(file_name);
        let (id, tries_left) = boot_counter(stem);
        let mut fields = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = line.trim_end_matches(['\n', '\r']);
            let body = content.trim_start_matches([' ', '\t']);
            let key_at = start + content.len() - body.len();
            if let Some(end) = body.find([' ', '\t']).filter(|_| !body.starts_with('#')) {
                let value = body[end..].trim_start_matches([' ', '\t']);
                let value_at = key_at + body.len() - value.len();
                fields.push(Field {
                    key: body[..end].to_owned(),
                    value: value_at..value_at + value.trim_end().len(),
                    line: start..start + line.len(),
                });
            }
            start += line.len();
        }
        BlsEntry { id: id.to_owned(), tries_left, text: text.to_owned(), fields }
    }

    /// Returns the file name without `.conf` and boot counter, as in `saved_entry` (systemd-boot adds `.conf`).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `title`.
    pub fn title(&self) -> Option<&str> {
        self.field("title")
    }

    /// Returns `version`.
    pub fn version(&self) -> Option<&str> {
        self.field("version")
    }

    /// Returns `linux`: the kernel image.
    pub fn linux(&self) -> Option<&str> {
        self.field("linux")
    }

    /// Returns `efi` or `uki`: a program for the firmware, possibly a kernel with everything that it needs.
    pub fn efi(&self) -> Option<&str> {
        self.field("efi").or_else(|| self.field("uki"))
    }

    /// Returns `linux`.
    ///
    /// # Errors
    /// If `efi` is there, too, or instead: builds of GRUB differ on such entries.
    pub fn expect_kernel(&self) -> Result<&str, String> {
        match (self.linux(), self.efi_program()) {
            (Some(kernel), None) => Ok(kernel),
            (_, Some(_)) => {
                Err(format!("builds of GRUB differ on boot entry {}, which has `efi`", self.id))
            }
            (None, None) => Err(format!("boot entry {} has no kernel", self.id)),
        }
    }

    /// Returns `efi`, which newer builds of GRUB start in place of the kernel.
    pub(super) fn efi_program(&self) -> Option<&str> {
        self.field("efi")
    }

    /// Returns the file that the entry boots: the kernel image, else the program for the firmware.
    pub fn image(&self) -> Option<&str> {
        self.linux().or_else(|| self.efi())
    }

    /// Returns the files of all `initrd` lines. An unset variable is empty (`$tuned_initrd`).
    pub fn initrds(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let lines = self.all("initrd").map(|field| &self.text[field.value.clone()]);
        let expanded = lines.filter_map(|line| expand(line, lookup));
        let words = expanded
            .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>());
        words.filter(|word| !word.starts_with('$')).collect()
    }

    /// `grub_users` with its variables expanded, except those that `lookup` does not know.
    pub(super) fn grub_users(&self, lookup: &dyn Fn(&str) -> Option<String>) -> String {
        let users = self.field("grub_users").unwrap_or_default();
        expand(users, lookup).unwrap_or_default()
    }

    /// Returns `options` lines, as written.
    pub fn options(&self) -> Vec<&str> {
        self.all("options").map(|field| &self.text[field.value.clone()]).collect()
    }

    /// Returns the names of the GRUB variables in the options (`kernelopts`, `tuned_params`).
    pub fn grub_variables(&self) -> Vec<&str> {
        let options = self.options();
        let pieces = options.iter().flat_map(|options| options.split('$').skip(1));
        pieces.map(|piece| &piece[..variable_len(piece)]).filter(|name| !name.is_empty()).collect()
    }

    /// Returns the command line that systemd-boot passes to the kernel.
    pub fn systemd_cmdline(&self) -> String {
        self.options().join(" ")
    }

    /// Returns the command line that GRUB passes to the kernel, and the variables in it that `lookup` does not know.
    /// Those stay in the line as `$name`; an unset variable is empty.
    ///
    /// # Errors
    /// [`NotUnderstood`], with the place in the entry, if GRUB would stop reading there, or if builds of GRUB differ.
    pub fn grub_cmdline(
        &self,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(String, Vec<String>), NotUnderstood> {
        let boot = self.grub_boot(lookup)?;
        Ok((boot.cmdline, boot.unresolved))
    }

    pub(super) fn grub_boot(
        &self,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<GrubBoot, NotUnderstood> {
        match self.all("options").collect::<Vec<_>>().as_slice() {
            [] => {}
            [only] => self.check_read_to(only)?,
            [_, second, ..] => {
                let why = "GRUB reads only one `options` line; join them";
                return Err(NotUnderstood::at(&self.text, second.line.start, why));
            }
        }
        let options = self.effective_options(lookup);
        let here = |why| {
            let at = self.all("options").next().map_or(0, |field| field.value.start);
            NotUnderstood::at(&self.text, at, why)
        };
        let expanded = expand(&options, lookup);
        let expanded = expanded.ok_or_else(|| here("these options are too long".to_owned()))?;
        let words = grub_quote::split(&expanded).map_err(|found| here(found.why))?;
        let unresolved = words.iter().flat_map(|word| word.variables.clone()).collect();
        let cmdline = words.into_iter().map(|word| word.kernel).collect::<Vec<_>>().join(" ");
        let image = self.linux().unwrap_or_default().to_owned();
        Ok(GrubBoot { image, cmdline, unresolved, initrds: self.initrds(lookup) })
    }

    /// Returns the text that GRUB expands: the first `options` line, or `default_kernelopts` if that line expands to
    /// nothing (`blscfg.c`, `create_entry` and `expand_val`). A default that `lookup` does not know is returned as a
    /// variable.
    fn effective_options(&self, lookup: &dyn Fn(&str) -> Option<String>) -> String {
        let own = self.options().first().copied().unwrap_or_default();
        let unset = |name: &str| lookup(name).is_some_and(|value| value.is_empty());
        let is_void = |piece: &str| variable_len(piece) == piece.len() && unset(piece);
        let mut pieces = own.split('$');
        let takes_default = pieces.next() == Some("") && pieces.all(is_void);
        match takes_default {
            true => lookup(DEFAULT_OPTIONS).unwrap_or_else(|| format!("${DEFAULT_OPTIONS}")),
            false => own.to_owned(),
        }
    }

    /// Returns the entry's text with edited options, for Red Hat's GRUB; keeps every other byte. Keeps variables too:
    /// edit their values where they are set (`kernelopts` in grubenv). If the entry has no options, it gets GRUB's
    /// default ones plus the edit, because GRUB then no longer uses the default.
    ///
    /// # Errors
    /// [`BlsError`] if the entry or the edited options are not safe to write.
    pub fn edited(
        &self,
        edit: &Edit,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, BlsError> {
        let fields: Vec<&Field> = self.all("options").collect();
        let has = |what: &str| {
            Err(BlsError { what: format!("boot entry {} has {what}", self.id), source: None })
        };
        if fields.len() > 1 {
            // Builds of GRUB differ in which line they read.
            return has("several `options` lines, but GRUB reads only one; join them");
        }
        let own = fields.first().map_or("", |field| &self.text[field.value.clone()]);
        let old = self.effective_options(lookup);
        let line = expand(&old, lookup).unwrap_or_else(|| old.clone());
        if line.trim().is_empty() {
            // The added arguments would be the whole line.
            return has("no kernel arguments, not even root=; cannot add any");
        }
        let new = grub_quote::edit_text(&old, edit).map_err(|error| BlsError {
            what: format!("cannot edit the options of boot entry {}", self.id),
            source: Some(error),
        })?;
        // GRUB expands `$` even inside quotes.
        if new.matches('$').count() > old.matches('$').count() {
            let what =
                "has a `$`, which GRUB expands as a variable in boot entries; use modprobe.d";
            return Err(BlsError { what: format!("`{new}` {what}"), source: None });
        }
        let text = if new == old { own } else { &new };
        Ok(self.with_options(fields.first().copied(), own, text))
    }

    /// Returns the text with other options, in place of the line that has them.
    fn with_options(&self, field: Option<&Field>, old: &str, new: &str) -> String {
        if old == new {
            return self.text.clone();
        }
        let Some(field) = field else {
            let gap = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
            return format!("{}{gap}options {new}\n", self.text);
        };
        let mut text = self.text.clone();
        text.replace_range(field.value.clone(), new);
        text
    }

    /// Returns the text with the `options` of another entry in place of its own.
    pub fn with_options_of(&self, other: &BlsEntry) -> String {
        let own: Vec<&Field> = self.all("options").collect();
        let start = own.first().map_or(self.text.len(), |field| field.line.start);
        let mut text = self.text.clone();
        for field in own.iter().rev() {
            text.replace_range(field.line.clone(), "");
        }
        let gap = if start == 0 || text[..start].ends_with('\n') { "" } else { "\n" };
        let lines = other.options().into_iter().map(|options| format!("options {options}\n"));
        text.insert_str(start, &format!("{gap}{}", lines.collect::<String>()));
        text
    }

    fn field(&self, key: &str) -> Option<&str> {
        self.all(key).next().map(|field| &self.text[field.value.clone()])
    }

    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Field> {
        self.fields.iter().filter(move |field| field.key == key)
    }

    /// Fails if a line before the field has no blank in it: older builds of GRUB stop reading an entry there.
    fn check_read_to(&self, field: &Field) -> Result<(), NotUnderstood> {
        let mut start = 0;
        for line in self.text[..field.line.start].split_inclusive('\n') {
            let body = line.trim();
            if !body.starts_with('#') && !body.contains([' ', '\t']) {
                let why = "some builds of GRUB stop reading the entry here; remove the line";
                return Err(NotUnderstood::at(&self.text, start, why));
            }
            start += line.len();
        }
        Ok(())
    }
}

/// Limit for expanded options, in bytes; the kernel accepts 4 KiB at most (COMMAND_LINE_SIZE).
const LONGEST_OPTIONS: usize = 64 << 10;

/// Expands variables like `blscfg.c` `expand_val`: plain text replacement, quotes have no meaning, a space after each
/// piece. Keeps variables that `lookup` does not know. Returns `None` if the result is far longer than any kernel
/// accepts.
fn expand(options: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut pieces = options.split('$');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_at(variable_len(piece));
        if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
        match lookup(name) {
            Some(value) => out.push_str(&value),
            None => {
                out.push('$');
                out.push_str(name);
            }
        }
        out.push(' ');
        out.push_str(rest);
        if out.len() > LONGEST_OPTIONS {
            return None;
        }
    }
    Some(out)
}

fn variable_len(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Strips a boot counter (`+LEFT` or `+LEFT-DONE`) from a file name (systemd, automatic boot assessment).
fn boot_counter(stem: &str) -> (&str, Option<u32>) {
    let Some((id, counter)) = stem.rsplit_once('+') else { return (stem, None) };
    let (left, done) = counter.split_once('-').unwrap_or((counter, "0"));
    match (left.parse(), done.parse::<u32>()) {
        (Ok(left), Ok(_)) => (id, Some(left)),
        _ => (stem, None),
    }
}
