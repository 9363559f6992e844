//! Target `butane`: the same content as [`super::ignition`] in the source format of Fedora CoreOS.

use serde_json::{Value, json};

use bedplate_core::image_config::ImageConfig;

use super::common::preamble;
use super::ignition::Machine;
use super::{Options, OutFile, RenderError, RenderResult, Target, yaml};

/// Butane's `fcos` 1.5.0 produces Ignition 3.4.0; it supports kernel arguments since 1.4.0.
const VERSION: &str = "1.5.0";

pub(crate) const TARGET: Target = Target::new(
    "butane",
    "Butane configuration (fcos) with kernel arguments, files and unit",
    &["bedplate.bu"],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let machine = Machine::from_build(build, options)?;
    if machine.is_empty() {
        return Ok(machine.rendered(Vec::new()));
    }
    let mut config = json!({ "variant": "fcos", "version": VERSION });
    if let Some(arguments) = machine.arguments(["should_exist", "should_not_exist"]) {
        config["kernel_arguments"] = arguments;
    }
    let files: Vec<Value> = machine.files.iter().map(file).collect();
    if !files.is_empty() {
        config["storage"] = json!({ "files": files });
    }
    if let Some(systemd) = machine.systemd() {
        config["systemd"] = systemd;
    }
    let text = format!("{}{}", preamble(build, "# "), yaml::value("Butane", &config)?);
    Ok(machine.rendered(vec![OutFile::new("bedplate.bu", text)]))
}

fn file(file: &OutFile) -> Value {
    json!({
        "path": format!("/{}", file.path),
        "mode": file.mode,
        "overwrite": true,
        "contents": { "inline": file.text },
    })
}
