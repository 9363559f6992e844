//! What NCCL is told: the names of variables stay, numbers, switches and the names of devices, and of a topology file what
//! bedplate writes. Pure.

use super::masker::{Masker, Style};
use crate::file_heading::heading;
use crate::kind::nccl::topology;

/// The marks of bedplate's block stay, and the devices that a variable names: the recorded tree names them, too.
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

/// Levels of NCCL's (handbook §8.4).
const LEVELS: [&str; 6] = ["LOC", "PIX", "PXB", "PHB", "NODE", "SYS"];

/// The value of a variable of NCCL's.
pub(super) fn value(name: &str, value: &str, words: &mut Masker) -> String {
    let device = |c: u8| c.is_ascii_alphanumeric() || b"_=:,^.-".contains(&c);
    // Words of NCCL's own, by which the host is judged.
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

/// A topology file of bedplate's, without the name of its profile. Another's may hold GUIDs and names.
pub(super) fn topology(text: &str) -> String {
    match text.split_once('\n') {
        Some((first, rest)) if topology::is_ours(first) && rest.lines().all(is_element) => {
            format!("<!-- {} -->\n{rest}", heading("masked").trim_end())
        }
        _ => NOT_OURS.to_owned(),
    }
}

/// In the place of another's file.
const NOT_OURS: &str = "<!-- masked -->\n";

/// A line as bedplate writes it: a tag, with attributes that say of a machine what the recorded tree says.
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
    // Markup and values by turns: `<net name=`, `mlx5_0`, `/>`.
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
    fn of_a_topology_only_what_bedplate_writes_is_kept() {
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
