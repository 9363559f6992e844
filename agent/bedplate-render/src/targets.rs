//! The table of targets.

use bedplate_core::image_config::ImageConfig;

use super::{
    Options, RenderError, RenderResult, ansible, bootc, butane, cloud_init, gpu_operator, grub,
    ignition, image_script, kernel_install, machineconfig, nccl_job, network_operator, networkd,
    sriov_operator, talos, tuned, udev,
};

/// Takes the files of other programs.
pub struct Target {
    /// Name, as on the command line.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Every path that this target ever writes. `*` is any name, `{role}` the role.
    paths: &'static [&'static str],
    /// Whether its files differ by the family of distributions ([`Options::grub_family`]).
    pub differs_by_family: bool,
    /// Whether it is about VFs alone.
    pub is_for_vfs: bool,
    /// Writes the files. What cannot be said in them must be in [`RenderResult::inexpressible`].
    pub render: fn(&ImageConfig, &Options) -> Result<RenderResult, RenderError>,
}

impl Target {
    /// Every path below the output directory that this target ever writes, whatever the profile. `*` in a last component is
    /// any name.
    pub fn paths(&self, options: &Options) -> Vec<String> {
        self.paths.iter().map(|path| path.replace("{role}", &options.role)).collect()
    }
}

/// Paths that several targets write into one image: of none of them alone are they left over.
pub const SHARED: [&str; 2] =
    ["etc/bedplate/profile.toml", "etc/systemd/system/multi-user.target.d/50-bedplate.conf"];

/// Every target, by name.
pub const TARGETS: &[Target] = &[
    Target {
        name: "ansible",
        about: "Ansible role for a Debian or RHEL family host: GRUB settings, module, sysctl and udev files",
        paths: &[
            "tasks/main.yml",
            "files/bedplate-is-done.sh",
            // Of earlier versions.
            "handlers/main.yml",
            "files/default-grub.append",
            "files/usr/local/sbin/bedplate-grubby.sh",
            "files/etc/default/grub.d/zz-bedplate.cfg",
            "files/etc/modprobe.d/zz-bedplate.conf",
            "files/etc/modules-load.d/bedplate.conf",
            "files/etc/sysctl.d/zz-bedplate.conf",
            "files/etc/nccl.conf",
            "files/etc/cufile.json",
            "files/etc/udev/rules.d/70-bedplate-sriov.rules",
            "files/etc/bedplate/profile.toml",
        ],
        differs_by_family: true,
        is_for_vfs: false,
        render: ansible::render,
    },
    Target {
        name: "bootc",
        about: "bootc kargs.d file, module, sysctl and udev files, Containerfile lines",
        paths: &[
            "Containerfile.bedplate",
            "usr/lib/bootc/kargs.d/50-bedplate.toml",
            "usr/lib/modprobe.d/zz-bedplate.conf",
            "usr/lib/modules-load.d/bedplate.conf",
            "usr/lib/sysctl.d/zz-bedplate.conf",
            "etc/nccl.conf",
            "etc/cufile.json",
            "usr/lib/udev/rules.d/70-bedplate-sriov.rules",
            "etc/bedplate/profile.toml",
            // Of earlier versions.
            "etc/modprobe.d/zz-bedplate.conf",
            "etc/modules-load.d/bedplate.conf",
            "etc/sysctl.d/zz-bedplate.conf",
            "etc/udev/rules.d/70-bedplate-sriov.rules",
        ],
        differs_by_family: false,
        is_for_vfs: false,
        render: bootc::render,
    },
    Target {
        name: "butane",
        about: "Butane configuration (fcos) with kernel arguments, files and unit",
        paths: &["bedplate.bu"],
        differs_by_family: false,
        is_for_vfs: false,
        render: butane::render,
    },
    Target {
        name: "cloud-init",
        about: "cloud-init user data for a Debian or RHEL family host: GRUB settings, files, unit",
        paths: &["bedplate.cloud-config.yaml"],
        differs_by_family: true,
        is_for_vfs: false,
        render: cloud_init::render,
    },
    Target {
        name: "gpu-operator",
        about: "patches for the NVIDIA GPU Operator: kernel modules, DMA-BUF or nvidia_peermem",
        paths: &[
            "clusterpolicy-patch.yaml",
            "kernel-module-params.yaml",
            "nvidiadriver-patch.yaml",
        ],
        differs_by_family: false,
        is_for_vfs: false,
        render: gpu_operator::render,
    },
    Target {
        name: "grub",
        about: "GRUB settings, module and sysctl files for a Debian or RHEL family image",
        paths: &[
            "bedplate-grubby.sh",
            "default-grub.append",
            "etc/default/grub.d/zz-bedplate.cfg",
            "etc/modprobe.d/zz-bedplate.conf",
            "etc/modules-load.d/bedplate.conf",
            "etc/sysctl.d/zz-bedplate.conf",
            "etc/nccl.conf",
            "etc/cufile.json",
            "etc/bedplate/profile.toml",
            "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
        ],
        differs_by_family: true,
        is_for_vfs: false,
        render: grub::render,
    },
    Target {
        name: "ignition",
        about: "Ignition configuration (3.3) with kernel arguments, files and unit",
        paths: &["bedplate.ign"],
        differs_by_family: false,
        is_for_vfs: false,
        render: ignition::render,
    },
    Target {
        name: "kernel-install",
        about: "script for /etc/kernel/cmdline (systemd-boot, unified kernel images), module, sysctl and udev files",
        paths: &[
            "bedplate-kernel-cmdline.sh",
            "etc/modprobe.d/zz-bedplate.conf",
            "etc/modules-load.d/bedplate.conf",
            "etc/sysctl.d/zz-bedplate.conf",
            "etc/nccl.conf",
            "etc/cufile.json",
            "etc/udev/rules.d/70-bedplate-sriov.rules",
            "etc/bedplate/profile.toml",
            "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
        ],
        differs_by_family: false,
        is_for_vfs: false,
        render: kernel_install::render,
    },
    Target {
        name: "machineconfig",
        about: "OpenShift MachineConfig with kernel arguments, module and sysctl files",
        paths: &["99-{role}-bedplate.yaml"],
        differs_by_family: false,
        is_for_vfs: false,
        render: machineconfig::render,
    },
    Target {
        name: "mkosi",
        about: "mkosi.conf.d file with the kernel arguments, mkosi.postinst script that runs `bedplate apply --root`",
        paths: &["mkosi.conf.d/50-bedplate.conf", "mkosi.postinst"],
        differs_by_family: false,
        is_for_vfs: false,
        render: image_script::mkosi,
    },
    Target {
        name: "nccl-job",
        about: "benchmark of nccl-tests as a job: Kubernetes Job, MPIJob, LeaderWorkerSet, or Slurm",
        paths: &["nccl-job.yaml", "nccl-job.sbatch"],
        differs_by_family: false,
        is_for_vfs: false,
        render: nccl_job::render,
    },
    Target {
        name: "network-operator",
        about: "patch for the NVIDIA Network Operator: VFs for its SR-IOV device plugin",
        paths: &["nicclusterpolicy-patch.yaml"],
        differs_by_family: false,
        is_for_vfs: true,
        render: network_operator::render,
    },
    Target {
        name: "networkd",
        about: "systemd .link files that make VFs and set their attributes",
        paths: &[
            "etc/systemd/network/10-bedplate-*.link",
            "etc/bedplate/profile.toml",
            "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
        ],
        differs_by_family: false,
        is_for_vfs: true,
        render: networkd::render,
    },
    Target {
        name: "packer",
        about: "script for Packer's shell provisioner that runs `bedplate apply --root /`",
        paths: &["bedplate-provision.sh"],
        differs_by_family: false,
        is_for_vfs: false,
        render: image_script::packer,
    },
    Target {
        name: "sriov-operator",
        about: "SriovNetworkNodePolicy for each group of PFs, SriovNetworkPoolConfig",
        paths: &["sriovnetworknodepolicies.yaml", "sriovnetworkpoolconfig.yaml"],
        differs_by_family: false,
        is_for_vfs: true,
        render: sriov_operator::render,
    },
    Target {
        name: "talos",
        about: "Talos machine configuration patch and Image Factory schematic",
        paths: &["machine-patch.yaml", "schematic.yaml", "schematic.id"],
        differs_by_family: false,
        is_for_vfs: false,
        render: talos::render,
    },
    Target {
        name: "tuned",
        about: "TuneD profile with kernel arguments, module options and sysctls",
        paths: &["bedplate/tuned.conf"],
        differs_by_family: false,
        is_for_vfs: false,
        render: tuned::render,
    },
    Target {
        name: "udev",
        about: "udev rules that make VFs",
        paths: &[
            "etc/udev/rules.d/70-bedplate-sriov.rules",
            "etc/bedplate/profile.toml",
            "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
        ],
        differs_by_family: false,
        is_for_vfs: true,
        render: udev::render,
    },
];
