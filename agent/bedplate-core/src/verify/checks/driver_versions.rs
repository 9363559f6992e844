//! Whether the parts of NVIDIA's driver have the same version.

use super::super::unread::{OrUnread as _, unread};
use super::super::{
    Check, CheckInput, Evidence, Group, Judgement, ModulesFinding, Outcome, Severity, Verdict,
};
use super::addresses;
use bedplate_base::Reading;
use bedplate_facts::cuda_library::CudaLibrary;
use bedplate_facts::nvidia_modules::files_of;
use bedplate_facts::pci::Function;

const MODULE: &str = "/proc/driver/nvidia/version";

pub(crate) const DRIVER_VERSIONS: Check = Check {
    id: "modules.driver-versions",
    group: Group::Modules,
    verifies: "the NVIDIA driver's library, firmware and loaded kernel module have the same version",
    severity: Severity::Fail,
    needs_root: false,
    what: "libcuda.so.1, where the driver's packages install it on the host, leads to a file of the version that \
           /proc/driver/nvidia/version reports. A host without the library (its driver is in a container) is not checked. \
           With the open kernel modules, the kernel finds the firmware of that version for each GPU's GSP (GPU System \
           Processor).",
    why: "After a driver update without a reboot, the old kernel module stays loaded and refuses programs with the new \
          library: CUDA error 803, \"Driver/library version mismatch\" of nvidia-smi. Without the firmware, a GPU does not \
          start again once the last program has closed it.",
    source: "handbook §6.2, §6.5; open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osapi.c, \"API mismatch\"; CUDA cudaErrorSystemDriverMismatch",
    how: "the link libcuda.so.1 in /usr/lib/x86_64-linux-gnu, /usr/lib/aarch64-linux-gnu or /usr/lib64; /proc/driver/nvidia/version; \
          nvidia/VERSION in /lib/firmware and /lib/firmware/updates, in their directories for the running kernel, and in the \
          directory that /sys/module/firmware_class/parameters/path names",
    judge,
};

fn judge(input: &CheckInput<'_>) -> Judgement {
    let gpus = input.some_gpus()?;
    let driver = input.facts.gpu.nvidia.or_unread("the NVIDIA driver's version");
    let Some(driver) = driver.map_err(Outcome::minor)? else {
        return Ok(Outcome::not_applicable("no NVIDIA driver is loaded"));
    };
    let module = &driver.version;
    let outcome = of_library(module, &input.observed.cuda_library);
    let Reading::Known(firmware) = &input.observed.gsp_firmware else { return Ok(outcome) };
    if outcome.verdict == Verdict::Fail {
        return Ok(outcome);
    }
    let lacking = |gpu: &&&Function| files_of(gpu).is_some_and(|files| !firmware.has(files));
    let without: Vec<&Function> = gpus.iter().filter(lacking).copied().collect();
    let Some([file, ..]) = without.first().and_then(|gpu| files_of(gpu)) else {
        return Ok(outcome);
    };
    let code = ModulesFinding::GspFirmwareMissing {
        gpus: addresses(&without),
        file: (*file).to_owned(),
        driver: module.clone(),
    };
    let seen = |at: &String| Evidence { value: format!("no {file}"), source: at.clone() };
    Ok(Outcome::warn([code])
        .all_evidence(firmware.directories.iter().map(seen))
        .evidence(format!("{module}, open kernel modules"), MODULE))
}

fn of_library(module: &str, library: &Reading<CudaLibrary>) -> Outcome {
    match library {
        Reading::Known(library) if library.version == *module => {
            Outcome::pass(format!("{module}, kernel module and library"))
                .evidence(&library.version, &library.path)
        }
        Reading::Known(library) => Outcome::fail([ModulesFinding::DriverVersions {
            library: library.version.clone(),
            module: module.to_owned(),
        }])
        .evidence(&library.version, &library.path)
        .evidence(module, MODULE),
        Reading::Absent => Outcome::not_applicable("no NVIDIA driver library on the host"),
        Reading::Unknown(why) => unread("the version of libcuda.so.1", why).minor(),
    }
}
