//! `bedplate profile edit`: edits the host's profile in an editor, checks it, shows the plan, and installs it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use rustix::rand::{GetRandomFlags, getrandom};

use super::apply::{can_be_asked, confirm};
use super::{CliError, Context as _, Exit, HostArgs, conclude, host, output};
use crate::report::text;
use bedplate_core::engine::profile_source::{Choice, HOST_PROFILE};
use bedplate_core::engine::{self, Request};
use bedplate_facts::names::Names;
use bedplate_host::write::DirWriter;
use bedplate_host::{Expected, Reader, Writer as _, file};

/// Prefix of errors.
const CANNOT: &str = "cannot edit the profile";

/// `profile edit`.
#[derive(Debug, Args)]
#[command(after_help = "Runs $VISUAL, else $EDITOR, else vi.")]
pub(crate) struct EditArgs {
    /// Edit the profile of a root directory that is not running (an image, a mounted disk).
    #[arg(long, value_name = "DIR", help_heading = "Host")]
    root: Option<PathBuf>,
    /// Install a valid profile without asking. Without a terminal, edit never asks.
    #[arg(long, short)]
    yes: bool,
}

/// A draft of the profile in a directory that only the caller can enter; removed when the command ends.
struct Draft {
    directory: PathBuf,
    file: PathBuf,
}

impl Draft {
    fn new(text: &str) -> Result<Self, CliError> {
        // A random name, so that nobody can block it.
        let mut random = [0_u8; 8];
        getrandom(&mut random[..], GetRandomFlags::empty()).context(CANNOT)?;
        let name = format!("bedplate-edit.{:016x}", u64::from_ne_bytes(random));
        let directory = std::env::temp_dir().join(name);
        // Fails if the name exists: nobody else can have prepared the directory.
        let failed = format!("{CANNOT}: cannot create {}", directory.display());
        DirBuilder::new().mode(0o700).create(&directory).context(failed)?;
        let draft = Draft { file: directory.join("profile.toml"), directory };
        output::to(&draft.file, text)?;
        Ok(draft)
    }

    fn read(&self) -> Result<String, CliError> {
        fs::read_to_string(&self.file).context(CANNOT)
    }

    /// Leaves a changed draft in place, so that no edit is lost.
    fn keep_changes(self, old: &str) {
        if self.read().is_ok_and(|new| new != old) {
            output::status(&format!("the draft is kept: {}", self.file.display()));
            std::mem::forget(self);
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // A directory that cannot be removed is left to the cleanup of /tmp.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Edits until the profile is valid, then installs it.
pub(crate) fn run(args: &EditArgs) -> Result<Exit, CliError> {
    let host =
        HostArgs { root: args.root.clone(), host_root: None, snapshot: Vec::new(), demo: None };
    let host = host::open_one(&host)?;
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    let shown = file::under(root, HOST_PROFILE).display().to_string();
    let old = host
        .reader
        .text(HOST_PROFILE)
        .map_err(|error| CliError::while_doing(CANNOT, error).hinting(create(args)))?;
    let draft = Draft::new(&old)?;
    let installed = edited(args, host.reader.as_ref(), &draft, &old, &shown)
        .and_then(|new| new.map(|new| install(args, &old, &new)).transpose());
    match installed {
        Ok(Some(())) => {
            output::status(&format!("installed {shown}; {}", next_step(args)));
            Ok(Exit::Done)
        }
        Ok(None) => {
            output::status(&format!("{shown}: no changes"));
            Ok(Exit::Done)
        }
        Err(error) => {
            draft.keep_changes(&old);
            Err(error)
        }
    }
}

/// Returns the edited profile once it is valid and confirmed. `None`: it was left unchanged.
fn edited(
    args: &EditArgs,
    reader: &dyn Reader,
    draft: &Draft,
    old: &str,
    shown: &str,
) -> Result<Option<String>, CliError> {
    loop {
        open_editor(&draft.file)?;
        let new = draft.read()?;
        if new == old {
            return Ok(None);
        }
        match show_plan(reader, &draft.file) {
            Ok(()) if args.yes || confirm(&format!("install as {shown}"))? => {
                // The plan covers only this text; an editor that returned early may still write.
                return match draft.read()? == new {
                    true => Ok(Some(new)),
                    false => Err(CliError::new("draft changed after its plan; no changes made")),
                };
            }
            Ok(()) => return Err(CliError::new("no changes made")),
            Err(error) if can_be_asked() => {
                conclude::print(&error);
                if !confirm("edit again")? {
                    return Err(CliError::new("no changes made"));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Replaces the profile. Fails if somebody else has changed it in the meantime. Owner and mode stay.
fn install(args: &EditArgs, old: &str, new: &str) -> Result<(), CliError> {
    let mut writer = match &args.root {
        Some(root) => DirWriter::image(root, false).context(CANNOT)?,
        None => DirWriter::live(),
    };
    let expected = Expected::Content(Some(old.as_bytes()));
    writer.replace_expected(HOST_PROFILE, new.as_bytes(), 0o644, expected).context(CANNOT)
}

/// Returns the fix for a host without a profile.
fn create(args: &EditArgs) -> String {
    match &args.root {
        Some(root) => {
            format!("create one with `bedplate profile init --root {}`", root.display())
        }
        None => "create one with `bedplate profile init`, or pass --root".to_owned(),
    }
}

/// Returns how to apply the installed profile. For an image, never the command that changes the running machine.
fn next_step(args: &EditArgs) -> String {
    match &args.root {
        Some(root) => format!("run `bedplate apply --root {}`", root.display()),
        None => {
            "a daemon in mode \"enforce\" applies it; otherwise run `bedplate apply`".to_owned()
        }
    }
}

/// Runs the editor of the environment, which may have arguments.
fn open_editor(draft: &Path) -> Result<(), CliError> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut named = named.filter(|editor| !editor.trim().is_empty());
    let editor = named.next().unwrap_or_else(|| "vi".to_owned());
    let script = format!("{editor} \"$1\"");
    let ran = Command::new("sh").args(["-c", &script, "sh"]).arg(draft).status().context(CANNOT)?;
    match ran.success() {
        true => Ok(()),
        false => Err(CliError::new(format!("editor `{editor}` failed ({ran}); no changes made"))),
    }
}

/// Checks the draft and shows its plan.
///
/// # Errors
/// If the draft is invalid or may not be applied.
fn show_plan(reader: &dyn Reader, draft: &Path) -> Result<(), CliError> {
    let name = draft.to_string_lossy();
    let planned = engine::prepare(reader, &Request::dry_run(Choice::Named(&name)))?;
    output::lints(&planned.loaded, &[]);
    planned.may_be_applied()?;
    let names = Names::new(reader, &planned.facts);
    let label = planned.facts.label();
    output::report(&text::with_names(&planned.plan, &label, text::Detail::default(), Some(&names)))
}
