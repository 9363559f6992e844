//! Detects the boot-loader family, which owns the kernel command line (handbook §10.4). Detectors run in table order;
//! the first match wins. An unrecognised loader is `Unknown` with the evidence that was checked, never a default.

mod blscfg;
mod sdbootutil;

use serde::Serialize;

use super::os::Os;
use bedplate_base::ReadError;
use bedplate_cmdline::boot::completeness::SECTION_MARKS;
use bedplate_cmdline::boot::grub_default;
use bedplate_cmdline::{CommandLine, Token};
use bedplate_host::{HostKind, Reader};
use blscfg::uses_entries;
pub use blscfg::{KEEP_ENTRIES, LINUX_SCRIPT, MenuEffect, menu_effect, script_mark};

/// Owner of the kernel command line on this host (handbook §10.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "family", rename_all = "kebab-case")]
pub enum BootLoader {
    /// Debian, Ubuntu and derivatives: /etc/default/grub, grub.d drop-ins, update-grub.
    GrubDebian,
    /// RHEL, Fedora and derivatives with BLS entries read by GRUB.
    GrubBls,
    /// RHEL family without BLS (GRUB_ENABLE_BLSCFG false, or not set before RHEL 9): /etc/default/grub and
    /// grub2-mkconfig.
    GrubRhel,
    /// SUSE: /etc/default/grub and grub2-mkconfig / update-bootloader.
    GrubSuse,
    /// systemd-boot with kernel-install (type 1 entries or UKI).
    SystemdBoot {
        /// Whether the running system was booted from a unified kernel image (StubInfo), which embeds the options.
        uki: bool,
    },
    /// SUSE with boot entries that sdbootutil generates from /etc/kernel/cmdline.
    Sdbootutil {
        /// Whether GRUB reads the entries (`grub2-bls`), rather than systemd-boot.
        grub: bool,
    },
    /// rpm-ostree deployments: `rpm-ostree kargs`.
    RpmOstree,
    /// bootc: kargs.d files and `bootc`.
    Bootc,
    /// Recognised, but nothing on the host can change the command line (Talos, a container …).
    Unmanaged {
        /// Reason.
        reason: String,
        /// Way to change the kernel arguments without bedplate.
        fix: String,
    },
    /// Family not recognised. Never skipped silently.
    Unknown {
        /// Evidence that was checked and not found.
        reason: String,
        /// Way to change the kernel arguments without bedplate.
        fix: String,
    },
}

/// GUID of the boot loader interface's EFI variables (systemd.io/BOOT_LOADER_INTERFACE).
const LOADER_GUID: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// One detector; `None`: no match.
type Detector = fn(&Host) -> Option<BootLoader>;

const DETECTORS: [Detector; 10] = [
    talos,
    physical_root,
    composefs,
    ostree,
    proxmox,
    sdbootutil::detect,
    running_systemd_boot,
    suse,
    red_hat,
    debian,
];
const FALLBACK_DETECTORS: [Detector; 3] = [configured_systemd_boot, grub_by_tools, unknown_grub];

/// Fix for hosts with an unrecognised boot loader.
pub(crate) const BY_HAND: &str = "add the arguments to the boot loader's kernel command line by hand and reboot; \
                                  `bedplate verify` then checks the running kernel's";

/// Debian-family ids in os-release.
pub const DEBIAN: [&str; 2] = ["debian", "ubuntu"];
/// Red Hat-family ids in os-release.
pub const RED_HAT: [&str; 6] = ["rhel", "fedora", "centos", "rocky", "almalinux", "ol"];

struct Host<'a> {
    reader: &'a dyn Reader,
    os: &'a Os,
}

/// Detects the boot-loader family.
pub(crate) fn family(reader: &dyn Reader, os: &Os) -> BootLoader {
    let host = Host { reader, os };
    DETECTORS.iter().chain(&FALLBACK_DETECTORS).find_map(|detect| detect(&host)).unwrap_or_else(
        || BootLoader::Unknown { reason: host.nothing_found(), fix: BY_HAND.to_owned() },
    )
}

impl Host<'_> {
    /// Whether `path` exists. A path that cannot be checked counts as missing; `nothing_found` reports it.
    fn has(&self, path: &str) -> bool {
        self.reader.exists(path) == Ok(true)
    }

    /// Returns an EFI variable of the boot loader interface as text. The data is four bytes of attributes, then UTF-16.
    fn loader_variable(&self, name: &str) -> Option<String> {
        loader_variable(self.reader, name)
    }

    /// Whether there are boot entries. An unreadable directory counts as having some; otherwise they would seem
    /// missing.
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
            .map(|path| format!("; this is a container ({path}), without a boot loader of its own"))
            .unwrap_or_default();
        let id = self.os.id.known().map_or("unknown", String::as_str);
        format!(
            "no boot loader recognised; checked /run/ostree-booted, the LoaderInfo and StubInfo EFI variables, \
             /boot/loader/entries, /etc/kernel/install.conf, /etc/default/grub and /etc/default/grub.d (os-release \
             ID {id}){container}"
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

/// Whether systemd-boot started this host, whoever owns its command line. systemd-boot passes the text of a boot entry
/// verbatim; GRUB parses it as script (handbook §10.1).
pub fn started_by_systemd_boot(reader: &dyn Reader) -> bool {
    loader_variable(reader, "LoaderInfo").is_some_and(|text| text.starts_with("systemd-boot"))
}

/// Whether GRUB started this host from a disk, judged by `LoaderInfo` and by the image that GRUB puts first on the
/// line. zipl puts a number there. An image served over a network proves nothing about files on this host (handbook
/// §10.4).
pub fn started_by_grub(reader: &dyn Reader) -> bool {
    const NETWORK: [&str; 3] = ["(http", "(tftp", "(pxe"];
    let line = CommandLine::parse(reader.text("/proc/cmdline").unwrap_or_default().trim_end());
    let image = line.named("BOOT_IMAGE").next().and_then(Token::value).unwrap_or_default();
    let is_path = image.starts_with(['/', '(']) && image.contains('/');
    let is_named = loader_variable(reader, "LoaderInfo").map(|text| text.starts_with("GRUB"));
    is_named.unwrap_or(is_path) && !NETWORK.iter().any(|device| image.starts_with(device))
}

fn talos(host: &Host) -> Option<BootLoader> {
    (host.os.id.known().map(String::as_str) == Some("talos")).then(|| BootLoader::Unmanaged {
        reason: "on Talos, kernel arguments belong in the machine configuration or Image Factory schematic: use \
                 `bedplate render talos`"
            .to_owned(),
        fix: "render the profile for the image with `bedplate render`".to_owned(),
    })
}

/// Detects the file system that holds OSTree deployments, mounted on its own: in a deployment, /ostree is a link to it.
fn physical_root(host: &Host) -> Option<BootLoader> {
    let itself = host.has("/ostree/repo")
        && host.reader.link("/ostree").is_err()
        && (host.has("/ostree/deploy") || host.has_entries());
    (itself && !host.has("/run/ostree-booted")).then(|| BootLoader::Unmanaged {
        reason: "physical root of an OSTree system (/ostree/repo); its deployments own the boot entries".to_owned(),
        fix: "change the arguments in the booted system with `rpm-ostree kargs --append-if-missing=…`, or here \
                 with `ostree admin --sysroot=DIR kargs edit-in-place --append-if-missing=…`"
            .to_owned(),
    })
}

/// Whether bootc installed the system with its composefs backend: the running command line has the digest of the root,
/// and there is no /run/ostree-booted; or boot entries have bootc's names (bootc, crates/lib/src/bootc_composefs).
pub fn is_bootc_composefs(reader: &dyn Reader) -> bool {
    let line = reader.text("/proc/cmdline").unwrap_or_default();
    let line = CommandLine::parse(line.trim_end());
    let is_booted = reader.kind() != HostKind::Image
        && reader.exists("/run/ostree-booted") != Ok(true)
        && ["composefs", "composefs.digest"].iter().any(|name| line.named(name).next().is_some());
    let entries = reader.list("/boot/loader/entries").unwrap_or_default();
    is_booted || entries.iter().any(|name| name.starts_with("bootc_"))
}

/// Detects bootc's composefs backend. rpm-ostree cannot change its boot entries, and an upgrade replaces them.
fn composefs(host: &Host) -> Option<BootLoader> {
    is_bootc_composefs(host.reader).then(|| BootLoader::Unmanaged {
        reason: "bootc (composefs backend) writes this system's boot entries; kernel arguments belong to the image"
            .to_owned(),
        fix: "run `bedplate apply --root` in the image build: it adds the arguments as a file in \
                 /usr/lib/bootc/kargs.d; then run `bootc upgrade` and reboot"
            .to_owned(),
    })
}

fn ostree(host: &Host) -> Option<BootLoader> {
    let running = host.has("/run/ostree-booted");
    // A container that will be a bootable image has the /ostree link of every deployment; the link dangles until then.
    let link = || {
        host.reader
            .link("/ostree")
            .is_ok_and(|target| target.trim_start_matches('/') == "sysroot/ostree")
    };
    // An image for the composefs backend may lack that link, but every image has /sysroot; the package of bootc does not
    // contain it. An image has no boot configuration; an installed system has one.
    let bootc_image = || {
        ["/usr/bin/bootc", "/sysroot"].into_iter().all(|path| host.has(path))
            && !host.has(grub_default::MAIN)
            && !host.has_entries()
    };
    let image = host.reader.kind() == HostKind::Image
        && (host.has("/sysroot/ostree") || link() || bootc_image());
    if !running && !image {
        return None;
    }
    let (rpm_ostree, bootc) = (host.has("/usr/bin/rpm-ostree"), host.has("/usr/bin/bootc"));
    // Both tools are often installed. On a running host rpm-ostree changes the arguments of any deployment; in an image
    // only bootc's kargs.d files persist.
    Some(match (rpm_ostree, bootc) {
        (true, _) if running => BootLoader::RpmOstree,
        (_, true) => BootLoader::Bootc,
        (true, false) => BootLoader::RpmOstree,
        (false, false) => BootLoader::Unknown {
            reason:
                "OSTree deployment without rpm-ostree or bootc, which could change it"
                    .to_owned(),
            fix: "change the arguments with `ostree admin kargs edit-in-place --append-if-missing=…`, or install \
                     rpm-ostree"
                .to_owned(),
        },
    })
}

fn running_systemd_boot(host: &Host) -> Option<BootLoader> {
    // GRUB sets LoaderInfo too, so the text decides, not the presence of the variable.
    let stub =
        host.loader_variable("StubInfo").is_some_and(|text| text.starts_with("systemd-stub"));
    let loader =
        host.loader_variable("LoaderInfo").is_some_and(|text| text.starts_with("systemd-boot"));
    (stub || loader).then_some(BootLoader::SystemdBoot { uki: stub })
}

fn suse(host: &Host) -> Option<BootLoader> {
    (host.os.is_any(&["suse", "opensuse", "sles"]) && host.has(grub_default::MAIN))
        .then_some(BootLoader::GrubSuse)
}

fn red_hat(host: &Host) -> Option<BootLoader> {
    if !host.os.is_any(&RED_HAT) {
        return None;
    }
    match (host.has(grub_default::MAIN), host.has_entries()) {
        (true, _) => Some(red_hat_grub(host)),
        (false, true) => Some(BootLoader::GrubBls),
        (false, false) => None,
    }
}

/// Returns the family of Red Hat's GRUB with /etc/default/grub.
fn red_hat_grub(host: &Host) -> BootLoader {
    match uses_entries(host.reader) {
        Ok(true) => BootLoader::GrubBls,
        Ok(false) => BootLoader::GrubRhel,
        Err(error) => BootLoader::Unknown {
            reason: format!("cannot tell whether GRUB reads boot entries: {error}"),
            fix: remedy(&error),
        },
    }
}

/// Returns the fix for a file that decides about the family and cannot be read.
fn remedy(error: &ReadError) -> String {
    match error {
        ReadError::Denied { .. } => "run bedplate as root".to_owned(),
        _ => "correct this, then plan again".to_owned(),
    }
}

fn debian(host: &Host) -> Option<BootLoader> {
    let grub = || host.has(grub_default::MAIN) || host.has(grub_default::DROP_INS);
    (host.os.is_any(&DEBIAN) && grub()).then_some(BootLoader::GrubDebian)
}

fn configured_systemd_boot(host: &Host) -> Option<BootLoader> {
    let layout = host.reader.text("/etc/kernel/install.conf").unwrap_or_default();
    let layout =
        layout.lines().rev().find_map(|line| line.trim().strip_prefix("layout=").map(str::trim));
    let loader =
        ["/boot/loader/loader.conf", "/efi/loader/loader.conf", "/boot/efi/loader/loader.conf"];
    let found = layout.is_some_and(|layout| layout == "bls" || layout == "uki")
        || loader.iter().any(|path| host.has(path));
    (found && !host.has(grub_default::MAIN))
        .then_some(BootLoader::SystemdBoot { uki: layout == Some("uki") })
}

/// Detects Proxmox. It copies kernels and boot-loader configuration to EFI system partitions that are not mounted, and
/// only its own tool writes there (proxmox-boot-tool, `ESP_LIST`).
fn proxmox(host: &Host) -> Option<BootLoader> {
    const LIST: &str = "/etc/kernel/proxmox-boot-uuids";
    let is_blank = || host.reader.read(LIST).is_ok_and(|list| list.trim_ascii().is_empty());
    let used = host.has(LIST) && !is_blank();
    used.then(|| BootLoader::Unmanaged {
        reason: format!(
            "proxmox-boot-tool ({LIST}) manages this host's boot entries, on unmounted partitions"
        ),
        fix: "add the arguments to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub (if `proxmox-boot-tool status` \
                 names systemd-boot: to the line in /etc/kernel/cmdline), run `proxmox-boot-tool refresh`, reboot"
            .to_owned(),
    })
}

/// Detects GRUB by its tools, for distributions with no known family in os-release. openEuler, Kylin and Azure Linux
/// name GRUB's tools as Red Hat does; derivatives of Debian ship Debian's GRUB package. A configuration that
/// grub-mkconfig did not make must not be overwritten.
fn grub_by_tools(host: &Host) -> Option<BootLoader> {
    if !host.has(grub_default::MAIN) {
        return None;
    }
    let made = |path: &str| match host.reader.read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            text.trim().is_empty() || text.contains(SECTION_MARKS[0])
        }
        Err(error) => error.is_absent(),
    };
    let debian = host.has("/etc/debian_version") && host.has("/usr/sbin/update-grub");
    if debian && made("/boot/grub/grub.cfg") {
        return Some(BootLoader::GrubDebian);
    }
    let red_hat = host.has("/usr/sbin/grub2-mkconfig") && made("/boot/grub2/grub.cfg");
    red_hat.then(|| red_hat_grub(host))
}

fn unknown_grub(host: &Host) -> Option<BootLoader> {
    let id = host.os.id.known().map_or("unknown", String::as_str);
    host.has(grub_default::MAIN).then(|| BootLoader::Unknown {
        reason: format!(
            "/etc/default/grub exists, but the tool that regenerates the GRUB configuration of distribution {id:?} \
             is unknown: not of the Debian, Red Hat or SUSE family, by os-release or by its tools"
        ),
        fix: "add the arguments to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, regenerate the configuration \
                 with this distribution's tool (GRUB's own: `grub-mkconfig -o /boot/grub/grub.cfg`; where that file \
                 is hand-written: the `linux` lines themselves), reboot"
            .to_owned(),
    })
}
