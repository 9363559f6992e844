//! Shared parts of the back ends: file replacements that are planned only for changed content, the check at the end of
//! every change, and common obstacles.

use std::error::Error;

use super::{Context, Obstacle};
use crate::plan::{Action, Check, FileContent};
use bedplate_base::{OptionalRead as _, ReadError, Reading, chain, lossless_text};
use bedplate_cmdline::CommandLine;
use bedplate_cmdline::boot::bls::{BlsEntry, Reader as BlsReader};
use bedplate_cmdline::boot::{NotUnderstood, grub_quote, kernel_cmdline};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// File with the line from which kernel-install makes entries.
pub(crate) const KERNEL_CMDLINE: &str = "/etc/kernel/cmdline";
/// File that kernel-install uses if [`KERNEL_CMDLINE`] is absent. Without both it uses /proc/cmdline
/// (kernel-install(8)).
pub(crate) const VENDOR_CMDLINE: &str = "/usr/lib/kernel/cmdline";

/// Plugin of kernel-install that makes the BLS entries of Red Hat's GRUB. If [`KERNEL_CMDLINE`] is older than
/// /etc/default/grub, it runs grub2-mkconfig, which writes [`KERNEL_CMDLINE`] again from there (handbook §10.3).
pub(crate) const ENTRY_PLUGIN: &str = "/usr/lib/kernel/install.d/20-grub.install";

/// Reads a file that may have bytes that are not UTF-8: comments and titles can be in any encoding.
///
/// # Errors
/// As [`Reader::read`].
pub(crate) fn raw(reader: &dyn Reader, path: &str) -> Result<String, ReadError> {
    reader.read(path).map(|bytes| lossless_text::decode(&bytes))
}

/// Whether a file has only blanks and zero bytes. A power cut may leave zeros in place of the content.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0').is_empty()
}

/// Returns the file from which kernel-install and sdbootutil take the line of future kernels, and its text. `None`: no
/// file exists, so they use /proc/cmdline.
///
/// # Errors
/// If one of the files cannot be read.
pub(crate) fn line_source(
    reader: &dyn Reader,
) -> Result<Option<(&'static str, String)>, ReadError> {
    for path in [KERNEL_CMDLINE, VENDOR_CMDLINE] {
        if let Some(text) = raw(reader, path).optional()? {
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

/// Returns the program that reads the entries of this host.
pub(crate) fn entry_reader(facts: &Facts) -> BlsReader {
    match facts.boot {
        BootLoader::GrubBls | BootLoader::Sdbootutil { grub: true } => BlsReader::Grub,
        _ => BlsReader::SystemdBoot,
    }
}

/// Returns the line that results from the file in entries that this loader reads.
pub(crate) fn line_of_file(path: &str, text: &str, loader: BlsReader) -> Reading<CommandLine> {
    match kernel_cmdline::cmdline(text, loader) {
        Ok(line) => readable(path, &line),
        Err(error) => Reading::unknown(format!("{path}: {error}")),
    }
}

/// Returns the line of an entry without variables, as this loader reads it.
pub(crate) fn line_of_entry(entry: &BlsEntry, loader: BlsReader) -> Reading<CommandLine> {
    match loader {
        BlsReader::SystemdBoot => readable(entry.id(), &entry.systemd_cmdline()),
        // `$ignition_firstboot`, which GRUB sets for one boot, stays a literal word.
        BlsReader::Grub => match entry.grub_cmdline(&|_| None) {
            Ok((line, _)) => readable(entry.id(), &line),
            Err(error) => Reading::unknown(format!("{}: {error}", entry.id())),
        },
    }
}

/// Returns the reading on which all configurations that may start this system agree. Otherwise unknown, with the reason
/// that `differ` returns.
pub(crate) fn agreed<T: PartialEq>(
    mut found: impl Iterator<Item = Reading<T>>,
    differ: impl FnOnce() -> String,
) -> Reading<T> {
    let Some(first) = found.next() else { return Reading::Absent };
    match found.all(|other| other == first) {
        true => first,
        false => Reading::unknown(differ()),
    }
}

/// Parses a line. Unknown if an argument has bytes that are not UTF-8.
pub(crate) fn readable(path: &str, line: &str) -> Reading<CommandLine> {
    match lossless_text::has_raw(line) {
        true => Reading::unknown(format!(
            "{path}: the arguments are not UTF-8 (`{}`)",
            lossless_text::printable(line.trim())
        )),
        false => Reading::Known(CommandLine::parse(line)),
    }
}

/// Returns a file replacement, or `None` if the content does not change.
pub(crate) fn replace(path: &str, before: Option<&str>, after: Option<&str>) -> Option<Action> {
    let content = |text: &str| FileContent::new(lossless_text::encode(text));
    (before != after).then(|| Action::ReplaceFile {
        path: path.to_owned(),
        before: before.map(content),
        after: after.map(content),
    })
}

/// Returns the check that the default boot entry has all desired and no unwanted arguments.
pub(super) fn verify(context: &Context) -> Action {
    let wanted = &context.desired.cmdline;
    Action::Verify(Check::NextBoot {
        present: wanted.set.iter().map(|arg| arg.token.to_string()).collect(),
        absent: wanted.absent.iter().map(|arg| arg.token.to_string()).collect(),
        // Set by `entry_before::note`.
        before: None,
    })
}

/// Refuses, before anything is planned, an argument of the profile that no file read by GRUB can contain.
///
/// # Errors
/// With the argument's place in the profile.
pub(crate) fn carried_by_grub(context: &Context) -> Result<(), Obstacle> {
    for wanted in &context.desired.cmdline.set {
        let Err(error) = grub_quote::grub_token(&wanted.token) else { continue };
        let place =
            wanted.why.iter().find_map(|why| why.source.as_deref()).unwrap_or("the profile");
        return Err(Obstacle {
            reason: format!("{place}: {error} (grub-core/lib/cmdline.c)"),
            fix: "write the value without that character, or set a module option in [modules] options".into(),
        });
    }
    Ok(())
}

/// Returns the obstacle for a file that cannot be edited, with the place of the error.
pub(crate) fn cannot(path: &str, error: &(dyn Error + 'static)) -> Obstacle {
    let reason = match error.downcast_ref::<NotUnderstood>() {
        Some(place) => format!("cannot edit {path}:{} safely: {}", place.line, place.why),
        None => format!("cannot edit {path} safely: {}", chain(error)),
    };
    Obstacle { reason, fix: format!("correct {path} by hand, then plan again") }
}

/// Obstacle for a file that must be read before it can be changed.
impl From<ReadError> for Obstacle {
    fn from(error: ReadError) -> Self {
        let fix = match &error {
            ReadError::Denied { .. } => "run bedplate as root".to_owned(),
            ReadError::Hidden { .. } => {
                "give the container what the reason names, then plan again".to_owned()
            }
            ReadError::NotRecorded { .. } => {
                "record the host again, as root: `bedplate snapshot`".to_owned()
            }
            ReadError::NotFound { path }
            | ReadError::Untrusted { path, .. }
            | ReadError::Failed { path, .. } => {
                format!("correct {path} by hand, then plan again")
            }
        };
        Obstacle { reason: error.to_string(), fix }
    }
}

/// Returns the obstacle for an empty file that should have the whole line of future kernels: they would get nothing but
/// the added arguments.
pub(crate) fn blank_line(path: &str) -> Obstacle {
    Obstacle {
        reason: format!("{path} is empty, and new kernels take their whole line from it"),
        fix: format!(
            "write the whole line, with root=, to {path}, or remove the file; then plan again"
        ),
    }
}

/// Returns the obstacle for a file or directory that does not exist.
pub(crate) fn nothing_to_edit(path: &str) -> Obstacle {
    Obstacle { reason: format!("{path} is missing"), fix: "check that /boot is mounted".into() }
}
