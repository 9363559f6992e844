//! Large memory windows of GPUs, through which NICs access GPU memory.

use super::super::unread::unread;
use super::super::{
    Check, CheckInput, Evidence, FirmwareFinding, Group, Judgement, Outcome, Severity, Verdict,
};
use super::{addresses, size};
use bedplate_base::{Reading, counted};
use bedplate_facts::pci::Function;
use bedplate_facts::rebar;
use bedplate_facts::superchip::is_superchip_gpu;

pub(crate) const BAR1_SIZE: Check = Check {
    id: "firmware.bar1-size",
    group: Group::Firmware,
    verifies: "the large window of each GPU is as large as specified for its model, or as possible",
    severity: Severity::Fail,
    needs_root: true,
    what: "The large memory window of each GPU (BAR1 for NVIDIA, BAR0 for AMD) has the size of its model. A smaller one \
           fails, or is a warning in a virtual machine and if a display mode of the GPU leaves 8 GiB. For an unknown model, \
           a window of 256 MiB is a warning, and so is one that a resizable BAR could enlarge. T4 and Quadro RTX have 256 \
           MiB. GPUs with C2C (GH200, GB200, GB300) are not checked.",
    why: "GPUDirect RDMA registers GPU memory within that window: with 256 MiB, large registrations fail.",
    source: "handbook §6.1; CUDA GPUDirect RDMA guide, \"PCI BAR sizes\"; Linux Documentation/ABI/testing/sysfs-bus-pci",
    how: "resource, and resourceN_resize (root only), of each GPU in /sys/bus/pci/devices",
    judge: bar1_size,
};

const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;
const GIB: u64 = 1 << 30;
/// Size of windows that are not meant for registering memory of jobs.
const SMALL: u64 = 256 << 20;

/// Window of a model.
#[derive(Clone, Copy)]
enum Size {
    /// Size in GiB.
    Gib(u64),
    /// Size in GiB, unless the display mode of the firmware is on (`displaymodeselector`).
    GibWithoutDisplay(u64),
    /// 256 MiB.
    Small,
    /// NICs access the memory another way (C2C).
    NotUsed,
}

/// Vendor, device, size (handbook §6.1 has the source of each).
const MODELS: [(u16, u16, Size); 21] = [
    (NVIDIA, 0x1db4, Size::Gib(16)),
    (NVIDIA, 0x1db6, Size::Gib(32)),
    (NVIDIA, 0x1e30, Size::Small),
    (NVIDIA, 0x1eb8, Size::Small),
    (NVIDIA, 0x20b0, Size::Gib(64)),
    (NVIDIA, 0x20b2, Size::Gib(128)),
    (NVIDIA, 0x20f1, Size::Gib(64)),
    (NVIDIA, 0x2230, Size::GibWithoutDisplay(64)),
    (NVIDIA, 0x2235, Size::GibWithoutDisplay(64)),
    (NVIDIA, 0x2329, Size::Gib(128)),
    (NVIDIA, 0x2330, Size::Gib(128)),
    (NVIDIA, 0x2335, Size::Gib(256)),
    (NVIDIA, 0x26b1, Size::GibWithoutDisplay(64)),
    (NVIDIA, 0x26b9, Size::Gib(64)),
    (NVIDIA, 0x27b8, Size::Gib(32)),
    (NVIDIA, 0x2901, Size::Gib(256)),
    (AMD, 0x738c, Size::Gib(32)),
    (AMD, 0x7408, Size::Gib(64)),
    (AMD, 0x740c, Size::Gib(64)),
    (AMD, 0x740f, Size::Gib(64)),
    (AMD, 0x74a1, Size::Gib(256)),
];

fn by_design(gpu: &Function) -> Option<Size> {
    if is_superchip_gpu(gpu) {
        return Some(Size::NotUsed);
    }
    let is_its = |(vendor, device, _): &&(u16, u16, Size)| {
        (*vendor, *device) == (gpu.vendor.0, gpu.device.0)
    };
    MODELS.iter().find(is_its).map(|(.., size)| *size)
}

/// Whether the GPU is for computing, without a display: 3D controllers and accelerators.
fn is_for_jobs(gpu: &Function) -> bool {
    matches!(gpu.class >> 8, 0x0302 | 0x0380 | 0x1200)
}

/// Windows, by finding.
#[derive(Default)]
struct WindowFindings<'a> {
    small: Vec<FirmwareFinding>,
    /// Small windows of a size that an operator may have chosen.
    smaller: Vec<FirmwareFinding>,
    resizable: Vec<&'a Function>,
    doubtful: Vec<&'a Function>,
    seen: Vec<Evidence>,
    unknown: Option<Outcome>,
}

impl<'a> WindowFindings<'a> {
    fn add(&mut self, input: &CheckInput<'a>, gpu: &'a Function) {
        let design = by_design(gpu);
        if matches!(design, Some(Size::NotUsed)) {
            return;
        }
        let Some(bar) = rebar::largest(gpu) else {
            self.unknown.get_or_insert_with(|| {
                Outcome::unknown(format!("GPU {} shows no memory window", gpu.address))
                    .evidence("no memory window listed, or unreadable", gpu.attribute("resource"))
            });
            return;
        };
        let shown = |of: u64| {
            Evidence::new(
                format!("{}: {} of {}", gpu.address, size(bar.size), size(of)),
                gpu.attribute("resource"),
            )
        };
        match (design, input.observed.window.get(&gpu.address)) {
            (Some(Size::Gib(wanted) | Size::GibWithoutDisplay(wanted)), _)
                if bar.size < wanted * GIB =>
            {
                let has_display_mode = matches!(design, Some(Size::GibWithoutDisplay(_)));
                self.seen.push(shown(wanted * GIB));
                let code = FirmwareFinding::WindowSmall {
                    device: input.device(gpu),
                    bytes: bar.size,
                    by_design: wanted * GIB,
                    display_mode: has_display_mode,
                };
                // One display mode leaves 8 GiB, and a hypervisor gives a part of a GPU only a part of its window.
                let may_be_chosen =
                    bar.size > SMALL && has_display_mode || input.facts.cpu.is_virtual();
                if may_be_chosen { self.smaller.push(code) } else { self.small.push(code) }
            }
            (Some(_), _) => {}
            (None, Some(Reading::Known(possible))) if *possible > bar.size => {
                self.seen.push(shown(*possible));
                self.resizable.push(gpu);
            }
            (None, Some(Reading::Unknown(why))) => {
                let what = format!("the possible window sizes of GPU {}", gpu.address);
                self.unknown.get_or_insert_with(|| unread(&what, why).minor());
            }
            (None, _) if bar.size <= SMALL && is_for_jobs(gpu) => self.doubtful.push(gpu),
            (None, _) => {}
        }
    }
}

fn bar1_size(input: &CheckInput<'_>) -> Judgement {
    let gpus = input.some_gpus()?;
    let mut found = WindowFindings::default();
    gpus.iter().for_each(|gpu| found.add(input, gpu));
    let WindowFindings { small, smaller, resizable, doubtful, seen, unknown } = found;
    let verdict = if small.is_empty() { Verdict::Warn } else { Verdict::Fail };
    let all_small = [small, smaller].concat();
    if !all_small.is_empty() && (verdict == Verdict::Fail || unknown.is_none()) {
        return Ok(Outcome::with_findings(verdict, all_small).all_evidence(seen));
    }
    if let Some(unknown) = unknown {
        return Ok(unknown);
    }
    if !resizable.is_empty() {
        let gpus = addresses(&resizable);
        return Ok(Outcome::warn([FirmwareFinding::WindowResizable { gpus }]).all_evidence(seen));
    }
    if let Some(first) = doubtful.first() {
        let gpus = addresses(&doubtful);
        return Ok(Outcome::warn([FirmwareFinding::WindowDoubtful { gpus }])
            .evidence("the largest window", first.attribute("resource")));
    }
    let largest = gpus.first().and_then(|gpu| rebar::largest(gpu)).map_or(0, |bar| bar.size);
    let known = gpus.iter().filter(|gpu| by_design(gpu).is_some()).count();
    let of = format!("{}: {}", counted(gpus.len(), "GPU"), size(largest));
    Ok(Outcome::pass(match known == gpus.len() {
        true => format!("{of}, as specified for the model"),
        false => format!("{of}, and no larger size is available"),
    }))
}
