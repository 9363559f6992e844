//! Vital Product Data of a function, as sysfs gives it (`vpd`): a name, then keywords of two letters with their values
//! (PCI Local Bus Specification 3.0, appendix I; Linux drivers/pci/vpd.c). Pure.
//!
//! It is what a ConnectX-8 and its Data Direct function have in common: they sit in different places of the tree, and
//! `V3` names the card to both (rdma-core kernel-boot/rdma_topo; handbook §14.1).

use std::ops::Range;

/// What pairs functions of one card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vpd {
    /// `V3`: the same for all functions of one adapter.
    pub adapter: Option<String>,
    /// `SN`: the same for everything on one board.
    pub board: Option<String>,
    /// The firmware is there to manage NVSwitches, and for nothing else.
    pub manages_switches: bool,
}

/// How the firmware of a ConnectX that manages NVSwitches says so (NVIDIA/gpu-driver-container nvidia-driver,
/// `_assert_nvlink5_system`).
pub const MANAGES_SWITCHES: &[u8] = b"SMDL=SW_MNG";

/// Resource tags of the large form: read-only keywords, writable keywords.
const KEYWORDS: [u8; 2] = [0x90, 0x91];
/// The end tag.
const END: u8 = 0x78;

/// Every keyword with the place of its value. What is cut off or makes no sense ends the list.
pub fn keywords(bytes: &[u8]) -> Vec<([u8; 2], Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some([tag, low, high]) = head(bytes, at, bytes.len()) {
        // Only the end tag has the small form here.
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

/// Three bytes, if there are as many before `end`.
fn head(bytes: &[u8], at: usize, end: usize) -> Option<[u8; 3]> {
    bytes.get(at..end.min(at + 3))?.try_into().ok()
}

/// What pairs functions; `None`: these bytes hold no keyword.
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

    /// From a ConnectX-7, shortened.
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
    fn damaged_data_ends_the_list_and_nothing_else() {
        let whole = sample();
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
        assert_eq!(parse(b""), None);
        assert_eq!(parse(&[0xff; 64]), None);
        assert_eq!(parse(&[0; 64]), None);
        // A value that would reach beyond its resource.
        assert_eq!(keywords(b"\x90\x04\x00SN\xffx"), []);
        let cut = &whole[..whole.len() - 8];
        assert_eq!(parse(cut).unwrap().board.as_deref(), Some("MT2334XZ"));
    }

    #[test]
    fn firmware_that_manages_switches_says_so() {
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
