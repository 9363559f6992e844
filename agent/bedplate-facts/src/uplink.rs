//! Network interface through which a PF's VFs are configured.

use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_host::Reader;

/// Returns the PF's own interface. In switchdev mode the PF has one more interface per VF, with a port name like
/// `pf0vf3` or `pf0sf8` (Documentation/networking/switchdev.rst).
pub fn uplink<'a>(reader: &dyn Reader, interfaces: &'a [String]) -> Option<&'a str> {
    let represents = |name: &String| {
        let port = reader.attribute(&format!("/sys/class/net/{name}/phys_port_name"));
        port.is_ok_and(|port| port.contains("vf") || port.contains("sf"))
    };
    interfaces.iter().find(|name| !represents(name)).map(String::as_str)
}

/// Returns the current interface of the PF at an address; `None`: no interface here.
///
/// # Errors
/// The interfaces cannot be read.
pub fn now(reader: &dyn Reader, pf: PciAddress) -> Result<Option<String>, ReadError> {
    let interfaces =
        reader.list(&format!("/sys/bus/pci/devices/{pf}/net")).optional()?.unwrap_or_default();
    Ok(uplink(reader, &interfaces).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::fixture::Files;

    /// The PF's own interface may be in a network namespace, with only a VF's representor left here.
    #[test]
    fn representor_is_never_the_uplink() {
        let port = |name: &str| format!("/sys/class/net/{name}/phys_port_name");
        let files = Files::new(&[(&port("eth1"), "pf0vf1\n"), (&port("eth0"), "p0\n")]);
        let all = ["eth1", "eth0"].map(str::to_owned);
        assert_eq!(uplink(&files, &all), Some("eth0"));
        assert_eq!(uplink(&files, &all[..1]), None);
        assert_eq!(uplink(&files, &all[1..]), Some("eth0"));
        assert_eq!(
            uplink(&files, &["eth9".to_owned()]),
            Some("eth9"),
            "older drivers name no port"
        );
    }
}
