//! Facts about hardware and system. Facts are observed once per run, and bedplate never changes them. State that
//! bedplate manages (files, ACS control, VF counts) is *observed state* and is part of its resource type.
//!
//! One file per subject, with functions of a [`bedplate_host::Reader`]; [`topology`] and [`kernel_log`] are pure.
//! Depends on bedplate-base, -cmdline and -host. Start with [`observe`] and [`Facts`] in `facts.rs`, then `scan.rs` and
//! `pci.rs`.

pub mod aer;
pub mod boot;
pub mod caps;
pub mod cuda_library;
pub mod cufile;
mod depth;
pub mod fabric;
mod facts;
pub mod flow_control;
pub mod gpu;
pub mod imex;
pub mod iommu_groups;
pub mod iort;
pub mod kernel_config;
pub mod kernel_defaults;
pub mod kernel_log;
pub mod legacy_modules;
pub mod limits;
pub mod names;
pub mod nccl_conf;
pub mod nvidia_modules;
pub mod nvlink_sharp;
pub mod os;
pub mod pci;
pub mod placement;
mod process;
pub mod rdma;
pub mod rebar;
pub mod scan;
pub mod service_processes;
pub mod storage;
pub mod superchip;
mod system;
pub mod systemd_units;
pub mod topology;
pub mod uplink;
pub mod vfs;
pub mod vpd;

pub use boot::BootLoader;
pub use depth::Depth;
pub use facts::{Facts, observe};
pub use os::Os;
pub use system::{Cpu, CpuId, Dmi, IommuFacts};
