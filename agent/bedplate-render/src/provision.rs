//! Shared by `cloud-init` and `ansible`: the files of target `grub` and of an image, and the commands to run after
//! them.

use bedplate_core::image_config::{ImageConfig, Setting};

use super::agent::Agent;
use super::common::{files, uses_modprobe};
use super::udev;
use super::{GrubFamily, Options, OutFile, RenderError, RenderResult, grub, grub_rhel};

/// Path on the host of RHEL's script for the boot entries.
const GRUBBY: &str = "usr/local/sbin/bedplate-grubby.sh";

/// Directory of units.
const UNITS: &str = "/etc/systemd/system/";

/// A host to provision.
pub(super) struct Host {
    /// Files, at their paths.
    pub files: Vec<OutFile>,
    /// Block for /etc/default/grub.
    pub default_grub: Option<OutFile>,
    /// Command that applies new kernel arguments, once the files exist.
    pub boot_loader: Option<Vec<&'static str>>,
    /// Command that applies options of modules that the initramfs loads.
    pub initramfs: Option<Vec<&'static str>>,
    /// Whether there are modules to load.
    pub loads_modules: bool,
    /// Whether there are kernel parameters.
    pub sets_sysctls: bool,
    /// Whether bedplate's units have work to do.
    pub agent: bool,
    /// Items and notes that are not in the files; has no files.
    pub rest: RenderResult,
}

impl Host {
    pub(crate) fn from_build(build: &ImageConfig, options: &Options) -> Result<Self, RenderError> {
        let boot = grub::boot(build, options)?;
        let mut host = Host {
            files: Vec::new(),
            default_grub: None,
            boot_loader: (!boot.files.is_empty()).then(|| match options.grub_family {
                GrubFamily::Debian => vec!["update-grub"],
                GrubFamily::Rhel => vec!["/usr/local/sbin/bedplate-grubby.sh"],
            }),
            initramfs: uses_modprobe(build).then(|| match options.grub_family {
                GrubFamily::Debian => vec!["update-initramfs", "-u", "-k", "all"],
                GrubFamily::Rhel => vec!["dracut", "-f", "--regenerate-all"],
            }),
            loads_modules: build.settings().any(|one| matches!(one, Setting::LoadModule(_))),
            sets_sysctls: build.settings().any(|one| matches!(one, Setting::Sysctl { .. })),
            agent: false,
            rest: RenderResult {
                inexpressible: boot.inexpressible,
                notes: grub::not_removed(build, options).into_iter().collect(),
                ..RenderResult::default()
            },
        };
        for mut file in boot.files {
            match file.path.as_str() {
                grub_rhel::APPEND => host.default_grub = Some(file),
                grub_rhel::SCRIPT => {
                    file.path = GRUBBY.to_owned();
                    host.files.push(file);
                }
                _ => host.files.push(file),
            }
        }
        host.files.extend(files(build).chain(udev::rules(build, options)));
        let agent = Agent::of_image(build, options);
        host.agent = agent.profile.is_some();
        host.files.extend(agent.profile);
        host.rest.add(agent.rest);
        if host.boot_loader.is_some() {
            host.rest.notes.push(
                "the arguments take effect at the next boot: reboot the host yourself, or with `bedplate reboot \
                schedule` if the agent runs there".to_owned(),
            );
        }
        if build.files.iter().any(|file| file.path.starts_with(UNITS)) {
            host.rest.notes.push(
                "services get their limits at the next boot, or after `systemctl daemon-reload` and a restart of each; the \
                 reload can take the GPUs from running containers, and the restart can end jobs"
                    .to_owned(),
            );
        }
        host.rest.notes.extend(build.notes.iter().cloned());
        Ok(host)
    }
}
