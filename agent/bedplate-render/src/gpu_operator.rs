//! Target `gpu-operator`: merge patches for objects of the NVIDIA GPU Operator. They select the kernel modules, and
//! whether the operator loads nvidia_peermem (handbook §6.3).

use serde_json::{Map, Value, json};

use bedplate_core::image_config::{ImageConfig, Registration, Setting};

use super::common::{Unsupported, heading, live_only};
use super::vf_rules::{vf_attributes, vfs};
use super::{Inexpressible, Options, OutFile, RenderError, RenderResult, Target, yaml};

const CLUSTER_POLICY: &str = "clusterpolicy-patch.yaml";
const NVIDIA_DRIVER: &str = "nvidiadriver-patch.yaml";
const PARAMETERS: &str = "kernel-module-params.yaml";
const CONFIG_MAP: &str = "bedplate-kernel-module-params";

/// Modules whose parameters the driver container reads, each from one key of the ConfigMap.
const WITH_PARAMETERS: [(&str, &str); 4] = [
    ("nvidia", "nvidia.conf"),
    ("nvidia_modeset", "nvidia-modeset.conf"),
    ("nvidia_peermem", "nvidia-peermem.conf"),
    ("nvidia_uvm", "nvidia-uvm.conf"),
];

const ELSEWHERE: Unsupported = Unsupported {
    why: "the GPU Operator configures only the NVIDIA driver",
    instead: "set it in the nodes' image or machine configuration; render that target as well",
};

pub(crate) const TARGET: Target = Target::new(
    "gpu-operator",
    "patches for the NVIDIA GPU Operator: kernel modules, DMA-BUF or nvidia_peermem",
    &[CLUSTER_POLICY, PARAMETERS, NVIDIA_DRIVER],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    let parameters = parameters(build);
    let driver = driver(build, !parameters.is_empty());
    if !parameters.is_empty() {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": CONFIG_MAP, "namespace": "gpu-operator" },
            "data": parameters,
        });
        push(&mut rendered, build, PARAMETERS, &map)?;
        rendered.notes.push(format!("apply {PARAMETERS} before the patch that uses it"));
    }
    if !driver.is_empty() {
        let extras = extras(build);
        let mut of_cluster = extras.clone();
        of_cluster.insert("driver".to_owned(), Value::Object(driver.clone()));
        push(&mut rendered, build, CLUSTER_POLICY, &json!({ "spec": of_cluster }))?;
        let of_driver: Map<String, Value> = driver.into_iter().chain(extras).collect();
        push(&mut rendered, build, NVIDIA_DRIVER, &json!({ "spec": of_driver }))?;
        rendered.notes.push(format!(
            "run `kubectl patch clusterpolicy cluster-policy --type merge --patch-file {CLUSTER_POLICY}`; if the \
            ClusterPolicy has `useNvidiaDriverCRD: true`, run `kubectl patch nvidiadriver NAME --type merge \
            --patch-file {NVIDIA_DRIVER}` instead"
        ));
    }
    rendered.notes.extend(build.gpudirect.map(|asked| {
        match asked.way {
            Registration::DmaBuf => {
                "DMA-BUF needs Linux 5.12 or later and GPUs of Turing or later (NVIDIA GPU Operator documentation; handbook §6.3)"
            }
            Registration::Peermem => {
                "nvidia_peermem needs the ib_core of MLNX_OFED or DOCA-OFED; if the Network Operator's container \
                provides it, set `useHostMofed: false` (handbook §6.3)"
            }
        }
        .to_owned()
    }));
    let patched = !rendered.files.is_empty();
    ELSEWHERE.leave(build, options.arch, |setting| carried(setting, patched), &mut rendered)?;
    rendered.inexpressible.extend(unsupported_settings(build));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// Returns the settings that no GPU operator handles.
pub(super) fn unsupported_settings(build: &ImageConfig) -> Vec<Inexpressible> {
    let by = "render target sriov-operator as well, or run bedplate on the nodes";
    let live = live_only(build, |live| &live.with_agent);
    vfs(build, by).into_iter().chain(vf_attributes(build, by)).chain(live).collect()
}

fn push(
    rendered: &mut RenderResult,
    build: &ImageConfig,
    path: &'static str,
    content: &Value,
) -> Result<(), RenderError> {
    let text = format!("{}{}", heading(build, "# "), yaml::value(path, content)?);
    rendered.files.push(OutFile::new(path, text));
    Ok(())
}

/// Returns the content of `spec.driver` in ClusterPolicy, and of `spec` in NVIDIADriver.
fn driver(build: &ImageConfig, parameters: bool) -> Map<String, Value> {
    let mut driver = Map::new();
    match build.gpudirect.map(|asked| asked.way) {
        Some(Registration::DmaBuf) => {
            driver.insert("kernelModuleType".to_owned(), json!("open"));
            driver.insert("rdma".to_owned(), json!({ "enabled": false }));
        }
        Some(Registration::Peermem) => {
            driver.insert("rdma".to_owned(), json!({ "enabled": true, "useHostMofed": true }));
        }
        None => {}
    }
    if parameters {
        driver.insert("kernelModuleConfig".to_owned(), json!({ "name": CONFIG_MAP }));
    }
    driver
}

/// Returns the modules that the operator loads from separate containers.
fn extras(build: &ImageConfig) -> Map<String, Value> {
    let on = [("nvidia_fs", "gds"), ("gdrdrv", "gdrcopy")]
        .into_iter()
        .filter(|(module, _)| loads(build, module));
    on.map(|(_, key)| (key.to_owned(), json!({ "enabled": true }))).collect()
}

fn loads(build: &ImageConfig, name: &str) -> bool {
    let is = |setting: &Setting| matches!(setting, Setting::LoadModule(module) if module.as_str() == name);
    build.settings().any(is)
}

/// Returns the files of module parameters. The container reads one parameter per line, and passes it to modprobe verbatim.
fn parameters(build: &ImageConfig) -> Map<String, Value> {
    let mut files = Map::new();
    for (module, key) in WITH_PARAMETERS {
        let line = |setting: &Setting| match setting {
            Setting::ModuleOption { module: of, parameter, value }
                if of.as_str() == module && has_no_blanks(value) =>
            {
                Some(format!("{parameter}={value}\n"))
            }
            _ => None,
        };
        let text: String = build.settings().filter_map(line).collect();
        if !text.is_empty() {
            files.insert(key.to_owned(), json!(text));
        }
    }
    files
}

/// Whether modprobe would leave the value unquoted; it quotes values with blanks again.
fn has_no_blanks(value: &str) -> bool {
    !value.contains(['"', ' '])
}

/// Whether the operator can express the setting. The driver container always loads NVIDIA's own modules.
fn carried(setting: &Setting, patched: bool) -> bool {
    match setting {
        Setting::LoadModule(module) => {
            patched
                && [
                    "nvidia",
                    "nvidia_uvm",
                    "nvidia_modeset",
                    "nvidia_peermem",
                    "nvidia_fs",
                    "gdrdrv",
                ]
                .contains(&module.as_str())
        }
        Setting::ModuleOption { module, value, .. } => {
            has_no_blanks(value) && WITH_PARAMETERS.iter().any(|(name, _)| *name == module.as_str())
        }
        Setting::BlacklistModule(_) | Setting::Sysctl { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired, empty_desired, with_profile};
    use super::*;

    #[test]
    fn dma_buf_needs_open_modules_and_no_peermem() {
        let build = with_profile("[modules]\ngpudirect = \"dmabuf\"\n", &empty_desired());
        let rendered = render(&build, &Options::default()).unwrap();
        let text = &rendered.file(CLUSTER_POLICY).unwrap().text;
        assert!(
            text.ends_with(
                "\nspec:\n  driver:\n    kernelModuleType: open\n    rdma:\n      enabled: false\n"
            ),
            "{text}"
        );
        assert_eq!(rendered.inexpressible, []);
    }

    #[test]
    fn operator_loads_peermem_with_its_parameters() {
        let rendered = render(&build(&desired()), &Options::default()).unwrap();
        let text = &rendered.file(NVIDIA_DRIVER).unwrap().text;
        assert!(text.contains("  rdma:\n    enabled: true\n    useHostMofed: true\n"), "{text}");
        assert!(
            text.contains("  kernelModuleConfig:\n    name: bedplate-kernel-module-params\n"),
            "{text}"
        );
        let map = &rendered.file(PARAMETERS).unwrap().text;
        assert!(map.contains("  nvidia-peermem.conf: |\n    peerdirect_support=1\n"), "{map}");
        let listed = |what: &str| rendered.inexpressible.iter().any(|item| item.what == what);
        assert!(
            listed("option netns_mode=1 of module ib_core")
                && listed("module ib_uverbs loaded at boot")
        );
        assert!(!listed("module nvidia_peermem loaded at boot"));
    }

    #[test]
    fn machines_without_nvidia_gpus_get_no_patch() {
        let sections = "[modules]\ngpudirect = \"auto\"\n[match]\npci = [{ id = \"1002:74a1\" }]\n";
        let rendered =
            render(&with_profile(sections, &empty_desired()), &Options::default()).unwrap();
        assert_eq!(rendered, RenderResult::default());
    }
}
