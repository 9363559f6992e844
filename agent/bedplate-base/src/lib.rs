//! Values and texts that every other crate uses: PCI addresses, VF attributes, readings that may be unknown, masked
//! identifiers, safe text for terminals, times and durations. No I/O.
//!
//! Depends on no other crate of bedplate. Start with [`Reading`] in `reading.rs` and [`value`].

mod cpu;
mod diff;
pub mod duration;
mod error_chain;
pub mod kernel_prefix;
pub mod lossless_text;
pub mod mask;
pub mod memory_size;
mod named;
mod reading;
mod recovery;
mod resource_limit;
pub mod terminal;
mod utc;
pub mod value;
mod words;

pub use cpu::{Arch, CpuVendor};
pub use diff::{DiffTag, diff_operations, unified_diff};
pub use error_chain::{causes, chain};
pub use reading::{Cause, OptionalRead, ReadError, Reading, Reason};
pub use recovery::Recovery;
pub use resource_limit::ResourceLimit;
pub use utc::{format_utc, format_utc_text};
pub use words::{counted, counted_as, joined, ranges, some_of};
