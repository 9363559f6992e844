//! `systemctl daemon-reload`, after which systemd knows new drop-ins. It also applies the device rules of all control groups
//! again: with the systemd cgroup driver, containers lose the GPUs that NVIDIA's runtime hook gave them
//! (nvidia-container-toolkit issues 48 and 251). So bedplate runs it only where no container runtime runs. Elsewhere the next
//! boot does the same, and processes keep their limits until then anyway.

use std::collections::BTreeSet;

use super::target::LimitTarget;
use crate::ledger::Generator;
use crate::plan::{Action, ToolUndo};
use bedplate_base::ReadError;
use bedplate_facts::service_processes;
use bedplate_host::{HostKind, Reader};

/// Has systemd read its units again.
pub(super) const ARGV: &[&str] = &["systemctl", "daemon-reload"];
/// Directory that exists while systemd runs (sd_booted(3)).
pub(super) const SYSTEMD: &str = "/run/systemd/system";
/// Time limit in seconds. With thousands of units it takes several.
const LIMIT_S: u32 = 90;
/// Programs of container runtimes.
const RUNTIMES: [&str; 3] = ["containerd", "crio", "dockerd"];

/// Whether a command is the reload.
pub(crate) fn is_reload(argv: &[String]) -> bool {
    argv == ARGV
}

/// Whether systemd reads a file as part of a unit.
pub(crate) fn is_unit_file(path: &str) -> bool {
    path.starts_with("/etc/systemd/system/")
}

/// Returns the reload for a revert.
pub(crate) fn tool() -> Generator {
    Generator {
        argv: ARGV.iter().map(|&word| word.to_owned()).collect(),
        purpose: "have systemd read its units again".to_owned(),
        limit_s: LIMIT_S,
    }
}

/// Returns the action.
pub(super) fn action() -> Action {
    let Generator { argv, purpose, limit_s } = tool();
    Action::RunTool { argv, purpose, touches: Vec::new(), undo: ToolUndo::Repeat, limit_s }
}

/// Returns the services that start containers: known names in any slice, and any service in system.slice with their program.
fn running_runtimes(reader: &dyn Reader) -> Result<BTreeSet<String>, ReadError> {
    let mut found: BTreeSet<String> =
        service_processes::with_program(reader, &RUNTIMES)?.into_keys().collect();
    for name in LimitTarget::services().filter(|name| !["slurmd", "kubelet"].contains(name)) {
        if service_processes::of_service(reader, name)?.is_some() {
            found.insert(name.to_owned());
        }
    }
    Ok(found)
}

/// Returns why the reload does not run on this host; `None` if it may.
pub(crate) fn hindrance(reader: &dyn Reader) -> Option<String> {
    if reader.kind() == HostKind::Image || reader.exists(SYSTEMD) == Ok(false) {
        return Some("systemd does not run here".to_owned());
    }
    let running = match running_runtimes(reader) {
        Ok(services) if services.is_empty() => return None,
        Ok(services) => format!("{} runs", services.into_iter().collect::<Vec<_>>().join(", ")),
        Err(error) => format!("a container runtime may run: {error}"),
    };
    Some(format!(
        "{running}, and `systemctl daemon-reload` can take the GPUs from its containers (nvidia-container-toolkit issue 48)"
    ))
}
