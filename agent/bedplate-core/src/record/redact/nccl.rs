//! Redacts NCCL's configuration: names of variables, numbers, switches, and device names stay, as do the parts of a
//! topology file that bedplate writes. Pure.

use super::masker::{Masker, Style};
use crate::file_heading::heading;
use crate::kind::nccl::topology;

/// Redacts a line. bedplate's block marks stay, and the devices that a variable names: the recorded tree contains them
/// too.
pub(super) fn line(line: &str, words: &mut Masker) -> String {
    if line.starts_with('#') {
        let mark =
            ["# BEGIN bedplate", "# END bedplate"].into_iter().find(|mark| line.starts_with(mark));
        return mark.unwrap_or("#").to_owned();
    }
    match line.split_once('=') {
        Some((name, value)) if name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') => {
            format!("{name}={}", self::value(name, value, words))
        }
        _ => words.text(line, Style::Line),
    }
}

/// NCCL's distance levels (handbook §8.4).
const LEVELS: [&str; 6] = ["LOC", "PIX", "PXB", "PHB", "NODE", "SYS"];

/// Redacts the value of an NCCL variable.
pub(super) fn value(name: &str, value: &str, words: &mut Masker) -> String {
    let device = |c: u8| c.is_ascii_alphanumeric() || b"_=:,^.-".contains(&c);
    // Keywords of NCCL, which checks of the host need.
    if matches!((name, value), ("NCCL_NET_GDR_LEVEL" | "NCCL_P2P_LEVEL", _) if LEVELS.contains(&value))
        || name == "NCCL_NET" && matches!(value.to_ascii_lowercase().as_str(), "ib" | "socket")
        || name == topology::VARIABLE && value == topology::PATH
    {
        return value.to_owned();
    }
    match matches!(name, "NCCL_IB_HCA" | "NCCL_SOCKET_IFNAME") && value.bytes().all(device) {
        true => words.identities(value),
        false => words.value(name, value, Style::Setting),
    }
}

/// Redacts a topology file: one by bedplate loses its profile's name, any other may contain GUIDs and names.
pub(super) fn topology(text: &str) -> String {
    match text.split_once('\n') {
        Some((first, rest)) if topology::is_ours(first) && rest.lines().all(is_element) => {
            format!("<!-- {} -->\n{rest}", heading("masked").trim_end())
        }
        _ => NOT_OURS.to_owned(),
    }
}

/// Replacement for an unmanaged file.
const NOT_OURS: &str = "<!-- masked -->\n";

/// Whether a line is as bedplate writes it: a tag with attributes that the recorded tree contains too.
fn is_element(line: &str) -> bool {
    const ELEMENTS: [&str; 6] = ["system", "cpu", "pci", "gpu", "nic", "net"];
    const ATTRIBUTES: [&str; 14] = [
        "version",
        "numaid",
        "affinity",
        "arch",
        "vendor",
        "busid",
        "class",
        "device",
        "subsystem_vendor",
        "subsystem_device",
        "link_speed",
        "link_width",
        "dev",
        "name",
    ];
    // Markup and values alternate: `<net name=`, `mlx5_0`, `/>`.
    let parts: Vec<&str> = line.trim_start().split('"').collect();
    let is_plain =
        |value: &str| value.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.:,/- ".contains(&c));
    let is_attribute = |text: &str| {
        text.strip_suffix('=').is_some_and(|name| ATTRIBUTES.contains(&name.trim_start()))
    };
    let [opening, middle @ .., end] = parts.as_slice() else {
        let name = line.trim_start().trim_start_matches(['<', '/']).trim_end_matches(['/', '>']);
        return ELEMENTS.contains(&name);
    };
    let Some((element, first)) = opening.strip_prefix('<').and_then(|tag| tag.split_once(' '))
    else {
        return false;
    };
    let good = |(number, text): (usize, &&str)| match number % 2 {
        0 => is_plain(text),
        _ => is_attribute(text),
    };
    ELEMENTS.contains(&element)
        && is_attribute(first)
        && middle.iter().enumerate().all(good)
        && matches!(*end, "/>" | ">")
}

#[cfg(test)]
mod tests {
    use super::topology;

    #[test]
    fn only_bedplate_topology_files_are_recorded() {
        let heading =
            "<!-- written by bedplate from profile secret; changes made here are overwritten -->\n";
        let body = "<system version=\"1\">\n  <pci busid=\"0000:17:00.0\" link_speed=\"32.0 GT/s PCIe\">\n    <nic>\n      \
            <net name=\"mlx5_0\"/>\n    </nic>\n  </pci>\n</system>\n";
        let kept = topology(&format!("{heading}{body}"));
        assert!(kept.ends_with(body) && !kept.contains("secret"), "{kept}");
        for other in [
            body.to_owned(),
            format!("{heading}{}", body.replace("<nic>", "<nic> the owner's")),
            format!("{heading}{}", body.replace("<net ", "<net guid=\"0xa1\" ")),
            format!("{heading}{}", body.replace("<nic>", "<!-- a note -->")),
            format!("{heading}{}", body.replace("mlx5_0", "a b<c")),
        ] {
            assert_eq!(topology(&other), super::NOT_OURS, "{other}");
        }
    }
}
