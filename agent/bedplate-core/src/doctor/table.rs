//! The table of symptoms. What logs say is from handbook §4, §6, §8.8; what causes it from the sections that its checks name.

mod cuda;
mod gpudirect;
mod impaired;
mod network;

use super::{Cause, Pattern, Symptom, conditions};

const fn has(has: &'static [&'static str]) -> Pattern {
    Pattern { has, lacks: &[] }
}

const fn because(check: &'static str, explains: &'static str) -> Cause {
    Cause { check, explains, when: conditions::always, beside: None }
}

/// Only where `other` has found something, too.
const fn together_with(other: &'static str, check: &'static str, explains: &'static str) -> Cause {
    Cause { check, explains, when: conditions::always, beside: Some(other) }
}

/// Only where `when` says so.
const fn if_condition(when: super::Condition, check: &'static str, explains: &'static str) -> Cause {
    Cause { check, explains, when, beside: None }
}

/// Every symptom, from what stops a job to what slows it.
pub static SYMPTOMS: &[Symptom] = &[
    cuda::GPU_LOST,
    cuda::NO_CUDA_DEVICE,
    cuda::CUDA_START,
    network::HANGS,
    network::NIC_DOWN,
    network::SOCKET_FALLBACK,
    network::CONNECT,
    gpudirect::REGISTRATION,
    gpudirect::GDR_DISABLED,
    gpudirect::PEERMEM,
    network::VFS_MISSING,
    impaired::GROUPS_LARGE,
    impaired::DMA_FAULTS,
    impaired::BAR_SPACE,
    impaired::NOT_IN_EFFECT,
    impaired::PCIE_ERRORS,
    impaired::STORAGE,
    impaired::LOW_BANDWIDTH,
];
