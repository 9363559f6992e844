//! GPUDirect Storage: whether its prerequisites are met, if it is in use. RDMA does not need any of it.

use std::collections::BTreeMap;

use super::super::finding::P2PDMA_DRIVER;
use super::super::unread::{OrUnread as _, unread};
use super::super::{Check, CheckInput, Group, Judgement, Outcome, Severity, StorageFinding};
use super::acs::port_evidence;
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_facts::cufile::{PATH as CUFILE, Settings};
use bedplate_facts::kernel_config;
use bedplate_facts::pci::Acs;
use bedplate_facts::topology::Peer;

const NVIDIA_FS: &str = "/sys/module/nvidia_fs";
/// From this version on, nvidia_fs works with the open kernel modules only.
const OPEN_ONLY: (u32, u32, u32) = (2, 17, 5);

pub(crate) const GDS: Check = Check {
    id: "storage.gds",
    group: Group::Storage,
    verifies: "GPUDirect Storage prerequisites are met",
    severity: Severity::Warn,
    needs_root: false,
    what: "If nvidia_fs is loaded: from 2.17.5 on it works with the open kernel modules only. If cufile.json requests P2PDMA \
           (`use_pci_p2pdma`): open kernel modules from R570 on, and a kernel with CONFIG_PCI_P2PDMA. With neither, \
           GPUDirect Storage is not in use; with `allow_compat_mode` false that is a warning.",
    why: "cuFile falls back to copies through host memory without reporting it (`allow_compat_mode`).",
    source: "handbook §6.4",
    how: "/sys/module/nvidia_fs, /etc/cufile.json (CUFILE_ENV_PATH_JSON of a job may name another), /proc/driver/nvidia/version, \
          /boot/config-RELEASE or config in /usr/lib/modules/RELEASE",
    judge: gds,
};

pub(crate) const CUFILE_JSON: Check = Check {
    id: "storage.cufile",
    group: Group::Storage,
    verifies: "the GPUDirect Storage library can read cufile.json",
    severity: Severity::Warn,
    needs_root: false,
    what: "/etc/cufile.json is JSON, with comments, and its known settings have the right types: `logging.level` is a \
           string, sizes are numbers, switches are true or false, `mount_table` is an object by mount point.",
    why: "The library does not start with a file that it cannot read. Many how-tos set the level to a number.",
    source: "handbook §6.4",
    how: "/etc/cufile.json; snapshots have other names and texts masked",
    judge: cufile,
};

pub(crate) const PATH: Check = Check {
    id: "storage.path",
    group: Group::Storage,
    verifies: "P2P traffic between GPUs and NVMe disks below a shared switch stays in the switch",
    severity: Severity::Warn,
    needs_root: true,
    what: "If GPUDirect Storage is in use, no port between a GPU and an NVMe disk below a shared switch redirects (RR, CR, \
           EC). `acs.path` checks the same for NICs.",
    why: "With a redirect bit on, each transfer goes through the root complex; P2PDMA refuses many such pairs.",
    source: "handbook §3.2, §14.1; Linux drivers/pci/p2pdma.c",
    how: "ACS control register of each bridge, in its config space (root only)",
    judge: path,
};

/// Returns the settings of the configuration, or the defaults if it is absent or unreadable.
fn settings(input: &CheckInput<'_>) -> Settings {
    match &input.observed.storage.cufile {
        Reading::Known(Ok(settings)) => *settings,
        _ => Settings::default(),
    }
}

/// Whether GPUDirect Storage is in use.
///
/// # Errors
/// The outcome to report if this is not known.
fn in_use(input: &CheckInput<'_>) -> Result<bool, Outcome> {
    let storage = &input.observed.storage;
    if storage.nvidia_fs == Reading::Known(true) || settings(input).p2pdma {
        return Ok(true);
    }
    storage.nvidia_fs.or_unread("whether nvidia_fs is loaded")?;
    storage.cufile.or_unread(CUFILE)?;
    Ok(false)
}

const NOT_IN_USE: &str = "GPUDirect Storage is not in use: no nvidia_fs, no P2PDMA mode";

fn gds(input: &CheckInput<'_>) -> Judgement {
    input.some_gpus()?;
    let used = in_use(input)?;
    let settings = settings(input);
    let Settings { p2pdma, compat } = settings;
    if !used && compat {
        return Ok(Outcome::not_applicable(NOT_IN_USE));
    }
    if !used {
        return Ok(Outcome::warn([StorageFinding::CufileWouldFail])
            .evidence("allow_compat_mode: false", CUFILE)
            .evidence("not there", NVIDIA_FS));
    }
    match p2pdma {
        true => by_p2pdma(input),
        false => by_nvidia_fs(input),
    }
}

fn by_nvidia_fs(input: &CheckInput<'_>) -> Judgement {
    let Some(version) = input.observed.storage.version.or_unread("the version of nvidia_fs")?
    else {
        return Ok(Outcome::pass("nvidia_fs is loaded").evidence("there", NVIDIA_FS));
    };
    let is_open = input.facts.gpu.nvidia.known().map(|driver| driver.open);
    let at = format!("{NVIDIA_FS}/version");
    if numbers(version) >= OPEN_ONLY && is_open == Some(false) {
        let code = StorageFinding::NvidiaFsNeedsOpenModules { version: version.clone() };
        return Ok(Outcome::warn([code])
            .evidence(version, at)
            .evidence("proprietary kernel modules", "/proc/driver/nvidia/version"));
    }
    Ok(Outcome::pass(format!("nvidia_fs {version}")).evidence(version, at))
}

fn numbers(version: &str) -> (u32, u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

fn by_p2pdma(input: &CheckInput<'_>) -> Judgement {
    let asked = |outcome: Outcome| outcome.evidence("use_pci_p2pdma: true", CUFILE);
    let version = "/proc/driver/nvidia/version";
    let Some(driver) = input.facts.gpu.nvidia.or_unread("the NVIDIA driver's version")? else {
        return Ok(asked(Outcome::warn([StorageFinding::P2pdmaWithoutDriver]))
            .evidence("not there", version));
    };
    if !driver.open || numbers(&driver.version).0 < P2PDMA_DRIVER {
        let kind = if driver.open { "open" } else { "proprietary" };
        let code = StorageFinding::P2pdmaNeedsOpenModules {
            driver: driver.version.clone(),
            open: driver.open,
        };
        return Ok(
            asked(Outcome::warn([code])).evidence(format!("{}, {kind}", driver.version), version)
        );
    }
    let is_built = &input.observed.storage.p2pdma;
    Ok(match is_built.or_unread("whether the kernel has CONFIG_PCI_P2PDMA=y")? {
        Some(true) => asked(Outcome::pass("P2PDMA mode"))
            .evidence("CONFIG_PCI_P2PDMA=y", kernel_config::PLACES),
        _ => asked(Outcome::warn([StorageFinding::KernelWithoutP2pdma]))
            .evidence("no line CONFIG_PCI_P2PDMA=y", kernel_config::PLACES),
    })
}

fn cufile(input: &CheckInput<'_>) -> Judgement {
    Ok(match &input.observed.storage.cufile {
        Reading::Absent => Outcome::not_applicable("no /etc/cufile.json"),
        Reading::Unknown(why) => unread(CUFILE, why),
        Reading::Known(Ok(_)) => {
            Outcome::pass("well-formed, with the right types").evidence("read", CUFILE)
        }
        Reading::Known(Err(wrong)) => {
            let (line, problem) = (wrong.line, wrong.problem);
            Outcome::warn([StorageFinding::CufileInvalid { line, problem }])
                .evidence(problem.to_string(), format!("{CUFILE}:{line}"))
        }
    })
}

fn path(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    if !in_use(input)? {
        return Ok(Outcome::not_applicable(NOT_IN_USE));
    }
    let tree = topology.tree();
    let pairs = input.pairs(|peer| peer == Peer::Nvme)?;
    if pairs.is_empty() {
        return Ok(Outcome::not_applicable("no GPU shares a switch with an NVMe disk"));
    }
    let mut redirecting: BTreeMap<PciAddress, &Acs> = BTreeMap::new();
    let mut detoured = 0;
    for pair in &pairs {
        let mut is_detoured = false;
        for port in pair.legs.iter().chain([&pair.switch]) {
            let Some(function) = tree.get(*port) else {
                return Ok(Outcome::unknown(format!("port {port} is not visible here")));
            };
            let acs = function.acs.or_unread(format_args!("ACS of {port}"))?;
            if let Some(acs) = acs.filter(|acs| !acs.control.and(AcsBits::REDIRECT).is_empty()) {
                redirecting.insert(*port, acs);
                is_detoured = true;
            }
        }
        detoured += usize::from(is_detoured);
    }
    let all = pairs.len();
    if redirecting.is_empty() {
        return Ok(Outcome::pass(format!("{all} GPU–NVMe pairs, no redirect in between")));
    }
    let ports = redirecting.keys().copied().collect();
    let seen = redirecting.iter().map(|(port, acs)| {
        port_evidence(*port, acs, &format!("{} on", acs.control.and(AcsBits::REDIRECT)))
    });
    Ok(Outcome::warn([StorageFinding::DiskRedirected { pairs: detoured, of: all, ports }])
        .all_evidence(seen))
}
