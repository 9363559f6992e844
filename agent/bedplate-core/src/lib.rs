//! From profile to plan, and from plan to host: [`profile`] is parsed and checked, [`engine`] compares it with the host by the
//! [`kind`]s, [`plan`] is the difference, [`apply`] and [`revert`] write. [`verify`] and [`doctor`] judge what is there.
//!
//! Planning only reads; [`apply`], [`revert`] and [`seal`] alone write. Start with [`engine`].

pub mod apply;
pub mod checker;
pub mod desired;
pub mod doctor;
pub mod documents;
pub mod enforce_hold;
pub mod engine;
pub mod kind;
pub mod ledger;
pub mod modules_conf;
pub mod plan;
pub mod profile;
pub mod reboot_hold;
pub mod reboot_record;
pub mod record;
pub mod revert;
pub mod seal;
mod section;
pub mod verify;

pub use section::Declared;
