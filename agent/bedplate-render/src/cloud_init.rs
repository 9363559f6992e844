//! Target `cloud-init`: user data that writes the files and runs the host's tools to apply them.

use serde_json::{Value, json};

use bedplate_core::image_config::ImageConfig;

use super::agent;
use super::common::preamble;
use super::provision::Host;
use super::{Options, OutFile, RenderError, RenderResult, Target, yaml};

const USER_DATA: &str = "bedplate.cloud-config.yaml";

pub(crate) const TARGET: Target = Target::new(
    "cloud-init",
    "cloud-init user data for a Debian or RHEL family host: GRUB settings, files, unit",
    &[USER_DATA],
    render,
)
.by_family();

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let host = Host::from_build(build, options)?;
    let mut rendered = host.rest.clone();
    let mut entries: Vec<Value> = host.files.iter().map(|file| entry(file, false)).collect();
    entries.extend(
        host.default_grub
            .iter()
            .map(|file| entry(&OutFile::new("etc/default/grub", file.text.clone()), true)),
    );
    if entries.is_empty() {
        return Ok(rendered);
    }
    let mut config = json!({ "write_files": entries });
    let commands = commands(&host);
    if !commands.is_empty() {
        config["runcmd"] = json!(commands);
    }
    // cloud-init identifies its user data by the first line.
    let text =
        format!("#cloud-config\n{}{}", preamble(build, "# "), yaml::value("user data", &config)?);
    rendered.files.push(OutFile::new(USER_DATA, text));
    rendered.notes.push(
        "cloud-init writes files and runs commands once per instance; run `cloud-init clean` before making an image of the host"
            .to_owned(),
    );
    Ok(rendered)
}

fn entry(file: &OutFile, append: bool) -> Value {
    let mut entry = json!({
        "path": format!("/{}", file.path),
        "permissions": format!("{:04o}", file.mode),
        "content": file.text,
    });
    if append {
        entry["append"] = json!(true);
    }
    entry
}

fn commands(host: &Host) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<&str>> = Vec::new();
    if host.sets_sysctls {
        commands.push(vec!["sysctl", "--system"]);
    }
    if host.loads_modules {
        commands.push(vec!["systemctl", "restart", "systemd-modules-load.service"]);
    }
    commands.extend(host.initramfs.clone());
    commands.extend(host.boot_loader.clone());
    let enable = agent::enable("", "--now ", "");
    if host.agent {
        commands.push(vec!["sh", "-c", &enable]);
    }
    let owned = |command: &Vec<&str>| command.iter().map(|&word| word.to_owned()).collect();
    commands.iter().map(owned).collect()
}
