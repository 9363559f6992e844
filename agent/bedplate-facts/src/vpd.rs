//! Vital Product Data of a function from sysfs (`vpd`): a name, then two-letter keywords with their values (PCI Local
//! Bus Specification 3.0, appendix I; Linux drivers/pci/vpd.c). Pure.
//!
//! It links a ConnectX-8 to its Data Direct function: they are in different parts of the tree, but `V3` identifies the
//! card in both (rdma-core kernel-boot/rdma_topo; handbook §14.1).

use std::ops::Range;

/// Keys that pair functions of one card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vpd {
    /// `V3`: the same for all functions of one adapter.
    pub adapter: Option<String>,
    /// `SN`: the same for all devices on one board.
    pub board: Option<String>,
    /// Whether the firmware only manages NVSwitches.
    pub manages_switches: bool,
}

/// Marker in the firmware of a ConnectX that manages NVSwitches (NVIDIA/gpu-driver-container nvidia-driver,
/// `_assert_nvlink5_system`).
pub const MANAGES_SWITCHES: &[u8] = b"SMDL=SW_MNG";

/// Resource tags of the large form: read-only keywords, writable keywords.
const KEYWORDS: [u8; 2] = [0x90, 0x91];
/// End tag.
const END: u8 = 0x78;

/// Returns every keyword with the range of its value. Truncated or invalid data ends the list.
pub fn keywords(bytes: &[u8]) -> Vec<([u8; 2], Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some([tag, low, high]) = head(bytes, at, bytes.len()) {
        // Here only the end tag has the small form.
        if tag == END || tag & 0x80 == 0 {
            break;
        }
        let length = usize::from(u16::from_le_bytes([low, high]));
        let end = (at + 3 + length).min(bytes.len());
        if KEYWORDS.contains(&tag) {
            let mut field = at + 3;
            while let Some([a, b, length]) = head(bytes, field, end) {
                let value = field + 3..field + 3 + usize::from(length);
                if value.end > end {
                    return found;
                }
                field = value.end;
                found.push(([a, b], value));
            }
        }
        at += 3 + length;
    }
    found
}

/// Returns three bytes, if they fit before `end`.
fn head(bytes: &[u8], at: usize, end: usize) -> Option<[u8; 3]> {
    bytes.get(at..end.min(at + 3))?.try_into().ok()
}

/// Parses the keys. Returns `None` if there is no keyword.
pub fn parse(bytes: &[u8]) -> Option<Vpd> {
    let all = keywords(bytes);
    let value = |wanted: &[u8; 2]| {
        let (_, place) = all.iter().find(|(keyword, _)| keyword == wanted)?;
        let text = String::from_utf8_lossy(&bytes[place.clone()]);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    };
    let manages_switches = all.iter().any(|(_, place)| {
        bytes[place.clone()].windows(MANAGES_SWITCHES.len()).any(|at| at == MANAGES_SWITCHES)
    });
    (!all.is_empty()).then(|| Vpd { adapter: value(b"V3"), board: value(b"SN"), manages_switches })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data of a ConnectX-7, shortened.
    fn sample() -> Vec<u8> {
        let fields = b"PN\x04MCX7SN\x08MT2334XZV3\x041e6bRV\x01\x5a";
        let mut bytes = b"\x82\x04\x00Card\x90".to_vec();
        bytes.extend((fields.len() as u16).to_le_bytes());
        bytes.extend(fields);
        bytes.push(END);
        bytes
    }

    #[test]
    fn adapter_and_board_are_read() {
        let found = parse(&sample()).unwrap();
        assert_eq!(found.adapter.as_deref(), Some("1e6b"));
        assert_eq!(found.board.as_deref(), Some("MT2334XZ"));
    }

    #[test]
    fn damaged_data_only_ends_the_list() {
        let whole = sample();
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
        assert_eq!(parse(b""), None);
        assert_eq!(parse(&[0xff; 64]), None);
        assert_eq!(parse(&[0; 64]), None);
        // A value that extends beyond its resource.
        assert_eq!(keywords(b"\x90\x04\x00SN\xffx"), []);
        let cut = &whole[..whole.len() - 8];
        assert_eq!(parse(cut).unwrap().board.as_deref(), Some("MT2334XZ"));
    }

    #[test]
    fn switch_manager_firmware_is_recognised() {
        let other = parse(&sample()).unwrap();
        assert!(!other.manages_switches);
        let mut bytes = b"\x82\x04\x00Card\x90".to_vec();
        let fields = b"PN\x04MCX7V5\x0bSMDL=SW_MNG";
        bytes.extend((fields.len() as u16).to_le_bytes());
        bytes.extend(fields);
        bytes.push(END);
        assert!(parse(&bytes).unwrap().manages_switches);
    }
}
