//! Target `machineconfig`: one OpenShift MachineConfig. The operator drains and reboots the nodes itself, so this
//! target does not handle reboots (handbook §10.4).

use std::collections::BTreeMap;

use serde::Serialize;

use bedplate_core::image_config::{ImageConfig, Setting};

use super::agent::{Agent, undecided_registration};
use super::common::{
    Unsupported, files, grub_words, kernel_arguments, live_only, names_nvidia_modules, preamble,
};
use super::ignition::File;
use super::vf_rules::{BY_OPERATOR, vf_attributes, vfs};
use super::{Options, OutFile, RenderError, RenderResult, Target, yaml};

/// Ignition specification of the embedded config; every supported OpenShift reads it.
const IGNITION_VERSION: &str = "3.4.0";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineConfig {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Serialize)]
struct Metadata {
    name: String,
    labels: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    config: Config,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kernel_arguments: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Config {
    ignition: Ignition,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<Storage>,
}

#[derive(Debug, Serialize)]
struct Ignition {
    version: &'static str,
}

#[derive(Debug, Serialize)]
struct Storage {
    files: Vec<File>,
}

pub(crate) const TARGET: Target = Target::new(
    "machineconfig",
    "OpenShift MachineConfig with kernel arguments, module and sysctl files",
    &["99-{role}-bedplate.yaml"],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let role = checked_role(&options.role)?;
    let tokens = kernel_arguments(build, options.arch)?;
    let vfs = vfs(build, "write a SriovNetworkNodePolicy for the SR-IOV network operator");
    let left = vfs.into_iter().chain(undecided_registration(build));
    let left = left.chain(vf_attributes(build, BY_OPERATOR));
    let agent = Agent::with_rest(
        build,
        options,
        left.chain(live_only(build, |live| &live.with_agent)).collect(),
    );
    let files = files(build).chain(agent.files(build));
    let files: Vec<File> = files.map(|out| File::from_file(&out)).collect();
    let mut rendered = RenderResult {
        notes: notes(build, !tokens.is_empty(), !files.is_empty()),
        ..RenderResult::default()
    };
    rendered.add(agent.rest);
    if tokens.is_empty() && files.is_empty() {
        return Ok(rendered);
    }
    let name = format!("99-{role}-bedplate");
    let config = MachineConfig {
        api_version: "machineconfiguration.openshift.io/v1",
        kind: "MachineConfig",
        metadata: Metadata {
            name: name.clone(),
            labels: BTreeMap::from([("machineconfiguration.openshift.io/role", role.to_owned())]),
        },
        spec: Spec {
            config: Config {
                ignition: Ignition { version: IGNITION_VERSION },
                storage: (!files.is_empty()).then_some(Storage { files }),
            },
            // rpm-ostree stores each text verbatim, and GRUB reads the boot entry as script: without quotes it would
            // end the line at the first `;` (handbook §10.1).
            kernel_arguments: grub_words(&tokens)?,
        },
    };
    let body = yaml::document("MachineConfig", &config)?;
    let text = format!("{}{body}", preamble(build, "# "));
    rendered.files.push(OutFile::new(format!("{name}.yaml"), text));
    Ok(rendered)
}

/// Checks a role, which is part of an object's name and a label value: RFC 1123, 63 characters.
fn checked_role(role: &str) -> Result<&str, RenderError> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !role.is_empty()
        && role.len() <= 63
        && role.chars().all(inner)
        && !role.starts_with('-')
        && !role.ends_with('-');
    let how = "use lower-case letters, digits and `-`, e.g. worker";
    good.then_some(role)
        .ok_or_else(|| RenderError::Refused(format!("invalid MachineConfig role `{role}`: {how}")))
}

const NOT_REMOVED: Unsupported = Unsupported {
    why: "the operator removes only arguments that a MachineConfig added",
    instead: "remove it from the MachineConfig that sets it; if the installer set it, delete it on the node with \
    `rpm-ostree kargs`",
};

fn notes(build: &ImageConfig, arguments: bool, files: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if arguments || files {
        notes.push(
            "the Machine Config Operator drains and reboots every node of the pool to apply this"
                .to_owned(),
        );
    }
    if arguments {
        notes.push(
            "arguments with special characters are quoted for GRUB; remove the quotes on nodes with another boot loader (s390x)"
                .to_owned(),
        );
    }
    if build.settings().any(|setting| matches!(setting, Setting::ModuleOption { .. })) {
        notes.push(
            "modules loaded in the initramfs do not read modprobe.d: set their options as `module.parameter=value` in \
            [cmdline] (libkmod; handbook §1.6, §9)"
                .to_owned(),
        );
    }
    notes.extend(NOT_REMOVED.not_removed(build.absent_tokens()));
    notes.extend(build.notes.iter().cloned());
    if names_nvidia_modules(build) {
        notes.push(
            "with the GPU Operator, the NVIDIA modules exist only in its driver container: remove them from the \
            profile and set their parameters in the operator's kernelModuleConfig (NVIDIA GPU Operator documentation; \
            handbook §9)"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired, empty_desired, with_profile};
    use super::*;

    #[test]
    fn document_has_ordered_arguments_and_encoded_files() {
        let rendered = render(&build(&desired()), &Options::default()).unwrap();
        let [file] = rendered.files.as_slice() else { panic!("{:?}", rendered.files) };
        assert_eq!(file.path, "99-worker-bedplate.yaml");
        let body =
            file.text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        let (before, after) = body.split_once("        source: ").unwrap();
        assert_eq!(
            before,
            "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  \
             name: 99-worker-bedplate\n  labels:\n    machineconfiguration.openshift.io/role: worker\nspec:\n  \
             config:\n    ignition:\n      version: \"3.4.0\"\n    storage:\n      files:\n      \
             - path: /etc/modules-load.d/bedplate.conf\n        mode: 420\n        overwrite: true\n        \
             contents:\n  "
        );
        assert!(after.contains("data:,%23%20written%20by%20bedplate"), "{after}");
        assert!(
            after.ends_with(
                "  kernelArguments:\n  - iommu=pt\n  \
             - pci=realloc,config_acs=\"xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0\"\n  - hugepages=64"
            ),
            "{after}"
        );
    }

    #[test]
    fn invalid_role_name_is_rejected() {
        let with_role = |role: &str| Options { role: role.to_owned(), ..Options::default() };
        for role in ["", "Worker", "a_b", "-a", "a-", "a/b", &"x".repeat(64)] {
            assert!(render(&build(&desired()), &with_role(role)).is_err(), "{role}");
        }
        let rendered = render(&build(&desired()), &with_role("gpu-h100")).unwrap();
        assert!(
            rendered
                .file("99-gpu-h100-bedplate.yaml")
                .unwrap()
                .text
                .contains("io/role: gpu-h100\n")
        );
    }

    #[test]
    fn nvidia_modules_cause_note() {
        let notes =
            |desired| render(&build(&desired), &Options::default()).unwrap().notes.join("\n");
        assert!(notes(desired()).contains("GPU Operator"));
        let mut other = desired();
        other.modules.load.pop();
        other.modules.options.pop();
        assert!(!notes(other).contains("GPU Operator"));
    }

    #[test]
    fn sysctls_are_rendered_as_file() {
        let sections = "[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n";
        let rendered =
            render(&with_profile(sections, &empty_desired()), &Options::default()).unwrap();
        let text = &rendered.file("99-worker-bedplate.yaml").unwrap().text;
        assert!(text.contains("- path: /etc/sysctl.d/zz-bedplate.conf\n"), "{text}");
        assert!(text.contains("kernel.numa_balancing%20%3D%200%0A"), "{text}");
        assert_eq!(rendered.inexpressible, []);
    }
}
