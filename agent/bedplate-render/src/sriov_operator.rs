//! Target `sriov-operator`: objects of the SR-IOV network operator for Kubernetes.

use serde_json::{Value, json};

use bedplate_core::desired::{FunctionSelector, SriovCount, SriovRule, VfDriver};
use bedplate_core::image_config::{ImageConfig, Setting};

use super::agent::undecided_registration;
use super::common::{Unsupported, heading, live_only};
use super::vf_rules::{Group, Pfs, groups, names, of_vfs, resource_name, unguarded_vfs};
use super::{
    Inexpressible, Options, OutFile, RenderError, RenderResult, Target, sriov_network, yaml,
};

const API: &str = "sriovnetwork.openshift.io/v1";
/// Namespace of the operator's Helm chart.
const NAMESPACE: &str = "sriov-network-operator";
/// Label set by Node Feature Discovery if a NIC has SR-IOV; the operator's own documentation selects by it.
const CAPABLE: &str = "feature.node.kubernetes.io/network-sriov.capable";

const POLICIES: &str = "sriovnetworknodepolicies.yaml";
const POOL: &str = "sriovnetworkpoolconfig.yaml";
const NETWORKS: &str = "sriovnetworks.yaml";

const ELSEWHERE: Unsupported = Unsupported {
    why: "the operator configures only NICs and their VFs",
    instead: "set it in the nodes' image or machine configuration; render that target as well",
};

pub(crate) const TARGET: Target = Target::new(
    "sriov-operator",
    "SriovNetworkNodePolicy for each group of PFs, SriovNetworkPoolConfig, SriovNetwork",
    &[POLICIES, POOL, NETWORKS],
    render,
)
.for_vfs();

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    let (groups, items) = groups(build, build.vfs.iter(), options, cannot);
    rendered.inexpressible.extend(items);
    let mut documents = Vec::new();
    for (n, (group, name)) in groups.iter().zip(names(&groups)).enumerate() {
        let Some(mut policy) = policy(group, &name) else { continue };
        // The first rule that selects a PF applies; the operator applies the policy with the lowest number.
        if groups.len() > 1 {
            policy["spec"]["priority"] = json!((FIRST_PRIORITY + n).min(LAST_PRIORITY));
        }
        documents.push(yaml::value("SriovNetworkNodePolicy", &policy)?);
    }
    let has_network = networks(build, options, &groups, &mut rendered)?;
    let left = |rule: &SriovRule| attributes(rule, has_network.contains(&rule.name.as_str()));
    rendered.inexpressible.extend(build.vfs.iter().filter_map(left));
    if !documents.is_empty() {
        let text = format!("{}{}", heading(build, "# "), documents.join("---\n"));
        rendered.files.push(OutFile::new(POLICIES, text));
        rendered.notes.push(
            "the operator drains and may reboot each node to apply a policy; if bedplate runs on these nodes, set \
            `managed = \"external\"` in [sriov]"
                .to_owned(),
        );
        rendered.notes.push(
            "`isRdma` is for ports with an RDMA device; remove it for other ports, or the operator offers none of their VFs".to_owned(),
        );
        rendered.notes.push(format!(
            "the objects are for namespace {NAMESPACE}; on OpenShift, use openshift-sriov-network-operator"
        ));
    }
    if let Some(mode) = rdma_mode(build) {
        let pool = json!({
            "apiVersion": API,
            "kind": "SriovNetworkPoolConfig",
            "metadata": { "name": "bedplate", "namespace": NAMESPACE },
            // A node in several pools is an error for the operator, and every node with VFs must be in this one.
            "spec": { "maxUnavailable": 1, "nodeSelector": { "matchLabels": { CAPABLE: "true" } }, "rdmaMode": mode },
        });
        let text =
            format!("{}{}", heading(build, "# "), yaml::value("SriovNetworkPoolConfig", &pool)?);
        rendered.files.push(OutFile::new(POOL, text));
    }
    rendered.inexpressible.extend(unguarded_vfs(
        &groups,
        "a SriovNetworkNodePolicy has no condition for it: the operator drains the node and creates the VFs",
        "render target udev, whose rules skip ports that are up",
    ));
    ELSEWHERE.leave(build, options.arch, |setting| mode_of(setting).is_some(), &mut rendered)?;
    rendered.inexpressible.extend(undecided_registration(build));
    rendered.inexpressible.extend(live_only(build, |live| &live.with_agent));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// Adds the networks of the VFs that get addresses. Returns the names of their rules.
fn networks<'a>(
    build: &ImageConfig,
    options: &Options,
    groups: &[Group<'a>],
    rendered: &mut RenderResult,
) -> Result<Vec<&'a str>, RenderError> {
    let named = options.ipam_ranges.iter().filter_map(|range| range.rule.as_deref());
    for name in named {
        if !build.vfs.iter().any(|rule| rule.name == name) {
            let why = format!("--ipam-range names rule {name:?}, which the profile does not have");
            return Err(RenderError::Refused(why));
        }
    }
    let is_exclusive = rdma_mode(build) == Some("exclusive");
    let (mut rules, mut objects, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for (group, name) in groups.iter().zip(names(groups)) {
        let range = sriov_network::range(&options.ipam_ranges, &group.rule.name);
        let Some((range, (_, true))) = range.zip(device_type(group.rule)) else { continue };
        let object = sriov_network::object(group, (API, &name, NAMESPACE), range, is_exclusive);
        objects.push(yaml::value("SriovNetwork", &object)?);
        paths.push(format!("{}/bedplate-{name}", sriov_network::PODS));
        rules.push(group.rule.name.as_str());
    }
    if !objects.is_empty() {
        let text = format!("{}{}", heading(build, "# "), objects.join("---\n"));
        rendered.files.push(OutFile::new(NETWORKS, text));
        rendered.notes.push(format!(
            "networks of pods (`--network` of nccl-job): {}; the cluster needs the IPAM plugin whereabouts",
            paths.join(", ")
        ));
    }
    Ok(rules)
}

/// The operator's range is 0 (first) to 99, which is also the default of a policy without a number.
const FIRST_PRIORITY: usize = 10;
const LAST_PRIORITY: usize = 99;

/// Returns the reason why `nicSelector` cannot express a rule.
fn cannot(rule: &SriovRule) -> Option<&'static str> {
    let select = &rule.select;
    // The operator skips policies without VFs, and applies another one to the PF (its api/v1/helper.go, `Apply`).
    if rule.vfs == SriovCount::Number(0) {
        return Some("the operator skips policies without VFs");
    }
    if device_type(rule).is_none() {
        return Some("the operator binds VFs only to the kernel's default driver or to vfio-pci");
    }
    let is_one = |name: &str| !name.contains(['*', '?', '[']);
    if select.driver.is_some() || select.numa_node.is_some() {
        return Some("a nicSelector cannot select by driver or NUMA node");
    }
    if select.interface.as_deref().is_some_and(|name| !is_one(name)) {
        return Some("a nicSelector accepts interface names, not patterns");
    }
    (*select == FunctionSelector::default()).then_some("a nicSelector must not be empty")
}

fn selector(group: &Group<'_>) -> Value {
    let select = match &group.pfs {
        Pfs::Addresses(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            return json!({ "rootDevices": addresses });
        }
        Pfs::Selected(select) => select,
    };
    let mut selector = json!({});
    if let Some(address) = select.address {
        selector["rootDevices"] = json!([address.to_string()]);
    }
    for (key, id) in [("vendor", select.vendor), ("deviceID", select.device)] {
        if let Some(id) = id {
            selector[key] = json!(id.to_string());
        }
    }
    if let Some(name) = &select.interface {
        selector["pfNames"] = json!([name]);
    }
    selector
}

/// Returns `deviceType`, and whether its VFs have RDMA devices. `None` if the operator cannot bind VFs to the driver.
fn device_type(rule: &SriovRule) -> Option<(&'static str, bool)> {
    match &rule.vf_driver {
        VfDriver::Auto => Some(("netdevice", true)),
        VfDriver::Named(driver) if driver == "vfio-pci" => Some(("vfio-pci", false)),
        VfDriver::Named(_) | VfDriver::None => None,
    }
}

fn policy(group: &Group<'_>, name: &str) -> Option<Value> {
    let (device_type, rdma) = device_type(group.rule)?;
    let mut policy = json!({
        "apiVersion": API,
        "kind": "SriovNetworkNodePolicy",
        "metadata": { "name": format!("bedplate-{name}"), "namespace": NAMESPACE },
        "spec": {
            "nodeSelector": { CAPABLE: "true" },
            "resourceName": resource_name(name),
            "numVfs": group.count,
            "nicSelector": selector(group),
            "deviceType": device_type,
            "isRdma": rdma,
        },
    });
    if let Some(mode) = group.rule.eswitch {
        policy["spec"]["eSwitchMode"] = json!(mode.to_string());
    }
    Some(policy)
}

/// Returns the item for attributes, which belong to the network, not to the policy.
fn attributes(rule: &SriovRule, has_network: bool) -> Option<Inexpressible> {
    let mut left = rule.vf;
    if has_network {
        left.set = sriov_network::remaining(&left.set);
    }
    Some(Inexpressible {
        what: format!("VFs of rule {}: {}", rule.name, left.description()?),
        ..of_vfs(
            rule,
            "vf",
            "a policy has no fields for VF attributes",
            "add --ipam-range for a SriovNetwork with VLAN, trust, spoof check, link state and rates; the operator assigns \
            MAC addresses and GUIDs"
                .to_owned(),
        )
    })
}

fn rdma_mode(build: &ImageConfig) -> Option<&'static str> {
    build.settings().filter_map(mode_of).last()
}

/// Returns the only kernel setting of a pool: whether RDMA devices follow their network namespace (rdma-system(8)).
fn mode_of(setting: &Setting) -> Option<&'static str> {
    match setting {
        Setting::ModuleOption { module, parameter, value }
            if module.as_str() == "ib_core" && parameter == "netns_mode" =>
        {
            match value.as_str() {
                "0" | "N" | "n" => Some("exclusive"),
                "1" | "Y" | "y" => Some("shared"),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired, empty_desired, with_profile};
    use super::*;
    use bedplate_core::desired::WantedVfs;

    const MORE: &str = "[[sriov.devices]]\nname = \"compute\"\nselect = { vendor = \"15b3\", device = \"1021\" }\nvfs = 8\n\
        [[sriov.devices]]\nname = \"Storage (NVMe)\"\nselect = { interface = \"ens1np0\" }\nvfs = 4\nvf_driver = \"vfio-pci\"\n\
        [[sriov.devices]]\nname = \"unbound\"\nselect = { address = \"0000:5a:00.0\" }\nvfs = 8\nvf_driver = \"none\"\n\
        [[sriov.devices]]\nname = \"per-gpu\"\nselect = { vendor = \"15b3\" }\nvfs = \"per-gpu\"\n";

    /// The operator skips a policy without VFs: a broader one after it would configure the port.
    #[test]
    fn rule_without_vfs_excludes_broader_rules() {
        let rules = "[[sriov.devices]]\nname = \"front\"\nselect = { interface = \"ens9np0\" }\nvfs = 0\n\
            [[sriov.devices]]\nname = \"all\"\nselect = { vendor = \"15b3\" }\nvfs = 8\n";
        let rendered = render(&with_profile(rules, &empty_desired()), &Options::default()).unwrap();
        assert_eq!(rendered.files, []);
        assert!(rendered.inexpressible.iter().any(|item| item.id == "sriov/all"));
    }

    #[test]
    fn rules_become_policies_in_order() {
        let rendered = render(&with_profile(MORE, &empty_desired()), &Options::default()).unwrap();
        let text = &rendered.file(POLICIES).unwrap().text;
        let of = |key: &str| -> Vec<&str> {
            text.lines().filter_map(|line| line.trim().strip_prefix(key)).collect()
        };
        assert_eq!(of("resourceName: "), ["compute", "storage__nvme"]);
        assert_eq!(of("priority: "), ["10", "11"]);
        assert_eq!(of("deviceID: "), ["\"1021\""]);
        assert_eq!(of("vendor: "), ["15b3"]);
        assert!(text.contains("    pfNames:\n    - ens1np0\n"), "{text}");
        assert!(text.contains("deviceType: vfio-pci\n"), "{text}");
        let ids: Vec<&str> = rendered.inexpressible.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["sriov/unbound", "sriov/per-gpu", "sriov.default-route"]);
    }

    #[test]
    fn networks_have_addresses_and_vf_attributes() {
        let rules = format!(
            "[[sriov.devices]]\nname = \"front\"\n\
            select = {{ address = \"0000:5b:00.0\" }}\nvfs = 2\n\
            vf = {{ mac = \"derived\", vlan = 100, vlan_qos = 3, trust = true, spoof_check = false, max_tx_rate = 7 }}\n{MORE}"
        );
        let build = with_profile(&rules, &empty_desired());
        let range = |rule: Option<&str>, cidr: &str| crate::IpamRange {
            rule: rule.map(str::to_owned),
            cidr: cidr.to_owned(),
        };
        let of = |ipam_ranges| render(&build, &Options { ipam_ranges, ..Options::default() });
        let ranges = vec![range(None, "192.0.2.0/24"), range(Some("front"), "2001:db8::/64")];
        let rendered = of(ranges).unwrap();
        let text = &rendered.file(NETWORKS).unwrap().text;
        let documents: Vec<Value> =
            text.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
        // VFs of vfio-pci have no interface for an address.
        assert_eq!(documents.len(), 2, "{text}");
        assert_eq!(documents[1]["spec"]["resourceName"], "compute");
        assert_eq!(
            documents[0]["spec"],
            json!({
                "resourceName": "front",
                "networkNamespace": "default",
                "ipam": "{\"range\":\"2001:db8::/64\",\"type\":\"whereabouts\"}",
                "vlan": 100,
                "vlanQoS": 3,
                "trust": "on",
                "spoofChk": "off",
                "maxTxRate": 7,
            })
        );
        let left = rendered.inexpressible.iter().find(|item| item.id == "sriov.vf/front");
        assert_eq!(left.unwrap().what, "VFs of rule front: MAC address derived");
        assert!(of(vec![range(Some("none"), "192.0.2.0/24")]).is_err());
        assert!(of(Vec::new()).unwrap().file(NETWORKS).is_none());
    }

    #[test]
    fn pinned_pfs_with_equal_count_share_policy() {
        let mut build = build(&desired());
        let first = build.vfs_of_host[0].clone();
        let others = [("0000:2a:00.0", 8), ("0000:3a:00.0", 4)].map(|(pf, count)| WantedVfs {
            pf: pf.parse().unwrap(),
            count,
            ..first.clone()
        });
        build.vfs_of_host.extend(others);
        let options = Options { pin_addresses: true, ..Options::default() };
        let rendered = render(&build, &options).unwrap();
        let text = &rendered.file(POLICIES).unwrap().text;
        assert_eq!(text.matches("kind: SriovNetworkNodePolicy").count(), 2);
        assert!(text.contains("resourceName: compute_2\n"), "{text}");
        assert!(
            text.contains("    rootDevices:\n    - \"0000:18:00.0\"\n    - 0000:2a:00.0\n"),
            "{text}"
        );
        assert!(rendered.file(POOL).unwrap().text.contains("rdmaMode: shared\n"));
    }
}
