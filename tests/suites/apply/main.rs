//! The executor on a made-up machine: killed at every step, killed for real, refused, full, read-only, lied to. Afterwards
//! a new run must finish the job, and `revert` must give back every byte.

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
