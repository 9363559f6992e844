//! Target `sriov-operator`: objects of the SR-IOV network operator for Kubernetes.

use serde_json::{Value, json};

use crate::desired::{VfDriver, WantedVfs};
use crate::kind::contribution::{Contributions, Setting};

use super::common::{Elsewhere, heading, live_only, unguarded_vfs, vf_driver};
use super::{Inexpressible, Options, OutFile, RenderError, Rendered, yaml};

const API: &str = "sriovnetwork.openshift.io/v1";
/// Where the operator's Helm chart puts it.
const NAMESPACE: &str = "sriov-network-operator";
/// Node Feature Discovery sets it where a NIC has SR-IOV; the operator's own documentation selects by it.
const CAPABLE: &str = "feature.node.kubernetes.io/network-sriov.capable";

const POLICIES: &str = "sriovnetworknodepolicies.yaml";
const POOL: &str = "sriovnetworkpoolconfig.yaml";

const ELSEWHERE: Elsewhere = Elsewhere {
    why: "the operator's objects are about NICs and their VFs alone",
    instead: "put it into the nodes' image or machine configuration: render that target beside this one",
};

pub(super) fn render(build: &Contributions, options: &Options) -> Result<Rendered, RenderError> {
    let mut rendered = Rendered::default();
    let groups = groups(build);
    let mut documents = Vec::new();
    for group in &groups {
        match policy(group) {
            Ok(policy) => documents.push(yaml::value("SriovNetworkNodePolicy", &policy)?),
            Err(driver) => rendered
                .inexpressible
                .extend(group.members.iter().map(|wanted| lost(wanted, driver))),
        }
        rendered.inexpressible.extend(group.members.iter().filter_map(|wanted| attributes(wanted)));
    }
    if !documents.is_empty() {
        let text = format!("{}{}", heading(build, "# "), documents.join("---\n"));
        rendered.files.push(OutFile::new(POLICIES, text));
        rendered.notes.push(
            "the operator drains and may reboot each node to apply a policy; a profile for bedplate on these nodes says `managed = \"external\"` in [sriov]"
                .to_owned(),
        );
        rendered.notes.push(
            "`isRdma` is for ports with an RDMA device: without one the operator offers no VF of theirs, and it has to go".to_owned(),
        );
        rendered.notes.push(format!(
            "the objects are for the namespace {NAMESPACE}; OpenShift has openshift-sriov-network-operator"
        ));
    }
    if let Some(mode) = rdma_mode(build) {
        let pool = json!({
            "apiVersion": API,
            "kind": "SriovNetworkPoolConfig",
            "metadata": { "name": "bedplate", "namespace": NAMESPACE },
            // A node of several pools is an error to the operator, and every node with VFs must be in this one.
            "spec": { "maxUnavailable": 1, "nodeSelector": { "matchLabels": { CAPABLE: "true" } }, "rdmaMode": mode },
        });
        let text =
            format!("{}{}", heading(build, "# "), yaml::value("SriovNetworkPoolConfig", &pool)?);
        rendered.files.push(OutFile::new(POOL, text));
    }
    rendered.inexpressible.extend(unguarded_vfs(
        build,
        "a SriovNetworkNodePolicy has no condition for it: the operator drains the node and makes the VFs",
        "render target udev, whose rules leave a port alone while it is up",
    ));
    rendered.inexpressible.extend(ELSEWHERE.arguments(build, options.arch)?);
    rendered.inexpressible.extend(ELSEWHERE.settings(build, |setting| mode_of(setting).is_some()));
    rendered.inexpressible.extend(live_only(build, |live| &live.with_agent));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// PFs that one policy can speak of.
pub(super) struct Group<'a> {
    /// Unique, of lower-case letters, digits and `-`.
    pub name: String,
    /// At least one, all alike.
    pub members: Vec<&'a WantedVfs>,
}

/// PFs by rule, count, driver and eswitch, in the order of their addresses.
pub(super) fn groups(build: &Contributions) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for wanted in &build.vfs {
        let alike = |other: &WantedVfs| {
            (&other.rule, other.count, &other.vf_driver, other.eswitch)
                == (&wanted.rule, wanted.count, &wanted.vf_driver, wanted.eswitch)
        };
        if let Some(group) =
            groups.iter_mut().find(|group| group.members.iter().all(|other| alike(other)))
        {
            group.members.push(wanted);
            continue;
        }
        let base = object_name(&wanted.rule);
        let taken = |name: &String| groups.iter().any(|group| group.name == *name);
        let mut name = base.clone();
        let mut number = 1;
        while taken(&name) {
            number += 1;
            name = format!("{base}-{number}");
        }
        groups.push(Group { name, members: vec![wanted] });
    }
    groups
}

/// A rule's name as part of an object's (RFC 1123).
fn object_name(rule: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = rule.chars().map(fit).take(40).collect();
    match name.trim_matches('-') {
        "" => "vfs".to_owned(),
        name => name.to_owned(),
    }
}

/// What pods ask for: the operator takes letters, digits and `_`.
pub(super) fn resource_name(group: &Group<'_>) -> String {
    group.name.replace('-', "_")
}

/// Addresses of the PFs.
pub(super) fn addresses(group: &Group<'_>) -> Vec<String> {
    group.members.iter().map(|wanted| wanted.pf.to_string()).collect()
}

/// # Errors
/// The driver that the operator does not bind VFs to.
fn policy<'a>(group: &Group<'a>) -> Result<Value, &'a VfDriver> {
    let one = group.members[0];
    let (device_type, rdma) = match &one.vf_driver {
        VfDriver::Auto => ("netdevice", true),
        VfDriver::Named(driver) if driver == "vfio-pci" => ("vfio-pci", false),
        other => return Err(other),
    };
    let mut policy = json!({
        "apiVersion": API,
        "kind": "SriovNetworkNodePolicy",
        "metadata": { "name": format!("bedplate-{}", group.name), "namespace": NAMESPACE },
        "spec": {
            "nodeSelector": { CAPABLE: "true" },
            "resourceName": resource_name(group),
            "numVfs": one.count,
            "nicSelector": { "rootDevices": addresses(group) },
            "deviceType": device_type,
            "isRdma": rdma,
        },
    });
    if let Some(mode) = one.eswitch {
        policy["spec"]["eSwitchMode"] = json!(mode.to_string());
    }
    Ok(policy)
}

fn lost(wanted: &WantedVfs, driver: &VfDriver) -> Inexpressible {
    Inexpressible {
        what: format!("{} VFs on {}{}", wanted.count, wanted.pf, vf_driver(driver)),
        why: "the operator binds VFs to the kernel's own driver or to vfio-pci".to_owned(),
        instead: "let bedplate make these VFs: run it on the nodes, without a policy for these PFs"
            .to_owned(),
    }
}

/// Attributes are the network's, not the policy's; the eswitch mode goes with them only in words that say both.
fn attributes(wanted: &WantedVfs) -> Option<Inexpressible> {
    Some(Inexpressible {
        what: format!("VFs of {}: {}", wanted.pf, wanted.vf.words()?),
        why: "a policy has no words for attributes of VFs".to_owned(),
        instead: "set `vlan`, `trust`, `spoofChk`, `linkState` and `maxTxRate` in the SriovNetwork that hands the VFs out; \
                  addresses come from the operator"
            .to_owned(),
    })
}

fn rdma_mode(build: &Contributions) -> Option<&'static str> {
    build.settings().filter_map(mode_of).last()
}

/// The one kernel setting that a pool has: whether RDMA devices follow their network namespace (rdma-system(8)).
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
    use super::super::common::tests::{build, desired};
    use super::*;

    #[test]
    fn pfs_that_are_alike_share_a_policy() {
        let mut desired = desired();
        let second = WantedVfs { pf: "0000:2a:00.0".parse().unwrap(), ..desired.sriov[0].clone() };
        let third = WantedVfs { pf: "0000:3a:00.0".parse().unwrap(), count: 4, ..second.clone() };
        let fourth = WantedVfs {
            pf: "0000:4a:00.0".parse().unwrap(),
            rule: "Storage (NVMe)".to_owned(),
            vf_driver: VfDriver::Named("vfio-pci".to_owned()),
            ..second.clone()
        };
        let fifth = WantedVfs {
            pf: "0000:5a:00.0".parse().unwrap(),
            vf_driver: VfDriver::None,
            ..second.clone()
        };
        desired.sriov.extend([second, third, fourth, fifth]);
        let build = build(&desired);
        let names: Vec<String> = groups(&build).iter().map(resource_name).collect();
        assert_eq!(names, ["compute", "compute_2", "storage__nvme", "compute_3"]);
        let rendered = render(&build, &Options::default()).unwrap();
        let text = &rendered.file(POLICIES).unwrap().text;
        assert_eq!(text.matches("kind: SriovNetworkNodePolicy").count(), 3);
        assert!(
            text.contains("    rootDevices:\n    - \"0000:18:00.0\"\n    - 0000:2a:00.0\n"),
            "{text}"
        );
        assert!(text.contains("deviceType: vfio-pci\n  isRdma: false\n"), "{text}");
        let what = "8 VFs on 0000:5a:00.0 without a driver";
        assert!(rendered.inexpressible.iter().any(|item| item.what == what));
        assert!(rendered.file(POOL).unwrap().text.contains("rdmaMode: shared\n"));
    }
}
