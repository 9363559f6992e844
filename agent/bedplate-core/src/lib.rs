//! From profile to plan, and from plan to host: [`profile`] is parsed and checked, the [`kind`]s compare it with the host, [`plan`]
//! is the difference, [`apply`] and [`revert`] write. [`verify`] and [`doctor`] judge what is there; [`documents`] are their
//! JSON.
//!
//! Planning only reads; [`apply`], [`revert`] and [`seal`] alone write. Depends on all crates below it, and on no async runtime.
//! Start with [`engine`], which runs the pipeline, then `kind/mod.rs`.

pub mod apply;
pub mod desired;
pub mod doctor;
pub mod documents;
pub mod enforce_hold;
pub mod engine;
pub mod file_heading;
pub mod image_config;
pub mod kind;
mod kind_id;
pub mod ledger;
pub mod modules_conf;
pub mod orphans;
pub mod plan;
pub mod profile;
pub mod readback;
pub mod reboot_hold;
pub mod reboot_record;
pub mod record;
pub mod restore_policy;
pub mod revert;
pub mod seal;
mod section;
pub mod setting;
pub mod verify;
