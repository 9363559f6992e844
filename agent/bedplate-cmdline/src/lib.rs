//! Parses and edits kernel command-line arguments: text in, values and text out, no I/O.
//!
//! - [`CommandLine`] and [`Token`]: arguments split by the kernel's own rules, lossless.
//! - [`Edit`]: the [`Key`]s that a profile owns, applied to a line or compared with it.
//! - [`KernelDefaults`] and the `iommu_passthrough` family: the effect of a line on a given kernel.
//! - [`rejected_argument`]: kernel log messages about rejected arguments.
//! - [`boot`]: how boot loaders wrap these texts.
//!
//! Depends on bedplate-base alone. Start with `line.rs` and `edit.rs`.

mod arch_only;
pub mod boot;
mod defaults;
mod diff;
mod disowned;
mod edit;
mod effective;
mod error;
mod key;
mod lex;
mod line;
mod list;
mod list_parts;
mod occurrences;
mod parameter_units;
pub mod rejected_argument;
mod repeated;
mod shape;
mod status;
mod unwanted;

pub use arch_only::only_on;
pub use defaults::KernelDefaults;
pub use diff::LineDiff;
pub use edit::Edit;
pub use effective::{iommu_off_by, iommu_passthrough, pci_suboption};
pub use error::{ApplyError, EditError};
pub use key::Key;
pub use lex::{Token, TokenError, fold_name, is_blank};
pub use line::{CommandLine, LineError, MAX_LINE_BYTES};
pub use repeated::{RepeatedParameter, repeated};
pub use status::{Finding, Status};

#[cfg(test)]
mod tests;
