//! The table of symptoms. Log lines are taken from handbook §4, §6, §8.8; causes from the sections that their checks
//! cite.

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

/// Applies only if the check `other` has a finding too.
const fn together_with(other: &'static str, check: &'static str, explains: &'static str) -> Cause {
    Cause { check, explains, when: conditions::always, beside: Some(other) }
}

/// Applies only if `condition` holds.
const fn when(condition: Condition, check: &'static str, explains: &'static str) -> Cause {
    Cause { check, explains, when: condition, beside: None }
}

/// Every symptom, from those that stop a job to those that slow it down.
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
