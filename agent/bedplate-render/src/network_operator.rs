//! Target `network-operator`: parts of the NVIDIA Network Operator's NicClusterPolicy, as a merge patch. Its SR-IOV
//! device plugin offers existing VFs to pods.

use serde_json::{Value, json};

use bedplate_base::value::PciId;
use bedplate_core::desired::{FunctionSelector, SriovCount, SriovRule, VfDriver};
use bedplate_core::image_config::{ImageConfig, Registration};

use super::agent;
use super::common::{Unsupported, heading};
use super::vf_rules::{Group, Pfs, groups, names, resource_name, vfs};
use super::{Inexpressible, Options, OutFile, RenderError, RenderResult, Target, yaml};

const PATCH: &str = "nicclusterpolicy-patch.yaml";

const ELSEWHERE: Unsupported = Unsupported {
    why: "a NicClusterPolicy configures only NIC drivers and plugins",
    instead: "set it in the nodes' image or machine configuration; render that target as well",
};

pub(crate) const TARGET: Target = Target::new(
    "network-operator",
    "patch for the NVIDIA Network Operator: VFs for its SR-IOV device plugin",
    &[PATCH],
    render,
)
.for_vfs();

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    let (mut groups, items) = groups(build, build.vfs.iter(), options, |rule| cannot(rule, build));
    groups.retain(|group| group.count > 0);
    rendered.inexpressible.extend(items.into_iter().map(|item| Inexpressible {
        id: item.id.replacen('/', ".resource/", 1),
        what: format!("a resource for {}", item.what),
        ..item
    }));
    if !groups.is_empty() {
        let resources = groups.iter().zip(names(&groups));
        let resources: Vec<Value> = resources.map(|(group, name)| resource(group, &name)).collect();
        let config = format!("{:#}\n", json!({ "resourceList": resources }));
        let patch = json!({ "spec": { "sriovDevicePlugin": { "config": config } } });
        let text = format!("{}{}", heading(build, "# "), yaml::value(PATCH, &patch)?);
        rendered.files.push(OutFile::new(PATCH, text));
        rendered.notes.push(format!(
            "run `kubectl patch nicclusterpolicy nic-cluster-policy --type merge --patch-file {PATCH}`; the policy's \
            sriovDevicePlugin must already name the image and version of your release"
        ));
    }
    match build.gpudirect.map(|asked| asked.way) {
        // The operator's release determines image and version, and the schema requires them.
        Some(Registration::Peermem) => rendered.inexpressible.push(Inexpressible {
            id: "modules/gpudirect".to_owned(),
            what: "an ib_core for nvidia_peermem".to_owned(),
            why: "the container with DOCA-OFED depends on the operator's release".to_owned(),
            instead: "set `ofedDriver` of the NicClusterPolicy to the image, repository and version of your release, unless the \
                      hosts have MLNX_OFED or DOCA-OFED themselves (handbook §6.3)"
                .to_owned(),
        }),
        Some(Registration::DmaBuf) => rendered.notes.push(
            "DMA-BUF works with the kernel's own NIC driver: `ofedDriver` is not needed for it (handbook §6.3)".to_owned(),
        ),
        None => {}
    }
    rendered
        .inexpressible
        .extend(vfs(build, "run bedplate on the nodes: the plugin only offers existing VFs"));
    rendered.inexpressible.extend(agent::of_machine(build));
    ELSEWHERE.leave(build, options.arch, |_| false, &mut rendered)?;
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// NVIDIA's vendor id for NICs.
const MELLANOX: PciId = PciId(0x15b3);

/// Derives the VF's device id from the PF's, because the plugin selects VFs (Linux
/// drivers/net/ethernet/mellanox/mlx5/core/main.c).
fn vf_device(select: &FunctionSelector) -> Option<PciId> {
    let vf = match select.device?.0 {
        pf @ (0x1011 | 0x1013 | 0x1015 | 0x1017 | 0x1019 | 0x101b) => pf + 1,
        0x101d | 0x101f | 0x1021 | 0x1023 | 0x1025 | 0x1027 | 0xa2d6 | 0xa2dc | 0xa2df => 0x101e,
        0xa2d2 => 0xa2d3,
        _ => return None,
    };
    (select.vendor == Some(MELLANOX)).then_some(PciId(vf))
}

/// Returns the reason why the plugin's selectors cannot express a rule.
fn cannot(rule: &SriovRule, build: &ImageConfig) -> Option<&'static str> {
    let select = &rule.select;
    if select.address.is_some() {
        let by_address =
            FunctionSelector { address: select.address, ..FunctionSelector::default() };
        return (*select != by_address)
            .then_some("the plugin cannot combine a PF's address with other selectors");
    }
    // Without VFs there is nothing to offer.
    if rule.vfs == SriovCount::Number(0) {
        return None;
    }
    let is_one = |name: &str| !name.contains(['*', '?', '[']);
    if select.driver.is_some() || select.numa_node.is_some() {
        return Some("the plugin selects neither by the PF's driver nor by NUMA node");
    }
    match (&select.interface, vf_device(select)) {
        (Some(name), _) if is_one(name) => None,
        (Some(_), _) => Some("the plugin accepts interface names, not patterns"),
        (None, None) => Some("the plugin selects by VF ids, which this rule does not determine"),
        (None, id) => {
            let alike = build
                .vfs
                .iter()
                .filter(|rule| rule.select.interface.is_none() && vf_device(&rule.select) == id);
            (alike.count() > 1).then_some("VFs of another rule have the same id")
        }
    }
}

fn resource(group: &Group<'_>, name: &str) -> Value {
    let mut selectors = match &group.pfs {
        Pfs::Addresses(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            json!({ "rootDevices": addresses })
        }
        Pfs::Selected(FunctionSelector { interface: Some(name), .. }) => {
            json!({ "pfNames": [name] })
        }
        Pfs::Selected(select) => {
            let id = |id: Option<PciId>| id.iter().map(ToString::to_string).collect::<Vec<_>>();
            json!({ "vendors": id(select.vendor), "devices": id(vf_device(select)) })
        }
    };
    match &group.rule.vf_driver {
        VfDriver::Auto => selectors["isRdma"] = json!(true),
        VfDriver::Named(driver) => selectors["drivers"] = json!([driver]),
        VfDriver::None => {}
    }
    json!({ "resourcePrefix": "nvidia.com", "resourceName": resource_name(name), "selectors": selectors })
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired};
    use super::*;

    #[test]
    fn plugin_config_lists_pfs_of_each_group() {
        let rendered = render(&build(&desired()), &Options::default()).unwrap();
        let patch: Value = serde_saphyr::from_str(&rendered.file(PATCH).unwrap().text).unwrap();
        let config =
            patch.pointer("/spec/sriovDevicePlugin/config").and_then(Value::as_str).unwrap();
        let config: Value = serde_json::from_str(config).unwrap();
        assert_eq!(
            config,
            json!({ "resourceList": [{
                "resourceName": "compute",
                "resourcePrefix": "nvidia.com",
                "selectors": { "isRdma": true, "rootDevices": ["0000:18:00.0"] },
            }] })
        );
        assert!(
            rendered.inexpressible.iter().any(|item| item.what == "an ib_core for nvidia_peermem")
        );
    }
}
