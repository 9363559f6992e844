//! Renders the contributions of all resource types as files for other tools: image builds, cluster operators, boot
//! loader tools. Pure: no reads, no writes; the same profile, desired state and options give the same bytes.
//!
//! To add a target, write one file with a `render` function, its `mod` line, and its entry in [`TARGETS`] here. Depends
//! on all lower crates except bedplate-host. Start with [`render()`] in `render.rs`.

mod agent;
mod ansible;
mod bootc;
mod butane;
mod cloud_init;
mod common;
mod data_url;
mod go_yaml;
mod gpu_operator;
mod grub;
mod grub_rhel;
mod ignition;
mod image_script;
mod kernel_install;
mod machineconfig;
mod nccl_job;
mod network_operator;
mod networkd;
mod output;
mod provision;
mod render;
mod second_boot;
mod sriov_network;
mod sriov_operator;
mod talos;
mod target;
mod tuned;
mod udev;
mod vf_rules;
mod yaml;

pub use nccl_job::{Job, JobForm, Workload};
pub(crate) use output::SCRIPT_MODE;
pub use output::{
    Deferred, GrubFamily, Inexpressible, IpamRange, Options, OutFile, RenderError, RenderResult,
    digest, is_ours, is_with_its_id,
};
pub use render::{render, target};
pub use target::{SHARED, Target};

/// Every target, by name.
pub const TARGETS: &[Target] = &[
    ansible::TARGET,
    bootc::TARGET,
    butane::TARGET,
    cloud_init::TARGET,
    gpu_operator::TARGET,
    grub::TARGET,
    ignition::TARGET,
    kernel_install::TARGET,
    machineconfig::TARGET,
    image_script::MKOSI,
    nccl_job::TARGET,
    network_operator::TARGET,
    networkd::TARGET,
    image_script::PACKER,
    sriov_operator::TARGET,
    talos::TARGET,
    tuned::TARGET,
    udev::TARGET,
];
