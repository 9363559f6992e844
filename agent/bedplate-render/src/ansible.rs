//! Target `ansible`: a role with tasks and files. A task that runs a command after a file change first checks whether
//! the command is still needed, so that the next run repairs one that failed half-way. A repeated run changes nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use bedplate_core::image_config::{ImageConfig, Setting};
use bedplate_core::modules_conf::MODPROBE_PATH;
use bedplate_facts::systemd_units::OWN;

use super::common::{heading, in_shell_single_quotes};
use super::provision::Host;
use super::{
    GrubFamily, Options, OutFile, RenderError, RenderResult, SCRIPT_MODE, Target, grub, yaml,
};

const TASKS: &str = "tasks/main.yml";
/// Checks whether a step is done; the module `script` copies it to the host without templating.
const CHECK: &str = "bedplate-is-done.sh";

/// `bedplate_root`: a root directory that is not running; no tools are run for it.
const ROOT: &str = "{{ bedplate_root | default('') }}";
/// Variable of the task that writes module options.
const MODPROBE: &str = "bedplate_modprobe";
/// Step that applies module options.
const INITRAMFS: &str = "initramfs";
const RUNNING: &str = "bedplate_root is not defined";

/// A command to run after the files are written.
struct Step {
    /// Argument of [`CHECK`], and part of variable names.
    id: &'static str,
    /// Name of the task.
    name: &'static str,
    /// Lines of [`CHECK`], which exit with a nonzero status unless the step is done.
    test: String,
    /// The command.
    argv: Vec<&'static str>,
    /// Whether it applies to the running system only: then its failure does not stop other steps.
    is_live: bool,
}

pub(crate) const TARGET: Target = Target::new(
    "ansible",
    "Ansible role for a Debian or RHEL family host: GRUB settings, module, sysctl and udev files",
    &[
        TASKS,
        "files/bedplate-is-done.sh",
        // Of earlier versions.
        "handlers/main.yml",
        "files/default-grub.append",
        "files/usr/local/sbin/bedplate-grubby.sh",
        "files/etc/default/grub.d/zz-bedplate.cfg",
        "files/etc/modprobe.d/zz-bedplate.conf",
        "files/etc/modules-load.d/bedplate.conf",
        "files/etc/sysctl.d/zz-bedplate.conf",
        "files/etc/systemd/system/{service}.service.d/zz-bedplate.conf",
        "files/etc/security/limits.d/zz-bedplate.conf",
        "files/etc/nccl.conf",
        "files/etc/cufile.json",
        "files/etc/udev/rules.d/70-bedplate-sriov.rules",
        "files/etc/bedplate/profile.toml",
    ],
    render,
)
.by_family();

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let host = Host::from_build(build, options)?;
    let mut rendered = host.rest.clone();
    if host.files.is_empty() && host.default_grub.is_none() {
        return Ok(rendered);
    }
    let steps = steps(build, &host, options)?;
    let tasks = yaml::value(TASKS, &Value::Array(tasks(&host, &steps)))?;
    rendered.files.push(OutFile::new(TASKS, format!("{}---\n{tasks}", heading(build, "# "))));
    if !steps.is_empty() {
        rendered.files.push(OutFile {
            path: format!("files/{CHECK}"),
            mode: SCRIPT_MODE,
            text: script(build, &steps),
        });
    }
    let carried = host.files.iter().chain(&host.default_grub);
    rendered.files.extend(
        carried.map(|file| OutFile { path: format!("files/{}", file.path), ..file.clone() }),
    );
    rendered.notes.push(
        "render with `-o roles/bedplate` and use the role in a play with `become: true`; to set up a root directory \
        that is not running, set `bedplate_root`, then update its boot loader and initramfs yourself"
            .to_owned(),
    );
    Ok(rendered)
}

/// Returns the steps in order: first those that the next boot needs.
fn steps(build: &ImageConfig, host: &Host, options: &Options) -> Result<Vec<Step>, RenderError> {
    let mut steps = Vec::new();
    if let Some(argv) = &host.boot_loader {
        steps.push(Step {
            id: "boot_loader",
            name: "Update the boot loader",
            test: grub::entry_test(build, options)?,
            argv: argv.clone(),
            is_live: false,
        });
    }
    if let Some(argv) = &host.initramfs {
        let (image, end) = match options.grub_family {
            GrubFamily::Debian => ("/boot/initrd.img-", ""),
            GrubFamily::Rhel => ("/boot/initramfs-", ".img"),
        };
        // The tools skip images of rescue systems, and of kernels whose modules are gone.
        let test = format!(
            "for kernel in /boot/vmlinuz-*; do\n  release=${{kernel#/boot/vmlinuz-}}\n  image={image}$release{end}\n  \
             case $release in *rescue*) continue ;; esac\n  [ -e \"$image\" ] || continue\n  \
             [ ! -d /lib/modules ] || [ -d \"/lib/modules/$release\" ] || continue\n  \
             [ -n \"$(find \"$image\" -newer {MODPROBE_PATH})\" ] || exit 1\ndone\n"
        );
        steps.push(Step {
            id: INITRAMFS,
            name: "Rebuild the initramfs",
            test,
            argv: argv.clone(),
            is_live: false,
        });
    }
    if host.loads_modules {
        let loaded = build.settings().filter_map(|setting| match setting {
            Setting::LoadModule(module) => Some(format!("[ -d /sys/module/{module} ] || exit 1\n")),
            _ => None,
        });
        steps.push(Step {
            id: "modules",
            name: "Load modules",
            test: loaded.collect(),
            argv: vec!["systemctl", "restart", "systemd-modules-load.service"],
            is_live: true,
        });
    }
    steps.extend(host.sets_sysctls.then(|| apply_sysctls(build)));
    Ok(steps)
}

/// Returns the step that applies kernel parameters.
fn apply_sysctls(build: &ImageConfig) -> Step {
    let set = build.settings().filter_map(|setting| match setting {
        // The kernel puts tabs between numbers. A missing key belongs to a missing device.
        Setting::Sysctl { key, value } => Some(format!(
            "if now=$(sysctl -n {} 2>/dev/null); then\n  [ \"$(printf '%s' \"$now\" | tr '\\t' ' ')\" = {} ] || exit 1\nfi\n",
            in_shell_single_quotes(key),
            in_shell_single_quotes(value),
        )),
        _ => None,
    });
    Step {
        id: "sysctls",
        name: "Apply kernel parameters",
        test: set.collect(),
        argv: vec!["sysctl", "--system"],
        is_live: true,
    }
}

fn script(build: &ImageConfig, steps: &[Step]) -> String {
    let mut text = format!(
        "#!/bin/sh\n{}# Exits with status 0 if the step is done.\ncase $1 in\n",
        heading(build, "# ")
    );
    for Step { id, test, .. } in steps {
        let _ = write!(text, "{id})\n{test};;\n");
    }
    text + "*) exit 2 ;;\nesac\nexit 0\n"
}

/// Returns the tasks that check a step, run it if needed, and check it again.
fn tasks_of(step: &Step) -> Vec<Value> {
    let Step { id, name, argv, is_live, .. } = step;
    let found = format!("bedplate_{id}");
    let done = format!("bedplate_{id}_done");
    let check = |name: String| {
        json!({
            "name": name,
            "ansible.builtin.script": format!("{CHECK} {id}"),
            "changed_when": false,
            "check_mode": false,
        })
    };
    let mut before = check(format!("{name}: check"));
    before["register"] = json!(found);
    before["failed_when"] = json!(false);
    before["when"] = json!(RUNNING);
    let mut act = json!({
        "name": name,
        "ansible.builtin.command": { "argv": argv },
        "register": done,
        "changed_when": true,
        "when": [RUNNING, format!("{found}.rc != 0")],
    });
    if *id == INITRAMFS {
        // If the image is not where the test searches, only a change of the file shows that a rebuild is needed.
        act["when"] = json!([RUNNING, format!("{found}.rc != 0 or {MODPROBE} is changed")]);
    }
    let mut after = check(format!("{name}: check result"));
    after["when"] = json!([RUNNING, format!("{done} is changed")]);
    if *is_live {
        act["ignore_errors"] = json!(true);
        return vec![before, act];
    }
    vec![before, act, after]
}

fn tasks(host: &Host, steps: &[Step]) -> Vec<Value> {
    let directories: BTreeSet<&str> = host
        .files
        .iter()
        .filter_map(|file| file.path.rsplit_once('/'))
        .map(|(dir, _)| dir)
        .collect();
    let directories: Vec<&str> = directories.into_iter().collect();
    let mut tasks = vec![json!({
        "name": "Create the directories",
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
        if file.path == MODPROBE_PATH.trim_start_matches('/') {
            task["register"] = json!(MODPROBE);
        }
        tasks.push(task);
    }
    if let Some(file) = &host.default_grub {
        // A block managed by Ansible in a file of the distribution.
        tasks.push(json!({
            "name": "Set the arguments for kernels installed later",
            "ansible.builtin.blockinfile": {
                "path": format!("{ROOT}/etc/default/grub"),
                "block": format!("{{{{ lookup('ansible.builtin.file', '{}') }}}}", file.path),
                "marker": "# {mark} bedplate",
            },
        }));
    }
    let (live, boot): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.is_live);
    tasks.extend(boot.into_iter().flat_map(tasks_of));
    if host.agent {
        let unit = format!("/usr/lib/systemd/system/{}", OWN[1]);
        tasks.push(json!({
            "name": "Check whether bedplate is installed",
            "ansible.builtin.stat": { "path": unit },
            "register": "bedplate_unit",
            "when": RUNNING,
        }));
        tasks.push(json!({
            "name": "Enable the units of bedplate",
            "ansible.builtin.systemd": { "name": "{{ item }}", "enabled": true },
            "loop": OWN,
            "when": [RUNNING, "bedplate_unit.stat.exists"],
        }));
        tasks.push(json!({
            "name": "Report that bedplate is not installed",
            "ansible.builtin.debug": { "msg": "settings deferred to bedplate are not applied" },
            "when": [RUNNING, "not bedplate_unit.stat.exists"],
        }));
    }
    tasks.extend(live_tasks(host, &live));
    tasks
}

/// Returns the tasks for the running system only; the failure of one does not stop the others.
fn live_tasks(host: &Host, live: &[&Step]) -> Vec<Value> {
    let mut tasks = Vec::new();
    if host.files.iter().any(|file| file.path.starts_with("etc/udev/")) {
        tasks.push(json!({
            "name": "Reload udev rules",
            "ansible.builtin.command": { "argv": ["udevadm", "control", "--reload"] },
            "changed_when": false,
            "when": RUNNING,
        }));
    }
    let failed: Vec<String> =
        live.iter().map(|step| format!("bedplate_{}_done is failed", step.id)).collect();
    tasks.extend(live.iter().flat_map(|step| tasks_of(step)));
    if !failed.is_empty() {
        tasks.push(json!({
            "name": "Report a failed step on the running system",
            "ansible.builtin.fail": {
                "msg": "see above; settings for the next boot are done, and the next run retries the rest",
            },
            "when": failed.join(" or "),
        }));
    }
    tasks
}
