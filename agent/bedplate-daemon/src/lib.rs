//! The resident daemon: keeps the host converged on its profile, publishes its status, and controls reboots.
//!
//! The daemon process has no rights to change the host. Each [`observation`] and each change runs in another process, the
//! [`worker`], on the same pipeline as `bedplate apply`. A driver that hangs in a sysfs write hangs only the worker, and the
//! memory of a plan is freed with it. A [`helper`] does the other privileged tasks; [`launch`] starts both. [`backoff`]
//! (which changes may be retried, and when), [`status`] (the published status) and the exports are pure. [`run`] is the loop;
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
pub mod last_verdict;
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

/// Locks a mutex and returns the guard, also from a poisoned mutex.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No code panics while it holds one of these locks. Even after a panic, the maps, lists and counts behind them stay valid.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
