//! Processes that hold GPUs and RDMA devices open. Only for root's own terminal, because command lines may hold
//! secrets. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bedplate_base::format_utc;
use bedplate_base::terminal::one_line;
use bedplate_daemon::reboot::busy::DeviceUse;
use bedplate_host::process::Process;

/// Maximum number of command-line characters shown.
const COMMAND: usize = 200;

/// Lists the processes with their devices, start times and command lines, two lines each. Empty if no device is in use.
pub(crate) fn format_holders(
    in_use: &DeviceUse,
    describe: impl Fn(u32) -> Option<Process>,
) -> String {
    let mut processes: BTreeMap<u32, (&str, Vec<&str>)> = BTreeMap::new();
    for holder in &in_use.holders {
        let (_, devices) = processes.entry(holder.pid).or_insert((&holder.comm, Vec::new()));
        devices.push(&holder.device);
    }
    let mut out = String::new();
    for (pid, (comm, devices)) in processes {
        let _ = write!(out, "in use    {} by {comm} (pid {pid}", devices.join(" "));
        // The process may have ended since.
        let Some(process) = describe(pid) else {
            out.push_str(")\n");
            continue;
        };
        let _ = write!(out, ", user {}", one_line(&process.user));
        if let Some(started) = process.started {
            let _ = write!(out, ", since {}", format_utc(started));
        }
        let command: String = one_line(&process.command).chars().take(COMMAND).collect();
        let _ = writeln!(out, ")\n  command  {command}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_daemon::reboot::busy::Holder;

    #[test]
    fn process_lists_all_devices_and_command_while_running() {
        let holder = |pid, comm: &str, device: &str| Holder {
            pid,
            device: device.to_owned(),
            comm: comm.to_owned(),
        };
        let holders = vec![
            holder(30, "python3", "/dev/nvidia0"),
            holder(30, "python3", "/dev/nvidia1"),
            holder(31, "gone", "/dev/kfd"),
        ];
        let describe = |pid| {
            (pid == 30).then(|| Process {
                user: "ada".to_owned(),
                started: "2026-03-03T03:00:00Z".parse().ok(),
                command: format!("python3 train.py \x1b{}", "x".repeat(COMMAND)),
            })
        };
        let text = format_holders(&DeviceUse { holders, unreadable: 0 }, describe);
        let first = "in use    /dev/nvidia0 /dev/nvidia1 by python3 (pid 30, user ada, since 2026-03-03 03:00:00 UTC)\n  \
                     command  python3 train.py \\u{1b}xxx";
        assert!(text.starts_with(first), "{text}");
        assert!(text.ends_with("x\nin use    /dev/kfd by gone (pid 31)\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COMMAND + 11), "{text}");
    }
}
