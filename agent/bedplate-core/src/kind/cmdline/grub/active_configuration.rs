//! Which of the generated configurations of the RHEL family GRUB reads. Its UEFI build looks beside itself on the EFI system
//! partition: there is a whole configuration (RHEL and CentOS up to 8, openEuler, Kylin), or a stub that leads to
//! /boot/grub2 (RHEL 9, Fedora 34 and later). Handbook §10.3.

use crate::kind::cmdline::Obstacle;
use crate::kind::cmdline::boot_files::{self, raw};
use bedplate_base::OptionalRead as _;
use bedplate_facts::os::release_value;
use bedplate_host::{HostKind, Reader};

/// Where a BIOS build of GRUB, and every stub, looks.
pub(crate) const BOOT: &str = "/boot/grub2/grub.cfg";
const ESP: &str = "/boot/efi/EFI";
/// Present where UEFI firmware started the running kernel.
const BOOTED_BY_UEFI: &str = "/sys/firmware/efi";

/// Paths of the configurations that have to be right; several in an image that BIOS and UEFI firmware may start.
///
/// # Errors
/// [`Obstacle`] where they cannot be told apart.
pub(crate) fn configurations(reader: &dyn Reader) -> Result<Vec<String>, Obstacle> {
    let whole = whole_on_esp(reader)?;
    let boot = reader.exists(BOOT)?;
    // A link to the file on the ESP does not count as a second configuration.
    let boot = boot && reader.link(BOOT).map_or(true, |target| !target.contains("/EFI/"));
    let uefi = match reader.kind() {
        HostKind::Image => None,
        HostKind::Live | HostKind::Snapshot => reader.exists(BOOTED_BY_UEFI).ok(),
    };
    let on_boot = || vec![BOOT.to_owned()];
    match (boot, whole) {
        (_, EspConfigurations::None) => Ok(on_boot()),
        (true, _) if uefi == Some(false) => Ok(on_boot()),
        (false, EspConfigurations::Own(path) | EspConfigurations::Other(path)) => Ok(vec![path]),
        (true, EspConfigurations::Own(path)) if is_empty(reader, &path) => Err(emptied(&path)),
        (true, EspConfigurations::Own(path)) => match uefi {
            Some(_) => Ok(vec![path]),
            None => Ok(vec![BOOT.to_owned(), path]),
        },
        (true, EspConfigurations::Other(path)) => {
            Err(several_configurations(&[BOOT.to_owned(), path]))
        }
        (_, EspConfigurations::Several(paths)) => Err(several_configurations(&paths)),
    }
}

/// The configuration on the ESP that GRUB reads in place of one in /boot that the family has, where there is one: its tool
/// writes to /boot alone.
pub(super) fn instead_of(reader: &dyn Reader, boot: &str) -> Option<Obstacle> {
    let may_be_bios =
        reader.kind() != HostKind::Image && reader.exists(BOOTED_BY_UEFI) == Ok(false);
    let path = match whole_on_esp(reader) {
        Ok(EspConfigurations::Own(path)) if !may_be_bios => path,
        Ok(EspConfigurations::Own(path) | EspConfigurations::Other(path))
            if reader.exists(boot) == Ok(false) =>
        {
            path
        }
        // What cannot be read there is no evidence.
        _ => return None,
    };
    // SUSE's stub (shim-install) reads the other file by `source`.
    if !raw(reader, &path).is_ok_and(|text| has_command(&text, &MENU)) {
        return None;
    }
    Some(Obstacle {
        reason: format!(
            "GRUB reads its whole configuration from {path}, and the tools of this distribution write {boot}"
        ),
        remedy: format!(
            "make {path} lead to {boot} (`grub-install`), or write the arguments to the `linux` lines of {path} by hand"
        ),
    })
}

fn is_empty(reader: &dyn Reader, path: &str) -> bool {
    raw(reader, path).is_ok_and(|text| boot_files::is_blank(&text))
}

fn emptied(path: &str) -> Obstacle {
    Obstacle {
        reason: format!(
            "{path}, which UEFI firmware's GRUB reads first, is empty; {BOOT} holds a menu"
        ),
        remedy: format!(
            "write {path} again as a stub that leads to {BOOT} (`dnf reinstall grub2-common`), or as a whole configuration \
             (`grub2-mkconfig -o {path}`, where this release has one there), then plan again"
        ),
    }
}

fn several_configurations(paths: &[String]) -> Obstacle {
    Obstacle {
        reason: format!("which GRUB configuration boots this system is not known: {}", paths.join(", ")),
        remedy: "move those away that no boot entry of the firmware uses (`efibootmgr -v` shows them), then plan again"
            .into(),
    }
}

/// Whole configurations on the ESP: no stubs, no links to /boot/grub2.
enum EspConfigurations {
    None,
    /// In the directory of this distribution.
    Own(String),
    /// In that of another vendor, or of none.
    Other(String),
    Several(Vec<String>),
}

fn whole_on_esp(reader: &dyn Reader) -> Result<EspConfigurations, Obstacle> {
    let mut names = reader.list(ESP).optional()?.unwrap_or_default();
    let path = |name: &String| format!("{ESP}/{name}/grub.cfg");
    names.retain(|name| reader.exists(&path(name)) == Ok(true));
    let id = release_value(reader, "ID").unwrap_or_default();
    let vendor = vendor(&id);
    if let Some(own) = names.iter().find(|name| vendor.eq_ignore_ascii_case(name)) {
        return Ok(if is_whole(reader, &path(own))? {
            EspConfigurations::Own(path(own))
        } else {
            EspConfigurations::None
        });
    }
    let mut whole = Vec::new();
    for name in &names {
        if is_whole(reader, &path(name))? {
            whole.push(path(name));
        }
    }
    Ok(match whole.len() {
        0 => EspConfigurations::None,
        1 => EspConfigurations::Other(whole.remove(0)),
        _ => EspConfigurations::Several(whole),
    })
}

/// Name of the distribution's directory on the ESP (efi-rpm-macros): os-release `ID`, but `redhat` for RHEL and its
/// rebuild by Oracle.
pub(crate) fn vendor(id: &str) -> &str {
    match id {
        "rhel" | "ol" => "redhat",
        _ => id,
    }
}

/// Whether a configuration makes a menu itself. A stub only sets the place of another one and reads that.
fn is_whole(reader: &dyn Reader, path: &str) -> Result<bool, Obstacle> {
    if reader.link(path).is_ok_and(|target| target.contains("grub2/grub.cfg")) {
        return Ok(false);
    }
    let text = raw(reader, path)?;
    Ok(has_command(&text, &MENU) || !has_command(&text, &["configfile"]))
}

const MENU: [&str; 6] = ["menuentry", "submenu", "blscfg", "linux", "linux16", "linuxefi"];

/// Whether a configuration has entries, or leads to some.
pub(crate) fn leads_on(text: &str) -> bool {
    has_command(text, &MENU) || has_command(text, &["configfile", "source"])
}

/// Whether one of the commands is in the text, behind a condition or not.
fn has_command(text: &str, commands: &[&str]) -> bool {
    let first = |command: &str| {
        let mut words = command.split_ascii_whitespace();
        words.find(|word| !["then", "else", "do"].contains(word)).map(str::to_owned)
    };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut found = lines.flat_map(|line| line.split([';', '{', '}'])).filter_map(first);
    found.any(|word| commands.contains(&word.as_str()))
}
