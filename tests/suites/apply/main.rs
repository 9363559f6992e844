//! The executor on a fake host: killed at every step, killed by SIGKILL, on full and read-only disks, with writes refused
//! and tools that report a false success. Afterwards a new run must finish the job, and `revert` must restore every byte.

mod binding;
mod cases;
mod crash;
mod failures;
mod guests;
mod images;
mod kill;
mod meddling;
mod namespace;
mod nic;
mod packages;
mod places;
mod properties;
mod reverting;
mod rights;
mod scenario;
mod starts;
mod waiting;
