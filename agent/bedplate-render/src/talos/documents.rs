//! The documents that replace `machine.kernel`, `machine.sysctls` and `machine.sysfs` in Talos 1.14.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{KernelModule, Machine};
use crate::{RenderError, yaml};

/// Renders one document per module, then one for each map.
pub(super) fn text(machine: Machine) -> Result<String, RenderError> {
    let modules = machine.kernel.into_iter().flat_map(|kernel| kernel.modules);
    let documents = modules
        .map(|module| module_document(&module))
        .chain(params("SysctlConfig", &machine.sysctls))
        .chain(params("SysfsConfig", &machine.sysfs));
    let texts: Vec<String> =
        documents.map(|one| yaml::document("Talos document", &one)).collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

fn module_document(module: &KernelModule) -> Value {
    let mut document =
        json!({ "apiVersion": "v1alpha1", "kind": "KernelModuleConfig", "name": module.name });
    if !module.parameters.is_empty() {
        document["parameters"] = json!(module.parameters);
    }
    document
}

fn params(kind: &str, params: &BTreeMap<String, String>) -> Option<Value> {
    (!params.is_empty())
        .then(|| json!({ "apiVersion": "v1alpha1", "kind": kind, "params": params }))
}
