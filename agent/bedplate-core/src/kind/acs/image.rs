//! ACS in an image: a kernel argument (part of the command line), or settings that need a running host.

use super::NAME;
use crate::desired::{AcsPolicy, ArgSource, Desired, WantedAcs};
use crate::image_config::{ContributeError, ImageConfig, LiveOnly};
use crate::profile::model::Profile;
use bedplate_facts::Facts;

/// Contributes the bits that only runtime writes set, and a note on those in the kernel arguments.
pub(super) fn contribute(
    profile: &Profile,
    facts: &Facts,
    desired: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let acs = &desired.acs;
    let asked = profile.acs.policy != AcsPolicy::Keep;
    if asked && !facts.sees_devices() {
        out.live_only.push(of_the_machine());
    }
    out.live_only
        .extend(acs.ports.iter().filter(|wanted| !acs.persistence.carries(wanted)).map(live));
    if desired.cmdline.set.iter().any(|wanted| wanted.from == ArgSource::Acs) {
        out.notes.push(
            "the ACS list in `pci=` names ports by address: it is valid only on machines with the same PCI numbering \
             (Linux kernel-parameters.txt; handbook §1.4)"
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns the entry for ports that are still unknown.
fn of_the_machine() -> LiveOnly {
    LiveOnly {
        id: NAME.to_string(),
        what: "ACS control of the machine's ports".to_owned(),
        why: "only the machine shows the ports between GPUs and NICs and their PCIe topology".to_owned(),
        with_agent: "run bedplate on the host at every boot".to_owned(),
        without_agent: "render with --snapshot of a node and [acs] persistence = \"cmdline\", if its kernel is known \
                        good: the kernel arguments then set the bits"
            .to_owned(),
    }
}

fn live(wanted: &WantedAcs) -> LiveOnly {
    LiveOnly {
        id: format!("{NAME}/{}", wanted.port),
        what: format!("ACS control of port {}: {}", wanted.port, bits(wanted)),
        why: "a config-space write lasts until the next reset; no file can hold it (Linux drivers/pci/pci.c; handbook §3.4)"
            .to_owned(),
        with_agent: "run bedplate on the host at every boot, or set [acs] persistence = \"cmdline\" if the kernel is \
                     known good"
            .to_owned(),
        without_agent: "set [acs] persistence = \"cmdline\" if the kernel is known good: the kernel arguments then set \
                        the bits"
            .to_owned(),
    }
}

/// Formats as `clear RR CR EC` or `set DT, clear RR`.
fn bits(wanted: &WantedAcs) -> String {
    let (set, clear) = (wanted.bits.on(), wanted.bits.off());
    let parts = [("set", set), ("clear", clear)];
    let named = parts
        .iter()
        .filter(|(_, bits)| !bits.is_empty())
        .map(|(verb, bits)| format!("{verb} {bits}"));
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::{AcsPersistence, KernelArg};
    use crate::profile::of_text;
    use bedplate_base::CpuVendor;
    use bedplate_base::value::{AcsBits, RegisterBits};
    use bedplate_cmdline::Token;

    fn contributed(desired: &Desired) -> ImageConfig {
        let mut out = ImageConfig::default();
        contribute(&of_text("schema = 1"), &Facts::of_vendor(CpuVendor::Intel), desired, &mut out)
            .unwrap();
        out
    }

    fn one_port() -> Desired {
        let mut desired = Desired::default();
        desired.acs.ports.push(WantedAcs {
            port: "0000:17:01.0".parse().unwrap(),
            bits: RegisterBits { mask: AcsBits::REDIRECT.or(AcsBits::DT).0, value: AcsBits::DT.0 },
            why: Vec::new(),
            vfio_below: Vec::new(),
        });
        desired
    }

    #[test]
    fn runtime_only_bits_are_listed() {
        let out = contributed(&one_port());
        let [live] = out.live_only.as_slice() else { panic!("{out:?}") };
        assert_eq!(live.what, "ACS control of port 0000:17:01.0: set DT, clear RR CR EC");
        assert_eq!(out.notes, [] as [String; 0]);
    }

    #[test]
    fn bits_in_kernel_argument_are_noted_as_address_specific() {
        let mut desired = one_port();
        desired.acs.persistence = AcsPersistence::ConfigAcs;
        let token = Token::from_static("pci=config_acs=1000xx0@0000:17:01.0");
        desired.cmdline.set.push(KernelArg { token, why: Vec::new(), from: ArgSource::Acs });
        let out = contributed(&desired);
        assert_eq!(out.live_only, []);
        assert_eq!(out.notes.len(), 1);
    }
}
