//! Determines which generated configuration GRUB reads on the RHEL family (handbook §10.3). A UEFI build reads the one
//! in its own directory on the EFI system partition. That is a whole configuration (RHEL and CentOS up to 8, openEuler,
//! Kylin), or a stub that leads to /boot/grub2 (RHEL 9, Fedora 34 and later).

use crate::kind::cmdline::Obstacle;
use crate::kind::cmdline::boot_files::{self, raw};
use bedplate_base::OptionalRead as _;
use bedplate_facts::os::release_value;
use bedplate_host::{HostKind, Reader};

/// Configuration that BIOS builds of GRUB and all stubs read.
pub(crate) const BOOT: &str = "/boot/grub2/grub.cfg";
const ESP: &str = "/boot/efi/EFI";
/// Present where UEFI firmware started the running kernel.
const BOOTED_BY_UEFI: &str = "/sys/firmware/efi";

/// Returns the paths of the configurations to keep converged: two for an image that BIOS or UEFI firmware may start.
///
/// # Errors
/// [`Obstacle`] if the active configuration is ambiguous or empty.
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

/// Returns an obstacle if GRUB reads a configuration on the ESP in place of `boot`, which is the only one that the tool
/// of the family writes.
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
        // Also an unreadable ESP, which proves nothing.
        _ => return None,
    };
    // SUSE's stub (shim-install) reads the other file by `source`.
    if !raw(reader, &path).is_ok_and(|text| has_command(&text, &MENU)) {
        return None;
    }
    Some(Obstacle {
        reason: format!(
            "GRUB reads its whole configuration from {path}, but the tools of this distribution write {boot}"
        ),
        fix: format!(
            "make {path} lead to {boot} (`grub-install`), or write the arguments to the `linux` lines of {path} by hand"
        ),
    })
}

fn is_empty(reader: &dyn Reader, path: &str) -> bool {
    raw(reader, path).is_ok_and(|text| boot_files::is_blank(&text))
}

fn emptied(path: &str) -> Obstacle {
    Obstacle {
        reason: format!("{path}, which GRUB reads first on UEFI, is empty; {BOOT} has a menu"),
        fix: format!(
            "restore {path} as a stub that leads to {BOOT} (`dnf reinstall grub2-common`), or as a whole configuration \
             (`grub2-mkconfig -o {path}`, if this release has one there), then plan again"
        ),
    }
}

fn several_configurations(paths: &[String]) -> Obstacle {
    Obstacle {
        reason: format!("cannot tell which GRUB configuration boots this system: {}", paths.join(", ")),
        fix: "move away those that no firmware boot entry uses (`efibootmgr -v` lists them), then plan again"
            .into(),
    }
}

/// Whole configurations on the ESP: no stubs, no links to /boot/grub2.
enum EspConfigurations {
    None,
    /// In the directory of this distribution.
    Own(String),
    /// In the directory of another vendor, or of no vendor.
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

/// Returns the name of the distribution's directory on the ESP (efi-rpm-macros): os-release `ID`, but `redhat` for RHEL
/// and its rebuild by Oracle.
pub(crate) fn vendor(id: &str) -> &str {
    match id {
        "rhel" | "ol" => "redhat",
        _ => id,
    }
}

/// Whether a configuration makes a menu itself. A stub only locates another configuration and reads that.
fn is_whole(reader: &dyn Reader, path: &str) -> Result<bool, Obstacle> {
    if reader.link(path).is_ok_and(|target| target.contains("grub2/grub.cfg")) {
        return Ok(false);
    }
    let text = raw(reader, path)?;
    Ok(has_command(&text, &MENU) || !has_command(&text, &["configfile"]))
}

const MENU: [&str; 6] = ["menuentry", "submenu", "blscfg", "linux", "linux16", "linuxefi"];

/// Whether a configuration has entries, or reads another file.
pub(crate) fn leads_on(text: &str) -> bool {
    has_command(text, &MENU) || has_command(text, &["configfile", "source"])
}

/// Whether the text has one of the commands, conditional or not.
fn has_command(text: &str, commands: &[&str]) -> bool {
    let first = |command: &str| {
        let mut words = command.split_ascii_whitespace();
        words.find(|word| !["then", "else", "do"].contains(word)).map(str::to_owned)
    };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut found = lines.flat_map(|line| line.split([';', '{', '}'])).filter_map(first);
    found.any(|word| commands.contains(&word.as_str()))
}
