//! Device control of PCI Express functions: size of read requests, relaxed ordering. The register returns to the value of
//! the firmware or the driver at every boot and reset, so the daemon sets it again. Sources: PCI Express Base
//! Specification, 7.5.3.4; handbook §7.

mod payload_policy;
mod plan;
pub mod section;
mod targets;
#[cfg(test)]
mod tests;

use super::{Kind, Privacy, RegisterScope, Watch, WriteScope, no_labels, nothing_to_resolve};
use crate::desired::Desired;
use crate::image_config::{ContributeError, ImageConfig, LiveOnly};
use crate::plan::{KindId, KindPlan};
use crate::profile::model::Profile;
use crate::setting::SetConfigBits;
use bedplate_base::Reading;
use bedplate_base::value::{PciAddress, RegisterBits};
use bedplate_facts::Facts;
use bedplate_facts::caps::{self, DeviceControlRegister};
use bedplate_facts::pci::Function;
use bedplate_host::Reader;

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "PCIe read requests and relaxed ordering of GPUs and NICs",
    resolve: nothing_to_resolve,
    plan: plan::plan,
    contribute,
    watch,
    recorded: &[],
    owns: WriteScope {
        registers: Some(RegisterScope {
            name: CONTROL,
            offsets: (0x48, 0x100),
            bits: READ_REQUEST | RELAXED_ORDERING,
            is_own: Some(is_device_control),
            format: plan::format,
        }),
        ..WriteScope::NONE
    },
    files: &[],
    privacy: Privacy::OPEN,
    labels: no_labels,
};

const NAME: KindId = KindId::Pcie;
/// Name of the register.
const CONTROL: &str = "device control";
/// Bits of Max_Read_Request_Size: 128 bytes shifted left by their value.
const READ_REQUEST: u16 = 0x7000;
/// Bit of Enable Relaxed Ordering.
const RELAXED_ORDERING: u16 = 0x0010;

/// Returns the bits for a size of read requests, a power of two from 128 to 4096.
fn read_request(bytes: u16) -> RegisterBits {
    let value = (bytes / 128).trailing_zeros() as u16;
    RegisterBits { mask: READ_REQUEST, value: value << 12 & READ_REQUEST }
}

/// Returns the size of read requests in a register value. The values 6 and 7 are reserved.
fn bytes(value: u16) -> u16 {
    128 << (value >> 12 & 7)
}

/// Reads device control of a function; `None`: the function is gone, or is not a PCI Express function.
fn read(reader: &dyn Reader, address: PciAddress) -> Result<Option<DeviceControlRegister>, String> {
    let found = match reader.config(address) {
        Ok(config) => caps::device_control(config.as_ref()),
        Err(error) => Reading::from_result(Err(error)),
    };
    found.optional().map(Option::<&_>::copied).map_err(ToString::to_string)
}

/// Whether an action is on the function's device control.
fn is_device_control(reader: &dyn Reader, action: &SetConfigBits) -> Result<bool, String> {
    let found = read(reader, action.address)?;
    Ok(found.is_some_and(|found| found.offset == action.offset))
}

/// Watches config space of the functions, which `setpci` writes, and resets.
fn watch(profile: &Profile, facts: &Facts) -> Watch {
    let Some(tree) = facts.pci.known() else { return Watch::default() };
    let numa = |function: &Function| function.numa_node.clone();
    let targets = targets::targets(&profile.pcie, facts, numa, &mut KindPlan::default());
    let functions = targets.keys().filter_map(|address| tree.get(*address));
    let paths = functions.flat_map(|one| ["config", "reset"].map(|name| one.attribute(name)));
    Watch { attributes: paths.collect(), ..Watch::default() }
}

/// Contributes the section as a setting of a running host: no file can contain registers.
fn contribute(
    profile: &Profile,
    _: &Facts,
    _: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    out.live_only.extend((!profile.pcie.is_empty()).then(|| LiveOnly {
        id: NAME.to_string(),
        what: "read requests and relaxed ordering of the machine's functions".to_owned(),
        why: "a config-space write lasts until the next reset; no file can hold it (Linux drivers/pci/pci.c; handbook §7)"
            .to_owned(),
        with_agent: "run bedplate on the host at every boot".to_owned(),
        without_agent: "set both in the firmware setup of the machine".to_owned(),
    }));
    Ok(())
}
