//! Steps of a revert, as data.

use serde::Serialize;

use crate::ledger::{FileState, VfKey};
use crate::plan::FileContent;
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::{EswitchMode, VfAttributes};

/// One step back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Write a sysfs attribute.
    Attribute {
        /// Absolute path inside the host.
        path: String,
        /// Value now.
        before: String,
        /// Value found before bedplate came.
        after: String,
        /// Seconds the write may take.
        limit_s: u32,
    },
    /// Set bits of a config-space register.
    Register {
        /// The function.
        #[cfg_attr(feature = "schemars", schemars(with = "String"))]
        address: PciAddress,
        /// Byte offset in config space.
        offset: u16,
        /// What the register is.
        register: String,
        /// Which bits.
        mask: u16,
        /// Those bits now.
        before: u16,
        /// Those bits before bedplate came.
        after: u16,
    },
    /// Set attributes of a VF.
    Vf {
        /// The VF.
        key: VfKey,
        /// Those attributes now.
        before: VfAttributes,
        /// Those attributes before bedplate came.
        after: VfAttributes,
        /// Whether the VF's driver starts again for it.
        start: bool,
        /// Seconds each step may take.
        limit_s: u32,
    },
    /// Change the mode of an eswitch.
    Eswitch {
        /// The PF.
        pf: PciAddress,
        /// Mode now.
        before: EswitchMode,
        /// Mode before bedplate came.
        after: EswitchMode,
        /// Seconds it may take.
        limit_s: u32,
    },
    /// Put a file back: content, owner, mode, attributes.
    File {
        /// Absolute path inside the host.
        path: String,
        /// Content now; `None` = absent.
        before: Option<FileContent>,
        /// Content before bedplate came; `None` = absent.
        after: Option<FileContent>,
        /// The whole of it, for the executor.
        #[serde(skip)]
        to: FileState,
    },
    /// Run a tool: again, to make files from those that were put back, or the one that undoes another.
    Tool {
        /// Program and arguments.
        argv: Vec<String>,
        /// Purpose.
        purpose: String,
        /// Files it makes.
        makes: Vec<String>,
        /// Seconds it may take.
        limit_s: u32,
    },
    /// Remove a directory that bedplate made, if it is empty by then.
    Directory {
        /// Absolute path inside the host.
        path: String,
    },
}

impl Step {
    /// Subject.
    pub fn subject(&self) -> String {
        match self {
            Step::Attribute { path, .. } | Step::File { path, .. } | Step::Directory { path } => {
                path.clone()
            }
            Step::Register { address, register, .. } => format!("{register} of {address}"),
            Step::Vf { key, .. } => key.name(),
            Step::Eswitch { pf, .. } => format!("eswitch of {pf}"),
            Step::Tool { argv, .. } => argv.join(" "),
        }
    }
}

/// Something that is not put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Refused {
    /// Path or register.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Remedy.
    pub remedy: String,
}
