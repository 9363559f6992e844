//! dracut: the command for images of bootc and rpm-ostree, and the file that it writes by default on other hosts
//! (handbook §9).

use crate::kind::cmdline::{self, BOOT_MOUNTS, Obstacle};
use crate::modules_conf::MODPROBE_PATH;
use bedplate_base::{OptionalRead as _, ReadError, Reading};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Path of dracut.
pub(super) const DRACUT: &str = "/usr/bin/dracut";
/// Option that only the command for images has.
const INSTALL: &str = "--install-optional";
/// Directory of dracut's modules. Digits precede their names.
const MODULES: &str = "/usr/lib/dracut/modules.d";
/// Modules that mount the root of a deployment. dracut includes them only on request. The second one, for bootc's
/// composefs backend, does nothing in other deployments.
const OF_DEPLOYMENTS: [&str; 2] = ["ostree", "bootc"];

/// Returns the commands for an image of bootc or rpm-ostree: deployments use the initramfs in /usr/lib/modules. It is
/// built for any machine, and dracut then leaves out /etc/modprobe.d, except for files named by [`INSTALL`].
///
/// # Errors
/// If dracut lacks the modules that mount the root of a deployment.
pub(super) fn in_image(reader: &dyn Reader, facts: &Facts) -> Result<Vec<Vec<String>>, Obstacle> {
    let names = match reader.list(MODULES).optional() {
        // Snapshots lack the directory.
        Err(ReadError::NotRecorded { .. }) => vec![OF_DEPLOYMENTS[0].to_owned()],
        names => names?.unwrap_or_default(),
    };
    let bare = |name: &String| name.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let names: Vec<String> = names.iter().map(bare).collect();
    let is_there = |module: &&str| names.iter().any(|name| name == module);
    let modules: Vec<&str> = OF_DEPLOYMENTS.into_iter().filter(is_there).collect();
    if modules.is_empty() {
        return Err(Obstacle {
            reason: format!(
                "{MODULES} has neither ostree nor bootc: an initramfs that dracut builds would not mount the root of a \
                 deployment"
            ),
            fix: "install the package with dracut's module ostree in the image, then plan again"
                .into(),
        });
    }
    let add: Vec<&str> = modules.into_iter().flat_map(|module| ["--add", module]).collect();
    let path = |release: &String, file: &str| format!("/usr/lib/modules/{release}/{file}");
    let kernels = facts.os.installed_kernels.iter();
    let kernels = kernels.filter(|release| reader.exists(&path(release, "vmlinuz")) == Ok(true));
    let command = |release: &String| {
        let image = path(release, "initramfs.img");
        let start = ["dracut", "--force", "--no-hostonly"].map(str::to_owned).to_vec();
        let add = add.iter().map(|word| (*word).to_owned()).collect();
        let end = [INSTALL, MODPROBE_PATH, &image, release].map(str::to_owned).to_vec();
        [start, add, end].concat()
    };
    Ok(kernels.map(command).collect())
}

/// Whether the command writes the initramfs of an image of bootc or rpm-ostree, in /usr.
pub(crate) fn is_of_image(argv: &[String]) -> bool {
    argv.iter().any(|word| word == INSTALL)
}

/// Refuses `dracut --regenerate-all` if it would not replace the initramfs of the default boot entry. Does not refuse
/// if the entry is unknown.
///
/// # Errors
/// If the entry loads another file.
pub(super) fn replaces_loaded(reader: &dyn Reader, facts: &Facts) -> Result<(), Obstacle> {
    let loaded = cmdline::default_initrds(reader, facts);
    let is_type_1 = matches!(facts.boot, BootLoader::SystemdBoot { .. });
    let directory = output_directory(reader);
    let is_written = |path: &String| match &directory {
        Reading::Known(directory) => {
            path.starts_with(&format!("{directory}/")) && path.ends_with("/initrd")
        }
        Reading::Absent => !is_type_1 || is_in_boot(path, facts),
        // Snapshots lack the machine id.
        Reading::Unknown(_) => !is_type_1 || is_in_boot(path, facts) || has_machine_id(path),
    };
    match loaded.is_empty() || loaded.iter().any(is_written) {
        true => Ok(()),
        false => Err(Obstacle {
            reason:
                "dracut alone would not replace the initramfs that the default boot entry loads"
                    .into(),
            fix: format!(
                "edit {MODPROBE_PATH} by hand and run `dracut --force FILE RELEASE` for the initramfs of each boot \
                 entry, then plan again"
            ),
        }),
    }
}

/// Returns the directory on a boot partition into which dracut writes every initramfs, as `RELEASE/initrd`. `Absent`:
/// dracut writes elsewhere, normally into /boot.
fn output_directory(reader: &dyn Reader) -> Reading<String> {
    let has = |path: &str| reader.exists(path) == Ok(true);
    let id = match BOOT_MOUNTS.iter().any(|mount| has(&format!("{mount}/Default"))) {
        true => Reading::Known("Default".to_owned()),
        false => Reading::from_result(reader.attribute("/etc/machine-id")),
    };
    id.and_then(|id| {
        let id: &str = if id.is_empty() || id == "uninitialized" { "Default" } else { &id };
        for mount in BOOT_MOUNTS {
            let directory = format!("{mount}/{id}");
            if has(&format!("{mount}/loader/entries")) && has(&directory) {
                return Reading::Known(directory);
            }
        }
        Reading::Absent
    })
}

/// Whether a path is the one that dracut gives an initramfs in /boot.
fn is_in_boot(path: &str, facts: &Facts) -> bool {
    let mut releases = facts.os.installed_kernels.iter();
    releases.any(|release| *path == format!("/boot/initramfs-{release}.img"))
}

/// Whether a path ends in `MACHINE-ID/RELEASE/initrd`.
fn has_machine_id(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let is_id = |id: &str| id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit());
    parts.next() == Some("initrd") && parts.nth(1).is_some_and(is_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;
    use bedplate_base::CpuVendor;
    use bedplate_facts::Depth;
    use bedplate_host::snapshot::{Node, Snapshot};
    use bedplate_testhosts::HostSpec;

    const ID: &str = "5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f51";
    const RELEASE: &str = "6.12.0-1";

    /// Whether dracut replaces this initramfs of systemd-boot's only entry, in /boot.
    fn is_replaced(machine_id: Option<&str>, initrd: &str) -> bool {
        let mut host = Snapshot::new(true);
        let entry = format!("version {RELEASE}\noptions quiet\nlinux /x\ninitrd /{initrd}\n");
        let path = format!("/boot/loader/entries/a-{RELEASE}.conf");
        host.insert(&path, Node::File(entry.into_bytes()));
        let loaded = format!("/boot/{initrd}");
        host.insert(&loaded, Node::Present);
        let id = machine_id.unwrap_or_default().to_owned();
        host.insert("/etc/machine-id", Node::File(id.into_bytes()));
        host.complete();
        if machine_id.is_none() {
            host.remove("/etc/machine-id");
        }
        let boot = BootLoader::SystemdBoot { uki: false };
        let mut facts = Facts { boot, ..Facts::of_vendor(CpuVendor::Intel) };
        facts.os.installed_kernels = vec![RELEASE.to_owned()];
        assert_eq!(cmdline::default_initrds(&host, &facts), [loaded]);
        replaces_loaded(&host, &facts).is_ok()
    }

    #[test]
    fn dracut_replaces_only_its_default_file() {
        let own = format!("{ID}/{RELEASE}/initrd");
        let in_boot = format!("initramfs-{RELEASE}.img");
        // Snapshots lack the machine id.
        for machine_id in [Some(ID), None] {
            assert!(is_replaced(machine_id, &own), "{machine_id:?}");
            assert!(is_replaced(machine_id, &in_boot), "{machine_id:?}");
            for other in ["debian/6.12.0-1/initrd", "a/6.12.0-1/initrd.img", "initramfs-linux.img"]
            {
                assert!(!is_replaced(machine_id, other), "{machine_id:?} {other}");
            }
        }
        assert!(!is_replaced(Some("00000000000000000000000000000001"), &own), "an earlier id");
    }

    #[test]
    fn directory_of_another_loader_diverts_dracut() {
        let is_replaced = |files: &str| {
            let text = format!(
                "machine = 'plain'\nloader = 'rhel9'\n[files]\n'/etc/machine-id' = '{ID}'\n{files}"
            );
            let host = HostSpec::from_toml(&text).unwrap().build();
            let facts = engine::observe(&host, Depth::Plan);
            assert_eq!(cmdline::default_initrds(&host, &facts).len(), 1);
            replaces_loaded(&host, &facts).is_ok()
        };
        assert!(is_replaced(""));
        assert!(!is_replaced(&format!("'/boot/{ID}/x' = ''")));
    }
}
