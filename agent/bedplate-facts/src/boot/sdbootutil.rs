//! SUSE with boot entries on the EFI system partition. Only sdbootutil makes them. On these systems GRUB does not read
//! /boot/grub2/grub.cfg.

use super::{BootLoader, Host, remedy};
use crate::os::{assignment, release_value};
use bedplate_base::OptionalRead as _;

/// Directory of the boot loaders on the EFI system partition.
const LOADERS: &str = "/boot/efi/EFI";
/// SUSE's choice of the boot loader.
const SYSCONFIG: &str = "/etc/sysconfig/bootloader";
/// Tool that makes the boot entries.
const SDBOOTUTIL: &str = "/usr/bin/sdbootutil";
/// Files of packages from which sdbootutil installs a GRUB that reads entries (`find_grub2_bls`).
const GRUB: &[&str] =
    &["/usr/share/grub2/x86_64-efi/grubbls.efi", "/usr/share/grub2/arm64-efi/grubbls.efi"];
/// Files of packages from which sdbootutil installs systemd-boot (`find_sdboot`).
const SYSTEMD_BOOT: &[&str] = &[
    "/usr/lib/systemd-boot/systemd-bootx64.efi",
    "/usr/lib/systemd-boot/systemd-bootaa64.efi",
    "/usr/lib/systemd/boot/efi/systemd-bootx64.efi",
    "/usr/lib/systemd/boot/efi/systemd-bootaa64.efi",
];

/// Detects the loader, by LOADER_TYPE if that is set. Trusts any value, as sdbootutil does.
pub(super) fn detect(host: &Host) -> Option<BootLoader> {
    let bytes = match host.reader.read(SYSCONFIG).optional() {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(error) => {
            return host.has(SDBOOTUTIL).then(|| BootLoader::Unknown {
                reason: format!("LOADER_TYPE is unknown: {error}"),
                fix: remedy(&error),
            });
        }
    };
    let loader = assignment(&String::from_utf8_lossy(&bytes), "LOADER_TYPE");
    match loader.as_deref() {
        Some("grub2-bls") => Some(BootLoader::Sdbootutil { grub: true }),
        Some("systemd-boot") => Some(BootLoader::Sdbootutil { grub: false }),
        None | Some("") if host.has(SDBOOTUTIL) => Some(unnamed(host)),
        _ => None,
    }
}

/// Returns the loader of a host with sdbootutil and no LOADER_TYPE. sdbootutil selects GRUB if its package is
/// installed, else systemd-boot (`bootloader_type`). The packages alone prove nothing: sdbootutil must also have put
/// that loader on the partition (`is_installed`).
fn unnamed(host: &Host) -> BootLoader {
    let has_any = |paths: &[&str]| paths.iter().any(|path| host.has(path));
    let grub = has_any(GRUB);
    // The directory of GRUB is named after the first word of NAME in os-release (`esp_dst`).
    let name = release_value(host.reader, "NAME").unwrap_or_default().to_lowercase();
    let own = if grub { name.split_whitespace().next().unwrap_or("BOOT") } else { "systemd" };
    let marks = [own, "BOOT"].map(|own| format!("{LOADERS}/{own}/installed_by_sdbootutil"));
    if (grub || has_any(SYSTEMD_BOOT)) && marks.iter().any(|mark| host.has(mark)) {
        return BootLoader::Sdbootutil { grub };
    }
    let set = format!(
        "set LOADER_TYPE in {SYSCONFIG} to the installed loader (grub2-bls, systemd-boot, grub2-efi or grub2)"
    );
    // Only root can read the partition where it is mounted as SUSE does.
    let unread = marks.iter().find_map(|mark| host.reader.exists(mark).err());
    let (why, fix) = match unread {
        Some(error) => (
            format!("the installed loader is unknown: {error}"),
            format!("run bedplate as root, or {set}"),
        ),
        None if !host.has(LOADERS) => (
            format!("{LOADERS} does not exist: the EFI system partition may not be mounted"),
            format!("mount the EFI system partition at /boot/efi, or {set}"),
        ),
        None => (
            format!(
                "sdbootutil has installed no loader in {LOADERS}: the boot loader may read boot entries or \
                 /boot/grub2/grub.cfg"
            ),
            set,
        ),
    };
    BootLoader::Unknown {
        reason: format!("LOADER_TYPE is not set in {SYSCONFIG}, and {why}"),
        fix: format!("{fix}, then plan again"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::family;
    use super::*;
    use crate::os;
    use bedplate_host::snapshot::{Node, Snapshot};

    #[test]
    fn unread_loader_is_not_reported_missing() {
        let reason = |path: &str, node: Node| {
            let mut host = Snapshot::new(true);
            host.insert("/usr/bin/sdbootutil", Node::Present);
            host.insert(path, node);
            host.complete();
            match family(&host, &os::observe(&host)) {
                BootLoader::Unknown { reason, .. } => reason,
                other => panic!("{other:?}"),
            }
        };
        let missing = reason("/boot/efi/EFI/fedora", Node::Dir(None));
        assert!(missing.contains("sdbootutil has installed no loader"), "{missing}");
        let unmounted = reason("/boot/efi", Node::Dir(None));
        assert!(unmounted.contains("may not be mounted"), "{unmounted}");
        let denied = reason("/boot/efi", Node::Denied);
        assert!(denied.contains("installed_by_sdbootutil cannot be read"), "{denied}");
        let setting = reason(SYSCONFIG, Node::Denied);
        assert!(setting.contains("LOADER_TYPE is unknown"), "{setting}");
    }
}
