//! Whether the default boot entry is expected to boot. The files that it loads are located on this host. A file that is
//! proved missing makes the entry unsound; one that cannot be located leaves it unknown.

use super::boot_entry::{self, BootEntry, Place};
use super::entry_fault::Soundness;
use super::loader_path::{Location, locate};
use super::root_device::{self, SameRoot};
use super::{next_drivers, repair};
use bedplate_base::{Cause, ReadError, Reading, Reason};
use bedplate_cmdline::CommandLine;
use bedplate_cmdline::boot::grub_cfg::Wait;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{HostKind, Reader};

/// Parameters that the boot loader passed to the running kernel (x86).
pub(crate) const BOOT_PARAMS: &str = "/sys/kernel/boot_params/data";
/// Position of `ramdisk_size` in [`BOOT_PARAMS`].
const RAMDISK_SIZE: std::ops::Range<usize> = 0x21c..0x220;
/// Number of bytes checked at the start of a file.
const START: usize = 4096;

/// Evaluates the default boot entry of a host. An image is not rebooted, so its entry counts as sound.
pub(crate) fn soundness(reader: &dyn Reader, facts: &Facts) -> Soundness {
    let mut found = Soundness::default();
    if facts.host == HostKind::Image {
        return found;
    }
    let entry = match boot_entry::default(reader, facts) {
        Reading::Known(entry) => entry,
        Reading::Absent => {
            found.unknown.push("no boot entry found; check that /boot is mounted".into());
            return found;
        }
        Reading::Unknown(why) => {
            found.unknown.push(why);
            return found;
        }
    };
    let host = Host { reader, facts, running: super::running_line(reader).ok() };
    host.waits(&entry, &mut found);
    host.image(&entry, &mut found);
    host.initrds(&entry, &mut found);
    host.root(&entry, &mut found);
    host.modules(&entry, &mut found);
    next_drivers::judge(reader, facts, &mut found);
    found
}

/// Evaluates the default boot entry of an image by its files. `None`: the image has no entry yet, since disk builds or
/// installation create it.
pub(crate) fn soundness_of_image(reader: &dyn Reader, facts: &Facts) -> Option<Soundness> {
    let is_in_menu = match &facts.boot {
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse => true,
        BootLoader::GrubBls | BootLoader::SystemdBoot { .. } | BootLoader::Sdbootutil { .. } => {
            false
        }
        // Their entries are created at installation.
        BootLoader::RpmOstree
        | BootLoader::Bootc
        | BootLoader::Unmanaged { .. }
        | BootLoader::Unknown { .. } => return None,
    };
    if is_in_menu && !has_menu(reader) {
        return None;
    }
    let mut found = Soundness::default();
    match boot_entry::default(reader, facts) {
        Reading::Known(entry) => {
            let host = Host { reader, facts, running: None };
            host.waits(&entry, &mut found);
            host.image(&entry, &mut found);
            host.initrds(&entry, &mut found);
            host.modules(&entry, &mut found);
            host.root_of_image(&entry, &mut found);
        }
        Reading::Absent if is_in_menu => found.unknown.push("the boot menu has no entry".into()),
        Reading::Absent => return None,
        Reading::Unknown(why) => found.unknown.push(why),
    }
    Some(found)
}

/// Whether GRUB's menu exists, readable or not.
fn has_menu(reader: &dyn Reader) -> bool {
    let holds = |directory: &str| {
        let names = reader.list(directory).unwrap_or_default();
        names.iter().any(|name| name == "grub.cfg")
    };
    ["/boot/grub", "/boot/grub2"].into_iter().any(holds)
}

/// Returns the evidence that an existing file is neither kernel nor initrd, or `None` if it may be one. A power cut may
/// leave a file of zeros. Snapshots show only whether a file is empty.
fn corruption(reader: &dyn Reader, path: &str) -> Result<Option<String>, Reason> {
    let start = match reader.read_start(path, START) {
        Ok(bytes) => bytes,
        Err(ReadError::NotRecorded { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(match start.len() {
        0 => Some("is empty".into()),
        _ if start.iter().all(|byte| *byte == 0) => Some("starts with zeros only".into()),
        _ => None,
    })
}

struct Host<'a> {
    reader: &'a dyn Reader,
    facts: &'a Facts,
    running: Option<CommandLine>,
}

impl Host<'_> {
    fn release(&self) -> &str {
        self.facts.os.next_kernel.known().map_or("", String::as_str)
    }

    fn image(&self, entry: &BootEntry, found: &mut Soundness) {
        let what = "the kernel image of the default boot entry";
        let fix = || repair::kernel(self.reader, self.facts, self.release());
        self.file(entry, &entry.image, what, &fix, found);
    }

    /// Reports conditions that keep the menu from booting the entry by itself.
    fn waits(&self, entry: &BootEntry, found: &mut Soundness) {
        for wait in &entry.waits {
            match wait {
                Wait::Key => found.fault(
                    "boot menu timeout is not a number of seconds; the menu waits for a key forever",
                    repair::timeout(self.reader, self.facts),
                ),
                Wait::Password => found.fault(
                    "GRUB asks for a password before the default boot entry: superusers are set, and the entry is not \
                     --unrestricted",
                    repair::password(self.reader, self.facts),
                ),
                Wait::PasswordUnknown => found.unknown.push(
                    "only GRUB knows whether it asks for a password before the default boot entry"
                        .into(),
                ),
            }
        }
    }

    /// Checks a file that the entry loads.
    fn file(
        &self,
        entry: &BootEntry,
        file: &str,
        what: &str,
        fix: &dyn Fn() -> String,
        found: &mut Soundness,
    ) {
        match locate(self.reader, &entry.place, file) {
            Location::There(path) => match corruption(self.reader, &path) {
                Ok(None) => {}
                Ok(Some(_)) if is_microcode(&path) => {}
                Ok(Some(flaw)) => found.fault(format!("{what}, {path}, {flaw}"), fix()),
                Err(why) => found.unknown.push(why),
            },
            Location::Missing(path) => {
                found.fault(format!("{what}, {path}, is missing"), fix());
            }
            Location::Unreachable { path, to } => found.fault(
                format!(
                    "{what}, {path}, is a link that GRUB follows to {to}, which does not exist: GRUB stays in the file \
                     system, where absolute links start at its root"
                ),
                format!("replace the link {path} by the file itself or by a relative link"),
            ),
            Location::Unknown(why) => found.unknown.push(why),
        }
    }

    fn initrds(&self, entry: &BootEntry, found: &mut Soundness) {
        let fix = || repair::initrd(self.reader, self.facts, self.release());
        for initrd in &entry.initrds {
            let path = initrd_path(initrd);
            let what = "the initrd of the default boot entry";
            self.file(entry, path, what, &fix, found);
        }
        let is_needed = !entry.is_whole && entry.initrds.iter().all(|path| is_microcode(path));
        if is_needed {
            self.without_initrd(entry, found);
        }
    }

    /// Checks an entry that loads no initrd. Kernels built for it always boot like that; those of distributions cannot
    /// mount their root.
    fn without_initrd(&self, entry: &BootEntry, found: &mut Soundness) {
        let root = root_device::root(&entry.line);
        let by_kernel = root.as_deref().is_none_or(root_device::is_found_by_kernel);
        let same = self.image_is_running(entry);
        let had = had_initrd(self.reader);
        if had == Some(false) && (same || by_kernel) {
            return;
        }
        // Ubuntu images that boot without an initrd fall back to one if that fails (10_linux, GRUB_FORCE_PARTUUID).
        let falls_back = entry
            .line
            .named("panic")
            .next_back()
            .is_some_and(|token| token.value().as_deref() == Some("-1"));
        if by_kernel && falls_back {
            return;
        }
        let beside = self.initrd_beside(entry);
        let why = match beside {
            Some(path) => format!(", although {path} exists"),
            None if had == Some(true) => ", and the running kernel was booted with one".to_owned(),
            None if entry.others_have_initrd => ", and other entries do".to_owned(),
            None if by_kernel => return,
            None if same && had.is_none() => {
                found.unknown.push(
                    format!(
                        "cannot tell whether Linux {} finds its root without an initrd",
                        self.release()
                    )
                    .into(),
                );
                return;
            }
            None => ", and no kernel finds its root by itself".to_owned(),
        };
        found.fault(
            format!("the default boot entry loads no initrd{why}"),
            repair::initrd(self.reader, self.facts, self.release()),
        );
    }

    /// Returns an initrd for the kernel of the entry, whether the entry loads it or not.
    fn initrd_beside(&self, entry: &BootEntry) -> Option<String> {
        let release = self.release();
        let directory = match &entry.place {
            Place::Grub { .. } if !release.is_empty() => "/boot",
            _ => return None,
        };
        ["initrd.img-", "initramfs-", "initrd-"].iter().find_map(|prefix| {
            let suffix = if *prefix == "initramfs-" { ".img" } else { "" };
            let path = format!("{directory}/{prefix}{release}{suffix}");
            (self.reader.exists(&path) == Ok(true)).then_some(path)
        })
    }

    /// Whether the running kernel was loaded from the same file. GRUB puts its name (BOOT_IMAGE) first on the line.
    fn image_is_running(&self, entry: &BootEntry) -> bool {
        let plain = |image: &str| image.rsplit(')').next().unwrap_or_default().to_owned();
        let running = self.running.as_ref().and_then(|line| line.named("BOOT_IMAGE").next());
        let running = running.and_then(|token| token.value().map(|image| plain(&image)));
        running.as_deref() == Some(&plain(&entry.image))
    }

    /// Checks the root file system of an image. A loop device is the one by which the image build mounted the disk.
    fn root_of_image(&self, entry: &BootEntry, found: &mut Soundness) {
        let root = root_device::root(&entry.line).unwrap_or_default();
        let is_loop = |prefix: &str| root.starts_with(prefix);
        if is_loop("/dev/loop") || is_loop("/dev/mapper/loop") {
            found.fault(
                format!("the default boot entry has root={root}, a device of the image build"),
                "run the image's update-grub where /dev/disk/by-uuid shows its file system, so that entries have \
                 `root=UUID=...`",
            );
        }
    }

    fn root(&self, entry: &BootEntry, found: &mut Soundness) {
        let Some(running) = &self.running else { return };
        let show = |line: &CommandLine| root_device::root(line).unwrap_or_default();
        let (before, after) = (show(running), show(&entry.line));
        match root_device::compare(self.reader, running, &entry.line) {
            SameRoot::Yes => {}
            // Without root=, systemd finds a partition of the right type (systemd-gpt-auto-generator(8)).
            SameRoot::Lost if matches!(self.facts.boot, BootLoader::SystemdBoot { .. }) => found
                .unknown
                .push(format!("the default boot entry has no root=; the running kernel has root={before}").into()),
            SameRoot::Lost => found.fault(
                format!("the default boot entry has no root=; the running kernel has root={before}"),
                repair::root(self.reader, self.facts),
            ),
            SameRoot::No => found.fault(
                format!("the default boot entry has root={after}; the running kernel has root={before}"),
                repair::root(self.reader, self.facts),
            ),
            SameRoot::Unknown => found.unknown.push(
                format!(
                    "cannot tell whether root={after} of the default boot entry is the same as root={before} of the \
                     running kernel"
                )
                .into(),
            ),
        }
    }

    /// Checks the modules of the entry's kernel, without which a modular kernel has no drivers. The modules of other
    /// deployments are in another tree and not checked.
    fn modules(&self, entry: &BootEntry, found: &mut Soundness) {
        let elsewhere = matches!(self.facts.boot, BootLoader::RpmOstree | BootLoader::Bootc);
        let release = self.release();
        // In an image, an entry with an initrd has a distribution's kernel, with modules.
        let loads_modules = match self.facts.host {
            HostKind::Image => !entry.initrds.is_empty(),
            _ => self.reader.text("/proc/modules").is_ok_and(|text| !text.trim().is_empty()),
        };
        if elsewhere || release.is_empty() || !loads_modules {
            return;
        }
        let mut names = Vec::new();
        for directory in ["/lib/modules", "/usr/lib/modules"] {
            match self.reader.list(&format!("{directory}/{release}")) {
                Ok(found) => names.extend(found),
                Err(error) if error.is_absent() => {}
                Err(error) => return found.unknown.push(error.into()),
            }
        }
        let directory = format!("/lib/modules/{release}");
        if names.iter().any(|name| name.starts_with("modules.dep")) {
            return;
        }
        let is_running = self.facts.os.kernel.known().is_some_and(|running| running == release);
        // The running kernel has this image but another release, so the image's name does not give the release.
        if !is_running && self.image_is_running(entry) {
            return;
        }
        let is_named = || {
            ["config-", "System.map-"]
                .iter()
                .any(|prefix| self.reader.exists(&format!("/boot/{prefix}{release}")) == Ok(true))
        };
        let what = if names.is_empty() { "missing or empty" } else { "without an index" };
        if is_running || !names.is_empty() || is_named() {
            found.fault(
                format!("the default boot entry starts Linux {release}, and {directory} is {what}"),
                repair::modules(self.facts, release),
            );
        } else {
            found.unknown.push(Reason::new(
                Cause::NotUnderstood,
                format!("Linux {release} of the default boot entry: {directory} is {what}"),
            ));
        }
    }
}

/// Returns the existing initrds of the default entry by their paths on this host, without microcode. Empty if the entry is
/// unknown.
pub(crate) fn initrds(reader: &dyn Reader, facts: &Facts) -> Vec<String> {
    let Reading::Known(entry) = boot_entry::default(reader, facts) else { return Vec::new() };
    let mut found = Vec::new();
    for initrd in &entry.initrds {
        let location = locate(reader, &entry.place, initrd_path(initrd));
        if let Location::There(path) = location
            && !is_microcode(&path)
        {
            found.push(path);
        }
    }
    found
}

/// Returns the file of an initrd: with `newc:NAME:PATH` GRUB packs the file into an archive (grub-core/loader/linux.c).
pub(crate) fn initrd_path(initrd: &str) -> &str {
    match initrd.strip_prefix("newc:") {
        Some(rest) => rest.split_once(':').map_or(rest, |(_, path)| path),
        None => initrd,
    }
}

/// Whether an initrd is early microcode, a separate archive before the actual initrd.
pub(crate) fn is_microcode(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.contains("ucode") || name.contains("microcode"))
}

/// Whether the running kernel was booted with an initrd, by `ramdisk_size` of the x86 boot protocol
/// (Documentation/arch/x86/boot.rst; arch/x86/kernel/ksysfs.c). `None`: unreadable, as on other architectures.
fn had_initrd(reader: &dyn Reader) -> Option<bool> {
    let bytes = reader.read_start(BOOT_PARAMS, RAMDISK_SIZE.end).ok()?;
    Some(bytes.get(RAMDISK_SIZE)? != [0; 4])
}

/// Returns the part of [`BOOT_PARAMS`] that snapshots record.
pub(crate) fn recorded_boot_params(bytes: &[u8]) -> Vec<u8> {
    let mut kept = vec![0; RAMDISK_SIZE.end];
    if let Some(size) = bytes.get(RAMDISK_SIZE) {
        kept[RAMDISK_SIZE].copy_from_slice(size);
    }
    kept
}

#[cfg(test)]
mod tests;
