//! The resident part: keeps the host what the profile says, tells what it knows, and sees to the reboot.
//!
//! The daemon itself touches nothing of the host. Each look and each change is a [`round`], done by a child process that
//! walks the same road as `bedplate apply`: a driver that hangs in a sysfs write hangs there, and the memory of a plan
//! goes with it. `pace` (what may be tried again, and when), `status` (what is said of it all) and the exports are pure;
//! `run` is the loop; `bus`, `events` and `logind` are its edges.

pub mod boot;
pub mod burst;
pub mod bus;
pub mod devices;
pub mod events;
pub mod export;
pub mod fingerprint;
pub mod journal;
pub mod logind;
pub mod marker;
pub mod methods;
pub mod observe;
pub mod pace;
pub mod pages;
pub mod remind;
pub mod restart;
pub mod round;
pub mod run;
pub mod status;
pub mod store;
pub mod told;
pub mod watchdog;
pub mod withdraw;
pub mod work;
