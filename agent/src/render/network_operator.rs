//! Target `network-operator`: parts of the NVIDIA Network Operator's NicClusterPolicy, as a merge patch: VFs that the host has are
//! handed to pods by its SR-IOV device plugin.

use serde_json::{Value, json};

use crate::desired::VfDriver;
use crate::kind::contribution::{Contributions, Registration};

use super::common::{Elsewhere, heading, live_only, vf_attributes, vfs};
use super::sriov_operator::{Group, addresses, groups, resource_name};
use super::{Inexpressible, Options, OutFile, RenderError, Rendered, yaml};

const PATCH: &str = "nicclusterpolicy-patch.yaml";

const ELSEWHERE: Elsewhere = Elsewhere {
    why: "a NicClusterPolicy is about the driver and the plugins of NICs alone",
    instead: "put it into the nodes' image or machine configuration: render that target beside this one",
};

pub(super) fn render(build: &Contributions, options: &Options) -> Result<Rendered, RenderError> {
    let mut rendered = Rendered::default();
    let groups = groups(build);
    if !groups.is_empty() {
        let resources: Vec<Value> = groups.iter().map(resource).collect();
        let config = format!("{:#}\n", json!({ "resourceList": resources }));
        let patch = json!({ "spec": { "sriovDevicePlugin": { "config": config } } });
        let text = format!("{}{}", heading(build, "# "), yaml::value(PATCH, &patch)?);
        rendered.files.push(OutFile::new(PATCH, text));
        rendered.notes.push(format!(
            "`kubectl patch nicclusterpolicy nic-cluster-policy --type merge --patch-file {PATCH}`; its sriovDevicePlugin must name the image and version of your release already"
        ));
    }
    match build.gpudirect {
        // The operator's release decides on image and version, and the schema asks for them.
        Some(Registration::Peermem) => rendered.inexpressible.push(Inexpressible {
            what: "an ib_core for nvidia_peermem".to_owned(),
            why: "the container with DOCA-OFED belongs to a release of the operator".to_owned(),
            instead: "set `ofedDriver` of the NicClusterPolicy to the image, repository and version of your release, unless the \
                      hosts have MLNX_OFED or DOCA-OFED themselves (handbook §6.3)"
                .to_owned(),
        }),
        Some(Registration::DmaBuf) => rendered.notes.push(
            "DMA-BUF works with the kernel's own NIC driver: `ofedDriver` is not needed for it (handbook §6.3)".to_owned(),
        ),
        None => {}
    }
    rendered.inexpressible.extend(vfs(
        build,
        "run bedplate on the nodes: the plugin hands out VFs that are there, and makes none",
    ));
    rendered.inexpressible.extend(vf_attributes(build, "run bedplate on the nodes"));
    rendered.inexpressible.extend(ELSEWHERE.arguments(build, options.arch)?);
    rendered.inexpressible.extend(ELSEWHERE.settings(build, |_| false));
    rendered.inexpressible.extend(live_only(build, |live| &live.with_agent));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

fn resource(group: &Group<'_>) -> Value {
    let mut selectors = json!({ "rootDevices": addresses(group) });
    match &group.members[0].vf_driver {
        VfDriver::Auto => selectors["isRdma"] = json!(true),
        VfDriver::Named(driver) => selectors["drivers"] = json!([driver]),
        VfDriver::None => {}
    }
    json!({ "resourcePrefix": "nvidia.com", "resourceName": resource_name(group), "selectors": selectors })
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired};
    use super::*;

    #[test]
    fn the_plugin_gets_the_pfs_of_each_group() {
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
