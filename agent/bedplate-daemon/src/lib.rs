//! The resident part: keeps the host what the profile says, tells what it knows, and sees to the reboot.
//!
//! The daemon itself touches nothing of the host and has no rights to. Each [`observation`] and each change is made by another
//! process, the [`worker`], that runs the same pipeline as `bedplate apply`: a driver that hangs in a sysfs write hangs there,
//! and the memory of a plan goes with it. What else needs rights is done by a [`helper`]; [`launch`] starts both. [`backoff`]
//! (what may be tried again, and when), [`status`] (what is said of it all) and the exports are pure; [`run`] is the loop;
//! [`bus`], [`events`] and [`logind`] are its edges; [`reboot`] decides on reboots.
//!
//! Depends on bedplate-base, -cmdline, -host, -facts and -core. Start with `run.rs`, then `reboot/step.rs`.

pub mod backoff;
mod build;
pub mod bus;
pub mod checks;
mod debounce;
mod devices;
pub mod early_boot;
pub mod events;
pub mod export;
mod fingerprint;
pub mod helper;
pub mod interface_monitor;
pub mod journal;
pub mod launch;
mod log_changes;
pub mod logind;
mod methods;
pub mod observation;
mod observe_requests;
pub mod public;
mod rate_limit;
pub mod ready_target;
pub mod reboot;
pub mod reboot_required;
pub mod relay;
mod release_memory;
pub mod reminder;
pub mod run;
mod state;
pub mod status;
mod store;
mod stuck_workers;
pub mod uninstall;
pub mod unit;
mod usage;
mod watchdog;
pub mod worker;
pub mod worker_task;

pub use devices::KnownDevices;
pub use store::Store;

/// The value behind a mutex.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing panics with one of these locks held; were it so, maps would still be maps, lists lists, and counts counts.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
