//! The mode of a PF's eswitch: DEVLINK_CMD_ESWITCH_GET and _SET of generic netlink's family `devlink`
//! (include/uapi/linux/devlink.h, genetlink.h; handbook §5.2).

use netlink_sys::protocols::NETLINK_GENERIC;
use nix::errno::Errno;

use super::{Refusal, ask, ask_within, attribute, attributes, message, text};
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::EswitchMode;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Length of `struct genlmsghdr`.
const GENL_HEADER: usize = 4;

const DEVLINK_CMD_ESWITCH_GET: u8 = 29;
const DEVLINK_CMD_ESWITCH_SET: u8 = 30;
const DEVLINK_ATTR_BUS_NAME: u16 = 1;
const DEVLINK_ATTR_DEV_NAME: u16 = 2;
const DEVLINK_ATTR_ESWITCH_MODE: u16 = 25;

/// Returns the mode. [`Errno::ENODEV`] or [`Errno::EOPNOTSUPP`] mean that the driver has no eswitch. Requires root.
pub(crate) fn eswitch(pf: PciAddress) -> Result<EswitchMode, Refusal> {
    let bodies = ask(NETLINK_GENERIC, get_request(family()?, pf))?;
    bodies.first().and_then(|body| mode(body)).ok_or_else(Refusal::garbled)
}

/// Changes the mode.
pub(crate) fn set_eswitch(pf: PciAddress, mode: EswitchMode, limit_s: u32) -> Result<(), Refusal> {
    ask_within(limit_s, NETLINK_GENERIC, set_request(family()?, pf, mode)).map(drop)
}

/// Returns the family's number, which differs between boots.
fn family() -> Result<u16, Refusal> {
    let bodies = ask(NETLINK_GENERIC, family_request())?;
    let id = bodies.first().and_then(|body| {
        let rest = body.get(GENL_HEADER..)?;
        let id = attributes(rest).find(|attribute| attribute.kind() == CTRL_ATTR_FAMILY_ID)?;
        id.value().try_into().ok().map(u16::from_ne_bytes)
    });
    id.ok_or_else(Refusal::garbled)
}

fn family_request() -> Vec<u8> {
    generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &text(CTRL_ATTR_FAMILY_NAME, "devlink"))
}

fn get_request(family: u16, pf: PciAddress) -> Vec<u8> {
    generic(family, DEVLINK_CMD_ESWITCH_GET, &handle(pf))
}

fn set_request(family: u16, pf: PciAddress, mode: EswitchMode) -> Vec<u8> {
    let number: u16 = match mode {
        EswitchMode::Legacy => 0,
        EswitchMode::Switchdev => 1,
    };
    let mode = attribute(DEVLINK_ATTR_ESWITCH_MODE, &number.to_ne_bytes());
    generic(family, DEVLINK_CMD_ESWITCH_SET, &[handle(pf), mode].concat())
}

fn handle(pf: PciAddress) -> Vec<u8> {
    let device = text(DEVLINK_ATTR_DEV_NAME, &pf.to_string());
    [text(DEVLINK_ATTR_BUS_NAME, "pci"), device].concat()
}

fn generic(family: u16, command: u8, body: &[u8]) -> Vec<u8> {
    message(family, &[&[command, 1, 0, 0], body].concat())
}

pub(super) fn mode(body: &[u8]) -> Option<EswitchMode> {
    let rest = body.get(GENL_HEADER..)?;
    let mode = attributes(rest).find(|attribute| attribute.kind() == DEVLINK_ATTR_ESWITCH_MODE)?;
    match mode.value().try_into().ok().map(u16::from_ne_bytes)? {
        0 => Some(EswitchMode::Legacy),
        1 => Some(EswitchMode::Switchdev),
        _ => None,
    }
}

/// Whether the driver has no eswitch: no devlink instance for the function, no such operation, or no devlink at all.
pub(crate) fn has_none(refusal: &Refusal) -> bool {
    matches!(refusal.errno, Errno::ENODEV | Errno::EOPNOTSUPP | Errno::ENOENT)
}

#[cfg(test)]
mod tests;
