//! GRUB's generated menu: which entry boots, and whether that entry gets its arguments from the variables that bedplate
//! writes. Handwritten entries and recovery entries do not: no regeneration adds an argument there.

use std::collections::{BTreeMap, BTreeSet};

use super::Obstacle;
use super::boot_files::{is_blank, raw, readable};
use super::grub_directory::{GrubDirectory, directory_of};
use bedplate_base::{OptionalRead as _, ReadError, Reading};
use bedplate_cmdline::boot::NotUnderstood;
use bedplate_cmdline::boot::grub_cfg::{Entry, default_entry, entries};
use bedplate_cmdline::boot::grub_files::GrubFiles;
use bedplate_cmdline::boot::grub_quote;
use bedplate_cmdline::boot::grubenv::Grubenv;
use bedplate_cmdline::{CommandLine, Edit, KernelDefaults, LineDiff, Status, Token};
use bedplate_host::Reader;

/// Generated configuration with the files of its directory.
pub(crate) struct Menu {
    path: String,
    text: String,
    environment: Option<Grubenv>,
    directory: GrubDirectory,
}

impl Menu {
    /// Reads the menu.
    ///
    /// # Errors
    /// If the menu is absent or cannot be read.
    pub(super) fn read(reader: &dyn Reader, path: &str) -> Result<Self, ReadError> {
        let text = raw(reader, path)?;
        // It may choose another entry, and set variables that the entries use.
        let environment = raw(reader, &format!("{}/grubenv", directory_of(path))).optional()?;
        let environment = environment.and_then(|text| Grubenv::parse(&text).ok());
        Ok(Self {
            path: path.to_owned(),
            directory: GrubDirectory::read(reader, path, &text, environment.as_ref()),
            text,
            environment,
        })
    }

    fn with_grub_files<T>(
        &self,
        look: impl FnOnce(&str, &GrubFiles<'_>) -> Result<T, NotUnderstood>,
    ) -> Result<T, NotUnderstood> {
        let environment = self.environment.as_ref();
        self.directory.with_files(environment, &[], |around| look(&self.text, around))
    }

    /// Returns the line of the entry that boots without input.
    pub(super) fn next(&self) -> Reading<CommandLine> {
        let path = &self.path;
        match self.with_grub_files(default_entry) {
            Ok(entry) if entry.unresolved.is_empty() => {
                let place = format!("{path}:{}", entry.line);
                match readable(&place, &entry.cmdline) {
                    Reading::Known(_) => Reading::Known(entry.line()),
                    other => other,
                }
            }
            Ok(entry) => Reading::unknown(format!(
                "{path}: the default entry uses variables that only GRUB knows: {:?}",
                entry.unresolved
            )),
            Err(error) => Reading::unknown(format!("{path}:{}: {}", error.line, error.why)),
        }
    }

    /// Returns an obstacle if the menu leaves open which line boots, so that the result of a regeneration could not be
    /// checked.
    pub(super) fn undecidable(&self) -> Option<Obstacle> {
        match self.next() {
            Reading::Unknown(why) if !is_blank(&self.text) => Some(Obstacle {
                reason: format!("the next boot's command line is unknown: {why}"),
                fix: format!(
                    "rewrite that place of {}, or its generator in /etc/grub.d, without values that only GRUB knows",
                    self.path
                ),
            }),
            _ => None,
        }
    }

    /// Returns an obstacle if GRUB chooses by hardware between values of a variable on the line, and one of them
    /// contradicts the edit: no change is then certain to last.
    pub(super) fn machine_dependent(&self, edit: &Edit) -> Option<Obstacle> {
        let default = self.with_grub_files(default_entry).ok()?;
        let line = default.line();
        let is_chosen = |token: &Token| {
            line.possible_lines().any(|one| !one.tokens().any(|other| other == token))
        };
        let chosen =
            line.possible_lines().flat_map(CommandLine::tokens).filter(|token| is_chosen(token));
        let chosen = CommandLine::from_tokens(chosen.cloned());
        let findings = edit.satisfied_by(&chosen, &KernelDefaults::default());
        let found = findings.iter().find_map(|finding| finding.status.found())?;
        Some(Obstacle {
            reason: format!(
                "GRUB adds `{found}` to the default boot entry ({}:{}) depending on the hardware",
                self.path, default.line
            ),
            fix: "drop the argument from [cmdline] of the profile, or remove that variable from /etc/grub.d".into(),
        })
    }

    /// Returns the same entry with all its parts.
    pub(super) fn entry(&self) -> Reading<Entry> {
        match self.with_grub_files(default_entry) {
            Ok(entry) => Reading::Known(entry),
            Err(error) => Reading::unknown(format!("{}:{}: {}", self.path, error.line, error.why)),
        }
    }

    /// Returns the known values of the variables in the same entry's line.
    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        self.with_grub_files(default_entry).map(|entry| entry.variables).unwrap_or_default()
    }

    /// Whether any entry loads an initrd. `false` if the menu cannot be parsed.
    pub(super) fn has_initrds(&self) -> bool {
        self.initrds().is_some_and(|initrds| !initrds.is_empty())
    }

    /// Returns the initrds of all entries, as GRUB names them. `None`: the menu cannot be parsed.
    pub(super) fn initrds(&self) -> Option<Vec<String>> {
        let all = self.with_grub_files(entries).ok()?;
        Some(all.into_iter().flat_map(|entry| entry.initrds).collect())
    }

    /// Returns an obstacle if regeneration cannot help: the default entry lacks arguments of the edit and does not get
    /// its arguments from the configuration, and other entries do. `configured` is the line that grub-mkconfig puts at
    /// the end of every normal entry (10_linux), as it was when the menu was generated. `None` if no entry ends in that
    /// line.
    pub(super) fn arguments_from_elsewhere(
        &self,
        configured: &CommandLine,
        edit: &Edit,
    ) -> Option<Obstacle> {
        let default = self.with_grub_files(default_entry).ok()?;
        let all = self.with_grub_files(entries).ok()?;
        let lacks = edit
            .satisfied_by(&default.line(), &KernelDefaults::default())
            .iter()
            .any(|finding| !finding.status.is_satisfied());
        if !lacks
            || carries(&default, configured)
            || !all.iter().any(|entry| carries(entry, configured))
        {
            return None;
        }
        Some(Obstacle {
            reason: format!(
                "the default boot entry ({}:{}) does not get its arguments from the configuration, but other entries do",
                self.path, default.line
            ),
            fix: format!(
                "{}, or write the arguments into that entry by hand",
                self.choice(&default)
            ),
        })
    }

    /// Returns an obstacle if regeneration cannot help: with the edit applied to the text of the default entry, the
    /// value of a GRUB variable is still wrong.
    pub(super) fn by_variable(&self, edit: &Edit) -> Option<Obstacle> {
        let default = self.with_grub_files(default_entry).ok()?;
        let words =
            grub_quote::split(self.text.lines().nth(default.line.checked_sub(1)?)?.trim()).ok()?;
        let variables: BTreeSet<String> =
            words.iter().flat_map(|word| &word.variables).map(|name| format!("${name}")).collect();
        let is_last = !words.last()?.variables.is_empty();
        let written: Vec<&str> = words.iter().map(|word| word.kernel.as_str()).collect();
        let after = made_again(&written.join(" "), &default.line(), is_last, edit)?;
        let findings = |line| edit.satisfied_by(line, &KernelDefaults::default());
        let both = findings(&default.line()).into_iter().zip(findings(&after));
        let wrong = both
            .filter(|(boots, after)| !boots.status.is_satisfied() && !after.status.is_satisfied());
        let found: Vec<String> = wrong
            .map(|(boots, after)| match (&boots.status, &after.status) {
                (
                    _,
                    Status::Other { found }
                    | Status::Reordered { found, .. }
                    | Status::Lingering { found },
                )
                | (Status::Other { found } | Status::Lingering { found }, _) => found.clone(),
                _ => format!("something instead of {}", after.entries.join(" ")),
            })
            .collect();
        if variables.is_empty() || found.is_empty() {
            return None;
        }
        let variables = variables.into_iter().collect::<Vec<_>>().join(" ");
        Some(Obstacle {
            reason: format!(
                "{variables} in the default boot entry ({}:{}) adds {}, which the configuration does not request",
                self.path,
                default.line,
                found.join(", "),
            ),
            fix: format!("remove it where {variables} is set"),
        })
    }

    /// Returns how to choose a generated entry again, by the setting that chose this one.
    fn choice(&self, default: &Entry) -> &'static str {
        let blocks = [self.directory.header_block(), self.environment.as_ref()];
        let names = |variable: &str| {
            let value = blocks.iter().flatten().find_map(|block| block.get(variable));
            let value = value.unwrap_or_default();
            let last = value.rsplit('>').next().unwrap_or_default();
            !last.is_empty()
                && [default.id.last(), default.title.last()].contains(&Some(&last.to_owned()))
        };
        if names("next_entry") {
            "boot it this once (`grub-reboot` chose it), or cancel that choice: `grub-editenv - unset next_entry`"
        } else if names("saved_entry") {
            "choose the first entry again: `grub-set-default 0`"
        } else {
            "choose the first entry again: set GRUB_DEFAULT=0 in /etc/default/grub, then run update-grub"
        }
    }
}

/// Returns the line of a regenerated entry: its written part with the edit applied, and the arguments from variables,
/// after it if `is_last`, else before it.
fn made_again(
    written: &str,
    boots: &CommandLine,
    is_last: bool,
    edit: &Edit,
) -> Option<CommandLine> {
    let written = CommandLine::parse(written);
    // A text that cannot be an argument by itself (an open quote) would absorb its neighbours.
    let brought: BTreeSet<Token> = boots
        .possible_lines()
        .flat_map(|line| LineDiff::between(&written, line).added)
        .filter(|token| Token::new(token.as_str()).is_ok())
        .collect();
    let edited = edit.apply(&written).ok()?;
    let edited = edited.tokens().cloned();
    Some(match is_last {
        true => CommandLine::from_tokens(edited.chain(brought)),
        false => CommandLine::from_tokens(brought.into_iter().chain(edited)),
    })
}

fn carries(entry: &Entry, configured: &CommandLine) -> bool {
    let words =
        |line: &CommandLine| line.tokens().map(|token| token.to_string()).collect::<Vec<_>>();
    entry.line().possible_lines().any(|line| words(line).ends_with(&words(configured)))
}
