//! The kernel modules of NVIDIA's that a GPU needs, and the firmware of its GSP (GPU System Processor), which the open ones load
//! when they start it (handbook §6.2).

use super::gpu::{GpuStack, NVIDIA};
use super::pci::Function;
use bedplate_base::Reading;
use bedplate_host::Reader;

/// Directory of the kernel's firmware files.
const FIRMWARE: &str = "/lib/firmware";
/// Names the directory where the kernel looks first (Linux drivers/base/firmware_loader/main.c).
pub const CUSTOM: &str = "/sys/module/firmware_class/parameters/path";
/// The directory that [`CUSTOM`] names where NVIDIA's GPU operator runs the driver in a container.
const IN_CONTAINER: &str = "/run/nvidia/driver/lib/firmware";
/// The first device id of Turing, the first generation with a GSP (pci.ids).
const TURING: u16 = 0x1e00;
/// The first of GA102: those of GA100 are below, and have the firmware of Turing.
const GA102: u16 = 0x2200;
/// The first of Blackwell.
const BLACKWELL: u16 = 0x2900;
/// GPUs of GH200.
const GRACE_HOPPER: [u16; 3] = [0x2342, 0x2345, 0x2348];

/// The firmware files of the loaded driver's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GspFirmware {
    /// Where the kernel looks for them.
    pub directories: Vec<String>,
    /// Their names.
    pub files: Vec<String>,
}

/// `Absent`: no open kernel modules are loaded, or this host keeps no firmware.
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
            return Reading::unknown(format!(
                "{CUSTOM} names a directory that bedplate does not know"
            ));
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

/// The text of [`CUSTOM`] as it is recorded: without a path of the operator's own choice.
pub fn recorded_path(text: &str) -> String {
    match text.trim() {
        "" | IN_CONTAINER => text.to_owned(),
        _ => "/other\n".to_owned(),
    }
}

impl GspFirmware {
    /// Whether one of these files is there, compressed or not.
    pub fn has(&self, names: &[&str]) -> bool {
        let is = |file: &String, name: &&str| {
            file.strip_prefix(*name).is_some_and(|rest| matches!(rest, "" | ".zst" | ".xz"))
        };
        self.files.iter().any(|file| names.iter().any(|name| is(file, name)))
    }
}

/// The file that a GPU needs, by any of the names that it has had. `None`: it has no GSP, or is of another maker.
pub fn files_of(gpu: &Function) -> Option<&'static [&'static str]> {
    if gpu.vendor == NVIDIA { files_of_device(gpu.device.0) } else { None }
}

/// Whether a GPU needs the open kernel modules, or the proprietary ones. `None`: either will do.
pub fn needs_open(gpu: &Function) -> Option<bool> {
    if gpu.vendor == NVIDIA { open_for_device(gpu.device.0) } else { None }
}

/// By the chip (open-gpu-kernel-modules kernel-open/common/inc/nv-firmware.h). R515 and R520 have one file for all; R525 brings one
/// for Ada and one for all other chips: where one of them is, both are.
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
    fn each_chip_has_its_firmware_and_modules() {
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

    /// The packages of R525 and of R515.
    #[test]
    fn names_of_earlier_drivers_count() {
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
    fn compressed_firmware_is_firmware() {
        let files = ["gsp_ga10x.bin.zst", "gsp_tu10x.bin.old"].map(str::to_owned).to_vec();
        let firmware = GspFirmware { directories: Vec::new(), files };
        assert!(firmware.has(&["gsp_ga10x.bin"]));
        assert!(!firmware.has(&["gsp_tu10x.bin", "gsp.bin"]));
    }

    #[test]
    fn a_path_of_someone_s_choice_is_not_recorded() {
        assert_eq!(recorded_path("\n"), "\n");
        assert_eq!(
            recorded_path("/run/nvidia/driver/lib/firmware\n"),
            "/run/nvidia/driver/lib/firmware\n"
        );
        assert_eq!(recorded_path("/home/someone\n"), "/other\n");
    }
}
