//! SriovNetwork of the SR-IOV network operator: the network that pods name for their VFs, with addresses. RoCE needs an
//! address in the pod: its GIDs are made from it.

use serde_json::{Value, json};

use bedplate_base::value::vf::{VfAttributes, VlanProtocol};

use super::IpamRange;
use super::vf_rules::{Group, resource_name};

/// Namespace of the NetworkAttachmentDefinitions. With Multus' isolation of namespaces, as on OpenShift, pods of other
/// namespaces may use it (k8snetworkplumbingwg/multus-cni docs/configuration.md, globalNamespaces).
pub(super) const PODS: &str = "default";

/// Returns the range of a rule.
pub(super) fn range<'a>(ranges: &'a [IpamRange], rule: &str) -> Option<&'a str> {
    let own = ranges.iter().find(|range| range.rule.as_deref() == Some(rule));
    let range = own.or_else(|| ranges.iter().find(|range| range.rule.is_none()))?;
    Some(range.cidr.as_str())
}

/// Returns the object for a group's VFs. `is_exclusive`: RDMA devices belong to one network namespace each.
pub(super) fn object(
    group: &Group<'_>,
    (api, name, namespace): (&str, &str, &str),
    range: &str,
    is_exclusive: bool,
) -> Value {
    // whereabouts assigns addresses for the whole cluster; host-local would assign the same ones on each node.
    let ipam = json!({ "type": "whereabouts", "range": range }).to_string();
    let mut spec = json!({
        "resourceName": resource_name(name),
        "networkNamespace": PODS,
        "ipam": ipam,
    });
    if is_exclusive {
        // Moves the RDMA device into the pod's network namespace (k8snetworkplumbingwg/rdma-cni).
        spec["metaPlugins"] = json!(json!({ "type": "rdma" }).to_string());
    }
    attributes(&group.rule.vf.set, &mut spec);
    json!({
        "apiVersion": api,
        "kind": "SriovNetwork",
        "metadata": { "name": format!("bedplate-{name}"), "namespace": namespace },
        "spec": spec,
    })
}

fn attributes(set: &VfAttributes, spec: &mut Value) {
    let on_off = |on: bool| if on { "on" } else { "off" };
    if let Some(vlan) = set.vlan {
        spec["vlan"] = json!(vlan.id);
        if vlan.qos != 0 {
            spec["vlanQoS"] = json!(vlan.qos);
        }
        if vlan.protocol == VlanProtocol::Dot1ad {
            spec["vlanProto"] = json!("802.1ad");
        }
    }
    if let Some(on) = set.trust {
        spec["trust"] = json!(on_off(on));
    }
    if let Some(on) = set.spoof_check {
        spec["spoofChk"] = json!(on_off(on));
    }
    if let Some(state) = set.link_state {
        spec["linkState"] = json!(state.to_string());
    }
    for (key, rate) in [("minTxRate", set.min_tx_rate), ("maxTxRate", set.max_tx_rate)] {
        if let Some(rate) = rate {
            spec[key] = json!(rate);
        }
    }
}

/// Returns the attributes that the object cannot set.
pub(super) fn remaining(set: &VfAttributes) -> VfAttributes {
    VfAttributes {
        mac: set.mac,
        node_guid: set.node_guid,
        port_guid: set.port_guid,
        ..VfAttributes::default()
    }
}
