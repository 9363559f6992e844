//! Names of PCI devices with their numbers: `NVIDIA H100 SXM5 80GB (10de:2330)`. Pure.

use super::grouping::grouped;
use bedplate_base::terminal::one_line;
use bedplate_base::value::PciId;
use bedplate_core::plan::Subject;
use bedplate_facts::names::Names;
use bedplate_facts::pci::Function;

/// Maximum number of characters of a name.
const LONGEST: usize = 60;

/// Vendors found in GPU nodes (ids assigned by PCI-SIG; handbook §6.1).
const VENDORS: [(u16, &str); 25] = [
    (0x1000, "Broadcom"),
    (0x1002, "AMD"),
    (0x1022, "AMD"),
    (0x1077, "QLogic"),
    (0x10b5, "PLX"),
    (0x10de, "NVIDIA"),
    (0x11f8, "Microchip"),
    (0x12d8, "Pericom"),
    (0x1344, "Micron"),
    (0x1414, "Microsoft"),
    (0x1425, "Chelsio"),
    (0x144d, "Samsung"),
    (0x14e4, "Broadcom"),
    (0x15b3, "Mellanox"),
    (0x1a03, "ASPEED"),
    (0x1ae0, "Google"),
    (0x1af4, "virtio"),
    (0x1b36, "QEMU"),
    (0x1c5c, "SK hynix"),
    (0x1d0f, "Amazon"),
    (0x1d94, "Hygon"),
    (0x1da3, "Habana"),
    (0x1dd8, "Pensando"),
    (0x1e0f, "KIOXIA"),
    (0x8086, "Intel"),
];

/// Returns the name of a common vendor.
pub(super) fn vendor(id: PciId) -> Option<&'static str> {
    VENDORS.iter().find(|(known, _)| *known == id.0).map(|(_, name)| *name)
}

/// Returns the device name (`NVIDIA H100 SXM5 80GB`), with the product that the pci.ids file has in brackets after the
/// chip's name.
pub(super) fn name(names: &Names, function: &Function) -> Option<String> {
    let device = names.device(function.vendor, function.device)?;
    let product = device.strip_suffix(']').and_then(|device| device.rsplit_once('['));
    let product = product.map_or(device, |(_, product)| product);
    let vendor = vendor(function.vendor).or_else(|| names.vendor(function.vendor))?;
    Some(one_line(&with_vendor(vendor, product)).chars().take(LONGEST).collect())
}

/// Adds the vendor, unless the product starts with it (`QEMU PCIe Root port`).
fn with_vendor(vendor: &str, product: &str) -> String {
    match product.strip_prefix(vendor) {
        Some(rest) if rest.starts_with(' ') => product.to_owned(),
        _ => format!("{vendor} {product}"),
    }
}

/// Returns the device name with its ids.
pub(super) fn with_ids(names: &Names, function: &Function) -> Option<String> {
    let name = name(names, function)?;
    Some(format!("{name} ({}:{})", function.vendor, function.device))
}

/// Counts devices by model, in order of first occurrence: `8 × NVIDIA H100 SXM5 80GB (10de:2330)`. Omits devices
/// without a name.
pub(super) fn models<'a>(
    names: &Names,
    functions: impl Iterator<Item = &'a Function>,
) -> Vec<String> {
    let named = functions.filter_map(|function| with_ids(names, function));
    let groups = grouped(named, Clone::clone);
    groups.iter().map(|(name, group)| format!("{} × {name}", group.len())).collect()
}

/// Returns the function that is the subject of a part of a plan.
pub(super) fn subject<'a>(names: &Names<'a>, subject: &Subject) -> Option<&'a Function> {
    names.function(subject.device.as_deref()?.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text;
    use bedplate_core::plan::{Device, DeviceRole, KindId, KindPlan, NextBoot, Plan, RebootNeed};
    use bedplate_core::record::Recorder;
    use bedplate_facts::names::FILES;
    use bedplate_facts::{Depth, observe};
    use bedplate_host::Reader as _;
    use bedplate_testhosts as demo;

    #[test]
    fn device_is_named_by_product_and_counted() {
        let host = demo::snapshot("hgx").unwrap();
        let facts = observe(&host, Depth::Plan);
        let names = Names::new(&host, &facts);
        let device = Device::new(DeviceRole::Pf, "0000:18:00.0".parse().unwrap());
        let gpu = subject(&names, &device.into()).unwrap();
        assert_eq!(with_ids(&names, gpu).unwrap(), "NVIDIA H100 SXM5 80GB (10de:2330)");
        let tree = facts.pci.known().unwrap();
        let nics = tree.functions.values().filter(|function| function.is_nic());
        assert_eq!(
            models(&names, nics),
            [
                "8 × Mellanox ConnectX-7 (15b3:1021)",
                "2 × Intel Ethernet Controller X550 (8086:1563)"
            ]
        );
        assert_eq!(name(&Names::none(&facts), gpu), None);
        assert_eq!(with_vendor("QEMU", "QEMU PCIe Root port"), "QEMU PCIe Root port");
        assert!(subject(&names, &"kernel command line".into()).is_none());
    }

    #[test]
    fn names_file_is_read_only_when_needed() {
        let host = demo::snapshot("hgx").unwrap();
        let reads = |subject: Subject| {
            let recorder = Recorder::new(&host);
            let facts = observe(&recorder, Depth::Plan);
            let names = Names::new(&recorder, &facts);
            let unknown = KindId::Sriov.unknown(subject, "why");
            let body = KindPlan { unknowns: vec![unknown], ..KindPlan::default() };
            let plan = Plan {
                profile: "p".into(),
                body,
                reboot: RebootNeed::None,
                next_boot: NextBoot::Sound,
            };
            let shown = text::with_names(&plan, "host", text::Detail::default(), Some(&names));
            let read = recorder.finish().read(FILES[0]).is_ok();
            (read, shown.contains("PF 0000:19:00.0, Mellanox ConnectX-7 (15b3:1021): unknown: why"))
        };
        assert_eq!(reads("kernel command line".into()), (false, false));
        let nic = Device::new(DeviceRole::Pf, "0000:19:00.0".parse().unwrap());
        assert_eq!(reads(nic.into()), (true, true));
    }
}
