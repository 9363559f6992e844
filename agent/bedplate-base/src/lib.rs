//! Values and texts that every other crate uses: PCI addresses, attributes of VFs, readings that may be unknown, masked
//! identifiers, safe text for terminals, times and durations. No I/O, no other crate of bedplate.
//!
//! Start with [`value`] and [`reading`].

pub mod cpu;
pub mod duration;
pub mod error_chain;
pub mod kernel_prefix;
pub mod lossless_text;
pub mod mask;
pub mod reading;
pub mod recovery;
pub mod terminal;
pub mod utc;
pub mod value;
