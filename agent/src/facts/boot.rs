//! Host → boot-loader family: who owns the kernel command line here (handbook §10.4). An ordered table of looks;
//! the first that knows decides. What is not known is `Unknown` with what was looked for, never a default.

use super::{BootLoader, Os};
use crate::host::{HostKind, Reader};

/// GUID of the boot loader interface's EFI variables (systemd.io/BOOT_LOADER_INTERFACE).
const LOADER_GUID: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// One way to tell; `None` = this look does not know.
type Look = fn(&Host) -> Option<BootLoader>;

const LOOKS: [Look; 6] = [talos, ostree, running_systemd_boot, suse, red_hat, debian];
const LAST_LOOKS: [Look; 2] = [configured_systemd_boot, unknown_grub];

struct Host<'a> {
    reader: &'a dyn Reader,
    os: &'a Os,
}

/// The family.
pub fn family(reader: &dyn Reader, os: &Os) -> BootLoader {
    let host = Host { reader, os };
    LOOKS
        .iter()
        .chain(&LAST_LOOKS)
        .find_map(|look| look(&host))
        .unwrap_or_else(|| BootLoader::Unknown { reason: host.nothing_found() })
}

impl Host<'_> {
    /// A path that cannot be looked at counts as not seen; `nothing_found` says so.
    fn has(&self, path: &str) -> bool {
        self.reader.exists(path) == Ok(true)
    }

    fn is_any(&self, ids: &[&str]) -> bool {
        let own = self.os.id.known().map(String::as_str);
        own.into_iter()
            .chain(self.os.id_like.iter().map(String::as_str))
            .any(|id| ids.contains(&id))
    }

    /// The text of one EFI variable of the boot loader interface: four bytes of attributes, then UTF-16.
    fn loader_variable(&self, name: &str) -> Option<String> {
        loader_variable(self.reader, name)
    }

    /// Whether /etc/default/grub switches BLS entries on, by a plain assignment (the last one counts).
    fn grub_blscfg(&self) -> bool {
        // Other people's comments need not be UTF-8.
        let bytes = self.reader.read("/etc/default/grub").unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let value =
            text.lines().rev().find_map(|line| line.trim().strip_prefix("GRUB_ENABLE_BLSCFG="));
        value.is_some_and(|value| value.trim().trim_matches(['"', '\'']) == "true")
    }

    /// Whether there are entries; a directory that is not readable is counted as having some, as it would otherwise be missing.
    fn has_entries(&self) -> bool {
        match self.reader.list("/boot/loader/entries") {
            Ok(names) => names.iter().any(|name| name.ends_with(".conf")),
            Err(error) => !error.is_absent(),
        }
    }

    fn nothing_found(&self) -> String {
        let container = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"]
            .into_iter()
            .find(|path| self.has(path))
            .map(|path| {
                format!("; {path} says this is a container, which has no boot loader of its own")
            })
            .unwrap_or_default();
        let id = self.os.id.known().map_or("unknown", String::as_str);
        format!(
            "no boot loader was recognised: looked for /run/ostree-booted, the LoaderInfo and StubInfo EFI variables, \
             /boot/loader/entries, /etc/kernel/install.conf, /etc/default/grub and /etc/default/grub.d \
             (os-release ID {id}){container}"
        )
    }
}

fn loader_variable(reader: &dyn Reader, name: &str) -> Option<String> {
    let bytes = reader.read(&format!("/sys/firmware/efi/efivars/{name}-{LOADER_GUID}")).ok()?;
    let units: Vec<u16> = bytes
        .get(4..)?
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    Some(String::from_utf16_lossy(&units).trim_end_matches('\0').to_owned())
}

/// Whether systemd-boot started this host, whatever owns its command line. It hands over the text of a boot entry as it is;
/// GRUB reads it as script (handbook §10.1).
pub fn started_by_systemd_boot(reader: &dyn Reader) -> bool {
    loader_variable(reader, "LoaderInfo").is_some_and(|text| text.starts_with("systemd-boot"))
}

fn talos(host: &Host) -> Option<BootLoader> {
    (host.os.id.known().map(String::as_str) == Some("talos")).then(|| BootLoader::Unmanaged {
        reason: "Talos keeps its kernel arguments in the machine configuration or Image Factory schematic: \
                 use `bedplate render talos`"
            .to_owned(),
    })
}

fn ostree(host: &Host) -> Option<BootLoader> {
    let running = host.has("/run/ostree-booted");
    let image = host.reader.kind() == HostKind::Image && host.has("/sysroot/ostree");
    if !running && !image {
        return None;
    }
    let (rpm_ostree, bootc) = (host.has("/usr/bin/rpm-ostree"), host.has("/usr/bin/bootc"));
    // Both tools are often there. On a running host rpm-ostree changes the arguments of any deployment;
    // in an image only bootc's kargs.d files last.
    Some(match (rpm_ostree, bootc) {
        (true, _) if running => BootLoader::RpmOstree,
        (_, true) => BootLoader::Bootc,
        (true, false) => BootLoader::RpmOstree,
        (false, false) => BootLoader::Unknown {
            reason:
                "this is an OSTree deployment, but neither rpm-ostree nor bootc is installed to change it"
                    .to_owned(),
        },
    })
}

fn running_systemd_boot(host: &Host) -> Option<BootLoader> {
    // GRUB sets LoaderInfo as well: the text decides, not the variable's presence.
    let stub =
        host.loader_variable("StubInfo").is_some_and(|text| text.starts_with("systemd-stub"));
    let loader =
        host.loader_variable("LoaderInfo").is_some_and(|text| text.starts_with("systemd-boot"));
    (stub || loader).then_some(BootLoader::SystemdBoot { uki: stub })
}

fn suse(host: &Host) -> Option<BootLoader> {
    (host.is_any(&["suse", "opensuse", "sles"]) && host.has("/etc/default/grub"))
        .then_some(BootLoader::GrubSuse)
}

fn red_hat(host: &Host) -> Option<BootLoader> {
    if !host.is_any(&["rhel", "fedora", "centos", "rocky", "almalinux", "ol"]) {
        return None;
    }
    let defaults = host.has("/etc/default/grub");
    match (defaults, defaults && host.grub_blscfg(), host.has_entries()) {
        (_, true, _) | (false, _, true) => Some(BootLoader::GrubBls),
        (true, false, _) => Some(BootLoader::GrubRhel),
        (false, false, false) => None,
    }
}

fn debian(host: &Host) -> Option<BootLoader> {
    let grub = || host.has("/etc/default/grub") || host.has("/etc/default/grub.d");
    (host.is_any(&["debian", "ubuntu"]) && grub()).then_some(BootLoader::GrubDebian)
}

fn configured_systemd_boot(host: &Host) -> Option<BootLoader> {
    let layout = host.reader.text("/etc/kernel/install.conf").unwrap_or_default();
    let layout =
        layout.lines().rev().find_map(|line| line.trim().strip_prefix("layout=").map(str::trim));
    let loader =
        ["/boot/loader/loader.conf", "/efi/loader/loader.conf", "/boot/efi/loader/loader.conf"];
    let found = layout.is_some_and(|layout| layout == "bls" || layout == "uki")
        || loader.iter().any(|path| host.has(path));
    (found && !host.has("/etc/default/grub"))
        .then_some(BootLoader::SystemdBoot { uki: layout == Some("uki") })
}

fn unknown_grub(host: &Host) -> Option<BootLoader> {
    let id = host.os.id.known().map_or("unknown", String::as_str);
    host.has("/etc/default/grub").then(|| BootLoader::Unknown {
        reason: format!(
            "/etc/default/grub is there, but how distribution {id:?} regenerates its GRUB configuration is not known: \
             it is neither of the Debian, Red Hat nor SUSE family by os-release"
        ),
    })
}
