//! Default boot entry with the files that it loads, for every boot loader.

use super::{bls, grub, kernel_install, next_boot, ostree, sdbootutil};
use bedplate_base::Reading;
use bedplate_cmdline::CommandLine;
use bedplate_cmdline::boot::bls::BlsEntry;
use bedplate_cmdline::boot::grub_cfg::{Device, Wait};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Location of the files of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a GRUB device. GRUB's own device is that of the directory `own`.
    Grub {
        /// The device.
        device: Device,
        /// A directory on GRUB's own device.
        own: String,
    },
    /// On the partition mounted at this path.
    Partition(&'static str),
    /// In the image itself, which is named by its path on this host.
    Host,
}

/// Entry that boots without a manual choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootEntry {
    /// Arguments for the kernel.
    pub line: CommandLine,
    /// Path of the image, as the loader names it.
    pub image: String,
    /// Initrds, as the loader names them.
    pub initrds: Vec<String>,
    /// Location of image and initrds.
    pub place: Place,
    /// Whether the image contains its initrd.
    pub is_whole: bool,
    /// Whether other entries load an initrd.
    pub others_have_initrd: bool,
    /// Reasons why GRUB may wait for input before it boots the entry.
    pub waits: Vec<Wait>,
}

/// Reads the entry.
pub(super) fn default(reader: &dyn Reader, facts: &Facts) -> Reading<BootEntry> {
    next_boot(reader, facts).and_then(|line| with_line(reader, facts, line))
}

/// Reads the entry, given its line.
pub(crate) fn with_line(
    reader: &dyn Reader,
    facts: &Facts,
    line: CommandLine,
) -> Reading<BootEntry> {
    let of_file = |(place, entry): (Place, BlsEntry)| {
        let nothing = |_: &str| None;
        BootEntry {
            image: entry.image().unwrap_or_default().to_owned(),
            initrds: entry.initrds(&nothing),
            is_whole: entry.linux().is_none() && entry.efi().is_some(),
            place,
            line: line.clone(),
            others_have_initrd: false,
            waits: Vec::new(),
        }
    };
    let on_partition = |(mount, entry)| BootEntry {
        others_have_initrd: has_initrds(reader, &format!("{mount}/loader/entries")),
        ..of_file((Place::Partition(mount), entry))
    };
    let in_boot = Place::Grub { device: Device::Own, own: bls::ENTRIES.to_owned() };
    match &facts.boot {
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse => {
            let own = grub::menu_paths(reader, &facts.boot).into_iter().next();
            let own = own.unwrap_or_else(|| "/boot".to_owned());
            of_grub(grub::loaded_files(reader, facts), line, own)
        }
        BootLoader::GrubBls => of_grub(bls::loaded_files(reader), line, bls::ENTRIES.to_owned()),
        BootLoader::SystemdBoot { uki: true } => {
            kernel_install::newest_uki(reader).map(|image| BootEntry {
                line: line.clone(),
                image,
                initrds: Vec::new(),
                place: Place::Host,
                is_whole: true,
                others_have_initrd: false,
                waits: Vec::new(),
            })
        }
        BootLoader::SystemdBoot { uki: false } => {
            kernel_install::placed_entry(reader).map(on_partition)
        }
        BootLoader::Sdbootutil { .. } => sdbootutil::placed_entry(reader, facts).map(on_partition),
        BootLoader::RpmOstree | BootLoader::Bootc => {
            ostree::first_entry(reader).map(|entry| of_file((in_boot, entry)))
        }
        BootLoader::Unmanaged { reason, .. } | BootLoader::Unknown { reason, .. } => {
            Reading::unknown(reason.clone())
        }
    }
}

/// Returns an entry of GRUB, whose own device is that of the directory `own`.
fn of_grub(
    files: Reading<grub::LoadedFiles>,
    line: CommandLine,
    own: String,
) -> Reading<BootEntry> {
    files.map(|files| BootEntry {
        line,
        image: files.image,
        initrds: files.initrds,
        place: Place::Grub { device: files.device, own },
        is_whole: false,
        others_have_initrd: files.has_initrds,
        waits: files.waits,
    })
}

fn has_initrds(reader: &dyn Reader, directory: &str) -> bool {
    let nothing = |_: &str| None;
    let files = bls::entry_files(reader, directory).unwrap_or_default();
    files.iter().any(|file| !file.entry.initrds(&nothing).is_empty())
}
