//! The pipeline from profile to plan to host. [`profile`] is parsed and checked, each resource type ([`kind`]) compares
//! it with the host, [`plan`] is the difference, [`apply`] and [`revert`] write. [`verify`] and [`doctor`] evaluate the
//! current state; [`documents`] are the JSON forms.
//!
//! Planning only reads; only [`apply`], [`revert`], and [`seal`] write. Depends on all lower crates, and on no async
//! runtime. Start with [`engine`], which runs the pipeline, then `kind/mod.rs`.

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
mod register;
pub mod restore_policy;
pub mod revert;
pub mod seal;
mod section;
pub mod setting;
pub mod verify;
