//! NVIDIA kernel modules that a GPU needs, and the firmware of its GSP (GPU System Processor), which the open modules
//! load when they start the GPU (handbook §6.2).

use super::gpu::{GpuStack, NVIDIA};
use super::pci::Function;
use bedplate_base::Reading;
use bedplate_host::Reader;

/// Directory of the kernel's firmware files.
const FIRMWARE: &str = "/lib/firmware";
/// Names the directory that the kernel searches first (Linux drivers/base/firmware_loader/main.c).
pub const CUSTOM: &str = "/sys/module/firmware_class/parameters/path";
/// Value of [`CUSTOM`] where NVIDIA's GPU operator runs the driver in a container.
const IN_CONTAINER: &str = "/run/nvidia/driver/lib/firmware";
/// First device id of Turing, the first generation with a GSP (pci.ids).
const TURING: u16 = 0x1e00;
/// First device id of GA102. GA100's ids are below it and use Turing's firmware.
const GA102: u16 = 0x2200;
/// First device id of Blackwell.
const BLACKWELL: u16 = 0x2900;
/// GPUs of GH200.
const GRACE_HOPPER: [u16; 3] = [0x2342, 0x2345, 0x2348];

/// Firmware files for the loaded driver's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GspFirmware {
    /// Directories that the kernel searches.
    pub directories: Vec<String>,
    /// File names.
    pub files: Vec<String>,
}

/// Lists the firmware files. `Absent`: no open kernel modules are loaded, or this host has no firmware directory.
pub fn observe(reader: &dyn Reader, gpu: &GpuStack, kernel: Option<&str>) -> Reading<GspFirmware> {
    let Reading::Known(driver) = &gpu.nvidia else { return Reading::Absent };
    if !driver.open {
        return Reading::Absent;
    }
    match Reading::from_result(reader.exists(FIRMWARE)) {
        Reading::Known(true) => {}
        Reading::Known(false) | Reading::Absent => return Reading::Absent,
        Reading::Unknown(why) => return Reading::Unknown(why),
    }
    let custom = match Reading::from_result(reader.attribute(CUSTOM)) {
        Reading::Known(path) if path.is_empty() => None,
        Reading::Known(path) if path == IN_CONTAINER => Some(path),
        Reading::Known(_) => {
            return Reading::unknown(format!("{CUSTOM} names an unknown directory"));
        }
        Reading::Absent => None,
        Reading::Unknown(why) => return Reading::Unknown(why),
    };
    let mut bases: Vec<String> = custom.into_iter().collect();
    for base in [format!("{FIRMWARE}/updates"), FIRMWARE.to_owned()] {
        bases.extend(kernel.map(|release| format!("{base}/{release}")));
        bases.push(base);
    }
    let mut found = GspFirmware { directories: Vec::new(), files: Vec::new() };
    for base in bases {
        let directory = format!("{base}/nvidia/{}", driver.version);
        match Reading::from_result(reader.list(&directory)) {
            Reading::Known(names) => found.files.extend(names),
            Reading::Absent => {}
            Reading::Unknown(why) => return Reading::Unknown(why),
        }
        found.directories.push(directory);
    }
    Reading::Known(found)
}

/// Returns the recorded form of [`CUSTOM`], without site-specific paths.
pub fn recorded_path(text: &str) -> String {
    match text.trim() {
        "" | IN_CONTAINER => text.to_owned(),
        _ => "/other\n".to_owned(),
    }
}

impl GspFirmware {
    /// Whether one of these files exists, compressed or not.
    pub fn has(&self, names: &[&str]) -> bool {
        let is = |file: &String, name: &&str| {
            file.strip_prefix(*name).is_some_and(|rest| matches!(rest, "" | ".zst" | ".xz"))
        };
        self.files.iter().any(|file| names.iter().any(|name| is(file, name)))
    }
}

/// Returns the firmware file of a GPU, under any of its names. `None`: no GSP, or another vendor.
pub fn files_of(gpu: &Function) -> Option<&'static [&'static str]> {
    if gpu.vendor == NVIDIA { files_of_device(gpu.device.0) } else { None }
}

/// Whether a GPU needs the open kernel modules (`true`) or the proprietary ones (`false`). `None`: both work.
pub fn needs_open(gpu: &Function) -> Option<bool> {
    if gpu.vendor == NVIDIA { open_for_device(gpu.device.0) } else { None }
}

/// Returns the file by chip (open-gpu-kernel-modules kernel-open/common/inc/nv-firmware.h). R515 and R520 have one file for
/// all chips. R525 has one for Ada and one for the rest; both are always installed together.
fn files_of_device(device: u16) -> Option<&'static [&'static str]> {
    match device {
        0..TURING => None,
        TURING..GA102 => Some(&["gsp_tu10x.bin", "gsp.bin"]),
        GA102.. => Some(&["gsp_ga10x.bin", "gsp_ad10x.bin", "gsp.bin"]),
    }
}

fn open_for_device(device: u16) -> Option<bool> {
    match device {
        0..TURING => Some(false),
        BLACKWELL.. => Some(true),
        device => GRACE_HOPPER.contains(&device).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chip_selects_firmware_and_modules() {
        let of = |device| (files_of_device(device).map(|files| files[0]), open_for_device(device));
        let (turing, ampere) = (Some("gsp_tu10x.bin"), Some("gsp_ga10x.bin"));
        assert_eq!(of(0x1db6), (None, Some(false)), "V100");
        assert_eq!(of(0x1eb8), (turing, None), "T4");
        assert_eq!(of(0x20b2), (turing, None), "A100");
        assert_eq!(of(0x26b9), (ampere, None), "L40S");
        assert_eq!(of(0x2330), (ampere, None), "H100");
        assert_eq!(of(0x2342), (ampere, Some(true)), "GH200");
        assert_eq!(of(0x2901), (ampere, Some(true)), "B200");
        assert_eq!(of(0x3182), (ampere, Some(true)), "B300");
    }

    /// Packages of R525 and of R515.
    #[test]
    fn firmware_names_of_earlier_drivers_match() {
        for files in [&["gsp_ad10x.bin", "gsp_tu10x.bin"][..], &["gsp.bin"]] {
            let files = files.iter().map(|file| (*file).to_owned()).collect();
            let firmware = GspFirmware { directories: Vec::new(), files };
            for device in [0x1eb8, 0x20b2, 0x2330, 0x26b9] {
                assert!(
                    files_of_device(device).is_some_and(|names| firmware.has(names)),
                    "{device:x}"
                );
            }
        }
    }

    #[test]
    fn compressed_firmware_matches() {
        let files = ["gsp_ga10x.bin.zst", "gsp_tu10x.bin.old"].map(str::to_owned).to_vec();
        let firmware = GspFirmware { directories: Vec::new(), files };
        assert!(firmware.has(&["gsp_ga10x.bin"]));
        assert!(!firmware.has(&["gsp_tu10x.bin", "gsp.bin"]));
    }

    #[test]
    fn site_specific_firmware_path_is_masked() {
        assert_eq!(recorded_path("\n"), "\n");
        assert_eq!(
            recorded_path("/run/nvidia/driver/lib/firmware\n"),
            "/run/nvidia/driver/lib/firmware\n"
        );
        assert_eq!(recorded_path("/home/someone\n"), "/other\n");
    }
}
