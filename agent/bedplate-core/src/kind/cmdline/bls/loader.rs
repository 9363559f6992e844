//! Files from which GRUB makes its menu on a BLS system: the configuration, the environment block, and the entry files.

use super::{ENTRIES, EntryFile, VARIABLE, entry_files};
use crate::kind::cmdline::boot_files::{is_blank, raw, readable};
use crate::kind::cmdline::grub::LoadedFiles;
use crate::kind::cmdline::grub_directory::{GrubDirectory, directory_of};
use bedplate_base::{OptionalRead as _, ReadError, Reading, Reason};
use bedplate_cmdline::CommandLine;
use bedplate_cmdline::boot::NotUnderstood;
use bedplate_cmdline::boot::bls::{BlsEntry, grub_menu};
use bedplate_cmdline::boot::grub_bls::value_at_blscfg;
use bedplate_cmdline::boot::grub_cfg::{Device, Entry, default_entry};
use bedplate_cmdline::boot::grub_files::GrubFiles;
use bedplate_cmdline::boot::grubenv::Grubenv;
use bedplate_host::{HostKind, Reader};

/// Files that decide which entry boots, and with which line.
#[derive(Clone)]
pub(crate) struct Loader {
    /// Entry files, in directory order.
    pub entries: Vec<EntryFile>,
    /// Configuration with the files of its directory.
    pub config: Config,
}

/// `grub.cfg` with its environment block.
#[derive(Clone)]
pub(crate) struct Config {
    path: String,
    /// Text of the configuration. `None`: absent.
    text: Option<String>,
    /// Whether an absent file is created before the first boot: an image may have entries and no configuration.
    is_to_be_made: bool,
    /// Path of the environment block.
    pub environment_path: String,
    /// Environment block, as text and parsed. `None`: absent, or invalid, so that GRUB ignores it.
    pub environment: Option<(String, Grubenv)>,
    directory: GrubDirectory,
}

/// Default entry: from the menu of GRUB's configuration, or the entry file itself if there is no configuration.
enum DefaultEntry<'a> {
    Menu(Box<Entry>),
    File(&'a BlsEntry),
}

impl Loader {
    /// Reads all files.
    ///
    /// # Errors
    /// If the entry directory is absent, or one of the files cannot be read.
    pub(super) fn read(reader: &dyn Reader, cfg: &str) -> Result<Loader, ReadError> {
        Ok(Loader { entries: entry_files(reader, ENTRIES)?, config: Config::read(reader, cfg)? })
    }

    /// Returns the command line of the default entry.
    pub(super) fn line(&self) -> Reading<CommandLine> {
        reading(self.default(|chosen| self.line_of(chosen)))
    }

    /// Returns the command line that the default entry has after a lost configuration is regenerated. Any other
    /// configuration is used unchanged.
    pub(super) fn line_once_made(&self) -> Reading<CommandLine> {
        match self.config.is_lost() {
            true => reading(self.newest(|chosen| self.line_of(chosen))),
            false => self.line(),
        }
    }

    fn line_of(&self, chosen: DefaultEntry<'_>) -> Result<String, String> {
        match chosen {
            DefaultEntry::Menu(entry) => resolved(entry.cmdline, &entry.unresolved),
            DefaultEntry::File(entry) => {
                let lookup = |name: &str| self.config.value(name).ok();
                let (line, unresolved) = entry
                    .grub_cmdline(&lookup)
                    .map_err(|error| format!("{}: {error}", entry.id()))?;
                resolved(line, &unresolved)
            }
        }
    }

    /// Returns the `options` of the default entry as written. `Absent` if that entry is unknown, has none, or names
    /// `kernelopts` (RHEL 8).
    pub(super) fn options(&self) -> Reading<String> {
        let id = self.default(|chosen| match chosen {
            DefaultEntry::Menu(entry) => Ok(entry.id.last().cloned().unwrap_or_default()),
            DefaultEntry::File(entry) => Ok(entry.id().to_owned()),
        });
        let Ok(id) = id else { return Reading::Absent };
        let mut entries = self.entries.iter().map(|file| &file.entry);
        let entry = entries.find(|entry| entry.id() == id);
        let entry = entry.filter(|entry| !entry.grub_variables().contains(&VARIABLE));
        let options = entry.and_then(|entry| entry.options().first().copied());
        // Without options of its own an entry has GRUB's `default_kernelopts`.
        let options = options.filter(|text| !is_blank(text));
        Reading::from_option(options.map(str::to_owned))
    }

    /// Returns the kernel image of the default entry, as GRUB names it.
    pub(super) fn image(&self) -> Reading<String> {
        let image = self.default(|chosen| match chosen {
            DefaultEntry::Menu(entry) => Ok(entry.image),
            DefaultEntry::File(entry) => Ok(entry.linux().unwrap_or_default().to_owned()),
        });
        image.map_or_else(|why| Reading::Unknown(Reason::from(why)), Reading::Known)
    }

    /// Returns the files that the default entry loads, and why it may wait for input.
    pub(super) fn files(&self) -> Reading<LoadedFiles> {
        let files = self.default(|chosen| {
            let (image, initrds, waits) = match chosen {
                DefaultEntry::Menu(entry) => (entry.image, entry.initrds, entry.waits),
                DefaultEntry::File(entry) => {
                    let image = entry.linux().unwrap_or_default().to_owned();
                    (image, entry.initrds(&|name| self.config.value(name).ok()), Vec::new())
                }
            };
            let mut others = self.entries.iter();
            let has_initrds = others.any(|file| !file.entry.initrds(&|_| None).is_empty());
            Ok(LoadedFiles { image, initrds, device: Device::Own, has_initrds, waits })
        });
        files.map_or_else(|why| Reading::Unknown(Reason::from(why)), Reading::Known)
    }

    /// Returns the file that causes an error of [`default_entry`]: an entry file that has the error by itself, or the
    /// configuration.
    fn place_of(&self, error: &NotUnderstood) -> &str {
        let nothing = |_: &str| None;
        let has =
            |file: &&EntryFile| file.entry.grub_cmdline(&nothing).err().as_ref() == Some(error);
        self.entries.iter().find(has).map_or(&self.config.path, |file| &file.path)
    }

    fn default<T>(
        &self,
        look: impl FnOnce(DefaultEntry<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let entries: Vec<BlsEntry> = self.entries.iter().map(|file| file.entry.clone()).collect();
        match &self.config.text {
            Some(text) => {
                let entry = self
                    .config
                    .with_grub_files(&entries, |around| default_entry(text, around))
                    .map_err(|error| format!("{}: {error}", self.place_of(&error)))?;
                look(DefaultEntry::Menu(Box::new(entry)))
            }
            None if self.config.is_to_be_made => self.newest(look),
            None => Err(format!("{} does not exist", self.config.path)),
        }
    }

    /// Selects the default by the entry files alone: under a generated configuration it is the saved or the newest
    /// entry.
    fn newest<T>(
        &self,
        look: impl FnOnce(DefaultEntry<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let entries: Vec<BlsEntry> = self.entries.iter().map(|file| file.entry.clone()).collect();
        look(DefaultEntry::File(self.config.newest(&entries)?))
    }
}

fn reading(line: Result<String, String>) -> Reading<CommandLine> {
    match line {
        Ok(line) => readable(ENTRIES, &line),
        Err(why) => Reading::Unknown(why.into()),
    }
}

impl Config {
    fn read(reader: &dyn Reader, path: &str) -> Result<Config, ReadError> {
        let environment_path = environment_path(reader, directory_of(path));
        let block = raw(reader, &environment_path).optional()?;
        let text = raw(reader, path).optional()?;
        let block = block.and_then(|text| Grubenv::parse(&text).ok().map(|env| (text, env)));
        let environment = block.as_ref().map(|(_, environment)| environment);
        let cfg = text.as_deref().unwrap_or_default();
        Ok(Config {
            path: path.to_owned(),
            directory: GrubDirectory::read(reader, path, cfg, environment).of_red_hat(),
            text,
            is_to_be_made: reader.kind() == HostKind::Image,
            environment: block,
            environment_path,
        })
    }

    /// Returns the path of `grub.cfg`.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the file is absent or blank on a running host, which must regenerate it.
    fn is_lost(&self) -> bool {
        !self.is_to_be_made && self.text.as_deref().is_none_or(is_blank)
    }

    fn with_grub_files<T>(
        &self,
        entries: &[BlsEntry],
        look: impl FnOnce(&GrubFiles<'_>) -> T,
    ) -> T {
        let grubenv = self.environment.as_ref().map(|(_, environment)| environment);
        self.directory.with_files(grubenv, entries, look)
    }

    /// Returns the value of a variable at the time GRUB reads the entries. An unset variable is empty.
    ///
    /// # Errors
    /// With the reason why the value is unknown.
    pub(super) fn value(&self, name: &str) -> Result<String, String> {
        let stored = self.environment.as_ref().and_then(|(_, environment)| environment.get(name));
        let Some(text) = self.text.as_ref().filter(|_| !self.is_lost()) else {
            let state = if self.text.is_some() { "empty" } else { "absent" };
            return stored.map(str::to_owned).ok_or_else(|| {
                format!("{} is {state}, and may set ${name} once it is generated", self.path)
            });
        };
        self.with_grub_files(&[], |around| value_at_blscfg(text, around, name))
            .map_err(|error| format!("{}:{}: {}", self.path, error.line, error.why))?
            .ok_or_else(|| format!("{} sets ${name} to a value that only GRUB knows", self.path))
    }

    fn newest<'a>(&self, entries: &'a [BlsEntry]) -> Result<&'a BlsEntry, String> {
        let ordered = grub_menu(entries);
        let environment = self.environment.as_ref().map(|(_, environment)| environment);
        let saved = environment.and_then(|environment| environment.get("saved_entry"));
        let chosen =
            saved.and_then(|id| ordered.iter().find(|entry| entry.id() == id)).or(ordered.first());
        let chosen = chosen.ok_or_else(|| format!("{ENTRIES} has no entry with a kernel"))?;
        chosen.expect_kernel().map(|_| *chosen)
    }
}

/// Returns the path of the environment block. On RHEL 8 it is a link, next to the BIOS configuration, to the EFI system
/// partition.
fn environment_path(reader: &dyn Reader, directory: &str) -> String {
    let own = format!("{directory}/grubenv");
    let target = reader.link(&own).ok();
    let on_esp = target.as_deref().and_then(|target| target.split_once("efi/EFI/"));
    on_esp.map_or(own, |(_, rest)| format!("/boot/efi/EFI/{rest}"))
}

/// Returns the line. Fails on unresolved variables, which could have any value.
fn resolved(line: String, unresolved: &[String]) -> Result<String, String> {
    // tuned_params is optional by design: an unset one is empty.
    let open: Vec<&String> = unresolved
        .iter()
        .filter(|name| !matches!(name.as_str(), "tuned_params" | "early_params"))
        .collect();
    if open.is_empty() {
        Ok(line)
    } else {
        Err(format!("the entry uses unknown GRUB variables: {open:?}"))
    }
}
