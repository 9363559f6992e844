//! Text form of the two `pci=` ACS parameters: written for desired ports, parsed from a running command line. Pure.
//!
//! Ports are named by plain address. The kernel also accepts a path from the root bus (`0000:16:01.0/00.0/00.0`), which
//! survives bus renumbering. But buses are renumbered only when hardware or firmware settings change, the next plan then
//! finds the new addresses, and an address is easy to compare with sysfs, logs and `lspci`.

use super::shape::NO_REDIRECT;
use crate::desired::{AcsPersistence, WantedAcs};
use bedplate_base::value::{AcsBits, PciAddress, RegisterBits};
use bedplate_cmdline::Token;
use bedplate_facts::pci::Acs;

/// Longest token to put on a command line, in bytes. The whole line may have 2047 (handbook §1.1): a quarter remains for
/// everything else.
pub(crate) const TOKEN_LIMIT: usize = 1536;

/// Renders the token that makes the kernel set `ports` at boot, sorted by address, without any loader's quoting. Returns
/// `None` for runtime writes, for no ports, and for more ports than fit.
///
/// `config_acs` flags name all bits of the topology class, even if the port lacks some: all ports of a kind look alike, and
/// match NVIDIA's publications (handbook §14.1). The kernel restores the firmware's value of each bit marked `x`.
pub(crate) fn render(persistence: AcsPersistence, ports: &[WantedAcs]) -> Option<Token> {
    let mut ports: Vec<&WantedAcs> = ports.iter().collect();
    ports.sort_by_key(|wanted| wanted.port);
    let (key, entries): (_, Vec<String>) = match persistence {
        AcsPersistence::Live => return None,
        AcsPersistence::ConfigAcs => {
            let entry = |w: &&WantedAcs| format!("{}@{}", w.bits.flags(), w.port);
            ("config_acs", ports.iter().map(entry).collect())
        }
        AcsPersistence::DisableAcsRedir => {
            ("disable_acs_redir", ports.iter().map(|wanted| wanted.port.to_string()).collect())
        }
    };
    of_entries(key, &entries).filter(|_| !entries.is_empty())
}

/// Returns the argument with these entries, unless it would be too long.
pub(super) fn of_entries(key: &str, entries: &[String]) -> Option<Token> {
    let token = Token::new(&format!("pci={key}={}", entries.join(";"))).ok();
    token.filter(|token| token.as_str().len() <= TOKEN_LIMIT)
}

/// Returns the bits that a running kernel's arguments set on one port, and their values. Ignores entries by path or by
/// device id.
pub(crate) fn of_port(
    config_acs: Option<&str>,
    disable_redir: Option<&str>,
    port: PciAddress,
) -> Option<RegisterBits> {
    let flags = config_acs.and_then(|list| {
        let named = |entry: &str| {
            let (flags, device) = entry.split_once('@')?;
            (device.parse() == Ok(port)).then(|| flags.to_owned())
        };
        list.split(';').find_map(named)
    });
    // The kernel applies disable_acs_redir before config_acs, so the latter decides.
    if let Some(flags) = flags {
        return RegisterBits::from_flags(&flags);
    }
    let named = disable_redir?.split(';').any(|device| device.parse() == Ok(port));
    named.then_some(NO_REDIRECT)
}

/// Whether the two parameters may clear an isolating bit of `port`. Entries by path or by device id may mean any port.
///
/// A `config_acs` entry resets every bit that it does not name to the firmware's value, which for SV, RR, CR and UF is off
/// on most machines, and overrides the kernel's own bits (drivers/pci/pci.c, `__pci_config_acs`; handbook §1.4). Only an
/// entry with `1` for all four isolates a VM. EC adds nothing if RR redirects every request. The first entry that names the
/// port applies, and also decides over `disable_acs_redir`.
pub(crate) fn may_open(
    config_acs: Option<&str>,
    disable_redir: Option<&str>,
    port: PciAddress,
) -> bool {
    for entry in config_acs.into_iter().flat_map(|list| list.split(';')) {
        let (flags, device) = entry.split_once('@').unwrap_or((entry, ""));
        let isolates = RegisterBits::from_flags(flags)
            .is_some_and(|bits| bits.on().and(AcsBits::ISOLATION) == AcsBits::ISOLATION);
        match device.parse::<PciAddress>() {
            Ok(named) if named != port => {}
            Ok(_) => return !isolates,
            Err(_) if isolates => {}
            Err(_) => return true,
        }
    }
    let may_mean = |device: &str| !device.parse().is_ok_and(|named: PciAddress| named != port);
    disable_redir.is_some_and(|list| list.split(';').any(may_mean))
}

/// Whether a port's register matches the kernel's argument, limited to the implemented bits.
pub(crate) fn is_applied(acs: &Acs, bits: RegisterBits) -> bool {
    bits.limited_to(acs.capable.0).are_in(acs.control.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::fixture::{ACS, at};

    fn wanted(port: &str, mask: u16) -> WantedAcs {
        WantedAcs {
            port: at(port),
            bits: RegisterBits { mask, value: 0 },
            why: vec![],
            vfio_below: vec![],
        }
    }

    #[test]
    fn tokens_are_sorted_by_address() {
        let ports = [
            wanted("0000:22:01.0", 0x1d),
            wanted("0000:20:00.0", 0x3d),
            wanted("0000:22:00.0", 0x0c),
        ];
        let config = render(AcsPersistence::ConfigAcs, &ports).unwrap();
        assert_eq!(
            config,
            "pci=config_acs=x0000x0@0000:20:00.0;xxx00xx@0000:22:00.0;xx000x0@0000:22:01.0"
        );
        let redir = render(AcsPersistence::DisableAcsRedir, &ports).unwrap();
        assert_eq!(redir, "pci=disable_acs_redir=0000:20:00.0;0000:22:00.0;0000:22:01.0");
        assert_eq!(render(AcsPersistence::Live, &ports), None);
        assert_eq!(render(AcsPersistence::ConfigAcs, &[]), None);
        let all = [wanted("10000:e1:00.0", 0x7f)];
        assert_eq!(
            render(AcsPersistence::ConfigAcs, &all).unwrap(),
            "pci=config_acs=0000000@10000:e1:00.0"
        );
    }

    #[test]
    fn argument_that_may_clear_isolation_is_detected() {
        let port = at("0000:20:00.0");
        for (config, redir, opens) in [
            (Some("xx000x0@0000:20:00.0"), None, true),
            (Some("1x111x1@0000:20:00.0;xx000x0@0000:21:00.0"), None, false),
            (Some("1xxxxxx@0000:20:00.0"), None, true),
            (Some("xx11xx1@0000:20:00.0"), None, true),
            (Some("1@0000:20:00.0"), None, true),
            (Some("x0111x1@0000:20:00.0"), None, false),
            (Some("xx111x1@20:00.0;xx000x0@0000:20:00.0"), None, false),
            (Some("xx000x0@20:00.0;xx111x1@0000:20:00.0"), None, true),
            (Some("xx111x1@0000:20:00.0"), Some("0000:20:00.0"), false),
            (Some("xx111x1@pci:0:0"), Some("0000:20:00.0"), true),
            (Some("xx111x1@0000:21:00.0"), Some("0000:20:00.0"), true),
            (Some("xx000x0@0000:1f:00.0/00.0"), None, true),
            (Some("0@pci:0:0"), None, true),
            (Some("xxnonsense@20:00.0"), None, true),
            (None, Some("0000:21:00.0"), false),
            (None, Some("0000:21:00.0;20:00.0"), true),
            (None, None, false),
        ] {
            assert_eq!(may_open(config, redir, port), opens, "{config:?} {redir:?}");
        }
    }

    #[test]
    fn token_above_length_limit_is_not_rendered() {
        let ports: Vec<_> = (0..80)
            .map(|n| wanted(&format!("0000:{:02x}:{:02x}.0", n / 32, n % 32), 0x1d))
            .collect();
        assert_eq!(render(AcsPersistence::ConfigAcs, &ports), None);
        assert!(
            render(AcsPersistence::DisableAcsRedir, &ports).unwrap().as_str().len() <= TOKEN_LIMIT
        );
    }

    #[test]
    fn kernel_argument_is_parsed_per_port() {
        let list = "xx000x0@0000:20:00.0;1x1@22:00.0;1@pci:0:0;q@0000:23:00.0";
        let read = |port: &str| of_port(Some(list), Some("0000:20:00.0;0000:24:00.0"), at(port));
        assert_eq!(read("0000:20:00.0"), Some(RegisterBits { mask: 0x1d, value: 0 }));
        assert_eq!(read("0000:22:00.0"), Some(RegisterBits { mask: 0x05, value: 0x05 }));
        assert_eq!(read("0000:23:00.0"), None);
        assert_eq!(read("0000:24:00.0"), Some(NO_REDIRECT));
        assert_eq!(read("0000:25:00.0"), None);
        assert!(!is_applied(&ACS, RegisterBits { mask: 0x1d, value: 0 }));
        let egress_control = RegisterBits { mask: 0x20, value: 0x20 };
        assert!(is_applied(&ACS, egress_control), "the port has no egress control");
    }
}
