//! Access of PCI devices to GPU memory in NVIDIA's driver: its check of the PCI topology, and the parameter that overrides
//! the check (handbook §6.3; open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c, nv-dmabuf.c, each tag from 515 to 595).

use super::conf;
use crate::kind::drop_in;
use bedplate_base::value::KernelVersion;
use bedplate_base::{ReadError, Reading};
use bedplate_facts::gpu::NvidiaDriver;
use bedplate_host::Reader;

/// Name of the module parameter.
pub(crate) const PARAMETER: &str = "NVreg_GrdmaPciTopoCheckOverride";
/// File in which the driver shows its parameters.
pub(crate) const PARAMS: &str = "/proc/driver/nvidia/params";
/// Name of the parameter in [`PARAMS`].
const SHOWN: &str = "GrdmaPciTopoCheckOverride";

/// First driver with the parameter, for mappings over PCIe alone.
const FIRST: KernelVersion = KernelVersion::new(570, 0);
/// First driver that checks it for all memory of GPUs without C2C, and that treats 2 as a refusal.
const FOR_ALL: KernelVersion = KernelVersion::new(580, 0);
/// First driver that ignores it for mappings over PCIe of GPUs with C2C.
const NOT_OVER_PCIE: KernelVersion = KernelVersion::new(595, 0);

/// State of the parameter on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopoCheck {
    /// Value in the loaded driver; `Absent` if the driver does not have the parameter.
    pub running: Reading<u32>,
    /// Value in modprobe.d for the next load, and its file; `Absent` if it is not set.
    pub next: Reading<(u32, String)>,
}

/// Path by which a device reaches GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DmaPath {
    /// The driver's default mapping: nvidia_peermem and DMA-BUF.
    Default,
    /// The GPU's PCIe window, although CPU and GPU share a C2C link (`FORCE_PCIE`): requested by NCCL for Data Direct.
    OverPcie,
}

/// The driver's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Granted.
    Allowed,
    /// Granted if both are in one IOMMU group, or neither is in one.
    InOneGroup,
    /// Refused (ENOTSUPP).
    Denied,
}

/// Returns a driver's answer for a value of the parameter. `has_c2c`: the GPUs share a C2C link with an Arm CPU.
pub(crate) fn access(driver: &NvidiaDriver, has_c2c: bool, way: DmaPath, value: u32) -> Access {
    let Some(version) = KernelVersion::from_release(&driver.version) else {
        return Access::Allowed;
    };
    match (has_c2c, way) {
        (_, _) if version < FIRST => Access::Allowed,
        (false, DmaPath::OverPcie) => Access::Denied,
        (false, DmaPath::Default) if version >= FOR_ALL && value == 2 => Access::Denied,
        (_, DmaPath::Default) => Access::Allowed,
        (true, DmaPath::OverPcie) => match value {
            _ if version >= NOT_OVER_PCIE => Access::InOneGroup,
            1 => Access::Allowed,
            2 if version >= FOR_ALL => Access::Denied,
            0 => Access::InOneGroup,
            _ if version < FOR_ALL => Access::Allowed,
            _ => Access::InOneGroup,
        },
    }
}

/// Whether the parameter can let a Data Direct function and a GPU in different IOMMU groups reach each other.
pub(crate) fn can_override(driver: &NvidiaDriver) -> bool {
    KernelVersion::from_release(&driver.version)
        .is_some_and(|v| (FIRST..NOT_OVER_PCIE).contains(&v))
}

/// Reads the running and the configured value.
pub fn observe(reader: &dyn Reader) -> TopoCheck {
    let running = Reading::from_result(reader.text(PARAMS)).and_then(|text| parse_parameter(&text));
    let next = configured(reader).unwrap_or_else(|error| Reading::from_result(Err(error)));
    TopoCheck { running, next }
}

fn parse_parameter(text: &str) -> Reading<u32> {
    let value = text.lines().find_map(|line| line.strip_prefix(SHOWN)?.strip_prefix(':'));
    match value.map(|value| value.trim().parse()) {
        None => Reading::Absent,
        Some(Ok(value)) => Reading::Known(value),
        Some(Err(_)) => Reading::unknown(format!("{SHOWN} in {PARAMS} is not a number")),
    }
}

/// Returns the value in modprobe.d. modprobe passes the lines of all files; the kernel takes the last.
fn configured(reader: &dyn Reader) -> Result<Reading<(u32, String)>, ReadError> {
    let mut found = Reading::Absent;
    for file in drop_in::files(reader, "modprobe.d")? {
        let options = conf::modprobe(&file.text).options;
        let Some(value) = options.get(&("nvidia".to_owned(), PARAMETER.to_owned())) else {
            continue;
        };
        found = match value.trim_matches('"').parse() {
            Ok(value) => Reading::Known((value, file.path)),
            Err(_) => Reading::unknown(format!("{PARAMETER} in {} is not a number", file.path)),
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_matches_each_driver_branch() {
        use Access::{Allowed, Denied, InOneGroup};
        use DmaPath::{Default, OverPcie};
        // Version, C2C, path; values 0, 1, 2 and 3.
        let table = [
            ("565.77", true, OverPcie, [Allowed; 4]),
            ("570.133.20", true, OverPcie, [InOneGroup, Allowed, Allowed, Allowed]),
            ("575.64.05", true, OverPcie, [InOneGroup, Allowed, Allowed, Allowed]),
            ("580.82.07", true, OverPcie, [InOneGroup, Allowed, Denied, InOneGroup]),
            ("590.48.01", true, OverPcie, [InOneGroup, Allowed, Denied, InOneGroup]),
            ("595.45.04", true, OverPcie, [InOneGroup; 4]),
            ("570.133.20", false, Default, [Allowed; 4]),
            ("580.82.07", false, Default, [Allowed, Allowed, Denied, Allowed]),
            ("595.45.04", false, Default, [Allowed, Allowed, Denied, Allowed]),
            ("580.82.07", true, Default, [Allowed; 4]),
            ("595.45.04", true, Default, [Allowed; 4]),
        ];
        for (version, has_c2c, way, expected) in table {
            let driver = NvidiaDriver { version: version.to_owned(), open: true };
            let found = [0, 1, 2, 3].map(|value| access(&driver, has_c2c, way, value));
            assert_eq!(found, expected, "{version} {has_c2c} {way:?}");
        }
    }

    #[test]
    fn parameter_is_shown_without_nvreg_prefix() {
        assert_eq!(parse_parameter("A: 1\nGrdmaPciTopoCheckOverride: 2\n"), Reading::Known(2));
        assert_eq!(parse_parameter("GrdmaPciTopoCheckOverrideX: 2\n"), Reading::Absent);
    }
}
