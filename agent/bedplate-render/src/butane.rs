//! Target `butane`: what [`super::ignition`] says, as people write it for Fedora CoreOS.

use serde_json::{Map, Value, json};

use bedplate_core::image_config::ImageConfig;

use super::common::preamble;
use super::ignition::Machine;
use super::{Options, OutFile, RenderError, RenderResult, yaml};

/// Butane's `fcos` 1.5.0 makes Ignition 3.4.0; kernel arguments are in it since 1.4.0.
const VERSION: &str = "1.5.0";

pub(super) fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let machine = Machine::from_build(build, options)?;
    if machine.is_empty() {
        return Ok(machine.rendered(Vec::new()));
    }
    let mut config = Map::new();
    config.insert("variant".to_owned(), json!("fcos"));
    config.insert("version".to_owned(), json!(VERSION));
    let mut arguments = Map::new();
    for (key, list) in
        [("should_exist", &machine.should_exist), ("should_not_exist", &machine.should_not_exist)]
    {
        if !list.is_empty() {
            arguments.insert(key.to_owned(), json!(list));
        }
    }
    if !arguments.is_empty() {
        config.insert("kernel_arguments".to_owned(), Value::Object(arguments));
    }
    let files: Vec<Value> = machine.files.iter().map(file).collect();
    if !files.is_empty() {
        config.insert("storage".to_owned(), json!({ "files": files }));
    }
    if let Some(systemd) = machine.systemd() {
        config.insert("systemd".to_owned(), systemd);
    }
    let text =
        format!("{}{}", preamble(build, "# "), yaml::value("Butane", &Value::Object(config))?);
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
