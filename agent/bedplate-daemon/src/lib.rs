//! The resident part: keeps the host what the profile says, tells what it knows, and sees to the reboot.
//!
//! The daemon itself touches nothing of the host and has no rights to. Each [`observation`] and each change is made by another
//! process, the [`worker`], that runs the same pipeline as `bedplate apply`: a driver that hangs in a sysfs write hangs there,
//! and the memory of a plan goes with it. What else needs rights is done by a [`helper`]; [`launch`] starts both. `backoff` (what may be tried again, and when), `status` (what is said of it all) and the exports
//! are pure;
//! `run` is the loop; `bus`, `events` and `logind` are its edges.

pub mod backoff;
pub mod build;
pub mod bus;
pub mod checks;
pub mod debounce;
pub mod devices;
pub mod early_boot;
pub mod events;
pub mod export;
pub mod fingerprint;
pub mod helper;
pub mod journal;
pub mod launch;
pub mod links;
pub mod log_changes;
pub mod logind;
pub mod methods;
pub mod observation;
pub mod observe;
pub mod on_demand;
pub mod public;
pub mod public_file;
pub mod rate_limit;
pub mod ready_target;
pub mod reboot;
pub mod reboot_required;
pub mod relay;
pub mod release_memory;
pub mod remind;
pub mod run;
pub mod status;
pub mod store;
pub mod stuck_workers;
pub mod uninstall;
mod usage;
pub mod watchdog;
pub mod worker;
