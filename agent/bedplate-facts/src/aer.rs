//! Errors that a PCIe function has reported since boot, as Linux counts them (Documentation/ABI/testing/
//! sysfs-bus-pci-devices-aer_stats). Without native AER (the firmware handles errors first) nothing is counted.

use serde::Serialize;

use super::pci::Function;
use bedplate_base::Reading;
use bedplate_host::Reader;

/// Counters of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AerTotals {
    /// Corrected by the link itself: what was sent was sent again.
    pub correctable: u64,
    /// A transaction was lost.
    pub nonfatal: u64,
    /// The link could not be relied on any more.
    pub fatal: u64,
}

/// The counters, each a file with a line of its total.
pub const FILES: [(&str, &str); 3] = [
    ("aer_dev_correctable", "TOTAL_ERR_COR"),
    ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
    ("aer_dev_fatal", "TOTAL_ERR_FATAL"),
];

/// Reads them; `Absent`: the kernel keeps none for this function.
pub fn totals(reader: &dyn Reader, function: &Function) -> Reading<AerTotals> {
    let mut counts = [0; 3];
    for (count, (file, line)) in counts.iter_mut().zip(FILES) {
        let path = function.attribute(file);
        let text = match reader.attribute(&path) {
            Ok(text) => text,
            Err(error) => return Reading::from_result(Err(error)),
        };
        match total(&text, line) {
            Some(found) => *count = found,
            None => return Reading::unknown(format!("{path} has no line {line}")),
        }
    }
    let [correctable, nonfatal, fatal] = counts;
    Reading::Known(AerTotals { correctable, nonfatal, fatal })
}

fn total(text: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.find(|(row, _)| *row == name)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_line_that_says_so() {
        let text = "RxErr 3\nBadTLP 1\nTOTAL_ERR_COR 4\n";
        assert_eq!(total(text, "TOTAL_ERR_COR"), Some(4));
        assert_eq!(total(text, "TOTAL_ERR_FATAL"), None);
        assert_eq!(total("TOTAL_ERR_COR many", "TOTAL_ERR_COR"), None);
    }
}
