//! Target `networkd`: `.link` files, with which udev makes the VFs of a network interface and sets their attributes
//! (systemd.link(5), since 251).

use crate::desired::{VfDriver, WantedVfs};
use crate::kind::contribution::Contributions;
use crate::value::vf::{VfAttributes, VfLinkState, VlanProtocol};

use super::common::{Elsewhere, heading, live_only, unguarded_vfs, vf_driver};
use super::{Inexpressible, Options, OutFile, RenderError, Rendered};

const ELSEWHERE: Elsewhere = Elsewhere {
    why: "`.link` files are about network interfaces alone",
    instead: "render the target of the image's boot loader beside this one (grub, kernel-install, bootc …)",
};

const BY_AGENT: &str = "run `bedplate apply` at every boot of the host";

pub(super) fn render(build: &Contributions, options: &Options) -> Result<Rendered, RenderError> {
    let mut rendered = Rendered::default();
    for wanted in &build.vfs {
        let path = format!("etc/systemd/network/10-bedplate-{}.link", file_word(wanted));
        rendered.files.push(OutFile::new(path, link(build, wanted)));
        rendered.inexpressible.extend(lost(wanted));
    }
    rendered.inexpressible.extend(unguarded_vfs(
        build,
        "systemd.link(5) has no condition for it: udev makes the VFs whenever the interface appears",
        "render target udev, whose rules leave a port alone while it is up",
    ));
    if !build.vfs.is_empty() {
        rendered.notes.push(
            "a .link file takes the place of 99-default.link for its interface: these repeat its naming policies; where the image has .link files \
             of its own for these ports, put the two together (systemd.link(5))"
                .to_owned(),
        );
    }
    rendered.inexpressible.extend(ELSEWHERE.arguments(build, options.arch)?);
    rendered.inexpressible.extend(ELSEWHERE.settings(build, |_| false));
    rendered.inexpressible.extend(live_only(build, |live| &live.with_agent));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// The address as part of a file's name.
fn file_word(wanted: &WantedVfs) -> String {
    wanted.pf.to_string().replace([':', '.'], "-")
}

/// Says in the file what [`unguarded_vfs`] lists.
const UNGUARDED: &str = "# udev makes the VFs also where the default route goes through this port, which may lose its traffic for a moment.\n";

fn link(build: &Contributions, wanted: &WantedVfs) -> String {
    let mut text = format!(
        "{}{UNGUARDED}[Match]\nPath=pci-{}\n\n[Link]\nNamePolicy=keep kernel database onboard slot path\n\
         AlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=persistent\nSR-IOVVirtualFunctions={}\n",
        heading(build, "# "),
        wanted.pf,
        wanted.count
    );
    let keys = keys(&wanted.vf.set);
    if !keys.is_empty() {
        for number in 0..wanted.count {
            text.push_str(&format!("\n[SR-IOV]\nVirtualFunction={number}\n{keys}"));
        }
    }
    text
}

/// The keys of a `[SR-IOV]` section. VLAN 0 is none, which new VFs have.
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

/// What a `.link` file has no key for.
fn lost(wanted: &WantedVfs) -> Vec<Inexpressible> {
    let left = VfAttributes {
        vlan: None,
        spoof_check: None,
        trust: None,
        link_state: None,
        ..wanted.vf.set
    };
    let left = crate::desired::WantedAttributes { set: left, ..wanted.vf };
    let words = left.words().map(|words| format!("VFs of {}: {words}", wanted.pf));
    let mode = wanted.eswitch.map(|mode| format!("eswitch of {}: {mode}", wanted.pf));
    let attributes: Vec<String> = words.into_iter().chain(mode).collect();
    let driver = (wanted.vf_driver != VfDriver::Auto)
        .then(|| format!("VFs of {}{}", wanted.pf, vf_driver(&wanted.vf_driver)));
    let attributes = (!attributes.is_empty()).then(|| attributes.join("; "));
    let item = |what| Inexpressible {
        what,
        why: "systemd.link(5) has no key for it".to_owned(),
        instead: BY_AGENT.to_owned(),
    };
    attributes.into_iter().chain(driver).map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{build, desired};
    use super::*;
    use crate::value::vf::Vlan;

    #[test]
    fn attributes_stand_in_a_section_for_each_vf() {
        let mut desired = desired();
        desired.sriov[0].count = 2;
        desired.sriov[0].vf.set = VfAttributes {
            vlan: Some(Vlan { id: 100, qos: 3, protocol: VlanProtocol::Dot1q }),
            trust: Some(true),
            link_state: Some(VfLinkState::Enable),
            ..VfAttributes::default()
        };
        let rendered = render(&build(&desired), &Options::default()).unwrap();
        let text =
            &rendered.file("etc/systemd/network/10-bedplate-0000-18-00-0.link").unwrap().text;
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
