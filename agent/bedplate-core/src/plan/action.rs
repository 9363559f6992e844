//! Actions of changes, and checks of their results, as data.

use serde::{Deserialize, Serialize};

use bedplate_base::value::PciAddress;

use super::{EntryBefore, FileContent};
use crate::setting::{SetConfigBits, SetEswitch, SetVf, WriteAttribute};

/// A condition that must hold after the preceding actions; the executor reads it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "check", rename_all = "kebab-case")]
pub enum Check {
    /// The default boot entry has every token of `present` and no key of `absent`, by the kernel's own rules.
    NextBoot {
        /// Tokens, as the kernel will parse them.
        present: Vec<String>,
        /// Keys (`name` or `pci=suboption`) that must be absent.
        absent: Vec<String>,
        /// Entry before the change, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<EntryBefore>,
    },
    /// The module is live (`/sys/module/NAME/initstate`) or built in.
    ModuleLive {
        /// Normalized name.
        module: String,
    },
}

/// The closed set of actions on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Sets the content of the file at `path` to `after` (`None`: removes it). Rejected unless it still holds `before`.
    ReplaceFile {
        /// Absolute path inside the host.
        path: String,
        /// Content when planned; `None`: absent.
        before: Option<FileContent>,
        /// Desired content.
        after: Option<FileContent>,
    },
    /// Writes a sysfs attribute and reads it back.
    WriteAttribute(WriteAttribute),
    /// Sets bits of a 16-bit config-space register, and reads them back.
    SetConfigBits(SetConfigBits),
    /// Runs one of the host's own tools, on the host.
    RunTool {
        /// Program and arguments; the program is searched in the host's standard directories.
        argv: Vec<String>,
        /// Purpose.
        purpose: String,
        /// Files that the tool may rewrite: saved first, and restored if it fails. `DIRECTORY/*.ENDING` matches every
        /// such file, also one that the tool creates. Unified kernel images are not saved but generated again.
        touches: Vec<String>,
        /// Undo method of `revert`.
        undo: ToolUndo,
        /// Time limit in seconds.
        limit_s: u32,
    },
    /// Loads a module with `modprobe`.
    LoadModule {
        /// Normalized name.
        module: String,
    },
    /// Unloads a module with `modprobe -r`.
    UnloadModule {
        /// Normalized name.
        module: String,
    },
    /// Binds the first `count` VFs of a PF to a driver. VF addresses exist only once the VFs do, so they are then read
    /// from the PF's `virtfnN` links. For each VF: writes `driver_override`, then its address to the driver's `bind`,
    /// and reads the `driver` link back. A VF that already has the driver is skipped.
    BindVfs {
        /// Address of the PF.
        pf: PciAddress,
        /// Number of VFs.
        count: u16,
        /// Driver name as in `/sys/bus/pci/drivers` (`vfio-pci`).
        driver: String,
        /// Time limit in seconds.
        limit_s: u32,
    },
    /// Sets attributes of one VF through its PF's network interface, and reads them back.
    SetVf(SetVf),
    /// Sets the eswitch mode of a PF through devlink, and reads it back.
    SetEswitch(SetEswitch),
    /// Evaluates a check; the change fails unless it holds.
    Verify(Check),
}

impl Action {
    /// Whether it acts on the running kernel or hardware rather than on files: an image cannot apply it.
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

/// Undo method of `revert` for a tool that has run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum ToolUndo {
    /// The tool generates its files from others (`update-grub`): it runs again after those are restored.
    Repeat,
    /// The tool's state is in no file (`rpm-ostree kargs`): this command runs instead.
    Run {
        /// Program and arguments.
        argv: Vec<String>,
    },
}
