//! The table of symptoms. What logs say is from handbook §4, §6, §8.8; what causes it from the sections that its checks name.

mod cuda;
mod degraded;
mod gpudirect;
mod network;

use super::{Cause, Condition, Pattern, Symptom, conditions};

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

/// Only where `condition` says so.
const fn when(condition: Condition, check: &'static str, explains: &'static str) -> Cause {
    Cause { check, explains, when: condition, beside: None }
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
    degraded::GROUPS_LARGE,
    degraded::DMA_FAULTS,
    degraded::BAR_SPACE,
    degraded::NOT_IN_EFFECT,
    degraded::PCIE_ERRORS,
    degraded::STORAGE,
    degraded::LOW_BANDWIDTH,
];
