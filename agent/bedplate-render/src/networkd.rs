//! Target `networkd`: `.link` files, with which udev creates the VFs of a network interface and sets their attributes
//! (systemd.link(5), since 251).

use bedplate_base::value::vf::{VfAttributes, VfLinkState, VlanProtocol};
use bedplate_core::desired::{FunctionSelector, SriovRule, VfDriver};
use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::sriov;

use super::agent::{Agent, undecided_registration};
use super::common::{Unsupported, heading, live_only};
use super::vf_rules::{self, Group, Pfs, groups, of_vfs, unguarded_vfs};
use super::{Inexpressible, Options, OutFile, RenderError, RenderResult, Target};

const ELSEWHERE: Unsupported = Unsupported {
    why: "`.link` files configure only network interfaces",
    instead: "render the target of the image's boot loader as well (grub, kernel-install, bootc …)",
};

const BY_AGENT: &str = "run `bedplate apply` at every boot of the host";

pub(crate) const TARGET: Target = Target::new(
    "networkd",
    "systemd .link files that create VFs and set their attributes",
    &[
        "etc/systemd/network/10-bedplate-*.link",
        "etc/bedplate/profile.toml",
        "etc/systemd/system/multi-user.target.d/50-bedplate.conf",
    ],
    render,
)
.for_vfs();

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    let (groups, items) = groups(build, build.own_vfs(), options, cannot);
    let mut left: Vec<Inexpressible> = build.own_vfs().flat_map(inexpressible).collect();
    left.extend(items);
    for (n, group) in groups.iter().enumerate() {
        for (part, pf) in matches(group) {
            // The first file that matches an interface takes effect, like the first rule.
            let name = format!("{}{n:03}-{part}.link", sriov::LINK_PREFIX);
            let path = format!("{}/{name}", sriov::LINK_DIRECTORY.trim_start_matches('/'));
            rendered.files.push(OutFile::new(path, link(build, group, &pf)));
        }
    }
    rendered.inexpressible.extend(unguarded_vfs(
        &groups,
        "systemd.link(5) has no condition for it: udev creates the VFs whenever the interface appears",
        "render target udev, whose rules skip ports that are up",
    ));
    if !groups.is_empty() {
        rendered.notes.push(
            "a .link file replaces 99-default.link for its interface, so these repeat its naming policies; merge them \
            with the image's own .link files for these ports (systemd.link(5))"
                .to_owned(),
        );
    }
    left.extend(undecided_registration(build));
    left.extend(live_only(build, |live| &live.with_agent));
    let agent = Agent::with_rest(build, options, left);
    rendered.files.extend(agent.files(build));
    rendered.add(agent.rest);
    ELSEWHERE.leave(build, options.arch, |_| false, &mut rendered)?;
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

fn cannot(rule: &SriovRule) -> Option<&'static str> {
    let select = &rule.select;
    if select.interface.is_some() {
        return Some(
            "a `.link` file sets the interface's name, so it can match only the kernel's own name",
        );
    }
    if select.numa_node.is_some() {
        return Some("systemd.link(5) cannot match NUMA nodes");
    }
    (*select == FunctionSelector::default())
        .then_some("the file would replace 99-default.link for every interface")
}

/// Returns a part of the file's name, and the `[Match]` of each file.
fn matches(group: &Group<'_>) -> Vec<(String, String)> {
    match &group.pfs {
        Pfs::Addresses(addresses) => {
            let word = |address: &str| address.replace([':', '.'], "-");
            let text = addresses.iter().map(ToString::to_string);
            text.map(|address| (word(&address), format!("Path=pci-{address}\n"))).collect()
        }
        Pfs::Selected(select) => vec![(vf_rules::object_name(&group.rule.name), selected(select))],
    }
}

/// Formats a selector as `[Match]` lines. 75-net-description.rules sets the ids of its PCI function as properties of an
/// interface.
fn selected(select: &FunctionSelector) -> String {
    let ids = [("ID_VENDOR_ID", select.vendor), ("ID_MODEL_ID", select.device)];
    let ids: Vec<String> =
        ids.iter().filter_map(|(name, id)| Some(format!("{name}=0x{}", (*id)?))).collect();
    let property = (!ids.is_empty()).then(|| format!("Property={}\n", ids.join(" ")));
    let driver = select.driver.as_ref().map(|driver| format!("Driver={driver}\n"));
    let path = select.address.map(|address| format!("Path=pci-{address}\n"));
    path.into_iter().chain(property).chain(driver).collect()
}

/// Comment in the file about the item of [`unguarded_vfs`].
const UNGUARDED: &str = "# udev creates the VFs even if the default route goes through this port, whose traffic may \
                         then stop briefly.\n";

fn link(build: &ImageConfig, group: &Group<'_>, pf: &str) -> String {
    let mut text = format!(
        "{}{UNGUARDED}[Match]\n{pf}\n[Link]\nNamePolicy=keep kernel database onboard slot path\n\
         AlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=persistent\nSR-IOVVirtualFunctions={}\n",
        heading(build, "# "),
        group.count
    );
    let keys = keys(&group.rule.vf.set);
    if !keys.is_empty() {
        for number in 0..group.count {
            text.push_str(&format!("\n[SR-IOV]\nVirtualFunction={number}\n{keys}"));
        }
    }
    text
}

/// Returns the keys of a `[SR-IOV]` section. VLAN 0 means no VLAN, which is the default of new VFs.
fn keys(set: &VfAttributes) -> String {
    let yes_no = |on: bool| if on { "yes" } else { "no" }.to_owned();
    let vlan = set.vlan.filter(|vlan| vlan.id != 0);
    let protocol = vlan.map(|vlan| match vlan.protocol {
        VlanProtocol::Dot1q => "802.1Q".to_owned(),
        VlanProtocol::Dot1ad => "802.1ad".to_owned(),
    });
    let state = set.link_state.map(|state| match state {
        VfLinkState::Auto => "auto".to_owned(),
        VfLinkState::Enable => "yes".to_owned(),
        VfLinkState::Disable => "no".to_owned(),
    });
    let keys = [
        ("VLANId", vlan.map(|vlan| vlan.id.to_string())),
        ("QualityOfService", vlan.filter(|vlan| vlan.qos > 0).map(|vlan| vlan.qos.to_string())),
        ("VLANProtocol", protocol),
        ("MACSpoofCheck", set.spoof_check.map(yes_no)),
        ("Trust", set.trust.map(yes_no)),
        ("LinkState", state),
    ];
    let line = |(key, value): (&str, Option<String>)| Some(format!("{key}={}\n", value?));
    keys.into_iter().filter_map(line).collect()
}

/// Returns settings without a key in `.link` files.
fn inexpressible(rule: &SriovRule) -> Vec<Inexpressible> {
    let set = VfAttributes {
        vlan: None,
        spoof_check: None,
        trust: None,
        link_state: None,
        ..rule.vf.set
    };
    let without_keys = SriovRule {
        vf: bedplate_core::desired::WantedAttributes { set, ..rule.vf },
        ..rule.clone()
    };
    let why = "systemd.link(5) has no key for it";
    let attributes = vf_rules::attributes(&without_keys)
        .map(|what| Inexpressible { what, ..of_vfs(rule, "vf", why, BY_AGENT.to_owned()) });
    let driver = (rule.vf_driver != VfDriver::Auto)
        .then(|| of_vfs(rule, "vf_driver", why, BY_AGENT.to_owned()));
    attributes.into_iter().chain(driver).collect()
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired};
    use super::*;
    use bedplate_base::value::vf::Vlan;

    #[test]
    fn each_vf_has_section_with_attributes() {
        let mut desired = desired();
        desired.sriov[0].count = 2;
        desired.sriov[0].rule.vf.set = VfAttributes {
            vlan: Some(Vlan { id: 100, qos: 3, protocol: VlanProtocol::Dot1q }),
            trust: Some(true),
            link_state: Some(VfLinkState::Enable),
            ..VfAttributes::default()
        };
        let rendered = render(&build(&desired), &Options::default()).unwrap();
        let text =
            &rendered.file("etc/systemd/network/10-bedplate-000-0000-18-00-0.link").unwrap().text;
        let keys =
            "VLANId=100\nQualityOfService=3\nVLANProtocol=802.1Q\nTrust=yes\nLinkState=yes\n";
        let expected = format!(
            "SR-IOVVirtualFunctions=2\n\n[SR-IOV]\nVirtualFunction=0\n{keys}\n[SR-IOV]\nVirtualFunction=1\n{keys}"
        );
        assert!(
            text.contains("[Match]\nPath=pci-0000:18:00.0\n") && text.ends_with(&expected),
            "{text}"
        );
        assert!(!rendered.inexpressible.iter().any(|item| item.what.contains("VFs of")));
    }
}
