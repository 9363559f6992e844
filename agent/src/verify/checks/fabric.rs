//! Whether NVSwitches are set up.

use super::super::evidence::unread;
use super::super::{Check, Code, Evidence, Explain, Group, Judgement, Outcome, Severity, Verdict};
use super::counted;
use crate::facts::fabric::{GROUPS, PID_FILES, PROGRAM, switches};
use crate::host::Reading;

/// `modules.fabric-manager`.
pub const MANAGER: Check = Check {
    id: "modules.fabric-manager",
    group: Group::Modules,
    proves: "the program that sets up the NVSwitches of this host runs",
    severity: Severity::Fail,
    needs_root: false,
    explain: Explain {
        what: "Where NVSwitches are PCI functions of the host (HGX and DGX from V100 to H200) nvidia-fabricmanager runs: its unit has a \
               process, or its file with a process id is there, on the host or in a driver container. It refuses another version than \
               the driver's, so that one that runs has the right one. NVSwitches of Blackwell are no functions of the host, and are \
               not asked for.",
        why: "Until it has set up the switches CUDA starts no program on any GPU of the board: cudaErrorSystemNotReady (802).",
        source: "handbook §6.5; NVIDIA Fabric Manager User Guide",
        how: "classes and ids in /sys/bus/pci/devices; cgroup.procs of nvidia-fabricmanager.service; /run/nvidia-fabricmanager",
    },
    judge: manager,
};

fn manager(evidence: &Evidence<'_>) -> Judgement {
    let gpus = evidence.some_gpus()?;
    let count = switches(evidence.topology()?.tree()).count();
    let has_nvidia = gpus.iter().any(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    if count == 0 || !has_nvidia {
        return Ok(Outcome::not_applicable("no NVSwitch that the host itself sets up"));
    }
    let fabric = &evidence.observed.fabric;
    Ok(match &fabric.manager {
        Reading::Known(true) => Outcome::pass(format!("the fabric manager runs, for {}", counted(count, "NVSwitch")))
            .seen("a process", GROUPS[0]),
        Reading::Known(false) | Reading::Absent => {
            Outcome::of_codes(Verdict::Fail, vec![Code::FabricManagerDown { switches: count }])
                .seen("no process", GROUPS[0])
                .seen("not there", PID_FILES[0])
                .remedy(match &fabric.installed {
                    Reading::Known(false) | Reading::Absent => {
                        "install nvidia-fabricmanager in the driver's version, then `systemctl enable --now nvidia-fabricmanager`"
                    }
                    _ => {
                        "`systemctl enable --now nvidia-fabricmanager`; `journalctl -u nvidia-fabricmanager` says why it ended: most \
                         often its version is not the driver's"
                    }
                })
        }
        Reading::Unknown(why) => unread("whether the fabric manager runs", why)
            .seen("not known", PROGRAM),
    })
}
