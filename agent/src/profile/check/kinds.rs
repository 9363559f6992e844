//! `[iommu]`, `[acs]` and `[sriov]`.

use super::{Checker, Reason};
use crate::profile::diagnostic::Diagnostic;
use crate::profile::fragment::{
    AcsFragment, At, DeviceFragment, IommuFragment, SelectFragment, SriovFragment, Vfs, VfsWord,
};
use crate::profile::layer::{AcsLayer, Device, Keyed, Leaf, SriovLayer};
use crate::profile::model::{IommuMode, PfSelector, SriovCount, VfDriver};
use crate::profile::source::Place;

impl Checker<'_> {
    pub(super) fn iommu(&mut self, section: IommuFragment) -> Option<Leaf<IommuMode>> {
        let reason = Reason { why: section.why, source: section.source };
        self.section_value("iommu", "mode", section.mode, reason)
    }

    pub(super) fn acs(&mut self, section: AcsFragment) -> AcsLayer {
        let reason = Reason { why: section.why, source: section.source };
        AcsLayer {
            policy: self.section_value("acs", "policy", section.policy, reason),
            persistence: self.bare(section.persistence),
            root_port: self.bare(section.root_port),
        }
    }

    pub(super) fn sriov(&mut self, section: SriovFragment) -> SriovLayer {
        let mut devices: Keyed<Leaf<Device>> = Keyed::default();
        let mut names: Vec<(String, Place)> = Vec::new();
        for device in section.devices.into_iter().flatten() {
            let device = device.value;
            let name = device.name.value.clone();
            let place = self.place(device.name.span.clone());
            if name.trim().is_empty() {
                self.error(place, "bad-name", "a rule's name cannot be empty", "", None);
                continue;
            }
            if let Some((_, first)) = names.iter().find(|(own, _)| *own == name) {
                let finding = Diagnostic::error(
                    self.sources,
                    place,
                    "duplicate",
                    format!("two rules in this file are called `{name}`"),
                )
                .label("again here")
                .also(self.sources, *first, "first here")
                .help("give each rule its own name: a later file replaces rules by it");
                self.out.push(finding);
                continue;
            }
            names.push((name.clone(), place));
            if let Some(rule) = self.device(device, place) {
                devices.0.push((name, rule));
            }
        }
        SriovLayer { managed: self.bare(section.managed), devices }
    }

    fn device(&mut self, device: DeviceFragment, place: Place) -> Option<Leaf<Device>> {
        let select = match device.select {
            Some(select) => self.select(select),
            None => Some(PfSelector::default()),
        };
        let vfs = match device.vfs.value {
            Vfs::Number(number) => SriovCount::Number(number),
            Vfs::Word(VfsWord::Max) => SriovCount::Max,
            Vfs::Word(VfsWord::PerGpu) => SriovCount::PerGpu,
        };
        let vf_driver = match device.vf_driver {
            Some(text) => self.vf_driver(text),
            None => Some(VfDriver::Auto),
        };
        let reason = Reason { why: device.why, source: device.source };
        let rule = Device { select: select?, vfs, vf_driver: vf_driver? };
        Some(self.reasoned(rule, place, reason))
    }

    fn vf_driver(&mut self, text: At<String>) -> Option<VfDriver> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        match text.value.as_str() {
            "auto" => Some(VfDriver::Auto),
            "none" => Some(VfDriver::None),
            driver if !driver.is_empty() && driver.chars().all(good) => {
                Some(VfDriver::Named(driver.to_owned()))
            }
            other => {
                let message = format!("`{other}` cannot be the name of a driver");
                let label = "expected `auto`, `none` or a driver such as `vfio-pci`";
                self.error(self.place(text.span), "bad-driver", message, label, None);
                None
            }
        }
    }

    fn select(&mut self, select: SelectFragment) -> Option<PfSelector> {
        let before = self.out.len();
        let interface = self.pattern(select.interface).map(|leaf| leaf.value);
        let selector = PfSelector {
            vendor: select.vendor.and_then(|id| self.parse(&id.value, id.span, "bad-pci-id")),
            device: select.device.and_then(|id| self.parse(&id.value, id.span, "bad-pci-id")),
            driver: select.driver.map(|driver| driver.value),
            interface,
            address: select
                .address
                .and_then(|at| self.parse(&at.value, at.span, "bad-pci-address")),
            numa_node: select.numa_node.map(|node| node.value),
        };
        // A rule that lost a condition would select more than it was meant to.
        (self.out.len() == before).then_some(selector)
    }
}
