//! Starter profile for operators: the commented sample, and its adaptation to one host. Pure.

/// The sample, as installed for reading.
pub const EXAMPLE: &str = include_str!("../../profiles/example.toml");

/// Host-specific parts of the sample. A test ensures that each occurs in it exactly once.
const HEAD: &str = "# A sample profile, as /usr/share/doc/bedplate/profile.toml. `bedplate profile init` writes one \
    for the host it runs on.\n";
const NAME: &str = "name = \"site-hgx-h100\"\n";
const EXTENDS: &str = "extends = \"hgx-h100\"\n";
const RULE: &str = "#[[sriov.devices]]\n#name = \"fabric\"\n#select = { vendor = \"15b3\", device = \"1021\" }\n#vfs = 8\n";

/// Position where extra sections for a host are inserted.
const REBOOT: &str = "[reboot]\n";

/// NIC ports of one model with SR-IOV support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// PCI vendor in hexadecimal.
    pub vendor: String,
    /// PCI device in hexadecimal.
    pub device: String,
    /// Number of ports of this model on the host.
    pub count: usize,
    /// Maximum number of virtual functions per port; `None`: unknown.
    pub total: Option<u16>,
}

/// Returns a profile for one host: `host` describes it in a line, `extends` is the shipped base profile, and `ports`
/// are the NIC ports with proposed rules. Only `extends` has an effect: rules stay comments.
pub fn for_host(host: &str, extends: &str, ports: &[Ports], asks: &[SuggestedSetting]) -> String {
    // Text of the host must not leave the comment.
    let host = bedplate_base::terminal::one_line(host);
    let rules: Vec<String> =
        ports.iter().enumerate().map(|(number, ports)| rule(number, ports)).collect();
    let rules = if rules.is_empty() { RULE.to_owned() } else { rules.join("#\n") };
    EXAMPLE
        .replacen(HEAD, &format!("# Profile of this host: {host}.\n"), 1)
        .replacen(NAME, &format!("name = \"site-{extends}\"\n"), 1)
        .replacen(EXTENDS, &format!("extends = \"{extends}\"\n"), 1)
        .replacen(RULE, &rules, 1)
        .replacen(REBOOT, &(asks.iter().map(|ask| ask.section()).collect::<String>() + REBOOT), 1)
}

/// A setting that `bedplate verify` suggests for a host and the shipped profile leaves to the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuggestedSetting {
    /// No ACS redirection between GPUs and NICs (`acs.path`).
    DirectTraffic,
    /// No nouveau driver on GPUs (`modules.driver`).
    NoNouveau,
}

impl SuggestedSetting {
    /// Returns comments with a setting to enable.
    fn section(self) -> &'static str {
        match self {
            SuggestedSetting::DirectTraffic => {
                "# `bedplate verify` finds GPU–NIC traffic that ACS redirects to the root complex (acs.path). This keeps it in the\n\
                 # switch; use it only if no device below these switches is assigned to a VM.\n\
                 #[acs]\n#policy = \"direct-p2p\"\n\n"
            }
            SuggestedSetting::NoNouveau => {
                "# `bedplate verify` finds GPUs with the driver nouveau (modules.driver). If NVIDIA's driver is installed, this\n\
                 # excludes nouveau.\n\
                 #[modules]\n#blacklist = [\"nouveau\"]\n\n"
            }
        }
    }
}

fn rule(number: usize, ports: &Ports) -> String {
    let Ports { vendor, device, count, total } = ports;
    let most = total.map(|total| format!(", up to {total} each")).unwrap_or_default();
    let name = if number == 0 { "fabric".to_owned() } else { format!("fabric-{}", number + 1) };
    let vfs = total.map_or(8, |total| total.min(8));
    format!(
        "# This host has {} of this model{most}:\n#[[sriov.devices]]\n#name = \"{name}\"\n\
         #select = {{ vendor = \"{vendor}\", device = \"{device}\" }}\n#vfs = {vfs}\n",
        bedplate_base::counted(*count, "port")
    )
}

#[cfg(test)]
mod tests {
    use super::super::{LayerText, Severity, load, shipped};
    use super::*;

    fn loaded(text: &str) -> super::super::LoadedProfile {
        load(&[LayerText { path: "/etc/bedplate/profile.toml", text }], shipped())
            .unwrap_or_else(|errors| panic!("{}\n{text}", errors.render(false)))
    }

    fn ports(vendor: &str, device: &str) -> Ports {
        Ports { vendor: vendor.into(), device: device.into(), count: 2, total: Some(4) }
    }

    const ASKS: [SuggestedSetting; 2] =
        [SuggestedSetting::DirectTraffic, SuggestedSetting::NoNouveau];

    #[test]
    fn sample_contains_each_host_part_once() {
        for part in [HEAD, NAME, EXTENDS, RULE, REBOOT] {
            assert_eq!(EXAMPLE.matches(part).count(), 1, "{part}");
        }
    }

    /// Both are valid, with one finding: the reboot window, which only the operator can choose.
    #[test]
    fn sample_and_starter_profiles_only_lack_a_window() {
        let mut texts = vec![EXAMPLE.to_owned()];
        texts.extend(
            shipped()
                .iter()
                .map(|shipped| for_host("a host", shipped.name, &[ports("15b3", "1021")], &ASKS)),
        );
        for text in texts {
            let loaded = loaded(&text);
            let found: Vec<_> = loaded.lints.iter().map(|lint| (lint.id, lint.severity)).collect();
            assert_eq!(found, [("no-window-yet", Severity::Warning)], "{text}");
            let filled =
                text.replace("windows = [\"never\"]", "windows = [\"Sun 02:00-05:00 UTC\"]");
            assert!(self::loaded(&filled).lints.is_empty());
            let reboot = &loaded.profile.reboot;
            assert_eq!(
                (reboot.delay_s, reboot.windows.as_slice()),
                (900, ["never".to_owned()].as_slice())
            );
        }
    }

    /// Apart from the reboot section, the starter profile requests what the shipped profile does.
    #[test]
    fn starter_profile_equals_shipped_profile() {
        for shipped in shipped() {
            let own =
                loaded(&for_host("a host", shipped.name, &[ports("15b3", "1021")], &ASKS)).profile;
            let base = loaded(&format!("schema = 1\nextends = \"{}\"\n", shipped.name)).profile;
            assert_eq!(own.name, format!("site-{}", shipped.name));
            assert_eq!(
                (own.iommu, own.cmdline, own.modules, own.acs, own.sriov, own.agent),
                (base.iommu, base.cmdline, base.modules, base.acs, base.sriov, base.agent)
            );
        }
    }

    /// A setting is valid as soon as its comment sign is removed.
    #[test]
    fn commented_settings_are_valid() {
        let text = for_host(
            "a host",
            "generic-intel",
            &[ports("8086", "1572"), ports("15b3", "1021")],
            &ASKS,
        );
        let on: String = text
            .lines()
            .filter(|line| !line.starts_with("windows"))
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
                    rest
                }
                Some(rest) if rest.starts_with("  \"hugepagesz") || rest.starts_with("  {") => rest,
                _ => line,
            })
            .map(|line| format!("{line}\n"))
            .collect();
        let profile = loaded(&on).profile;
        assert_eq!(profile.sriov.rules.len(), 2, "{on}");
        assert_eq!(profile.acs.policy, crate::desired::AcsPolicy::DirectP2p);
        assert!(on.contains("\n[modules]\nblacklist = [\"nouveau\"]\n"), "{on}");
        assert_eq!(profile.cmdline.args.len(), 3);
        assert!(profile.reboot.fleetlock.is_some() && !profile.reboot.busy_command.is_empty());
        assert_eq!(profile.reboot.windows, ["Sat,Sun 02:00-05:00 Europe/Amsterdam"]);
    }

    #[test]
    fn host_text_stays_in_the_comment() {
        let text = for_host("evil\nname = \"x\"\r\x1b[31m", "vfio", &[], &[]);
        assert_eq!(loaded(&text).profile.name, "site-vfio");
        assert!(!text.contains(['\x1b', '\r']));
    }
}
