//! Target `ansible`: a role with tasks, handlers and files. Running it a second time changes nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kind::contribution::Contributions;

use super::common::{AGENT_UNIT, heading};
use super::provision::Host;
use super::{Options, OutFile, RenderError, Rendered, yaml};

const TASKS: &str = "tasks/main.yml";
const HANDLERS: &str = "handlers/main.yml";

/// `bedplate_root`: a root directory that is not running; its tools are not run.
const ROOT: &str = "{{ bedplate_root | default('') }}";
const RUNNING: &str = "bedplate_root is not defined";

const BOOT_LOADER: &str = "Update the boot loader";
const INITRAMFS: &str = "Rebuild the initramfs";
const MODULES: &str = "Load modules";
const SYSCTLS: &str = "Apply kernel parameters";
const UDEV: &str = "Reload udev rules";

pub(super) fn render(build: &Contributions, options: &Options) -> Result<Rendered, RenderError> {
    let host = Host::of(build, options)?;
    let mut rendered = host.rest.clone();
    if host.files.is_empty() && host.default_grub.is_none() {
        return Ok(rendered);
    }
    let mut push = |path: &'static str, content: Vec<Value>| -> Result<(), RenderError> {
        let text =
            format!("{}---\n{}", heading(build, "# "), yaml::value(path, &Value::Array(content))?);
        rendered.files.push(OutFile::new(path, text));
        Ok(())
    };
    push(TASKS, tasks(&host))?;
    push(HANDLERS, handlers(&host))?;
    let carried = host.files.iter().chain(&host.default_grub);
    rendered.files.extend(
        carried.map(|file| OutFile { path: format!("files/{}", file.path), ..file.clone() }),
    );
    rendered.notes.push(
        "render with `-o roles/bedplate` and name the role in a play with `become: true`; `bedplate_root` sets up a root directory that is not running, whose boot loader and initramfs are then left to you"
            .to_owned(),
    );
    Ok(rendered)
}

fn tasks(host: &Host) -> Vec<Value> {
    let directories: BTreeSet<&str> = host
        .files
        .iter()
        .filter_map(|file| file.path.rsplit_once('/'))
        .map(|(dir, _)| dir)
        .collect();
    let directories: Vec<&str> = directories.into_iter().collect();
    let mut tasks = vec![json!({
        "name": "Make the directories",
        "ansible.builtin.file": { "path": format!("{ROOT}/{{{{ item }}}}"), "state": "directory" },
        "loop": directories,
    })];
    for file in &host.files {
        let mut task = json!({
            "name": format!("Write /{}", file.path),
            "ansible.builtin.copy": {
                "src": file.path,
                "dest": format!("{ROOT}/{}", file.path),
                "mode": format!("{:04o}", file.mode),
            },
        });
        let notified = notified(&file.path);
        if !notified.is_empty() {
            task["notify"] = json!(notified);
        }
        tasks.push(task);
    }
    if let Some(file) = &host.default_grub {
        // A block of Ansible's own in a file that is the distribution's.
        tasks.push(json!({
            "name": "Give kernels that are installed later the same arguments",
            "ansible.builtin.blockinfile": {
                "path": format!("{ROOT}/etc/default/grub"),
                "block": format!("{{{{ lookup('ansible.builtin.file', '{}') }}}}", file.path),
                "marker": "# {mark} bedplate",
            },
        }));
    }
    if host.agent {
        let unit = format!("/usr/lib/systemd/system/{AGENT_UNIT}");
        tasks.push(json!({
            "name": "Look for bedplate",
            "ansible.builtin.stat": { "path": unit },
            "register": "bedplate_unit",
            "when": RUNNING,
        }));
        tasks.push(json!({
            "name": "Let bedplate do at boot what no file holds",
            "ansible.builtin.systemd": { "name": AGENT_UNIT, "enabled": true },
            "when": [RUNNING, "bedplate_unit.stat.exists"],
        }));
    }
    tasks
}

fn notified(path: &str) -> Vec<&'static str> {
    match path {
        _ if path.starts_with("etc/default/grub.d/") || path.starts_with("usr/local/sbin/") => {
            vec![BOOT_LOADER]
        }
        _ if path.starts_with("etc/modprobe.d/") => vec![INITRAMFS],
        _ if path.starts_with("etc/modules-load.d/") => vec![MODULES],
        _ if path.starts_with("etc/sysctl.d/") => vec![SYSCTLS],
        _ if path.starts_with("etc/udev/") => vec![UDEV],
        _ => Vec::new(),
    }
}

fn handlers(host: &Host) -> Vec<Value> {
    let handler = |name: &str, argv: &[&str]| {
        json!({
            "name": name,
            "ansible.builtin.command": { "argv": argv },
            "changed_when": true,
            "when": RUNNING,
        })
    };
    let mut handlers = Vec::new();
    if host.sets_sysctls {
        handlers.push(handler(SYSCTLS, &["sysctl", "--system"]));
    }
    if host.loads_modules {
        handlers.push(handler(MODULES, &["systemctl", "restart", "systemd-modules-load.service"]));
    }
    if host.files.iter().any(|file| file.path.starts_with("etc/udev/")) {
        handlers.push(handler(UDEV, &["udevadm", "control", "--reload"]));
    }
    handlers.extend(host.initramfs.as_ref().map(|argv| handler(INITRAMFS, argv)));
    handlers.extend(host.boot_loader.as_ref().map(|argv| handler(BOOT_LOADER, argv)));
    handlers
}
