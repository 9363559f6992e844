//! Actions of changes, and checks of their results, as data.

use serde::{Deserialize, Serialize};

use bedplate_base::value::PciAddress;

use super::{EntryBefore, FileContent};
use crate::setting::{SetConfigBits, SetEswitch, SetVf, WriteAttribute};

/// Something that must be true of the host after the actions before it; the executor reads it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "check", rename_all = "kebab-case")]
pub enum Check {
    /// The default boot entry carries every token of `present`, and none of `absent`, by the kernel's own rules.
    NextBoot {
        /// Tokens, as the kernel will see them.
        present: Vec<String>,
        /// Keys (`name` or `pci=suboption`) that must not be there.
        absent: Vec<String>,
        /// The entry before the change; `None`: none was known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<EntryBefore>,
    },
    /// The module is live (`/sys/module/NAME/initstate`) or built in.
    ModuleLive {
        /// Folded name.
        module: String,
    },
}

/// The closed set of things that can be done to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Make the file at `path` hold `after` (`None`: be absent). Refused if it no longer holds `before`.
    ReplaceFile {
        /// Absolute path inside the host.
        path: String,
        /// Content when planned; `None` = absent.
        before: Option<FileContent>,
        /// Content to be; `None` = absent.
        after: Option<FileContent>,
    },
    /// Write a sysfs attribute and read it back.
    WriteAttribute(WriteAttribute),
    /// Set bits of a 16-bit config-space register, and read them back.
    SetConfigBits(SetConfigBits),
    /// Run one of the host's own tools, in the host.
    RunTool {
        /// Program and arguments; the program is looked up in the host's standard directories.
        argv: Vec<String>,
        /// Purpose.
        purpose: String,
        /// Files it may rewrite: they are saved first, and put back if it fails. `DIRECTORY/*.ENDING`: every such file,
        /// also one that it makes. Unified kernel images are not saved but made again.
        touches: Vec<String>,
        /// What `revert` does about it.
        way_back: WayBack,
        /// Seconds it may take.
        limit_s: u32,
    },
    /// Load a module by `modprobe`.
    LoadModule {
        /// Folded name.
        module: String,
    },
    /// Unload a module by `modprobe -r`.
    UnloadModule {
        /// Folded name.
        module: String,
    },
    /// Bind the first `count` VFs of a PF to a driver. Their addresses exist only once the VFs do, so they are taken
    /// from the PF's `virtfnN` links then. For each: write `driver_override`, then its address to the driver's `bind`,
    /// and read the `driver` link back; a VF that has the driver already is left alone.
    BindVfs {
        /// The PF.
        pf: PciAddress,
        /// How many VFs.
        count: u16,
        /// Driver name as in `/sys/bus/pci/drivers` (`vfio-pci`).
        driver: String,
        /// Seconds it may take.
        limit_s: u32,
    },
    /// Set attributes of one VF through its PF's network interface, and read them back.
    SetVf(SetVf),
    /// Change the mode of a PF's eswitch by devlink, and read it back.
    SetEswitch(SetEswitch),
    /// Read something back; the change has failed if it is not so.
    Verify(Check),
}

impl Action {
    /// Whether it acts on the running kernel or hardware rather than on files: an image root cannot take it.
    pub fn is_live(&self) -> bool {
        match self {
            Action::ReplaceFile { .. } | Action::RunTool { .. } => false,
            Action::Verify(check) => matches!(check, Check::ModuleLive { .. }),
            Action::WriteAttribute(_)
            | Action::SetConfigBits(_)
            | Action::LoadModule { .. }
            | Action::UnloadModule { .. }
            | Action::BindVfs { .. }
            | Action::SetVf(_)
            | Action::SetEswitch(_) => true,
        }
    }
}

/// What `revert` does about a tool that has run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum WayBack {
    /// It makes its files from others (`update-grub`): it runs again once those are back.
    Repeat,
    /// It keeps its state where no file shows it (`rpm-ostree kargs`): this runs instead.
    Run {
        /// Program and arguments.
        argv: Vec<String>,
    },
}
