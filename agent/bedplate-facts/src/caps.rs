//! PCI capability lists in a config space. Reads single dwords, each at most once, and only those that the answer needs
//! (a dword costs 1 µs on hardware, 10 µs in a VM). Pure otherwise.

use std::ops::ControlFlow;

use super::pci::{Acs, DeviceControl, PortType, SriovCapability};
use bedplate_base::value::{AcsBits, PciId};
use bedplate_base::{Cause, ReadError, Reading, Reason};
use bedplate_host::ConfigSpace;

/// Maximum hops in the classic list: 192 bytes of 4 (Linux PCI_FIND_CAP_TTL).
const CLASSIC_HOPS: usize = 48;
/// Maximum hops in the extended list: (4096 − 256) / 8, as in Linux.
const EXTENDED_HOPS: usize = 480;
/// PCI Express capability (include/uapi/linux/pci_regs.h PCI_CAP_ID_EXP).
const CLASSIC_PCIE: u8 = 0x10;
/// PCI_EXT_CAP_ID_ACS.
const EXTENDED_ACS: u16 = 0x000d;
/// PCI_EXT_CAP_ID_ATS.
const EXTENDED_ATS: u16 = 0x000f;
/// PCI_EXT_CAP_ID_SRIOV.
const EXTENDED_SRIOV: u16 = 0x0010;

/// Reason that a capability walk has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapError {
    /// An unprivileged reader gets only 64 bytes.
    #[error("cannot read config space beyond 64 bytes: run as root")]
    Unprivileged,
    /// Only 256 bytes, although the device is PCI Express.
    #[error("extended config space is unreachable on this host (no ECAM)")]
    NoExtended,
    /// Powered down, hung or gone.
    #[error("the device does not answer (all ones)")]
    NoAnswer,
    /// More hops than the list can hold.
    #[error("the capability list loops")]
    Loop,
    /// The read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Result of a walk: found, known to be absent, or an error.
pub(crate) type Lookup<T> = Result<Option<T>, CapError>;

/// Converts a walk's result into a [`Reading`].
pub(crate) fn reading<T>(found: Lookup<T>) -> Reading<T> {
    match found {
        Ok(Some(value)) => Reading::Known(value),
        Ok(None) => Reading::Absent,
        Err(CapError::Read(error)) if error.is_absent() => Reading::Absent,
        Err(error) => Reading::unknown(error),
    }
}

impl From<CapError> for Reason {
    fn from(error: CapError) -> Self {
        let cause = match &error {
            CapError::Read(error) => return error.into(),
            CapError::Unprivileged => Cause::ShortConfig,
            CapError::NoAnswer => Cause::NoAnswer,
            CapError::NoExtended => Cause::NotReadable,
            CapError::Loop => Cause::NotUnderstood,
        };
        Reason::new(cause, error)
    }
}

/// PCI Express capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pcie {
    /// Offset in config space.
    pub offset: u16,
    /// Flags register, at +2.
    pub flags: u16,
}

impl Pcie {
    /// Returns the port type, from bits 7:4 of the flags.
    pub(crate) fn port(self) -> PortType {
        match self.flags >> 4 & 0xf {
            0 => PortType::Endpoint,
            1 => PortType::LegacyEndpoint,
            4 => PortType::RootPort,
            5 => PortType::Upstream,
            6 => PortType::Downstream,
            7 => PortType::PcieToPci,
            8 => PortType::PciToPcie,
            9 => PortType::IntegratedEndpoint,
            10 => PortType::EventCollector,
            other => PortType::Reserved(other as u8),
        }
    }
}

fn dword(config: &dyn ConfigSpace, offset: u16, short: CapError) -> Result<u32, CapError> {
    let mut bytes = [0; 4];
    match config.read(offset, &mut bytes)? {
        4 => Ok(u32::from_le_bytes(bytes)),
        _ => Err(short),
    }
}

/// Command and status registers, readable without privileges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandAndStatus(u32);

impl CommandAndStatus {
    /// Reads both registers.
    ///
    /// # Errors
    /// [`CapError::NoAnswer`] for all ones; [`CapError::Unprivileged`] for a short read; [`CapError::Read`] for a
    /// failed one.
    pub(crate) fn read(config: &dyn ConfigSpace) -> Result<Self, CapError> {
        match dword(config, 0x04, CapError::Unprivileged)? {
            u32::MAX => Err(CapError::NoAnswer),
            both => Ok(CommandAndStatus(both)),
        }
    }

    /// Whether a function may issue requests, and a bridge may forward them upstream (command register bit 2;
    /// PCI_COMMAND_MASTER).
    pub(crate) fn is_bus_master(self) -> bool {
        self.0 & 0x4 != 0
    }

    /// Whether the function has a capability list (status register bit 4; PCI_STATUS_CAP_LIST).
    fn has_list(self) -> bool {
        self.0 & 0x0010_0000 != 0
    }
}

/// Finds the PCI Express capability in the classic list.
pub(crate) fn pcie(config: &dyn ConfigSpace) -> Lookup<Pcie> {
    pcie_of(config, CommandAndStatus::read(config)?)
}

/// As [`pcie`], with command and status already read.
pub(crate) fn pcie_of(config: &dyn ConfigSpace, registers: CommandAndStatus) -> Lookup<Pcie> {
    if !registers.has_list() {
        return Ok(None);
    }
    let mut at = (dword(config, 0x34, CapError::Unprivileged)? & 0xfc) as u16;
    for _ in 0..CLASSIC_HOPS {
        if at < 0x40 {
            return Ok(None);
        }
        let header = dword(config, at, CapError::Unprivileged)?;
        let [id, next, low, high] = header.to_le_bytes();
        if id == 0xff {
            return Err(CapError::NoAnswer);
        }
        if id == CLASSIC_PCIE {
            return Ok(Some(Pcie { offset: at, flags: u16::from_le_bytes([low, high]) }));
        }
        at = u16::from(next & 0xfc);
    }
    Err(CapError::Loop)
}

/// Visits the extended list in order, as (id, offset), until `visit` breaks.
pub fn extended<T>(
    config: &dyn ConfigSpace,
    mut visit: impl FnMut(u16, u16) -> ControlFlow<T>,
) -> Result<Option<T>, CapError> {
    let mut at = 0x100;
    for _ in 0..EXTENDED_HOPS {
        let header = dword(config, at, CapError::NoExtended)?;
        match header {
            0 => return Ok(None),
            // At the start: no extended capabilities. Later: the device disappeared during the walk.
            u32::MAX if at == 0x100 => return Ok(None),
            u32::MAX => return Err(CapError::NoAnswer),
            _ => {}
        }
        if let ControlFlow::Break(value) = visit(header as u16, at) {
            return Ok(Some(value));
        }
        at = (header >> 20) as u16 & 0xffc;
        if at < 0x100 {
            return Ok(None);
        }
    }
    Err(CapError::Loop)
}

/// Finds one extended capability.
pub(crate) fn find_extended(config: &dyn ConfigSpace, wanted: u16) -> Lookup<u16> {
    extended(
        config,
        |id, at| if id == wanted { ControlFlow::Break(at) } else { ControlFlow::Continue(()) },
    )
}

/// Reads the ACS capability and control registers.
pub(crate) fn acs(config: &dyn ConfigSpace) -> Lookup<Acs> {
    find_extended(config, EXTENDED_ACS)?.map(|offset| read_acs(config, offset)).transpose()
}

/// Reads whether ATS is enabled (control register at +6, bit 15).
pub(crate) fn ats(config: &dyn ConfigSpace) -> Lookup<bool> {
    if pcie(config)?.is_none() {
        return Ok(None);
    }
    find_extended(config, EXTENDED_ATS)?.map(|offset| read_ats(config, offset)).transpose()
}

fn read_ats(config: &dyn ConfigSpace, offset: u16) -> Result<bool, CapError> {
    Ok(dword(config, offset + 4, CapError::NoExtended)? & 0x8000_0000 != 0)
}

fn read_acs(config: &dyn ConfigSpace, offset: u16) -> Result<Acs, CapError> {
    match dword(config, offset + 4, CapError::NoExtended)? {
        u32::MAX => Err(CapError::NoAnswer),
        both => {
            Ok(Acs { offset, capable: AcsBits(both as u16), control: AcsBits((both >> 16) as u16) })
        }
    }
}

/// Whether a port is a root port of Intel's Sunrise Point or Union Point chipset. These lay ACS out in dwords, so the
/// control register is not where the specification puts it (drivers/pci/quirks.c pci_quirk_intel_spt_pch_acs_match).
pub fn has_misplaced_acs(vendor: PciId, device: PciId, port: PortType) -> bool {
    let ids = matches!(
        device.0,
        0xa110..=0xa11f | 0xa167..=0xa16a | 0xa290..=0xa29f | 0xa2e7..=0xa2ee | 0x9d10..=0x9d1b
    );
    vendor.0 == 0x8086 && port == PortType::RootPort && ids
}

/// Extended capabilities that a thorough scan shows, found in one walk.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExtendedCapabilities {
    /// ACS.
    pub acs: Option<Acs>,
    /// Whether ATS is enabled.
    pub ats: Option<bool>,
    /// SR-IOV.
    pub sriov: Option<SriovCapability>,
}

/// Walks the extended list once and reads the registers of the capabilities in [`ExtendedCapabilities`].
pub(crate) fn thorough(config: &dyn ConfigSpace) -> Result<ExtendedCapabilities, CapError> {
    let mut found = Vec::new();
    extended(config, |id, at| {
        if matches!(id, EXTENDED_ACS | EXTENDED_ATS | EXTENDED_SRIOV) {
            found.push((id, at));
        }
        ControlFlow::<()>::Continue(())
    })?;
    let mut all = ExtendedCapabilities::default();
    for (id, at) in found {
        match id {
            EXTENDED_ACS => all.acs = Some(read_acs(config, at)?),
            EXTENDED_ATS => all.ats = Some(read_ats(config, at)?),
            _ => {
                let totals = dword(config, at + 0x0c, CapError::NoExtended)?;
                let routing = dword(config, at + 0x14, CapError::NoExtended)?;
                let device = dword(config, at + 0x18, CapError::NoExtended)?;
                all.sriov = Some(SriovCapability {
                    total: (totals >> 16) as u16,
                    first_offset: routing as u16,
                    stride: (routing >> 16) as u16,
                    vf_device: PciId((device >> 16) as u16),
                });
            }
        }
    }
    Ok(all)
}

/// Device control register of a PCI Express function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceControlRegister {
    /// Offset in config space.
    pub offset: u16,
    /// Value.
    pub value: u16,
}

/// Reads device control; `Absent`: not a PCI Express function.
pub fn device_control(config: &dyn ConfigSpace) -> Reading<DeviceControlRegister> {
    let read = |pcie: Pcie| {
        let offset = pcie.offset + 0x08;
        match dword(config, offset, CapError::Unprivileged)? as u16 {
            u16::MAX => Err(CapError::NoAnswer),
            value => Ok(DeviceControlRegister { offset, value }),
        }
    };
    reading(pcie(config).and_then(|found| found.map(read).transpose()))
}

/// Control registers of a PCI Express function and its link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Control {
    /// Device control.
    pub device: DeviceControl,
    /// Link capability register.
    pub link_best: u32,
    /// Link status register.
    pub link_now: u32,
}

/// Reads device control and link registers of a PCI Express function. The four dwords are adjacent and take one read.
pub(crate) fn control(config: &dyn ConfigSpace, pcie: Pcie) -> Result<Control, CapError> {
    let mut bytes = [0; 16];
    if config.read(pcie.offset + 0x04, &mut bytes)? != bytes.len() {
        return Err(CapError::Unprivileged);
    }
    let [supported, control, link_best, link_now] = std::array::from_fn(|at| {
        let dword = &bytes[4 * at..][..4];
        u32::from_le_bytes([dword[0], dword[1], dword[2], dword[3]])
    });
    // Bits 3:0 of the flags: capability version. Version 2 added the second register set.
    let second = match pcie.flags & 0xf {
        2.. => Some(dword(config, pcie.offset + 0x28, CapError::Unprivileged)?),
        _ => None,
    };
    let device = DeviceControl {
        max_payload: payload(control >> 5),
        max_payload_supported: payload(supported),
        max_read_request: payload(control >> 12),
        relaxed_ordering: control & 0x10 != 0,
        extended_tags: control & 0x100 != 0,
        ari_forwarding: second.map(|value| value & 0x20 != 0),
    };
    // Status is the upper half of its dword.
    Ok(Control { device, link_best, link_now: link_now >> 16 })
}

/// Returns 128 << n. The values 6 and 7 are reserved, and fit in a u16 too.
fn payload(bits: u32) -> u16 {
    128 << (bits & 7)
}

#[cfg(test)]
mod tests;
